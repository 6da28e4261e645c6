"""One generation, opened: what it holds, and whether it is whole.

    KB/CURRENT                  names a generation and the hash of its manifest
    KB/generation-3/manifest.json, passages.sqlite, vectors.npy, entry_vectors.npy,
        text_ids.npy, sections.npy, entries.npy, lexical/, and quantized.faiss where there are many
        public passages

Opening checks what is cheap to check: presence, sizes, headers and the manifest's hash.
`damaged_files` reads every byte. Nothing is pickled.
"""

import hashlib
import json
import re
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, model_validator

from lookup_tool.config import PassageConfig
from lookup_tool.engines.local.arrays import load_array
from lookup_tool.engines.local.damage import check_file, read_file, reading
from lookup_tool.engines.local.holds import Hold
from lookup_tool.engines.local.lexical import FILES as LEXICAL_FILES
from lookup_tool.engines.local.lexical import LexicalIndex
from lookup_tool.engines.local.passage_store import PassageStore
from lookup_tool.engines.local.quantized import QuantizedRows
from lookup_tool.engines.local.segments import Segment, Segments
from lookup_tool.engines.local.vectors import VectorIndex, VectorSearch
from lookup_tool.errors import KnowledgeDamagedError, KnowledgeNotFoundError
from lookup_tool.schema import Thresholds

FORMAT = 5

QUANTIZED = "quantized.faiss"

_FILES = frozenset(
    (
        *("passages.sqlite", "vectors.npy", "entry_vectors.npy"),
        *("text_ids.npy", "sections.npy", "entries.npy"),
        *(f"lexical/{name}" for name in LEXICAL_FILES),
    )
)
"""Of every generation; one with codes has `QUANTIZED` too."""

_GENERATION = re.compile(r"generation-\d+")


class StoredModel(BaseModel):
    """Base of what the manifest holds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EmbedderRecord(StoredModel):
    """Fingerprint of the embedder that a generation was built with."""

    name: str
    dimension: NonNegativeInt
    """0 for a knowledge base without passages."""

    loads_by_name: bool
    max_characters: int | None = Field(default=None, gt=0)
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
    made_by: str
    """Versions of everything that decides how files become passages and terms."""

    entries: NonNegativeInt
    passages: NonNegativeInt
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
    quantized_rows: NonNegativeInt
    """How many public rows are ranked roughly before they are compared exactly; 0 where the exact
    search is fast enough."""

    files: dict[str, FileRecord] = {}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        bounds = [0, *(stop for each in self.segments for stop in (each.start, each.stop))]
        if bounds[1::2] != bounds[:-1:2] or bounds != sorted(bounds):
            raise ValueError("the segments leave rows out, or share them")
        if bounds[-1] != self.passages or not self.quantized_rows <= self.public:
            raise ValueError("the segments hold another number of passages")
        if len(self.versions) != len(self.access_sets):
            raise ValueError("not every access set has a version")
        return self

    @property
    def public(self) -> int:
        """How many rows everybody may see; they come first."""
        return sum(each.stop - each.start for each in self.segments if each.access is None)

    @property
    def version(self) -> str:
        """Hash of the content: the same documents give the same version."""
        return self.version_of(range(len(self.versions)))

    def version_of(self, access_sets: "list[int] | range") -> str:
        """Hash of the content of some access sets, by their numbers."""
        seen = "".join(self.versions[number] for number in access_sets)
        return hashlib.sha256(seen.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Pointer:
    """What `CURRENT` says."""

    generation: str
    manifest: str
    """SHA-256 of the generation's manifest."""


class Snapshot:
    """One opened generation; it is held, and not removed, until it is closed or forgotten."""

    def __init__(self, folder: Path, pointer: Pointer, manifest: Manifest, hold: Hold) -> None:
        self.folder = folder
        self.pointer = pointer
        self.manifest = manifest
        rows, dimension = manifest.passages, manifest.embedder.dimension
        self.unit_vectors: NDArray[np.float32] = load_array(
            folder / "vectors.npy", np.float32, (rows, dimension)
        )
        self.entry_vectors: NDArray[np.float16] = load_array(
            folder / "entry_vectors.npy", np.float16, (manifest.entries, dimension)
        )
        self.text_ids: NDArray[np.int64] = load_array(folder / "text_ids.npy", np.int64, (rows,))
        self.sections: NDArray[np.int32] = load_array(folder / "sections.npy", np.int32, (rows,))
        self.entries: NDArray[np.int32] = load_array(folder / "entries.npy", np.int32, (rows,))
        self.lexical = LexicalIndex.load(folder / "lexical", rows)
        coded = manifest.quantized_rows
        quantized = QuantizedRows.load(folder / QUANTIZED, coded, dimension) if coded else None
        self.store = PassageStore(folder / "passages.sqlite", manifest.entries, rows)
        self.segments = Segments(manifest.segments, self.entries)
        self.vectors: VectorSearch = VectorIndex(self.unit_vectors, self.segments, quantized)
        # Whoever still looks something up keeps it open; it closes when the last one is done.
        self.close = weakref.finalize(self, _close, self.store, hold)

    def check(self) -> None:
        """Read everything, and check that the files fit each other.

        Raises:
            KnowledgeDamagedError: One of them does not.
        """
        rows = self.entries
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < self.manifest.entries:
            raise KnowledgeDamagedError(self.folder / "entries.npy", "names entries that are none")
        if name := self.lexical.misfit():
            path = self.folder / "lexical" / f"{name}.npy"
            raise KnowledgeDamagedError(path, "does not fit the other files")
        self.store.check()

    def permitted(self, groups: frozenset[str]) -> list[int]:
        """Return the numbers of the access sets that these groups may read."""
        return [
            number
            for number, access in enumerate(self.manifest.access_sets)
            if access is None or groups.intersection(access)
        ]


def _close(store: PassageStore, hold: Hold) -> None:
    store.close()
    hold.release()


def open_current(root: Path) -> Snapshot:
    """Open the current generation, checking presence, sizes and the manifest's hash.

    Raises:
        KnowledgeNotFoundError: There is no knowledge base.
        KnowledgeDamagedError: A file is missing or changed, or the format is another one.
    """
    pointer = read_pointer(root)
    while True:
        try:
            return _open(root, pointer)
        except KnowledgeDamagedError:
            # A writer may have switched, and removed what the pointer named, in between.
            before, pointer = pointer, read_pointer(root)
            if pointer == before:
                raise


def read_pointer(root: Path) -> Pointer:
    """Return what `CURRENT` says.

    Raises:
        KnowledgeNotFoundError: There is no knowledge base.
        KnowledgeDamagedError: It cannot be read.
    """
    path = root / "CURRENT"
    with reading(path):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError) as error:
            remedy = "no knowledge base here; build one with `lookup-tool ingest DOCS --into KB`"
            raise KnowledgeNotFoundError(root, remedy) from error
        current = json.loads(read_file(path))
        pointer = Pointer(current["generation"], current["manifest"])
        if not _GENERATION.fullmatch(pointer.generation):
            raise KnowledgeDamagedError(path, "names no generation")
    return pointer


def _open(root: Path, pointer: Pointer) -> Snapshot:
    folder = root / pointer.generation
    path = folder / "manifest.json"
    check_file(path)
    with reading(path):
        hold = Hold(path)
    try:
        manifest = _manifest(folder, pointer)
        _check_sizes(folder, manifest)
        return Snapshot(folder, pointer, manifest, hold)
    except BaseException:
        hold.release()
        raise


def _manifest(folder: Path, pointer: Pointer) -> Manifest:
    path = folder / "manifest.json"
    written = read_file(path)
    if hashlib.sha256(written).hexdigest() != pointer.manifest:
        raise KnowledgeDamagedError(path, "changed since it was written")
    with reading(path):
        content = json.loads(written)
        if content.get("format") != FORMAT:
            raise KnowledgeDamagedError(
                folder, f"has format {content.get('format')}, this version reads {FORMAT}"
            )
        manifest = Manifest.model_validate(content)
    if set(manifest.files) != _FILES | ({QUANTIZED} if manifest.quantized_rows else set()):
        raise KnowledgeDamagedError(path, "lists other files than a generation has")
    return manifest


def read_manifest(root: Path) -> Manifest:
    """Return what the current generation says that it holds, and look at nothing else.

    Raises:
        KnowledgeNotFoundError: There is no knowledge base.
        KnowledgeDamagedError: The manifest is missing or changed, or the format is another one.
    """
    pointer = read_pointer(root)
    return _manifest(root / pointer.generation, pointer)


def _check_sizes(folder: Path, manifest: Manifest) -> None:
    for name, record in manifest.files.items():
        path = folder / name
        check_file(path)
        with reading(path):
            if path.stat().st_size != record.size:
                raise KnowledgeDamagedError(path, "has another size than when it was written")


def damaged_files(folder: Path, manifest: Manifest) -> list[str]:
    """Read every byte of a generation, and name the files that are not as they were written."""
    written = manifest.files
    found = checksums([folder / name for name in written])
    return [
        name
        for (name, record), sha256 in zip(written.items(), found, strict=True)
        if sha256 != record.sha256
    ]


def checksums(paths: Sequence[Path]) -> list[str | None]:
    """Return the SHA-256 of each file; None for one that cannot be read."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(_checksum, paths))


def _checksum(path: Path) -> str | None:
    try:
        check_file(path)
        with reading(path), path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except KnowledgeDamagedError:
        return None
