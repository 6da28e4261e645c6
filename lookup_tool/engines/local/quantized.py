"""A first pass over many vectors: one bit a dimension, scanned many times faster than floats.

RaBitQ codes (Gao and Long, RaBitQ: quantizing high-dimensional vectors with a theoretical error
bound, SIGMOD 2024) rank the rows roughly; the best of them are then compared exactly, from the one
array of vectors. What is left out there is lost, so codes are made only where the exact scan is
the slow part of a lookup, and only for public rows: a slice of a category is short.
"""

import threading
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from lookup_tool.engines.local.damage import reading
from lookup_tool.engines.local.threads import one_thread
from lookup_tool.errors import KnowledgeDamagedError

QUANTIZED_FROM = 50_000
"""Rows from which codes are made. Measured with `benchmarks/speed`: the exact scan takes about 2 ms
here, as much as everything else that a lookup does with its candidates, and the codes .5 ms."""

_OVERSAMPLED = 10
_FEWEST = 500
"""Rows that are compared exactly: at least so many, and so many times those that are wanted.
Measured recall of the best 50: see `docs/scale.md`."""

_LARGEST_SHARE = 0.1
"""Where more of the rows than this would be compared exactly, all of them are."""

_KIND = b"Irf"
"""First bytes of a file of RaBitQ codes: FAISS has readers for a hundred other kinds of file."""

_NUMBERS = (
    *("d", "ntotal", "ntotal2", "metric_type", "metric_arg", "code_size", "M", "M2", "bbs"),
    *("ksub", "nbits", "qb", "qbs", "implem", "skip", "centered"),
)
_reading = threading.Lock()  # the bound is one for the whole process


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
    def load(cls, path: Path, rows: int, dimension: int) -> "QuantizedRows":
        """Read codes from a file.

        FAISS believes what an index says of itself. So no vector in the file may be larger than the
        file, and every number that its loops go by must be that of an index of our own: with other
        ones a search reads beyond its memory.

        Args:
            path: The file.
            rows: How many codes it must have.
            dimension: Of the vectors that were encoded.

        Raises:
            KnowledgeDamagedError: It cannot be read, or holds something else.
        """
        own: Any = faiss.IndexRaBitQFastScan(dimension, faiss.METRIC_INNER_PRODUCT)
        with reading(path):
            index = _read_bounded(path)
            if not isinstance(index, faiss.IndexRaBitQFastScan) or not index.is_trained:
                raise KnowledgeDamagedError(path, "holds no RaBitQ codes")
            if _structure(index) != {
                **_structure(own),
                "ntotal": rows,
                "ntotal2": -(-rows // own.bbs) * own.bbs,
                "center": dimension,
                "codes": -(-rows // own.bbs) * own.get_block_stride(),
            }:
                raise KnowledgeDamagedError(path, f"holds no codes of {rows} vectors")
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


def _read_bounded(path: Path) -> "faiss.Index":
    """Read an index, and set aside no more memory for a part of it than the file has bytes."""
    content = np.fromfile(path, dtype=np.uint8)
    if content[: len(_KIND)].tobytes() != _KIND:
        raise KnowledgeDamagedError(path, "holds no RaBitQ codes")
    with _reading:
        usual = faiss.get_deserialization_vector_byte_limit()
        faiss.set_deserialization_vector_byte_limit(content.nbytes)
        try:
            return faiss.deserialize_index(content)
        finally:
            faiss.set_deserialization_vector_byte_limit(usual)


def _structure(index: Any) -> dict[str, Any]:
    """Return everything that decides where a search reads."""
    coder = index.rabitq
    return {
        **{name: getattr(index, name) for name in _NUMBERS},
        "coder": (coder.d, coder.code_size, coder.nb_bits, coder.metric_type),
        "center": index.center.size(),
        "codes": index.codes.size(),
    }
