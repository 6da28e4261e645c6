"""L1: vector search over the rows that a caller may see.

`VectorSearch` is what finds passages, so that an engine of its own can stand behind it.
`VectorIndex` is the one that is built in. It is exact, but for all public rows of a large knowledge
base at once: those are ranked roughly first (`quantized.py`), and the best of them exactly.

The order is that of the final similarities, ties by row. A product of float32 vectors depends on
how many rows are multiplied at once, so it only says which rows can be among the best. What decides
is added up in float64, each row for itself: rows that lie between two others change neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from lookup_tool.engines.local.quantized import QuantizedRows
from lookup_tool.engines.local.segments import Segments, Where
from lookup_tool.engines.local.threads import one_thread
from lookup_tool.schema import DIGITS

_SPARE = 32
"""Rows of a slice beyond the k best by their products: mostly one of them is clearly worse than the
k-th, which proves that no other row of the slice can be among the best."""

_COMPARED_AT_ONCE = 4096
"""Rows; each takes some 12 bytes a dimension meanwhile."""


@dataclass(frozen=True)
class _Near:
    """Rows of one slice that are near a query."""

    part: slice
    rows: NDArray[np.int64]
    """Shape (m,)."""

    products: NDArray[np.float32]
    """Their products with the query, shape (m,)."""

    has_more: bool
    """Whether other rows of the slice may have products as large as the least of these."""


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
        parts = self._quantized_apart(self._segments.slices(where))
        if not parts:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
        near = [self._nearest(query, part, k) for part in parts]
        least = _least_product(np.concatenate([each.products for each in near]), k, len(query))
        rows = np.concatenate([self._contenders(query, each, least, k) for each in near])
        found = self.similarity(query, rows)
        best = np.lexsort((rows, -found))[:k]
        return rows[best], found[best]

    def _quantized_apart(self, slices: Sequence[slice]) -> list[slice]:
        """Cut the quantized rows off, where all of them are to be searched."""
        coded = 0 if self._quantized is None else self._quantized.rows
        if not coded or not slices or slices[0].start or slices[0].stop < coded:
            return list(slices)
        rest = [slice(coded, slices[0].stop)] if slices[0].stop > coded else []
        return [slice(0, coded), *rest, *slices[1:]]

    def _nearest(self, query: NDArray[np.float32], part: slice, k: int) -> _Near:
        """Return the k rows of a slice with the largest products, and some more."""
        if self._quantized is not None and part == slice(0, self._quantized.rows):
            likely = self._quantized.candidates(query, k)
            if likely is not None:
                return _Near(part, likely, self._vectors[likely] @ query, has_more=False)
        count = part.stop - part.start
        with one_thread():
            products, ids = faiss.knn(
                query[None, :],
                self._vectors[part],
                min(k + _SPARE, count),
                metric=faiss.METRIC_INNER_PRODUCT,
            )
        return _Near(part, ids[0] + part.start, products[0], has_more=k + _SPARE < count)

    def _contenders(
        self, query: NDArray[np.float32], near: _Near, least: float, k: int
    ) -> NDArray[np.int64]:
        """Return the rows of a slice that can be among the k best of all slices.

        Args:
            query: Unit vector, shape (d,).
            near: Rows of the slice with the largest products.
            least: As `_least_product` says.
            k: Rows that are wanted.
        """
        part, rows, products = near.part, near.rows, near.products
        if near.has_more and products.min() >= least:
            rows, products = np.arange(part.start, part.stop), self._vectors[part] @ query
        rows = rows[products >= least]
        if least > 0:
            return rows
        first = np.arange(part.start, min(part.start + len(rows) + k, part.stop))
        return np.union1d(rows, first)

    def similarity(
        self, query: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the similarity of each row to a unit vector of shape (d,)."""
        found = np.zeros(len(rows), dtype=np.float64)
        for start in range(0, len(rows), _COMPARED_AT_ONCE):
            those = slice(start, start + _COMPARED_AT_ONCE)
            found[those] = similarities(self._vectors[rows[those]], query)
        return found


def _least_product(products: NDArray[np.float32], k: int, dimension: int) -> float:
    """Return the least float32 product that a row among the k best can have.

    Args:
        products: Of rows with unit vectors; the k largest of all rows are among them.
        k: Rows that are wanted.
        dimension: Of the vectors.

    Returns:
        A positive number; or, where fewer than k similarities are surely positive, a negative one.
        Rows below that have similarity 0, and the first ones are among the k best.

    Source:
        Whatever the order of its d additions, a float32 inner product of unit vectors is off by
        less than d times the unit of least precision (Higham, Accuracy and stability of numerical
        algorithms, section 3.1).
    """
    margin = 2 * dimension * float(np.finfo(np.float32).eps) + 10**-DIGITS
    if len(products) < k:
        return -margin
    kth = float(np.partition(products, -k)[-k])
    return min(kth, 1.0) - margin if kth > margin else -margin


def unit_means(vectors: NDArray[np.float32], runs: Sequence[slice]) -> NDArray[np.float32]:
    """Return the mean of each run of unit vectors, scaled to unit length, shape (len(runs), d).

    Vectors that cancel each other, and an empty run, have none: theirs is zero.
    """
    means = np.zeros((len(runs), vectors.shape[1]), dtype=np.float32)
    for place, run in enumerate(runs):
        vectors[run].sum(axis=0, out=means[place])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.divide(means, lengths, where=lengths > 0, out=np.zeros_like(means))


def similarities(vectors: NDArray[Any], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return normalized similarities in [0, 1], each of its vector and the query alone.

    Args:
        vectors: Unit vectors, shape (n, d), of any floating type.
        query: Unit vector, shape (d,).
    """
    # Not `@`: how that adds up depends on how many rows there are.
    products = np.einsum("ij,j->i", vectors.astype(np.float64), query.astype(np.float64))
    return products.clip(0.0, 1.0).round(DIGITS)
