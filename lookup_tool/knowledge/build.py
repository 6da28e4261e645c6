"""Write a generation: cut entries into passages, embed, sort, index, switch."""

import hashlib
import json
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
from lookup_tool.knowledge.documents import Entry, Problems, category_key
from lookup_tool.knowledge.lexical import LexicalIndex
from lookup_tool.knowledge.passage_store import EntryRecord, write_passages
from lookup_tool.knowledge.passages import GAP, Passage, cut, display_title
from lookup_tool.knowledge.snapshot import EmbedderRecord, Manifest, write_generation, writing
from lookup_tool.knowledge.thresholds import thresholds_for
from lookup_tool.knowledge.tokens import fold
from lookup_tool.knowledge.vectors import Segment

Progress = Callable[[str, int, int], None]
"""Called with (phase, done, total); phases are `read`, `cut`, `embed` and `index`."""


@dataclass(frozen=True)
class _Piece:
    """A passage and the place of its entry."""

    entry: int
    passage: Passage


def build_generation(  # noqa: PLR0913 - the ingredients of one build
    entries: Sequence[Entry],
    into: Path,
    problems: Problems,
    embedder: Embedder,
    *,
    settings: PassageConfig,
    progress: Progress,
) -> None:
    """Write entries as the new current generation of the knowledge base at `into`."""
    with writing(into):
        titles = [display_title(entry) for entry in entries]
        pieces: list[_Piece] = []
        for number, (entry, title) in enumerate(zip(entries, titles, strict=True)):
            pieces.extend(_Piece(number, passage) for passage in cut(entry, title, settings))
            progress("cut", number + 1, len(entries))
        pieces = _own_sources(entries, pieces)
        vectors, usable = embedder.embed_documents(
            [piece.passage.embedded_text for piece in pieces],
            lambda done, total: progress("embed", done, total),
        )
        _report_unusable(pieces, usable, entries, problems, embedder.name)
        pieces = _with_gaps(pieces, usable)
        layout = _Layout(entries, pieces, usable)
        vectors = np.ascontiguousarray(vectors[layout.order])
        thresholds, calibrated_at = thresholds_for(into, embedder)
        manifest = Manifest(
            versions=layout.versions(f"{embedder.name} {settings.model_dump_json()}"),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            entries=len(entries),
            passages=len(layout.pieces),
            categories=_categories(entries),
            embedder=EmbedderRecord(
                name=embedder.name,
                dimension=vectors.shape[1],
                loads_by_name=embedder.loads_by_name,
                max_characters=embedder.max_characters if pieces else None,
            ),
            thresholds=thresholds,
            calibrated_at=calibrated_at,
            passage_settings=settings,
            access_sets=tuple(layout.access_sets),
            segments=tuple(layout.segments),
        )

        texts = [piece.passage.lead + piece.passage.text for piece in layout.pieces]

        def fill(folder: Path) -> None:
            progress("index", 0, 3)
            np.save(folder / "vectors.npy", vectors, allow_pickle=False)
            np.save(folder / "text_ids.npy", _text_ids(texts), allow_pickle=False)
            progress("index", 1, 3)
            write_passages(folder / "passages.sqlite", layout.records(titles))
            progress("index", 2, 3)
            contexts = [" > ".join(piece.passage.breadcrumb) for piece in layout.pieces]
            pairs = list(zip(contexts, texts, strict=True))
            LexicalIndex.build(pairs, layout.public).save(folder / "lexical")
            progress("index", 3, 3)

        write_generation(into, manifest, fill)


def _own_sources(entries: Sequence[Entry], pieces: Sequence[_Piece]) -> list[_Piece]:
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
    return [
        replace(p, passage=replace(p.passage, source=names[p.entry, p.passage.source]))
        for p in pieces
    ]


def _text_ids(texts: Sequence[str]) -> NDArray[np.int32]:
    """Number texts, equal ones alike; shape (n,)."""
    numbers: dict[str, int] = {}
    return np.array(
        [numbers.setdefault(fold(text), len(numbers)) for text in texts], dtype=np.int32
    )


class _Layout:
    """The order of rows: by access set (public first), category, entry and place in the entry."""

    def __init__(
        self, entries: Sequence[Entry], pieces: Sequence[_Piece], usable: NDArray[np.bool_]
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
            groups = None if entry.access is None else sorted(entry.access)
            fields = {**vars(entry), "access": groups}
            hashes[access].update(json.dumps(fields, sort_keys=True).encode())
        return tuple(each.hexdigest() for each in hashes)

    @property
    def public(self) -> int:
        """How many rows everybody may see; they come first."""
        return sum(each.stop - each.start for each in self.segments if each.access is None)

    def _key(self, piece: _Piece) -> tuple[int, str]:
        return self._access[piece.entry], self._category[piece.entry]

    def records(self, titles: Sequence[str]) -> list[EntryRecord]:
        """Gather the rows of each entry."""
        rows: list[list[tuple[int, Passage]]] = [[] for _ in self._entries]
        for row, piece in enumerate(self.pieces):
            rows[piece.entry].append((row, piece.passage))
        return [
            EntryRecord(entry, title, access, tuple(own))
            for entry, title, access, own in zip(
                self._entries, titles, self._access, rows, strict=True
            )
        ]


def _with_gaps(pieces: Sequence[_Piece], usable: NDArray[np.bool_]) -> list[_Piece]:
    """Mark in each passage that the one before it, which has no vector, is not there."""
    marked = list(pieces[:1])
    for before_is_usable, piece in zip(usable, pieces[1:], strict=False):
        gap = f"\n\n{GAP}\n\n{piece.passage.lead}"
        passage = piece.passage if before_is_usable else replace(piece.passage, joint=gap)
        marked.append(replace(piece, passage=passage))
    return marked


def _report_unusable(
    pieces: Sequence[_Piece],
    usable: NDArray[np.bool_],
    entries: Sequence[Entry],
    problems: Problems,
    embedder: str,
) -> None:
    """Name the passages that cannot be searched; a build without any that can is refused."""
    if len(pieces) and not usable.any():
        raise EmbeddingError(f"{embedder} gave no usable vector for any of {len(pieces)} passages")
    for place in np.flatnonzero(~usable).tolist():
        problems.error(
            entries[pieces[place].entry].source,
            pieces[place].passage.start_line,
            f"{embedder} gave no usable vector (zero, NaN or infinite) for this passage",
            "it cannot be found; reword it or use another embedder",
        )


def _categories(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return every category once, as its first entry spells it."""
    spelled = {category_key(e.category): e.category for e in reversed(entries) if e.category}
    return tuple(sorted(spelled.values()))
