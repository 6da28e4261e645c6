"""What a search found of each section, before any text is read.

Passages of one section belong together, and sections with the same text are one, that names the
others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lookup_tool.schema import MAX_COPIES, Candidate


@dataclass(slots=True)
class Section:
    """What was found of one section, before its text is read."""

    found: tuple[Candidate, ...]
    """Its passages, in document order."""

    best: Candidate
    """The nearest of them to the question."""

    found_by: tuple[str, ...]
    in_text: frozenset[int]
    in_heading: frozenset[int]
    pairs: frozenset[int]
    hints: tuple[str, ...]
    text_ids: tuple[int, ...]
    """Equal for sections with the same text."""

    copies: tuple[Candidate, ...] = ()
    """The best passages of other sections with the same text."""


def sections_of(candidates: Iterable[Candidate]) -> list[Section]:
    """Gather candidates into sections, best similarity first, no text twice."""
    by_section: dict[int, list[Candidate]] = {}
    for found in candidates:
        by_section.setdefault(found.section, []).append(found)
    sections = [_section(found) for found in by_section.values()]
    sections.sort(key=lambda section: (-section.best.similarity, section.best.section))
    return _without_repetition(sections)


def _section(found: Sequence[Candidate]) -> Section:
    """Join what was found of one section."""
    if len(found) == 1:  # most sections: nothing to unite
        (only,) = found
        return Section(
            (only,),
            only,
            only.found_by,
            only.in_text,
            only.in_heading,
            only.pairs,
            only.hints,
            (only.text_id,),
        )
    nothing: frozenset[int] = frozenset()
    in_order = tuple(sorted(found, key=lambda each: each.row))
    best = max(in_order, key=lambda each: each.similarity)
    return Section(
        found=in_order,
        best=best,
        found_by=_united(each.found_by for each in in_order),
        in_text=nothing.union(*(each.in_text for each in in_order)),
        in_heading=nothing.union(*(each.in_heading for each in in_order)),
        pairs=nothing.union(*(each.pairs for each in in_order)),
        hints=best.hints,
        text_ids=tuple(each.text_id for each in in_order),
    )


def _without_repetition(sections: Sequence[Section]) -> list[Section]:
    """Keep the best section of each text, with the reasons of the others."""
    kept: dict[tuple[int, ...], Section] = {}
    for section in sections:
        first = kept.get(section.text_ids)
        if first is None:
            kept[section.text_ids] = section
            continue
        kept[section.text_ids] = replace(
            first,
            found_by=_united((first.found_by, section.found_by)),
            hints=_united((first.hints, section.hints)),
            copies=(*first.copies, section.best)[:MAX_COPIES],
        )
    return list(kept.values())


def _united(reasons: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for some in reasons for reason in some))
