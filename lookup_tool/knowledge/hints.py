"""L0: what the query's words say about where to look; never evidence.

Titles, aliases, keywords, entities and categories are phrases of atoms. A query's n-grams are
looked up in the phrase table of the generation, longest first. A category filter is derived only
when everything that was recognized agrees on one category: a wrong filter costs a search.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lookup_tool.knowledge.documents import Entry
from lookup_tool.knowledge.tokens import STOP_WORDS, atoms

HintKind = Literal["title", "keyword", "entity", "category"]

MAX_PHRASE = 40
"""Atoms of the longest phrase; in unspaced scripts, that is characters."""

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
    """Yield the phrases that stand for an entry."""
    texts: dict[HintKind, tuple[str, ...]] = {
        "title": (title,),
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


def derive_category(matches: Iterable[HintMatch]) -> tuple[str | None, str]:
    """Return the category that the recognized phrases agree on, and what it rests on.

    A phrase allows the categories of the entries that it stands for; an entry without a category
    competes like any other. At least one phrase must belong to one category only, and no other
    phrase may contradict it.
    """
    allowed: dict[str, set[str | None]] = {}
    written: dict[str, str] = {}
    for match in matches:
        allowed.setdefault(match.key, set()).update(match.categories)
        written.setdefault(match.key, f"{match.kind}:{match.text}")
    deciding = [written[key] for key, categories in allowed.items() if len(categories) == 1]
    common = set.intersection(*allowed.values()) if allowed else set()
    category = common.pop() if deciding and common else None
    return (None, "") if category is None else (category, ", ".join(deciding))
