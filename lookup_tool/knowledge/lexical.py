"""L1: BM25 candidates, and which terms of a query stand in a passage.

Passages are tokenized once, when the knowledge base is built. A passage's terms are kept in order
(context first, then text), so that coverage and neighbourhood are read from arrays at query time.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s
import numpy as np
from bm25s.tokenization import Tokenized
from numpy.typing import NDArray

from lookup_tool.knowledge.tokens import STOP_WORDS, surface_terms, terms

logging.getLogger("bm25s").setLevel(logging.NOTSET)  # its import asks for every DEBUG message


@dataclass(frozen=True)
class QueryTerm:
    """One term of a query, in its place."""

    term: str
    """Stem or pair of characters, as indexed."""

    surface: str
    """As it stands in the query, folded."""

    weight: float
    """Inverse document frequency over the knowledge base; 0 for function words."""


@dataclass(frozen=True)
class TermMatches:
    """Which of m passages mention which of q query terms."""

    text: NDArray[np.bool_]
    """Shape (m, q): the term stands in the text."""

    heading: NDArray[np.bool_]
    """Shape (m, q): the term stands in the title or a heading."""

    pairs: NDArray[np.bool_]
    """Shape (m, q): the term and the next one stand side by side in the text."""


class LexicalIndex:
    """BM25 over passages, with their terms."""

    def __init__(
        self,
        bm25: bm25s.BM25 | None,
        ids: NDArray[np.int32],
        starts: NDArray[np.int64],
        heads: NDArray[np.int32],
    ) -> None:
        self._bm25 = bm25
        self._ids = ids
        self._starts = starts
        self._heads = heads
        self._vocabulary: dict[str, int] = {} if bm25 is None else bm25.vocab_dict

    @classmethod
    def build(cls, passages: Sequence[tuple[str, str]]) -> "LexicalIndex":
        """Index (context, text) pairs, in row order."""
        vocabulary: dict[str, int] = {}
        documents: list[list[int]] = []
        heads: list[int] = []
        for context, text in passages:
            head = terms(context)
            heads.append(len(head))
            documents.append(
                [vocabulary.setdefault(term, len(vocabulary)) for term in (*head, *terms(text))]
            )
        lengths = np.array([0, *map(len, documents)], dtype=np.int64)
        ids = np.array([i for document in documents for i in document], dtype=np.int32)
        bm25 = None
        if vocabulary:  # bm25s fails on an empty corpus
            bm25 = bm25s.BM25()
            bm25.index(Tokenized(ids=documents, vocab=vocabulary), show_progress=False)
        return cls(bm25, ids, np.cumsum(lengths), np.array(heads, dtype=np.int32))

    def save(self, folder: Path) -> None:
        """Write the index into a folder."""
        folder.mkdir()
        for name in ("ids", "starts", "heads"):
            np.save(folder / f"{name}.npy", getattr(self, f"_{name}"), allow_pickle=False)
        if self._bm25 is not None:
            self._bm25.save(folder / "bm25", show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> "LexicalIndex":
        """Open an index; its arrays stay on disk until they are read."""
        ids, starts, heads = (
            np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in ("ids", "starts", "heads")
        )
        bm25 = None
        if (folder / "bm25").exists():
            bm25 = bm25s.BM25.load(folder / "bm25", mmap=True, show_progress=False, verbosity=0)
        return cls(bm25, ids, starts, heads)

    def query_terms(self, query: str) -> tuple[QueryTerm, ...]:
        """Cut a query into terms and weigh them by their rarity."""
        weighed: list[QueryTerm] = []
        for surface, term in surface_terms(query):
            weight = 0.0 if surface in STOP_WORDS else self._rarity(term)
            weighed.append(QueryTerm(term, surface, round(weight, 6)))
        return tuple(weighed)

    def scores(self, query: Sequence[QueryTerm]) -> NDArray[np.float32]:
        """Return the BM25 score of every row, shape (n,); function words do not count."""
        wanted = dict.fromkeys(term.term for term in query if term.weight > 0)
        known = [self._vocabulary[term] for term in wanted if term in self._vocabulary]
        if self._bm25 is None or not known:
            return np.zeros(len(self._heads), dtype=np.float32)
        return self._bm25.get_scores_from_ids(known)

    @staticmethod
    def best(scores: NDArray[np.float32], slices: Sequence[slice], k: int) -> NDArray[np.int64]:
        """Return the rows with the best positive scores in these slices, at most k, best first."""
        if k == 0 or not slices:
            return np.zeros(0, dtype=np.int64)
        rows = np.concatenate([np.flatnonzero(scores[part]) + part.start for part in slices])
        values = scores[rows]
        if len(rows) > k:
            # Everything that ties with the last place stays in, so that ties go by row.
            least = np.partition(values, len(rows) - k)[len(rows) - k]
            rows, values = rows[values >= least], values[values >= least]
        return rows[np.lexsort((rows, -values))[:k]]

    def matches(self, rows: NDArray[np.int64], query: Sequence[QueryTerm]) -> TermMatches:
        """Find which query terms stand in each row, shape (len(rows), len(query))."""
        shape = (len(rows), len(query))
        found = TermMatches(*(np.zeros(shape, dtype=np.bool_) for _ in range(3)))
        wanted = np.array([self._vocabulary.get(term.term, -1) for term in query], dtype=np.int32)
        if not len(rows) or not len(query):
            return found
        lengths = self._starts[rows + 1] - self._starts[rows]
        owner = np.repeat(np.arange(len(rows)), lengths)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        flat = self._ids[np.repeat(self._starts[rows], lengths) + offset]
        in_text = offset >= np.repeat(self._heads[rows], lengths)
        for place, term in enumerate(wanted):
            if term < 0:
                continue
            at = np.flatnonzero(flat == term)
            found.text[owner[at[in_text[at]]], place] = True
            found.heading[owner[at[~in_text[at]]], place] = True
            if place + 1 < len(wanted) and wanted[place + 1] >= 0:
                at = at[at + 1 < len(flat)]
                beside = (flat[at + 1] == wanted[place + 1]) & (owner[at + 1] == owner[at])
                found.pairs[owner[at[beside & in_text[at]]], place] = True
        return found

    def _rarity(self, term: str) -> float:
        """Inverse document frequency as in BM25 (Robertson and Sparck Jones), never negative."""
        count = len(self._heads)
        frequency = 0
        known = self._vocabulary.get(term)
        if self._bm25 is not None and known is not None:
            pointers = self._bm25.scores["indptr"]
            frequency = int(pointers[known + 1] - pointers[known])
        return float(np.log1p((count - frequency + 0.5) / (frequency + 0.5)))
