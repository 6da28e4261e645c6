"""Arrays on disk: plain `.npy` files, never pickled."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array; `numpy.save` would hide why a write fails (a full disk, say)."""
    contiguous = np.ascontiguousarray(array)
    with path.open("wb") as file:
        header = np.lib.format.header_data_from_array_1_0(contiguous)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(contiguous.data.cast("B") if contiguous.size else b"")


def load_array(path: Path) -> NDArray[Any]:
    """Open an array; it stays on disk until it is read."""
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped.view(np.ndarray)  # each slice of a `memmap` costs microseconds
