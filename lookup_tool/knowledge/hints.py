"""L0: what the query's words say about where to look; never evidence.

Titles, aliases, keywords, entities and categories are phrases of atoms. A query's n-grams are
looked up in the phrase table of the generation, longest first. A category filter is derived only
when what was recognized agrees on one category and the texts bear it out: a wrong filter costs a
search, and may hide the answer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lookup_tool.knowledge.documents import UNNAMED, Entry
from lookup_tool.knowledge.tokens import STOP_WORDS, atoms

HintKind = Literal["title", "keyword", "entity", "category"]

MAX_PHRASE = 40
"""Atoms of the longest phrase; in unspaced scripts, that is characters."""

CONCENTRATION = 0.7
"""Measured on three document sets with categories: from .65 on, filters were right more than nine
times out of ten; without this check, on one of them, every other one was wrong."""

TELLING = 100
"""Passages from which on the texts tell where a word belongs; among fewer, one mention elsewhere
would outweigh what the metadata say."""

MAX_TITLES = 20
"""Titles that are listed when a phrase fits many entries."""


@dataclass(frozen=True)
class Phrase:
    """A phrase that stands for an entry, or names a category."""

    key: str
    kind: HintKind
    text: str
    """As its author wrote it."""


@dataclass(frozen=True)
class HintMatch:
    """A phrase that the query contains."""

    kind: HintKind
    text: str
    """As the author wrote it."""

    key: str
    categories: tuple[str | None, ...]
    """Category keys of the permitted entries it stands for; None for entries without one."""

    names: tuple[str | None, ...] = ()
    """The same categories, as an author spelled each."""


@dataclass(frozen=True)
class QueryHints:
    """Everything that L0 recognized in one query, for one caller."""

    matches: tuple[HintMatch, ...] = ()
    titles: tuple[str, ...] = ()
    """Titles of the matched entries, at most `MAX_TITLES`."""

    entry_count: int = 0
    category: str | None = None
    """Key of the category to filter by; None when it is not certain."""

    because: str = ""
    """What the filter rests on."""

    @property
    def category_name(self) -> str | None:
        """The category to filter by, as an author spelled it."""
        return next((n for k, n in self.category_names if k == self.category), self.category)

    @property
    def category_names(self) -> tuple[tuple[str, str], ...]:
        """Key and spelling of every matched category, each once."""
        pairs = (
            pair
            for match in self.matches
            for pair in zip(match.categories, match.names, strict=False)
        )
        return tuple(dict.fromkeys((key, name) for key, name in pairs if key and name))


def phrases_of(entry: Entry, title: str) -> Iterator[Phrase]:
    """Yield the phrases that stand for an entry; `document`, for want of a title, is none."""
    texts: dict[HintKind, tuple[str, ...]] = {
        "title": (title,) if title != UNNAMED else (),
        "keyword": (*entry.keywords, *entry.aliases),
        "entity": entry.entities,
    }
    for kind, those in texts.items():
        for text in those:
            if key := phrase_key(text):
                yield Phrase(key, kind, text)


def phrase_key(text: str) -> str | None:
    """Return what is matched for a phrase; None for one that says nothing or is too long.

    A phrase of function words alone (`IT`, `who`) says nothing: every question has some.
    """
    found = atoms(text)
    if not found or len(found) > MAX_PHRASE or all(atom in STOP_WORDS for atom in found):
        return None
    return " ".join(found)


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
