"""Write a generation beside the current one, and make it the current one by one rename.

It is flushed to disk before the switch, so a crash at any point leaves either the one or the other,
whole. What is left over from a crash is removed by the next writer.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lookup_tool.engines.local.holds import REMOVED, remove_unheld
from lookup_tool.engines.local.snapshot import FileRecord, Manifest, checksums, read_pointer
from lookup_tool.errors import KnowledgeBusyError, KnowledgeError

_PARTIAL = ".partial"
_POINTER = f"CURRENT{_PARTIAL}"


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Hold the knowledge base for writing; a second writer is refused at once.

    Raises:
        KnowledgeBusyError: Another process is writing.
        KnowledgeError: The folder cannot be written, or is full; nothing was changed.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / ".lock")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise KnowledgeBusyError(root) from error
    except OSError as error:
        reason = "it is a file; name a folder" if root.is_file() else error.strerror
        raise KnowledgeError(root, f"cannot be written: {reason}") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def disk_errors(root: Path) -> Iterator[None]:
    """Say in one line why the knowledge base cannot be written."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        problem = f"cannot be written: {reason}; it was left as it is"
        raise KnowledgeError(root, problem) from error


def write_generation(root: Path, manifest: Manifest, fill: Callable[[Path], None]) -> None:
    """Write a generation and make it the current one.

    Args:
        root: The knowledge base; held by `writing`.
        manifest: Everything but the checksums.
        fill: Writes the files into the folder that it is given.

    Raises:
        KnowledgeError: It cannot be written.
    """
    with disk_errors(root):
        number = max([0, *(_number(path) for path in root.glob("generation-*"))]) + 1
        folder = root / f"generation-{number}"
        partial = root / f"{folder.name}{_PARTIAL}"
        shutil.rmtree(partial, ignore_errors=True)  # of an interrupted writer
        try:
            partial.mkdir()
            fill(partial)
            _seal(partial, manifest)
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        _switch(root, folder)
    remove_unused(root)


def remove_unused(root: Path) -> None:
    """Remove what an interrupted writer left, and every old generation that no reader holds."""
    (root / _POINTER).unlink(missing_ok=True)
    for ending in (_PARTIAL, REMOVED):
        for left_over in root.glob(f"generation-*{ending}"):
            shutil.rmtree(left_over, ignore_errors=True)
    current = read_pointer(root).generation
    for folder in root.glob("generation-*"):
        if _number(folder) and folder.name != current:
            remove_unheld(folder)


def _seal(folder: Path, manifest: Manifest) -> None:
    """Write the manifest with the checksum of every file, and flush all to disk."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {
        path.relative_to(folder).as_posix(): FileRecord(size=path.stat().st_size, sha256=sha256)
        for path, sha256 in zip(paths, checksums(paths), strict=True)
        if sha256 is not None
    }
    if len(files) != len(paths):
        raise OSError("what was just written cannot be read")
    complete = manifest.model_copy(update={"files": files})
    (folder / "manifest.json").write_text(complete.model_dump_json(indent=1), encoding="utf-8")
    for path in (*folder.rglob("*"), folder):
        _flush(path)


def _switch(root: Path, folder: Path) -> None:
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    temporary = root / _POINTER
    temporary.write_text(
        json.dumps({"generation": folder.name, "manifest": digest}), encoding="utf-8"
    )
    _flush(temporary)
    _flush(root)  # the generation has its name before the pointer says it
    temporary.replace(root / "CURRENT")
    _flush(root)


def _flush(path: Path) -> None:
    """Force a file, or a folder's list of names, to disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows has no handle on a folder to flush
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _number(path: Path) -> int:
    digits = path.name.removeprefix("generation-")
    return int(digits) if digits.isdecimal() else 0
