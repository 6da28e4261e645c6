"""L0: what the query's words say about where to look; never evidence.

Titles, aliases, keywords, entities and categories are phrases of atoms. A query's n-grams are
looked up in the phrase table of the generation, longest first. A category filter is derived only
when what was recognized agrees on one category and the texts bear it out: a wrong filter costs a
search, and may hide the answer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from lookup_tool.schema import HintMatch

CONCENTRATION = 0.7
"""Measured on three document sets with categories: from .65 on, filters were right more than nine
times out of ten; without this check, on one of them, every other one was wrong."""

TELLING = 100
"""Passages from which on the texts tell where a word belongs; among fewer, one mention elsewhere
would outweigh what the metadata say."""

MAX_TITLES = 20
"""Titles that are listed when a phrase fits many entries."""


def ngrams(found: Sequence[str], longest: Mapping[str, int]) -> list[tuple[int, int, str]]:
    """Return every stretch of a query that may be a phrase, longest first.

    Args:
        found: The query's atoms.
        longest: Atoms of the longest phrase that begins with an atom; others begin none.

    Returns:
        Start, length and key of each stretch.
    """
    grams = [
        (start, length, " ".join(found[start : start + length]))
        for start, atom in enumerate(found)
        for length in range(1, min(longest.get(atom, 0), len(found) - start) + 1)
    ]
    return sorted(grams, key=lambda gram: (-gram[1], gram[0]))


def longest_first(grams: Iterable[tuple[int, int, str]], known: set[str]) -> list[str]:
    """Pick the known phrases that cover the query, longest first, without overlaps."""
    taken: set[int] = set()
    picked: list[str] = []
    for start, length, key in grams:
        places = range(start, start + length)
        if key in known and taken.isdisjoint(places):
            taken.update(places)
            picked.append(key)
    return list(dict.fromkeys(picked))


def derive_category(
    matches: Iterable[HintMatch], share: Callable[[str, str], float | None]
) -> tuple[str | None, str]:
    """Return the category that the recognized phrases agree on, and what it rests on.

    A phrase decides when its entries have one category and the texts bear it out: at least
    `CONCENTRATION` of the passages with its words lie there. One that the texts use everywhere says
    nothing, one that stands for entries of several categories must allow what the others decide,
    and an entry without a category competes like any other.

    Args:
        matches: What was recognized.
        share: Share of the permitted passages with the words of a phrase that lie in a category;
            None when no passage has them, or there are too few to tell.
    """
    allowed: dict[str, set[str | None]] = {}
    written: dict[str, HintMatch] = {}
    for match in matches:
        allowed.setdefault(match.key, set()).update(match.categories)
        written.setdefault(match.key, match)
    decided: dict[str, str | None] = {}
    for key, categories in allowed.items():
        category = next(iter(categories)) if len(categories) == 1 else None
        if category is not None:
            concentration = share(written[key].text, category)
            if concentration is None or concentration >= CONCENTRATION:
                decided[key] = category
    several = [categories for categories in allowed.values() if len(categories) > 1]
    nowhere = any(categories == {None} for categories in allowed.values())
    category = next(iter(decided.values()), None)
    agreed = set(decided.values()) == {category} and all(category in each for each in several)
    if category is None or nowhere or not agreed:
        return None, ""
    return category, ", ".join(f"{written[key].kind}:{written[key].text}" for key in decided)
