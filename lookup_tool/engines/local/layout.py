"""Where the passages of a generation stand: which rows there are, and in which order.

Rows are sorted so that what a search may see is a few runs of them, and passages without a vector
are left out.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby

import numpy as np
from numpy.typing import NDArray

from lookup_tool.documents.entries import Problems
from lookup_tool.engines.local.passage_file import EntryRecord
from lookup_tool.engines.local.segments import Segment
from lookup_tool.errors import EmbeddingError
from lookup_tool.schema import GAP, LoadProblem, Passage, PreparedEntry
from lookup_tool.text import category_key


class Layout:
    """The order of rows: by access set (public first), category, entry and place in the entry."""

    def __init__(
        self,
        entries: Sequence[PreparedEntry],
        passages: Sequence[tuple[Passage, ...]] | None = None,
    ) -> None:
        """Lay out entries with some passages of each; by default with all."""
        self.entries = entries
        self.by_entry = [entry.passages for entry in entries] if passages is None else passages
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
                self.runs[number] = slice(self.rows, self.rows + len(self.by_entry[number]))
                self.rows += len(self.by_entry[number])
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
        """Number the sections, those of each access set in the order of their sources.

        Which of two comes first does not depend on what else there is.
        """
        entries = sorted(range(len(self.entries)), key=self._access.__getitem__)
        sections: list[tuple[str, int]] = []
        for _, those in groupby(entries, key=self._access.__getitem__):
            sections += sorted({(p.source, each) for each in those for p in self.by_entry[each]})
        numbers = {section: number for number, section in enumerate(sections)}
        each = (numbers[p.source, entry] for entry in self._order for p in self.by_entry[entry])
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


def only_usable(
    layout: Layout, usable: NDArray[np.bool_], problems: Problems, embedder: str
) -> Layout:
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
    return Layout(entries, passages)


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
