"""The phrases by which L0 recognizes an entry: its title, aliases, keywords and entities."""

from collections.abc import Iterator

from lookup_tool.documents.entries import UNNAMED
from lookup_tool.schema import Entry, HintKind, Phrase
from lookup_tool.text import STOP_WORDS, atoms

MAX_PHRASE = 40
"""Atoms of the longest phrase; in unspaced scripts, that is characters."""


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
