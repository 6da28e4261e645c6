"""Arrays on disk: plain `.npy` files, never pickled."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lookup_tool.engines.local.damage import reading
from lookup_tool.errors import KnowledgeDamagedError

_LONGEST_HEADER = 1000
"""Characters; those of our own arrays have some 100. It is parsed as Python, recursively."""


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array; `numpy.save` would hide why a write fails (a full disk, say)."""
    contiguous = np.ascontiguousarray(array)
    with path.open("wb") as file:
        header = np.lib.format.header_data_from_array_1_0(contiguous)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(contiguous.data.cast("B") if contiguous.size else b"")


def load_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Open an array; it stays on disk until it is read.

    Raises:
        KnowledgeDamagedError: It cannot be read, or has another type, shape or order.
    """
    with reading(path):
        mapped = np.lib.format.open_memmap(path, mode="r", max_header_size=_LONGEST_HEADER)
        array = mapped.view(np.ndarray)  # each slice of a `memmap` costs microseconds
    if (array.dtype, array.shape) != (np.dtype(dtype), shape) or not array.flags.c_contiguous:
        what = f"{array.dtype} {array.shape}, where the others ask for {np.dtype(dtype)} {shape}"
        raise KnowledgeDamagedError(path, f"holds {what}")
    return array
