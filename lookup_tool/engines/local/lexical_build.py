"""Build L1's index: cut passages into terms, count them, weigh the counts.

Terms of an earlier index are taken as they are; the result is the same, byte for byte. Searching it
is `lexical.py`'s.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookup_tool.text import fold, word_terms

K1 = 1.5
B = 0.75
"""Saturation and length normalization of BM25, the usual values (Manning, Raghavan and Schuetze,
Introduction to Information Retrieval, section 11.4.3)."""

HEADING_WEIGHT = 2
"""How often a term in the title or a heading counts (Robertson, Zaragoza and Taylor, Simple BM25
extension to multiple weighted fields, CIKM 2004)."""

_LONGEST_WORD = 30
"""Longer ones, such as sentences of unspaced scripts, seldom come again."""

_ROW_BITS = 32
_ROW = 2**_ROW_BITS - 1
"""A pair of a term and a row in one number: the row in its lower half."""

_MOST_COUNTED = 255

_BYTES = np.dtype(np.int32).itemsize
_SORTED_AT_ONCE = 8_000_000
"""Occurrences; each takes some 50 bytes while they are counted."""


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
    passages: Iterable[tuple[str, str]],
    public: int | None,
    earlier: PassageTerms | None,
    rows: Sequence[int] | None,
) -> tuple[PassageTerms, dict[str, NDArray[Any]]]:
    """Cut passages into terms, and gather where each term stands.

    Args:
        passages: (Context, text) pairs, in row order.
        public: How many of them, at the beginning, give the statistics; None for all.
        earlier: Terms of some of them, cut already.
        rows: Place of each pair there, -1 for one that it does not have; None where it has none.

    Returns:
        The terms, and the arrays of the postings.
    """
    terms = _Terms(earlier)
    places = [
        terms.add(*pair) if row < 0 else row
        for pair, row in zip(
            passages, repeat(-1) if rows is None else rows, strict=rows is not None
        )
    ]
    kept = terms.take(places)
    return kept, _postings(kept, len(places) if public is None else public)


class _WordNumbers(dict[str, bytes]):
    """The numbers of a word's terms, as they lie in an array; each word is cut once a build."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, word: str) -> bytes:
        number = self._vocabulary
        found = [number.setdefault(term, len(number)) for term in word_terms(word)]
        numbers = np.array(found, dtype=np.int32).tobytes()
        if len(word) <= _LONGEST_WORD:
            self[word] = numbers
        return numbers


class _Terms:
    """The terms of passages: those of an earlier index, and behind them those that are added."""

    def __init__(self, earlier: PassageTerms | None) -> None:
        none = np.zeros(0, dtype=np.int32)
        self._earlier = earlier or PassageTerms({}, none, np.zeros(1, dtype=np.int64), none)
        self._vocabulary = dict(self._earlier.vocabulary)
        self._numbers = _WordNumbers(self._vocabulary)
        # Joining bytes is several times as fast as gathering numbers, and takes less memory.
        self._new_ids = bytearray()
        self._new_heads: list[int] = []
        self._new_lengths: list[int] = []

    def add(self, context: str, text: str) -> int:
        """Cut a passage into terms, and return its place."""
        head, body = self._cut(context), self._cut(text)
        self._new_ids += head + body
        self._new_heads.append(len(head) // _BYTES)
        self._new_lengths.append((len(head) + len(body)) // _BYTES)
        return len(self._earlier.heads) + len(self._new_heads) - 1

    def _cut(self, text: str) -> bytes:
        return b"".join(map(self._numbers.__getitem__, fold(text).split(" ")))

    def take(self, places: Sequence[int]) -> PassageTerms:
        """Return the terms of the passages at these places, in this order.

        They are numbered as they occur, so that nothing tells which index they come from.
        """
        earlier = self._earlier
        ids_before = earlier.ids.astype(np.int32, copy=False)  # on disk they are narrower
        ids = np.concatenate([ids_before, np.frombuffer(self._new_ids, np.int32)])
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
    lengths, heads = terms.lengths, terms.heads
    everyone = (lengths + (HEADING_WEIGHT - 1) * heads)[:public]
    usual = float(everyone.mean()) if everyone.any() else 1.0
    sizes = _sizes(lengths, heads, usual)
    ends = [np.zeros(1, dtype=np.int64)]
    rows = [np.zeros(0, dtype=np.int32)]
    counts = [np.zeros(0, dtype=np.uint8)]
    most = [np.zeros(0, dtype=np.float32)]
    frequency = [np.zeros(0, dtype=np.int64)]
    for numbers, where, often in _counted(terms):
        first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        ends.append(ends[-1][-1:] + np.append(first[1:], len(numbers)))
        rows.append(where)
        counts.append(often)
        most.append(np.maximum.reduceat(bm25_weights(often, sizes[where]), first))
        frequency.append(np.add.reduceat(where < public, first, dtype=np.int64))
    frequency.append(np.zeros(1, dtype=np.int64))  # of unknown terms
    return {
        "sizes": sizes,
        "posting_starts": np.concatenate(ends),
        "posting_rows": np.concatenate(rows),
        "posting_counts": np.concatenate(counts),
        "posting_most": np.concatenate(most),
        "frequency": np.concatenate(frequency).astype(np.int32),
        "public": np.array([public], dtype=np.int64),
    }


def _counted(
    terms: PassageTerms,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]]:
    """Count each term in each passage, some terms at a time: a sort of all takes much memory.

    Yields:
        Terms, ascending and none left out, the rows that they stand in, ascending, and how often.
    """
    ids, lengths, heads = terms.ids, terms.lengths, terms.heads
    owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    begins = terms.starts[:-1] - (np.cumsum(heads) - heads)
    in_head = np.arange(int(heads.sum())) + np.repeat(begins, heads)
    # Equal pairs side by side, as often as they count.
    again = [(ids[in_head], owner[in_head])] * (HEADING_WEIGHT - 1)
    ends = np.cumsum(np.bincount(ids, minlength=len(terms.vocabulary)))
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + _SORTED_AT_ONCE, "right")))
        pairs = np.concatenate(
            [
                numbers[those].astype(np.int64) << _ROW_BITS | rows[those]
                for numbers, rows in ((ids, owner), *again)
                for those in [(numbers >= first) & (numbers < stop)]
            ]
        )
        pairs.sort()
        firsts = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1]))
        counts = bounded(np.diff(firsts, append=len(pairs)))
        pairs = pairs[firsts]
        yield pairs >> _ROW_BITS, (pairs & _ROW).astype(np.int32), counts
        first = stop


def _sizes(
    lengths: NDArray[np.int64], heads: NDArray[np.int32], usual: float
) -> NDArray[np.float32]:
    """Return how much passages dampen the counts of their terms: long ones more than short ones."""
    weighted = lengths + (HEADING_WEIGHT - 1) * heads
    return (K1 * (1 - B + B * (weighted / usual))).astype(np.float32)


def bounded(counts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return counts in a byte each: BM25 hardly tells 255 times from more."""
    return np.minimum(counts, _MOST_COUNTED).astype(np.uint8)


def bm25_weights(counts: NDArray[np.uint8], sizes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what counts are worth in passages of these sizes, without the rarity of their term."""
    times = counts.astype(np.float32)
    return (times * (K1 + 1) / (times + sizes)).astype(np.float32, copy=False)
