"""Who holds a generation: readers hold theirs, and a writer removes only what nobody holds.

A hold is a shared lock of the operating system on the generation's manifest. It needs no folder
that can be written, makes nobody wait, and ends with its process, however that ends. Where there
are no such locks (Windows), the open file does the same: its folder cannot be renamed.
"""

import os
import shutil
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

REMOVED = ".removed"
"""Ending of a generation that is being removed; nobody opens it any more."""


class Hold:
    """Keeps a generation from being removed until it is released."""

    def __init__(self, manifest: Path) -> None:
        """Take hold.

        Raises:
            FileNotFoundError: It is not there any more, or is being removed now.
        """
        self._descriptor: int | None = os.open(manifest, os.O_RDONLY)
        if fcntl is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise FileNotFoundError(f"{manifest} is being removed") from error
        except OSError:
            return  # a file system without locks cannot be written by us either

    def release(self) -> None:
        """Let go; a second time does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def remove_unheld(folder: Path) -> bool:
    """Remove a generation, unless somebody holds it; it disappears at once or not at all."""
    gone = folder.with_name(folder.name + REMOVED)
    descriptor = None
    try:
        if fcntl is not None:
            descriptor = os.open(folder / "manifest.json", os.O_RDWR)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.rename(gone)
    except OSError:
        if (folder / "manifest.json").exists():
            return False
        gone = folder  # a damaged one, which nobody can open
    finally:
        if descriptor is not None:
            os.close(descriptor)
    shutil.rmtree(gone, ignore_errors=True)
    return True
