"""L1: BM25 candidates, and which terms of a query stand in a passage.

Passages are tokenized once, when the knowledge base is built. A passage's terms are kept in order
(context first, then text), so that coverage and neighbourhood are read from arrays at query time.

All statistics (how rare a term is, how long a passage usually is) are those of the public rows:
what a caller receives must not depend on texts that they may not see. That is why the postings are
ours: a library's index has the statistics of every row baked in.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np
import regex
from numpy.typing import DTypeLike, NDArray

from lookup_tool.engines.local.arrays import load_array, save_array
from lookup_tool.engines.local.damage import reading
from lookup_tool.engines.local.lexical_build import (
    HEADING_WEIGHT,
    PassageTerms,
    bm25_weights,
    bounded,
    index_terms,
)
from lookup_tool.engines.local.segments import places_of, rows_in
from lookup_tool.errors import KnowledgeDamagedError
from lookup_tool.schema import QueryTerm
from lookup_tool.text import PAIR, STOP_WORDS, surface_terms, terms

# A word with a digit, or in capitals.
_IDENTIFIER = regex.compile(r"(?<!\S)[^\s\p{Nd}]*+\p{Nd}\S*+|\b\p{Lu}[\p{Lu}.&]+\b")
_FEW = 3
_FEW_SHARE = 0.005
"""An identifier stands in at most this many passages, or this share of them."""

_SEAM_WEIGHT = 0.25
"""A pair of characters of an unspaced script that no passage holds is more often the seam between
two words than a word."""

_ROUNDINGS = 8
"""Of float32 numbers in a comparison, beside one a term that is added up."""


FILES = (
    *("vocabulary.json", "ids.npy", "starts.npy", "heads.npy", "sizes.npy", "frequency.npy"),
    *("posting_starts.npy", "posting_rows.npy", "posting_counts.npy", "posting_most.npy"),
    "public.npy",
)
"""What an index is saved in."""


@dataclass(frozen=True)
class TermMatches:
    """Which of m passages mention which of q query terms."""

    text: NDArray[np.bool_]
    """Shape (m, q): the term stands in the text."""

    heading: NDArray[np.bool_]
    """Shape (m, q): the term stands in the title or a heading."""

    pairs: NDArray[np.bool_]
    """Shape (m, q): the term and the next one stand side by side in the text."""

    bm25: NDArray[np.float32]
    """Shape (m,): BM25 scores; function words do not count."""


@dataclass(frozen=True)
class _Postings:
    """Where one term of a query stands."""

    rows: NDArray[np.int32]
    """Ascending, each once."""

    counts: NDArray[np.uint8]
    """How often it stands in each."""

    sizes: NDArray[np.float32]
    """Of all passages."""

    rarity: np.float32
    most: float
    """The largest score that it gives."""

    def within(self, slices: Sequence[slice]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return its rows in these slices, and their scores."""
        ends = places_of(slices, self.rows)
        rows = [self.rows[start:stop] for start, stop in ends]
        counts = [self.counts[start:stop] for start, stop in ends]
        if len(ends) == 1:  # everything, or a category: nothing to copy
            return rows[0], self._scores(rows[0], counts[0])
        together = np.concatenate(rows)
        return together, self._scores(together, np.concatenate(counts))

    def scores(self, rows: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return what it adds to the score of each of these rows."""
        places = self.rows.searchsorted(rows)
        places[places == len(self.rows)] = 0
        has = self.rows[places] == rows
        return self._scores(rows, np.where(has, self.counts[places], np.uint8(0)))

    def _scores(self, rows: NDArray[np.int32], counts: NDArray[np.uint8]) -> NDArray[np.float32]:
        return self.rarity * bm25_weights(counts, self.sizes[rows])


class LexicalIndex:
    """BM25 over passages, with their terms."""

    def __init__(self, vocabulary: dict[str, int], **arrays: NDArray[Any]) -> None:
        """Bind the arrays of an index; use `build` or `load`.

        Args:
            vocabulary: Number of each term.
            arrays: `ids` are the terms of all passages, one after the other, `starts` where each
                passage begins in them, `heads` how many of them are context, and `sizes` how much
                its length dampens its counts. The postings of a term are `posting_rows` and
                `posting_counts` from `posting_starts[term]` on, and `posting_most` is the largest
                of its weights; `frequency` is in how many public passages a term stands, 0 for an
                unknown one at the end, and `public` how many public passages there are.
        """
        self._vocabulary = vocabulary
        self._arrays = arrays
        self._ids = arrays["ids"]
        self._starts = arrays["starts"]
        self._heads = arrays["heads"]
        self._posting_starts = arrays["posting_starts"]
        self._posting_rows = arrays["posting_rows"]
        self._posting_counts = arrays["posting_counts"]
        self._posting_most = arrays["posting_most"]
        self._frequency = arrays["frequency"]
        self._public = int(arrays["public"][0])
        self._sizes = arrays["sizes"]

    @classmethod
    def build(
        cls,
        passages: Iterable[tuple[str, str]],
        public: int | None = None,
        earlier: "LexicalIndex | None" = None,
        rows: Sequence[int] | None = None,
    ) -> "LexicalIndex":
        """Index (context, text) pairs, in row order.

        Args:
            passages: The pairs.
            public: How many of them, at the beginning, are public and give the statistics; by
                default all.
            earlier: An index that has the terms of some of them already.
            rows: The row of each pair there; -1 for one that it does not have.

        Returns:
            The same index, byte for byte, with or without an earlier one.
        """
        known = None if earlier is None else earlier.passage_terms
        kept, arrays = index_terms(passages, public, known, rows)
        return cls(kept.vocabulary, ids=kept.ids, starts=kept.starts, heads=kept.heads, **arrays)

    @property
    def passage_terms(self) -> PassageTerms:
        """The terms of all passages, in order."""
        return PassageTerms(self._vocabulary, self._ids, self._starts, self._heads)

    def save(self, folder: Path) -> None:
        """Write the index into a new folder."""
        folder.mkdir()
        # As few bytes a term as its number takes: these are most of the index.
        narrow = self._ids.astype(np.min_scalar_type(len(self._vocabulary)))
        for name, array in (self._arrays | {"ids": narrow}).items():
            save_array(folder / f"{name}.npy", array)
        vocabulary = json.dumps(list(self._vocabulary), ensure_ascii=False)
        (folder / "vocabulary.json").write_text(vocabulary, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, passages: int) -> "LexicalIndex":
        """Open an index; its arrays stay on disk until they are read.

        Args:
            folder: Where it was saved.
            passages: How many it must have.

        Raises:
            KnowledgeDamagedError: A file cannot be read, or does not fit the others.
        """

        def array(name: str, dtype: DTypeLike, length: int) -> NDArray[Any]:
            return load_array(folder / f"{name}.npy", dtype, (length,))

        vocabulary = _read_vocabulary(folder / "vocabulary.json")
        terms = len(vocabulary)
        starts = _ascending(folder / "starts.npy", passages)
        posting_starts = _ascending(folder / "posting_starts.npy", terms)
        postings = int(posting_starts[-1])
        return cls(
            vocabulary,
            ids=array("ids", np.min_scalar_type(terms), int(starts[-1])),
            starts=starts,
            heads=array("heads", np.int32, passages),
            posting_starts=posting_starts,
            posting_rows=array("posting_rows", np.int32, postings),
            posting_counts=array("posting_counts", np.uint8, postings),
            posting_most=array("posting_most", np.float32, terms),
            frequency=array("frequency", np.int32, terms + 1),
            public=array("public", np.int64, 1),
            sizes=array("sizes", np.float32, passages),
        )

    def misfit(self) -> str | None:
        """Read every array, and name the first one with values that the others have no room for."""
        fits = {
            "ids": _within(self._ids, len(self._vocabulary)),
            "heads": bool(
                (self._heads >= 0).all() and (self._heads <= np.diff(self._starts)).all()
            ),
            "posting_rows": _within(self._posting_rows, len(self._heads)),
            "public": 0 <= self._public <= len(self._heads),
        }
        return next((name for name, is_fine in fits.items() if not is_fine), None)

    def query_terms(self, query: str, recognized: Iterable[str] = ()) -> tuple[QueryTerm, ...]:
        """Cut a query into terms and weigh them by their rarity.

        Args:
            query: Any text.
            recognized: Phrases that L0 found in it.
        """
        hinted = {term for phrase in recognized for term in terms(phrase)}
        weighed: list[QueryTerm] = []
        names = {term for word in _IDENTIFIER.findall(query) for term in terms(word)}
        names = set() if query.isupper() else names
        few = max(_FEW, _FEW_SHARE * self._public)
        for surface, term in surface_terms(query):
            frequency = int(self._frequency[self._vocabulary.get(term, -1)])
            weight = 0.0 if surface in STOP_WORDS else self._rarity(frequency)
            if not frequency and PAIR.fullmatch(term):
                weight *= _SEAM_WEIGHT
            named = term in names and weight > 0 and frequency <= few
            weighed.append(
                QueryTerm(
                    term,
                    surface,
                    round(weight, 6),
                    identifier=named,
                    metadata_only=term in hinted and not frequency,
                )
            )
        return tuple(weighed)

    def search(
        self, query: Sequence[QueryTerm], slices: Sequence[slice], k: int
    ) -> NDArray[np.int64]:
        """Return the rows with the best BM25 scores in these slices, at most k, best first.

        Terms are taken rarest first. Once the k-th best row has more than the terms that are left
        can give, rows without a term taken so far cannot come in, and the frequent terms, whose
        postings are most of all, are only looked up for the rows that still can (MaxScore: Turtle
        and Flood, Query evaluation: strategies and optimizations, 1995). The result is that of
        scoring every row.

        Args:
            query: Terms of the query; function words do not count.
            slices: Where to search, ascending.
            k: Most rows to return.

        Returns:
            Rows with a positive score, ties by row.
        """
        if k == 0 or not slices:
            return np.zeros(0, dtype=np.int64)
        postings = [self._postings(number) for number in self._counted(query)]
        left = [each.most for each in postings]
        # What float32 sums lose against the bounds, which are added up in float64, is less.
        exact = 1 - (len(postings) + _ROUNDINGS) * float(np.finfo(np.float32).eps)
        rows, sums, least = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32), 0.0
        for place, each in enumerate(postings):
            if least > sum(left):
                kept = sums + np.float32(sum(left)) >= least
                rows = rows[kept]
                sums = sums[kept] + each.scores(rows)
            else:
                rows, sums = _added(rows, sums, *each.within(slices))
            left[place] = 0.0
            if len(rows) >= k:
                least = float(np.partition(sums, -k)[-k]) * exact
        return rows[np.lexsort((rows, -sums))[:k]].astype(np.int64)

    def _counted(self, query: Sequence[QueryTerm]) -> list[int]:
        """Return the numbers of the terms that count, each once, rarest first.

        Scores are added up in this order everywhere. How rare a term is, the public rows say: the
        last digit of a score must not tell of others.
        """
        known = [self._vocabulary.get(term.term, -1) for term in query if term.weight > 0]
        numbers = dict.fromkeys(number for number in known if number >= 0)
        return sorted(numbers, key=lambda number: int(self._frequency[number]))

    def _postings(self, number: int) -> "_Postings":
        start, stop = self._posting_starts[number : number + 2]
        rarity = np.float32(self._rarity(int(self._frequency[number])))
        return _Postings(
            self._posting_rows[start:stop],
            self._posting_counts[start:stop],
            self._sizes,
            rarity,
            float(rarity * self._posting_most[number]),
        )

    def rows_with(self, text: str, slices: Sequence[slice]) -> NDArray[np.int32]:
        """Return the rows in these slices that have every term of a text, ascending.

        Title and headings count as well. A text without terms has no rows.
        """
        found = [self._rows_of(term) for term in dict.fromkeys(terms(text))]
        if not found:
            return np.zeros(0, dtype=np.int32)
        # The rarest in these slices: other rows are not even gone through.
        first, *others = sorted(found, key=lambda rows: rows_in(rows, slices))
        ends = places_of(slices, first)
        permitted = np.concatenate([first[start:stop] for start, stop in ends] or [first[:0]])
        return reduce(_both, others, permitted)

    def _rows_of(self, term: str) -> NDArray[np.int32]:
        number = self._vocabulary.get(term)
        if number is None:
            return np.zeros(0, dtype=np.int32)
        start, stop = self._posting_starts[number : number + 2]
        return self._posting_rows[start:stop]

    def _rarity(self, frequency: int) -> float:
        """Return the inverse document frequency; one is added so that it is positive."""
        return log1p((self._public - frequency + 0.5) / (frequency + 0.5))

    def matches(self, rows: NDArray[np.int64], query: Sequence[QueryTerm]) -> TermMatches:
        """Find which query terms stand in each row, shape (len(rows), len(query))."""
        shape = (len(rows), len(query))
        found = TermMatches(
            *(np.zeros(shape, dtype=np.bool_) for _ in range(3)),
            bm25=np.zeros(len(rows), dtype=np.float32),
        )
        if not len(rows) or not len(query):
            return found
        heads, lengths = self._heads[rows], self._starts[rows + 1] - self._starts[rows]
        owner = np.repeat(np.arange(len(rows)), lengths)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        flat = self._ids[np.repeat(self._starts[rows], lengths) + offset]
        in_text = offset >= np.repeat(heads, lengths)
        times = np.where(in_text, 1, HEADING_WEIGHT)
        wanted = [self._vocabulary.get(term.term, -1) for term in query]
        for place, term in enumerate(wanted):
            if term < 0:
                continue
            at = np.flatnonzero(flat == term)
            found.text[owner[at[in_text[at]]], place] = True
            found.heading[owner[at[~in_text[at]]], place] = True
            if place + 1 < len(wanted) and wanted[place + 1] >= 0:
                beside = at[at + 1 < len(flat)]
                beside = beside[flat[beside + 1] == wanted[place + 1]]
                beside = beside[(owner[beside + 1] == owner[beside]) & in_text[beside]]
                found.pairs[owner[beside], place] = True
        sizes = self._sizes[rows]
        for term in self._counted(query):
            at = np.flatnonzero(flat == term)
            counts = bounded(np.bincount(owner[at], times[at], len(rows)).astype(np.int64))
            rarity = np.float32(self._rarity(int(self._frequency[term])))
            found.bm25[:] += rarity * bm25_weights(counts, sizes)
        return found


def _read_vocabulary(path: Path) -> dict[str, int]:
    with reading(path):
        terms = json.loads(path.read_text(encoding="utf-8"))
        numbers = {term: number for number, term in enumerate(terms)}
        if (
            not isinstance(terms, list)
            or len(numbers) < len(terms)
            or not set(map(type, terms)) <= {str}
        ):
            raise KnowledgeDamagedError(path, "is no list of different terms")
    return numbers


def _ascending(path: Path, count: int) -> NDArray[np.int64]:
    """Load where each of several runs begins, and where the last one ends.

    Values out of order would have a search set aside memory for runs of any length.
    """
    starts = load_array(path, np.int64, (count + 1,))
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        raise KnowledgeDamagedError(path, "is not in order")
    return starts


def _within(numbers: NDArray[Any], stop: int) -> bool:
    return not numbers.size or bool(numbers.min() >= 0 and numbers.max() < stop)


def _added(
    rows: NDArray[np.int32],
    sums: NDArray[np.float32],
    more_rows: NDArray[np.int32],
    more: NDArray[np.float32],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Add the scores of one more term to those of ascending rows."""
    if not len(rows) or not len(more_rows):
        return (more_rows, more) if len(more_rows) else (rows, sums)
    rows, sums = np.concatenate([rows, more_rows]), np.concatenate([sums, more])
    order = np.argsort(rows, kind="stable")  # merges two runs that are in order
    rows, sums = rows[order], sums[order]
    again = np.flatnonzero(rows[1:] == rows[:-1])
    sums[again] += sums[again + 1]
    kept = np.ones(len(rows), dtype=np.bool_)
    kept[again + 1] = False
    return rows[kept], sums[kept]


def _both(some: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return what stands in two ordered arrays; the first one is gone through."""
    places = np.searchsorted(others, some)
    inside = places < len(others)
    return some[inside][others[places[inside]] == some[inside]]
