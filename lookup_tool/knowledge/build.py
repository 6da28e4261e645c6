"""Write a generation from prepared entries: embed, sort, index, switch.

What an earlier generation has is taken from there; the result is the same, byte for byte.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookup_tool.config import PassageConfig
from lookup_tool.embeddings import Embedder
from lookup_tool.errors import EmbeddingError
from lookup_tool.knowledge.arrays import save_array
from lookup_tool.knowledge.documents import LoadProblem, Problems, category_key
from lookup_tool.knowledge.embed import Embedded, embed
from lookup_tool.knowledge.generations import write_generation
from lookup_tool.knowledge.lexical import LexicalIndex
from lookup_tool.knowledge.passage_file import EntryRecord, write_passages
from lookup_tool.knowledge.passages import GAP, Passage
from lookup_tool.knowledge.pending import remove_pending
from lookup_tool.knowledge.prepared import PreparedEntry, made_by
from lookup_tool.knowledge.previous import Previous
from lookup_tool.knowledge.quantized import QUANTIZED_FROM, QuantizedRows
from lookup_tool.knowledge.segments import Segment
from lookup_tool.knowledge.snapshot import QUANTIZED, EmbedderRecord, Manifest
from lookup_tool.knowledge.thresholds import thresholds_for
from lookup_tool.knowledge.tokens import fold
from lookup_tool.knowledge.vectors import unit_means

Progress = Callable[[str, int, int], None]
"""Called with (phase, done, total); phases are `read`, `cut`, `embed` and `index`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage and the place of its entry."""

    entry: int
    passage: Passage


def write(  # noqa: PLR0913 - the ingredients of one build
    entries: Sequence[PreparedEntry],
    root: Path,
    problems: Problems,
    embedder: Embedder,
    *,
    settings: PassageConfig,
    progress: Progress,
    previous: Previous | None = None,
) -> tuple[Manifest, int]:
    """Write entries as the new current generation of a knowledge base.

    Args:
        entries: In the order of their sources.
        root: The knowledge base; held by `writing`.
        problems: Where to note what cannot be searched.
        embedder: Embeds what the previous generation does not have.
        settings: How the entries were cut.
        progress: Told of every phase from `embed` on.
        previous: The generation to take from what is the same.

    Returns:
        What the generation holds, and how many texts were embedded for it.
    """
    cut = [Piece(number, p) for number, entry in enumerate(entries) for p in entry.passages]
    pieces = _own_sources(entries, cut)
    texts = [piece.passage.embedded_text for piece in pieces]
    embedded = embed(
        texts, root, embedder, previous, lambda done, total: progress("embed", done, total)
    )
    usable = embedded.usable
    entries = _report_unusable(pieces, usable, entries, problems, embedder.name)
    pieces = _with_gaps(pieces, usable)
    layout = _Layout(entries, pieces, usable)
    vectors = embedded.table(layout.order)
    rows = [int(row) for row in embedded.rows[layout.order]]
    thresholds, calibrated_at = thresholds_for(root, embedder)
    manifest = Manifest(
        versions=layout.versions(f"{embedder.name} {settings.model_dump_json()}"),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        made_by=made_by(),
        entries=len(entries),
        passages=len(layout.pieces),
        categories=_categories(entries),
        embedder=EmbedderRecord(
            name=embedder.name,
            dimension=vectors.shape[1],
            loads_by_name=embedder.loads_by_name,
            max_characters=_max_characters(embedder, embedded, previous) if pieces else None,
        ),
        thresholds=thresholds,
        calibrated_at=calibrated_at,
        passage_settings=settings,
        access_sets=tuple(layout.access_sets),
        segments=tuple(layout.segments),
        quantized_rows=layout.public if layout.public >= QUANTIZED_FROM else 0,
    )
    # Terms and folded texts are those of before only if they would be made in the same way.
    earlier = previous.snapshot if previous is not None and previous.same_making else None
    rows = rows if earlier is not None else [-1] * len(rows)
    shown = [piece.passage.lead + piece.passage.text for piece in layout.pieces]

    def fill(folder: Path) -> None:
        progress("index", 0, 3)
        save_array(folder / "vectors.npy", vectors)
        save_array(folder / "entry_vectors.npy", unit_means(vectors, layout.runs()))
        if manifest.quantized_rows:
            QuantizedRows.build(vectors[: layout.public]).save(folder / QUANTIZED)
        known = None if earlier is None else earlier.text_ids
        save_array(folder / "text_ids.npy", _text_ids(shown, rows, known))
        save_array(folder / "sections.npy", layout.sections())
        save_array(folder / "entries.npy", layout.entries())
        progress("index", 1, 3)
        write_passages(folder / "passages.sqlite", layout.records())
        progress("index", 2, 3)
        contexts = [" > ".join(piece.passage.breadcrumb) for piece in layout.pieces]
        pairs = list(zip(contexts, shown, strict=True))
        lexical = None if earlier is None else earlier.lexical
        LexicalIndex.build(pairs, layout.public, lexical, rows).save(folder / "lexical")
        progress("index", 3, 3)

    write_generation(root, manifest, fill)
    remove_pending(root)
    return manifest, embedded.computed


def _own_sources(entries: Sequence[PreparedEntry], pieces: Sequence[Piece]) -> list[Piece]:
    """Rename sections whose source is another's already; public ones never yield to restricted."""
    owner: dict[str, int] = {}
    names: dict[tuple[int, str], str] = {}
    for restricted in (False, True):
        those = {n for n, entry in enumerate(entries) if (entry.access is not None) == restricted}
        for number in sorted(those):
            owner.setdefault(entries[number].source, number)
        for piece in pieces:
            source = free = piece.passage.source
            if piece.entry in those and (piece.entry, source) not in names:
                while owner.setdefault(free, piece.entry) != piece.entry:
                    free += "~2"
                names[piece.entry, source] = free
    return [_named(piece, names[piece.entry, piece.passage.source]) for piece in pieces]


def _named(piece: Piece, source: str) -> Piece:
    if piece.passage.source == source:
        return piece
    return replace(piece, passage=replace(piece.passage, source=source))


def _text_ids(
    texts: Sequence[str], rows: Sequence[int], known: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Give equal texts, but for spelling, equal numbers; shape (n,)."""
    ids = np.zeros(len(texts), dtype=np.int64)
    places = np.array(rows, dtype=np.int64)
    if known is not None:
        ids[places >= 0] = known[places[places >= 0]]
    for place in np.flatnonzero(places < 0).tolist():
        ids[place] = _text_id(texts[place])
    return ids


def _text_id(text: str) -> int:
    digest = hashlib.blake2b(fold(text).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _max_characters(
    embedder: Embedder, embedded: Embedded, previous: Previous | None
) -> int | None:
    """Ask the embedder, or the generation whose embedder was not needed now."""
    if previous is not None and not embedded.computed:
        return previous.snapshot.manifest.embedder.max_characters
    return embedder.max_characters


class _Layout:
    """The order of rows: by access set (public first), category, entry and place in the entry."""

    def __init__(
        self,
        entries: Sequence[PreparedEntry],
        pieces: Sequence[Piece],
        usable: NDArray[np.bool_],
    ) -> None:
        self._entries = entries
        self.access_sets: list[frozenset[str] | None] = sorted(
            {entry.access for entry in entries},
            key=lambda access: (access is not None, sorted(access or ())),
        )
        numbers = {access: number for number, access in enumerate(self.access_sets)}
        self._access = [numbers[entry.access] for entry in entries]
        self._category = [category_key(e.category) if e.category else "" for e in entries]
        self.order: list[int] = sorted(
            np.flatnonzero(usable).tolist(), key=lambda place: (*self._key(pieces[place]), place)
        )
        self.pieces = [pieces[place] for place in self.order]
        self.segments: list[Segment] = []
        for (access, category), run in groupby(self.pieces, key=self._key):
            start = self.segments[-1].stop if self.segments else 0
            stop = start + len(list(run))
            self.segments.append(Segment(self.access_sets[access], category or None, start, stop))

    def versions(self, settings: str) -> tuple[str, ...]:
        """Hash the content of each access set, so that none tells of another."""
        hashes = [hashlib.sha256(settings.encode()) for _ in self.access_sets]
        for entry, access in zip(self._entries, self._access, strict=True):
            hashes[access].update(entry.digest.encode())
        return tuple(each.hexdigest() for each in hashes)

    @property
    def public(self) -> int:
        """How many rows everybody may see; they come first."""
        return sum(each.stop - each.start for each in self.segments if each.access is None)

    def _key(self, piece: Piece) -> tuple[int, str]:
        return self._access[piece.entry], self._category[piece.entry]

    def sections(self) -> NDArray[np.int32]:
        """Number the sections in the order of their sources; return that of each row."""
        sources = [piece.passage.source for piece in self.pieces]
        numbers = {source: number for number, source in enumerate(sorted(set(sources)))}
        return np.array([numbers[source] for source in sources], dtype=np.int32)

    def entries(self) -> NDArray[np.int32]:
        """Return the number of each row's entry."""
        return np.array([piece.entry for piece in self.pieces], dtype=np.int32)

    def runs(self) -> list[slice]:
        """Return the rows of each entry; they stand together."""
        runs = [slice(0, 0)] * len(self._entries)
        for number, those in groupby(enumerate(self.pieces), key=lambda each: each[1].entry):
            rows = [row for row, _ in those]
            runs[number] = slice(rows[0], rows[-1] + 1)
        return runs

    def records(self) -> list[EntryRecord]:
        """Gather the rows of each entry."""
        rows: list[list[tuple[int, Passage]]] = [[] for _ in self._entries]
        for row, piece in enumerate(self.pieces):
            rows[piece.entry].append((row, piece.passage))
        return [
            EntryRecord(entry, access, tuple(own))
            for entry, access, own in zip(self._entries, self._access, rows, strict=True)
        ]


def _with_gaps(pieces: Sequence[Piece], usable: NDArray[np.bool_]) -> list[Piece]:
    """Mark in each passage that the one before it, which has no vector, is not there."""
    marked = list(pieces[:1])
    for before_is_usable, piece in zip(usable, pieces[1:], strict=False):
        if before_is_usable:
            marked.append(piece)
            continue
        gap = f"\n\n{GAP}\n\n{piece.passage.lead}"
        marked.append(replace(piece, passage=replace(piece.passage, joint=gap)))
    return marked


def _report_unusable(
    pieces: Sequence[Piece],
    usable: NDArray[np.bool_],
    entries: Sequence[PreparedEntry],
    problems: Problems,
    embedder: str,
) -> list[PreparedEntry]:
    """Name the passages that cannot be searched; a build without any that can is refused."""
    if len(pieces) and not usable.any():
        raise EmbeddingError(f"{embedder} gave no usable vector for any of {len(pieces)} passages")
    noted = list(entries)
    for place in np.flatnonzero(~usable).tolist():
        number = pieces[place].entry
        fault = LoadProblem(
            entries[number].source,
            pieces[place].passage.start_line,
            "error",
            f"{embedder} gave no usable vector (zero, NaN or infinite) for this passage",
            "it cannot be found; reword it or use another embedder",
        )
        problems.found.append(fault)
        noted[number] = replace(noted[number], problems=(*noted[number].problems, fault))
    return noted


def _categories(entries: Sequence[PreparedEntry]) -> tuple[str, ...]:
    """Return every category once, as its first entry spells it."""
    spelled = {category_key(e.category): e.category for e in reversed(entries) if e.category}
    return tuple(sorted(spelled.values()))
