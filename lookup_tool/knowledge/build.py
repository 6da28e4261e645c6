"""Write a generation from prepared entries: embed, sort, index, switch.

What an earlier generation has is taken from there; the result is the same, byte for byte.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, groupby
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
    layout = _Layout(entries, _own_sources(entries))
    embedded = embed(
        [passage.embedded_text for passage in layout.passages()],
        root,
        embedder,
        previous,
        lambda done, total: progress("embed", done, total),
    )
    usable = embedded.usable
    if not usable.all():
        layout = _only_usable(layout, usable, problems, embedder.name)
        embedded.keep(usable)
    thresholds, calibrated_at = thresholds_for(root, embedder)
    manifest = Manifest(
        versions=layout.versions(f"{embedder.name} {settings.model_dump_json()}"),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        made_by=made_by(),
        entries=len(entries),
        passages=layout.rows,
        categories=_categories(entries),
        embedder=EmbedderRecord(
            name=embedder.name,
            dimension=embedded.vectors.shape[1],
            loads_by_name=embedder.loads_by_name,
            max_characters=_max_characters(embedder, embedded, previous) if len(usable) else None,
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
    rows = [-1] * layout.rows if earlier is None else embedded.rows.tolist()

    def fill(folder: Path) -> None:
        progress("index", 0, 3)
        _save_vectors(folder, embedded.take_vectors(), layout, quantized=manifest.quantized_rows)
        known = None if earlier is None else earlier.text_ids
        save_array(folder / "text_ids.npy", _text_ids(layout.shown(), rows, known))
        save_array(folder / "sections.npy", layout.row_sections())
        save_array(folder / "entries.npy", layout.row_entries())
        progress("index", 1, 3)
        write_passages(folder / "passages.sqlite", layout.records())
        progress("index", 2, 3)
        lexical = None if earlier is None else earlier.lexical
        pairs = zip(layout.contexts(), layout.shown(), strict=True)
        LexicalIndex.build(pairs, layout.public, lexical, rows).save(folder / "lexical")
        progress("index", 3, 3)

    write_generation(root, manifest, fill)
    remove_pending(root)
    return manifest, embedded.computed


def _own_sources(entries: Sequence[PreparedEntry]) -> list[tuple[Passage, ...]]:
    """Rename sections whose source is another's already; public ones never yield to restricted.

    Returns:
        The passages of each entry.
    """
    owner: dict[str, int] = {}
    passages = [entry.passages for entry in entries]
    for restricted in (False, True):
        those = [n for n, entry in enumerate(entries) if (entry.access is not None) == restricted]
        for number in those:
            owner.setdefault(entries[number].source, number)
        for number in those:
            passages[number] = _renamed(passages[number], number, owner)
    return passages


def _renamed(
    passages: tuple[Passage, ...], entry: int, owner: dict[str, int]
) -> tuple[Passage, ...]:
    names: dict[str, str] = {}
    for source in dict.fromkeys(passage.source for passage in passages):
        free = source
        while owner.setdefault(free, entry) != entry:
            free += "~2"
        names[source] = free
    if all(source == name for source, name in names.items()):
        return passages
    return tuple(replace(passage, source=names[passage.source]) for passage in passages)


def _save_vectors(
    folder: Path, vectors: NDArray[np.float32], layout: "_Layout", *, quantized: int
) -> None:
    save_array(folder / "vectors.npy", vectors)
    save_array(folder / "entry_vectors.npy", unit_means(vectors, layout.runs))
    if quantized:
        QuantizedRows.build(vectors[:quantized]).save(folder / QUANTIZED)


def _text_ids(
    texts: Iterable[str], rows: Sequence[int], known: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Give equal texts, but for spelling, equal numbers; shape (n,)."""
    ids = np.zeros(len(rows), dtype=np.int64)
    for place, (text, row) in enumerate(zip(texts, rows, strict=True)):
        ids[place] = _text_id(text) if row < 0 or known is None else known[row]
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
        self, entries: Sequence[PreparedEntry], passages: Sequence[tuple[Passage, ...]]
    ) -> None:
        """Lay out entries with the passages of each, which need not be those it was cut into."""
        self.entries = entries
        self.by_entry = passages
        self.access_sets: list[frozenset[str] | None] = sorted(
            {entry.access for entry in entries},
            key=lambda access: (access is not None, sorted(access or ())),
        )
        numbers = {access: number for number, access in enumerate(self.access_sets)}
        self._access = [numbers[entry.access] for entry in entries]
        category = [category_key(e.category) if e.category else "" for e in entries]
        keys = list(zip(self._access, category, strict=True))
        self._order = sorted(range(len(entries)), key=keys.__getitem__)
        self.runs = [slice(0, 0)] * len(entries)
        """Rows of each entry."""

        self.segments: list[Segment] = []
        self.rows = 0
        for (access, name), those in groupby(self._order, key=keys.__getitem__):
            start = self.rows
            for number in those:
                self.runs[number] = slice(self.rows, self.rows + len(passages[number]))
                self.rows += len(passages[number])
            if self.rows > start:
                segment = Segment(self.access_sets[access], name or None, start, self.rows)
                self.segments.append(segment)

    def passages(self) -> Iterator[Passage]:
        """Yield the passages in the order of their rows."""
        return chain.from_iterable(self.by_entry[number] for number in self._order)

    def row_entries(self) -> NDArray[np.int32]:
        """Return the number of each row's entry."""
        lengths = [len(self.by_entry[number]) for number in self._order]
        return np.repeat(np.array(self._order, dtype=np.int32), lengths)

    def row_sections(self) -> NDArray[np.int32]:
        """Number the sections in the order of their sources; return that of each row."""
        sources = sorted({passage.source for passage in self.passages()})
        numbers = {source: number for number, source in enumerate(sources)}
        each = (numbers[passage.source] for passage in self.passages())
        return np.fromiter(each, dtype=np.int32, count=self.rows)

    def contexts(self) -> Iterator[str]:
        """Yield title and headings of each row."""
        return (" > ".join(passage.breadcrumb) for passage in self.passages())

    def shown(self) -> Iterator[str]:
        """Yield what each row shows."""
        return (passage.lead + passage.text for passage in self.passages())

    def records(self) -> Iterator[EntryRecord]:
        """Yield what is stored of each entry."""
        together = zip(self.entries, self._access, self.runs, self.by_entry, strict=True)
        return (
            EntryRecord(entry, access, run.start, passages)
            for entry, access, run, passages in together
        )

    def versions(self, settings: str) -> tuple[str, ...]:
        """Hash the content of each access set, so that none tells of another."""
        hashes = [hashlib.sha256(settings.encode()) for _ in self.access_sets]
        for entry, access in zip(self.entries, self._access, strict=True):
            hashes[access].update(entry.digest.encode())
        return tuple(each.hexdigest() for each in hashes)

    @property
    def public(self) -> int:
        """How many rows everybody may see; they come first."""
        return sum(each.stop - each.start for each in self.segments if each.access is None)


def _only_usable(
    layout: _Layout, usable: NDArray[np.bool_], problems: Problems, embedder: str
) -> _Layout:
    """Leave out and name what cannot be searched; a build without anything that can is refused."""
    if not usable.any():
        raise EmbeddingError(f"{embedder} gave no usable vector for any of {len(usable)} passages")
    entries, passages = list(layout.entries), list(layout.by_entry)
    for number, run in enumerate(layout.runs):
        fine = usable[run].tolist()
        if all(fine):
            continue
        faults = tuple(
            _unusable(entries[number].source, passage, embedder)
            for passage, is_usable in zip(passages[number], fine, strict=True)
            if not is_usable
        )
        problems.found.extend(faults)
        entries[number] = replace(entries[number], problems=(*entries[number].problems, *faults))
        passages[number] = _with_gaps(passages[number], fine)
    return _Layout(entries, passages)


def _unusable(source: str, passage: Passage, embedder: str) -> LoadProblem:
    return LoadProblem(
        source,
        passage.start_line,
        "error",
        f"{embedder} gave no usable vector (zero, NaN or infinite) for this passage",
        "it cannot be found; reword it or use another embedder",
    )


def _with_gaps(passages: Sequence[Passage], usable: Sequence[bool]) -> tuple[Passage, ...]:
    """Return the usable passages of an entry, with a mark where the one before is left out."""
    return tuple(
        passage if before_is_usable else replace(passage, joint=f"\n\n{GAP}\n\n{passage.lead}")
        for before_is_usable, is_usable, passage in zip(
            (True, *usable), usable, passages, strict=False
        )
        if is_usable
    )


def _categories(entries: Sequence[PreparedEntry]) -> tuple[str, ...]:
    """Return every category once, as its first entry spells it."""
    spelled = {category_key(e.category): e.category for e in reversed(entries) if e.category}
    return tuple(sorted(spelled.values()))
