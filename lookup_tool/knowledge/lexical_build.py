"""Build L1's index: cut passages into terms, count them, weigh the counts.

Terms of an earlier index are taken as they are; the result is the same, byte for byte. Searching it
is `lexical.py`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookup_tool.knowledge.tokens import fold, word_terms

K1 = 1.5
B = 0.75
"""Saturation and length normalization of BM25, the usual values (Manning, Raghavan and Schuetze,
Introduction to Information Retrieval, section 11.4.3)."""

HEADING_WEIGHT = 2
"""How often a term in the title or a heading counts (Robertson, Zaragoza and Taylor, Simple BM25
extension to multiple weighted fields, CIKM 2004)."""

_LONGEST_WORD = 30
"""Longer ones, such as sentences of unspaced scripts, seldom come again."""


@dataclass(frozen=True)
class PassageTerms:
    """The terms of n passages, each passage's in order, those of its context first."""

    vocabulary: dict[str, int]
    """Number of each term."""

    ids: NDArray[np.int32]
    """Terms of all passages, one after the other."""

    starts: NDArray[np.int64]
    """Where each passage begins in them, and where the last one ends; shape (n + 1,)."""

    heads: NDArray[np.int32]
    """How many terms of each passage are context, shape (n,)."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many terms each passage has, shape (n,)."""
        return np.diff(self.starts)


def index_terms(
    passages: Sequence[tuple[str, str]],
    public: int | None,
    earlier: PassageTerms | None,
    rows: Sequence[int] | None,
) -> tuple[PassageTerms, dict[str, NDArray[Any]]]:
    """Cut passages into terms, and gather where each term stands.

    Args:
        passages: (Context, text) pairs, in row order.
        public: How many of them, at the beginning, give the statistics; None for all.
        earlier: Terms of some of them, cut already.
        rows: Place of each pair there, -1 for one that it does not have; None for all of those.

    Returns:
        The terms, and the arrays of the postings.
    """
    terms = _Terms(earlier)
    places = [
        terms.add(*pair) if row < 0 else row
        for pair, row in zip(passages, rows or [-1] * len(passages), strict=True)
    ]
    kept = terms.take(places)
    return kept, _postings(kept, len(passages) if public is None else public)


class _Terms:
    """The terms of passages: those of an earlier index, and behind them those that are added."""

    def __init__(self, earlier: PassageTerms | None) -> None:
        none = np.zeros(0, dtype=np.int32)
        earlier = earlier or PassageTerms({}, none, np.zeros(1, dtype=np.int64), none)
        self._earlier = earlier
        self._vocabulary = dict(earlier.vocabulary)
        self._known: dict[str, list[int]] = {}
        self._new_ids: list[int] = []
        self._new_heads: list[int] = []
        self._new_lengths: list[int] = []

    def add(self, context: str, text: str) -> int:
        """Cut a passage into terms, and return its place."""
        head, body = self._numbers(context), self._numbers(text)
        self._new_ids += head
        self._new_ids += body
        self._new_heads.append(len(head))
        self._new_lengths.append(len(head) + len(body))
        return len(self._earlier.heads) + len(self._new_heads) - 1

    def _numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's terms, in order; each of its words is cut once a build."""
        number = self._vocabulary
        found: list[int] = []
        for word in fold(text).split(" "):
            known = self._known.get(word)
            if known is None:
                known = [number.setdefault(term, len(number)) for term in word_terms(word)]
                if len(word) <= _LONGEST_WORD:
                    self._known[word] = known
            found += known
        return found

    def take(self, places: Sequence[int]) -> PassageTerms:
        """Return the terms of the passages at these places, in this order.

        They are numbered as they occur, so that nothing tells which index they come from.
        """
        earlier = self._earlier
        ids = np.concatenate([earlier.ids, np.array(self._new_ids, dtype=np.int32)])
        lengths = np.concatenate([earlier.lengths, np.array(self._new_lengths, dtype=np.int64)])
        heads = np.concatenate([earlier.heads, np.array(self._new_heads, dtype=np.int32)])
        wanted = np.array(places, dtype=np.int64)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        # Most passages have the neighbours that they had: whole runs are taken at once.
        runs = np.split(wanted, np.flatnonzero(np.diff(wanted) != 1) + 1)
        taken = np.concatenate(
            [ids[starts[run[0]] : ends[run[-1]]] for run in runs if len(run)] or [ids[:0]]
        )
        first = np.full(len(self._vocabulary), len(taken), dtype=np.int64)
        first[taken[::-1]] = np.arange(len(taken) - 1, -1, -1)  # the last one to be written stays
        order = np.argsort(first, kind="stable")[: int((first < len(taken)).sum())]
        number = np.zeros(len(first), dtype=np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        names = list(self._vocabulary)
        vocabulary = {names[old]: new for new, old in enumerate(order.tolist())}
        starts = np.append(np.zeros(1, dtype=np.int64), np.cumsum(lengths[wanted]))
        return PassageTerms(vocabulary, number[taken], starts, heads[wanted])


def _postings(terms: PassageTerms, public: int) -> dict[str, NDArray[Any]]:
    """Count terms in passages, and weigh the counts by the statistics of the public rows."""
    ids, lengths, heads = terms.ids, terms.lengths, terms.heads
    owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    pairs = ids * np.int64(len(lengths) or 1) + owner
    begins = np.cumsum(lengths) - lengths - (np.cumsum(heads) - heads)
    in_head = np.arange(int(heads.sum())) + np.repeat(begins, heads)
    # Equal pairs side by side, as often as they count. Large arrays cost more than arithmetic.
    pairs = np.concatenate([pairs, *[pairs[in_head]] * (HEADING_WEIGHT - 1)])
    pairs.sort()
    firsts = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)])
    counts = np.diff(firsts, append=len(pairs))
    numbers, rows = np.divmod(pairs[firsts], len(lengths) or 1)
    everyone = (lengths + (HEADING_WEIGHT - 1) * heads)[:public]
    usual = float(everyone.mean()) if everyone.any() else 1.0
    frequency = np.bincount(numbers[rows < public], minlength=len(terms.vocabulary) + 1)
    starts = np.searchsorted(numbers, np.arange(len(terms.vocabulary) + 1))
    weights = bm25_weights(counts, bm25_sizes(lengths, heads, usual)[rows])
    return {
        "posting_starts": starts,
        "posting_rows": rows.astype(np.int32),
        "posting_weights": weights,
        "posting_most": np.maximum.reduceat(weights, starts[:-1]) if terms.vocabulary else weights,
        "frequency": frequency.astype(np.int32),
        "public": np.array([public], dtype=np.int64),
        "usual_length": np.array([usual]),
    }


def bm25_sizes(
    lengths: NDArray[np.int64], heads: NDArray[np.int32], usual: float
) -> NDArray[np.float64]:
    """Return how long passages are, as BM25 weighs it, beside the usual one."""
    lengths = lengths + (HEADING_WEIGHT - 1) * heads
    return 1 - B + B * (lengths / np.float64(usual))


def bm25_weights(
    counts: NDArray[np.int64] | NDArray[np.float64], size: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return what occurrences are worth, without the rarity of their term."""
    return (counts * (K1 + 1) / (counts + K1 * size)).astype(np.float32)
