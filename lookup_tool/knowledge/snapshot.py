"""Immutable generations on disk, and the atomic switch between them.

    KB/CURRENT                  names a generation and the hash of its manifest
    KB/generation-3/manifest.json, passages.sqlite, vectors.npy, text_ids.npy, lexical/

A generation is written beside the current one, flushed to disk, and becomes current by one rename.
A crash at any point leaves the previous generation whole. Nothing is pickled.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from lookup_tool.config import PassageConfig
from lookup_tool.embeddings import Thresholds
from lookup_tool.errors import (
    KnowledgeBusyError,
    KnowledgeDamagedError,
    KnowledgeError,
    KnowledgeNotFoundError,
)
from lookup_tool.knowledge.lexical import LexicalIndex
from lookup_tool.knowledge.passage_store import PassageStore
from lookup_tool.knowledge.vectors import Segment, VectorIndex

FORMAT = 1
_KEPT = 2
"""Generations kept after a switch: the current one, and the one that open readers may hold."""


class StoredModel(BaseModel):
    """Base of what the manifest holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class EmbedderRecord(StoredModel):
    """Fingerprint of the embedder that a generation was built with."""

    name: str
    dimension: int
    """0 for a knowledge base without passages."""

    loads_by_name: bool
    max_characters: int | None = None
    """How much of a query it reads; None when it does not say."""


class FileRecord(StoredModel):
    """Size and checksum of one file."""

    size: int
    sha256: str


class Manifest(StoredModel):
    """What a generation holds."""

    format: int = FORMAT
    versions: tuple[str, ...]
    """Hash of the content of each access set, by its number."""

    created_at: str
    entries: int
    passages: int
    categories: tuple[str, ...]
    """As first written, sorted."""

    embedder: EmbedderRecord
    thresholds: Thresholds
    calibrated_at: str | None = None
    """When the thresholds were measured on these documents; None: they are the embedder's."""

    passage_settings: PassageConfig
    access_sets: tuple[frozenset[str] | None, ...]
    """By number; None is public, an empty one nobody."""

    segments: tuple[Segment, ...]
    files: dict[str, FileRecord] = {}


class Snapshot:
    """One opened generation."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        try:
            vectors: NDArray[np.float32] = np.load(
                folder / "vectors.npy", mmap_mode="r", allow_pickle=False
            )
            self.text_ids: NDArray[np.int32] = np.load(
                folder / "text_ids.npy", mmap_mode="r", allow_pickle=False
            )
            self.lexical = LexicalIndex.load(folder / "lexical")
            self.store = PassageStore(folder / "passages.sqlite")
        except (OSError, ValueError, sqlite3.Error) as error:
            raise KnowledgeDamagedError(folder, f"a file cannot be read ({error})") from error
        self.vectors = VectorIndex(vectors, manifest.segments)
        self.first_vector = vectors[0] if len(vectors) else None

    def permitted(self, groups: frozenset[str]) -> list[int]:
        """Return the numbers of the access sets that these groups may read."""
        return [
            number
            for number, access in enumerate(self.manifest.access_sets)
            if access is None or groups.intersection(access)
        ]

    def close(self) -> None:
        """Close the files."""
        self.store.close()


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Hold the knowledge base for writing; a second writer is refused at once.

    Raises:
        KnowledgeBusyError: Another process is writing.
        KnowledgeError: The folder cannot be written.
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


def write_generation(root: Path, manifest: Manifest, fill: Callable[[Path], None]) -> Path:
    """Write a generation and make it the current one.

    Args:
        root: The knowledge base; held by `writing`.
        manifest: Everything but the checksums.
        fill: Writes the files into the folder that it is given.

    Returns:
        The generation's folder.
    """
    for left_over in root.glob("generation-*.partial"):
        shutil.rmtree(left_over)
    number = max([0, *(_number(path) for path in root.glob("generation-*"))]) + 1
    partial = root / f"generation-{number}.partial"
    folder = root / f"generation-{number}"
    try:
        partial.mkdir()
        fill(partial)
        _seal(partial, manifest)
        partial.rename(folder)
        _switch(root, folder)
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = getattr(error, "strerror", None) or error
        raise KnowledgeError(root, f"cannot be written: {reason}") from error
    for old in sorted(root.glob("generation-*"), key=_number)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _seal(folder: Path, manifest: Manifest) -> None:
    """Write the manifest with the checksum of every file, and flush all to disk."""
    files = {
        path.relative_to(folder).as_posix(): file_record(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    complete = manifest.model_copy(update={"files": files})
    (folder / "manifest.json").write_text(complete.model_dump_json(indent=1), encoding="utf-8")
    for path in (*folder.rglob("*"), folder):
        _flush(path)


def open_current(root: Path) -> Snapshot:
    """Open the current generation, checking presence, sizes and the manifest's hash.

    Raises:
        KnowledgeNotFoundError: There is no knowledge base.
        KnowledgeDamagedError: A file is missing or changed, or the format is another one.
    """
    pointer = root / "CURRENT"
    if not pointer.is_file():
        remedy = "no knowledge base here; build one with `lookup-tool ingest DOCS --into KB`"
        raise KnowledgeNotFoundError(root, remedy)
    try:
        current = json.loads(pointer.read_text(encoding="utf-8"))
        folder = root / current["generation"]
        written = (folder / "manifest.json").read_bytes()
        if hashlib.sha256(written).hexdigest() != current["manifest"]:
            raise KnowledgeDamagedError(folder / "manifest.json", "changed since it was written")
        content = json.loads(written)
        if content.get("format") != FORMAT:
            raise KnowledgeDamagedError(
                folder, f"has format {content.get('format')}, this version reads {FORMAT}"
            )
        manifest = Manifest.model_validate(content)
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        reason = str(error).split("\n", 1)[0]
        raise KnowledgeDamagedError(root, f"cannot be read ({reason})") from error
    for name, record in manifest.files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != record.size:
            raise KnowledgeDamagedError(path, "missing or cut short")
    return Snapshot(folder, manifest)


def _switch(root: Path, folder: Path) -> None:
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    temporary = root / "CURRENT.partial"
    temporary.write_text(
        json.dumps({"generation": folder.name, "manifest": digest}), encoding="utf-8"
    )
    _flush(temporary)
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


def file_record(path: Path) -> FileRecord:
    """Return the size and the checksum of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(size=path.stat().st_size, sha256=digest)


def _number(path: Path) -> int:
    digits = path.name.removeprefix("generation-")
    return int(digits) if digits.isdigit() else 0
