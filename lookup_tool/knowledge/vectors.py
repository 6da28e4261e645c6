"""L1: exact vector search over the rows that a caller may see.

Rows are sorted by access set and category, so what a search may see is a few contiguous slices of
one array. A filter is the choice of slices, before the search; nothing is dropped after it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

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

    def __init__(self, vectors: NDArray[np.float32], segments: Sequence[Segment]) -> None:
        """Bind vectors, shape (n, d), float32, C order, unit length, to their segments."""
        self._vectors = vectors
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
        rows: list[NDArray[np.int64]] = []
        products: list[NDArray[np.float32]] = []
        with one_thread():
            for part in slices:
                found, ids = faiss.knn(
                    query[None, :],
                    self._vectors[part],
                    min(k, part.stop - part.start),
                    metric=faiss.METRIC_INNER_PRODUCT,
                )
                rows.append(ids[0] + part.start)
                products.append(found[0])
        if not rows:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
        all_rows, similarities = np.concatenate(rows), _similarity(np.concatenate(products))
        best = np.lexsort((all_rows, -similarities))[:k]
        return all_rows[best], similarities[best]

    def similarity(
        self, query: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the similarity of each row to a unit vector of shape (d,)."""
        return _similarity(self._vectors[rows] @ query)

    def mean_similarity(
        self, query: NDArray[np.float32], runs: Sequence[slice]
    ) -> NDArray[np.float64]:
        """Return the similarity of the mean of each run of rows, none empty, to a unit vector."""
        if not runs:
            return np.zeros(0, dtype=np.float64)
        sums = np.stack([self._vectors[run].sum(axis=0) for run in runs])
        lengths = np.linalg.norm(sums, axis=1)
        zeros = np.zeros_like(lengths)  # opposite vectors have no direction
        return _similarity(np.divide(sums @ query, lengths, where=lengths > 0, out=zeros))


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
    bounds = [np.searchsorted(rows, (part.start, part.stop)) for part in slices]
    return sum(int(stop - start) for start, stop in bounds)


def _similarity(products: NDArray[np.float32]) -> NDArray[np.float64]:
    """Turn inner products of unit vectors into normalized similarities in [0, 1]."""
    return np.round(np.clip(products.astype(np.float64), 0.0, 1.0), DIGITS)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let faiss use one OpenMP thread in this block.

    The setting is per calling thread, and faiss's default is several times slower for a single
    query. What the user had set is put back.
    """
    before = faiss.omp_get_max_threads()
    if before == 1:
        yield
        return
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
