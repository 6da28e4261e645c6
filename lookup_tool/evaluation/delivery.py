"""Which answers an agent reads: the sections and entries that a packed text delivers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lookup_tool.contracts import LookupResult
from lookup_tool.stages.pack import contents
from lookup_tool.text import terms

SAME_WORDS = 8
"""Terms in a row that a content shares with a passage when it shows a part of it. A sentence has
more, and another passage of the section seldom has eight of them in this order."""

Sources = frozenset[str]


@dataclass(frozen=True)
class PackedText:
    """A packed text by what each of its blocks delivers, in their order."""

    sections: tuple[Sources, ...]
    """For each block, the sections with its text; empty where their best passage was cut away."""

    entries: tuple[Sources, ...]
    """For each block, the entries of these sections."""

    used: int
    """What the text takes, in the unit of its budget."""


def read_pack(
    result: LookupResult, best_passages: Mapping[str, Sources], entries: Mapping[str, str]
) -> PackedText:
    """Read from a result what its packed text delivers.

    A block delivers its section when the content in the text shows a part, at least, of one of the
    section's best passages.

    Args:
        result: Of one lookup.
        best_passages: For each section, the texts of its best candidates.
        entries: Entry of each section.
    """
    pack = result.context_pack
    duplicates = {block.source: block.duplicates for block in result.evidence_blocks}
    sections = tuple(
        frozenset((part.source, *duplicates[part.source]))
        if any(shows(content, text) for text in best_passages[part.source])
        else frozenset()
        for part, content in zip(pack.included, contents(pack.text), strict=True)
    )
    return PackedText(
        sections=sections,
        entries=tuple(frozenset(entries[source] for source in block) for block in sections),
        used=pack.used,
    )


def shows(content: str, passage: str) -> bool:
    """Tell whether a content holds a passage, whole or a part of `SAME_WORDS` terms in a row."""
    content, passage = (text.replace("&lt;", "<") for text in (content, passage))  # as packed
    if passage in content:
        return True
    words = terms(passage)
    length = min(SAME_WORDS, len(words))
    return not _runs(words, length).isdisjoint(_runs(terms(content), length))


def rank_of(expected: Collection[str], blocks: Sequence[Sources]) -> int | None:
    """Return the rank, from 1, of the first block that delivers an expected source, or None."""
    ranks = (rank for rank, block in enumerate(blocks, start=1) if not block.isdisjoint(expected))
    return next(ranks, None)


def _runs(words: Sequence[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}
