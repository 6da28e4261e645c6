"""Questions without anybody to ask them: sentences of the documents themselves.

Titles and headings would be matched whole by the words of their own headings, as hardly any real
question is. A sentence from the middle of a text is not; on three document sets the nearest passage
to a sentence and the nearest one to a real question are, in the mean, equally similar.
"""

from dataclasses import dataclass

import numpy as np
import regex

from lookup_tool.retrieval.view import View
from lookup_tool.text import STOP_WORDS, surface_terms

SEED = 7
_END = regex.compile(r"(?<=\p{STerm})(?:\s+|(?<=\p{Ideographic}.))|\n")
_MARKUP = regex.compile(r"^[#|>`~\-*\d.\s]+|[`*|\[\]]")
_TERMS = range(4, 26)
"""Terms of a sentence that can stand for a question, function words aside."""


@dataclass(frozen=True)
class Sentence:
    """A sentence, and where it stands."""

    text: str
    entry: str
    category: str | None


def sentences(view: View, size: int, groups: frozenset[str] = frozenset()) -> list[Sentence]:
    """Pick sentences, each of another passage, the same ones for the same documents.

    Args:
        view: Where to take them from.
        size: Most sentences to pick.
        groups: Access groups; without any, public entries only.
    """
    random = np.random.default_rng(SEED)
    picked: dict[str, Sentence] = {}
    for passage in view.sample(2 * size, groups):  # not every passage has one
        fitting = [text for text in _split(passage.text) if _content_terms(text) in _TERMS]
        if fitting:
            text = fitting[int(random.integers(len(fitting)))]
            picked.setdefault(text, Sentence(text, passage.entry, passage.category))
    found = list(picked.values())
    places = np.linspace(0, len(found), min(size, len(found)), endpoint=False).astype(int)
    return [found[place] for place in places.tolist()]


def _split(text: str) -> list[str]:
    return [_MARKUP.sub("", part).strip() for part in _END.split(text)]


def _content_terms(text: str) -> int:
    return sum(surface not in STOP_WORDS for surface, _ in surface_terms(text))
