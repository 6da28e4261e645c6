"""L1: vector search over the rows that a caller may see.

It is exact, but for all public rows of a large knowledge base at once: those are ranked roughly
first (`quantized.py`), and the best of them exactly.

Rows are sorted by access set and category, so what a search may see is a few contiguous slices of
one array. A filter is the choice of slices, before the search; nothing is dropped after it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from lookup_tool.knowledge.quantized import QuantizedRows
from lookup_tool.knowledge.threads import one_thread

DIGITS = 6
"""Similarities are rounded once, here, and compared only so: in float32, vectors built to lie
exactly on a threshold fall to either side of it."""


@dataclass(frozen=True)
class Segment:
    """A run of rows with one access set and one category."""

    access: frozenset[str] | None
    category: str | None
    start: int
    stop: int


class VectorIndex:
    """Unit vectors and the segments they are sorted into."""

    def __init__(
        self,
        vectors: NDArray[np.float32],
        segments: Sequence[Segment],
        quantized: QuantizedRows | None = None,
    ) -> None:
        """Bind vectors, shape (n, d), float32, C order, unit length, to their segments.

        Args:
            vectors: The vectors.
            segments: Runs of rows, ascending.
            quantized: Codes of the public rows, which come first, where there are many.
        """
        self._vectors = vectors
        self._quantized = quantized
        self._segments = tuple(segments)

    def slices(self, groups: frozenset[str], category: str | None = None) -> list[slice]:
        """Return the rows that these groups may see, as few ascending slices as possible."""
        runs: list[slice] = []
        for segment in self._segments:
            if segment.access is not None and not segment.access & groups:
                continue
            if category is not None and segment.category != category:
                continue
            if runs and runs[-1].stop == segment.start:
                runs[-1] = slice(runs[-1].start, segment.stop)
            else:
                runs.append(slice(segment.start, segment.stop))
        return runs

    def search(
        self, query: NDArray[np.float32], slices: Sequence[slice], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Find the rows most similar to a query.

        Args:
            query: Unit vector, shape (d,).
            slices: Where to search, from `slices`.
            k: Most rows to return.

        Returns:
            Rows and their similarities, best first, ties by row: shape (m,) with m <= k.
        """
        found = [self._nearest(query, part, k) for part in self._quantized_apart(slices)]
        if not found:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
        rows = np.concatenate([ids for ids, _ in found])
        found_similarities = similarities(np.concatenate([products for _, products in found]))
        best = np.lexsort((rows, -found_similarities))[:k]
        return rows[best], found_similarities[best]

    def _quantized_apart(self, slices: Sequence[slice]) -> list[slice]:
        """Cut the quantized rows off, where all of them are to be searched."""
        coded = 0 if self._quantized is None else self._quantized.rows
        if not coded or not slices or slices[0].start or slices[0].stop < coded:
            return list(slices)
        rest = [slice(coded, slices[0].stop)] if slices[0].stop > coded else []
        return [slice(0, coded), *rest, *slices[1:]]

    def _nearest(
        self, query: NDArray[np.float32], part: slice, k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return rows that hold the k nearest ones of a slice, and their inner products."""
        if self._quantized is not None and part == slice(0, self._quantized.rows):
            likely = self._quantized.candidates(query, k)
            if likely is not None:
                return likely, self._vectors[likely] @ query
        with one_thread():
            products, ids = faiss.knn(
                query[None, :],
                self._vectors[part],
                min(k, part.stop - part.start),
                metric=faiss.METRIC_INNER_PRODUCT,
            )
        return ids[0] + part.start, products[0]

    def similarity(
        self, query: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the similarity of each row to a unit vector of shape (d,)."""
        return similarities(self._vectors[rows] @ query)


def unit_means(vectors: NDArray[np.float32], runs: Sequence[slice]) -> NDArray[np.float32]:
    """Return the mean of each run of unit vectors, scaled to unit length, shape (len(runs), d).

    Vectors that cancel each other, and an empty run, have none: theirs is zero.
    """
    means = np.zeros((len(runs), vectors.shape[1]), dtype=np.float32)
    for place, run in enumerate(runs):
        vectors[run].sum(axis=0, out=means[place])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.divide(means, lengths, where=lengths > 0, out=np.zeros_like(means))


def outside(slices: Iterable[slice], holes: Iterable[slice]) -> list[slice]:
    """Return what is left of ascending slices without some runs of rows."""
    left = list(slices)
    for hole in holes:
        left = [
            part
            for whole in left
            for part in (
                slice(whole.start, min(whole.stop, hole.start)),
                slice(max(whole.start, hole.stop), whole.stop),
            )
            if part.start < part.stop
        ]
    return left


def rows_in(rows: NDArray[np.int32], slices: Sequence[slice]) -> int:
    """Count the rows, in order, that lie in these slices."""
    return sum(stop - start for start, stop in places_of(slices, rows))


def places_of(slices: Sequence[slice], rows: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Return where each of these slices begins and ends in ordered rows."""
    # Needles of another type would have all the rows converted.
    bounds = np.array([(part.start, part.stop) for part in slices], dtype=rows.dtype)
    return [(start, stop) for start, stop in rows.searchsorted(bounds.reshape(-1, 2)).tolist()]


def similarities(products: NDArray[np.float32]) -> NDArray[np.float64]:
    """Turn inner products of unit vectors into normalized similarities in [0, 1]."""
    return np.round(np.clip(products.astype(np.float64), 0.0, 1.0), DIGITS)
