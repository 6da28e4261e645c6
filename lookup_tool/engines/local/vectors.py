"""L1: vector search over the rows that a caller may see.

`VectorSearch` is what finds passages, so that an engine of its own can stand behind it.
`VectorIndex` is the one that is built in. It is exact, but for all public rows of a large knowledge
base at once: those are ranked roughly first (`quantized.py`), and the best of them exactly.
"""

from collections.abc import Sequence
from typing import Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from lookup_tool.engines.local.quantized import QuantizedRows
from lookup_tool.engines.local.segments import Segments, Where
from lookup_tool.engines.local.threads import one_thread
from lookup_tool.schema import DIGITS


class VectorSearch(Protocol):
    """Finds passages by their vectors; safe to use from many threads.

    Its ids are the rows of a generation, and its similarities are true ones, cosines cut to [0, 1]
    and rounded by `similarities`: thresholds rest on them.
    """

    def search(
        self, query: NDArray[np.float32], k: int, where: Where
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Find the passages most similar to a query.

        `where` filters before the search or inside it, never what it has found: what a caller may
        not see must not decide how much of the rest they get.

        Args:
            query: Unit vector, shape (d,).
            k: Most passages to return.
            where: What may be found.

        Returns:
            Ids and their similarities, best first, ties by id: shape (m,) with m <= k.
        """
        ...

    def similarity(
        self, query: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the similarity of each of these passages to a unit vector of shape (d,)."""
        ...


class VectorIndex:
    """The vectors of a generation in one array, sorted into segments."""

    def __init__(
        self,
        vectors: NDArray[np.float32],
        segments: Segments,
        quantized: QuantizedRows | None = None,
    ) -> None:
        """Bind vectors, shape (n, d), float32, C order, unit length, to their segments.

        Args:
            vectors: The vectors.
            segments: Who may see which rows.
            quantized: Codes of the public rows, which come first, where there are many.
        """
        self._vectors = vectors
        self._quantized = quantized
        self._segments = segments

    def search(
        self, query: NDArray[np.float32], k: int, where: Where
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Find the rows most similar to a query, as `VectorSearch` says."""
        slices = self._segments.slices(where)
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


def similarities(products: NDArray[np.float32]) -> NDArray[np.float64]:
    """Turn inner products of unit vectors into normalized similarities in [0, 1]."""
    return products.astype(np.float64).clip(0.0, 1.0).round(DIGITS)
