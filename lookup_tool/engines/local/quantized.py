"""A first pass over many vectors: one bit a dimension, scanned many times faster than floats.

RaBitQ codes (Gao and Long, RaBitQ: quantizing high-dimensional vectors with a theoretical error
bound, SIGMOD 2024) rank the rows roughly; the best of them are then compared exactly, from the one
array of vectors. What is left out there is lost, so codes are made only where the exact scan is
the slow part of a lookup, and only for public rows: a slice of a category is short.
"""

from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from lookup_tool.engines.local.threads import one_thread

QUANTIZED_FROM = 50_000
"""Rows from which codes are made. Measured with `benchmarks/speed`: the exact scan takes about 2 ms
here, as much as everything else that a lookup does with its candidates, and the codes .5 ms."""

_OVERSAMPLED = 10
_FEWEST = 500
"""Rows that are compared exactly: at least so many, and so many times those that are wanted.
Measured recall of the best 50: see `docs/scale.md`."""

_LARGEST_SHARE = 0.1
"""Where more of the rows than this would be compared exactly, all of them are."""


class QuantizedRows:
    """Codes of the first rows of an array of unit vectors; safe to share between threads."""

    def __init__(self, index: "faiss.IndexRaBitQFastScan") -> None:
        self._index = index
        self.rows: int = index.ntotal

    @classmethod
    def build(cls, vectors: NDArray[np.float32]) -> "QuantizedRows":
        """Encode unit vectors, shape (n, d); the same ones give the same codes."""
        index = faiss.IndexRaBitQFastScan(vectors.shape[1], faiss.METRIC_INNER_PRODUCT)
        with one_thread():  # sums of several threads differ in their last digits
            index.train(vectors)
            index.add(vectors)
        return cls(index)

    @classmethod
    def load(cls, path: Path) -> "QuantizedRows":
        """Read codes from a file.

        Raises:
            ValueError: It holds something else.
        """
        try:
            index = faiss.read_index(str(path))
        except RuntimeError as error:
            raise ValueError(f"{path.name}: {str(error).splitlines()[0]}") from error
        if not isinstance(index, faiss.IndexRaBitQFastScan):
            raise ValueError(f"{path.name} holds no RaBitQ codes")  # noqa: TRY004 - of a file
        return cls(index)

    def save(self, path: Path) -> None:
        """Write the codes into a new file."""
        path.write_bytes(faiss.serialize_index(self._index).data)  # raises `OSError` as files do

    def candidates(self, query: NDArray[np.float32], k: int) -> NDArray[np.int64] | None:
        """Return rows that hold, most likely, the k nearest ones, in any order.

        Args:
            query: Unit vector, shape (d,).
            k: Rows that are wanted.

        Returns:
            Many more rows than k; None when so many are wanted that an exact scan is better.
        """
        several = max(_FEWEST, _OVERSAMPLED * k)
        if several > _LARGEST_SHARE * self.rows:
            return None
        with one_thread():
            rows = self._index.search(query[None, :], several)[1][0]
        return rows[rows >= 0]
