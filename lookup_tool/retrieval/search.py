"""Search one generation: vector and BM25 candidates, with everything that later stages judge by.

Candidates are numbers: the texts of most of them are never needed, and are not read here.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lookup_tool.engines.local.segments import Where
from lookup_tool.engines.local.snapshot import Snapshot
from lookup_tool.engines.local.vectors import similarities
from lookup_tool.schema import (
    DIGITS,
    MAX_COPIES,
    Candidate,
    HintMatch,
    SearchRequest,
    SearchResult,
)

_FOUND_BY: dict[tuple[bool, bool], tuple[str, ...]] = {
    (True, True): ("vector", "lexical"),
    (True, False): ("vector",),
    (False, True): ("lexical",),
    (False, False): (),
}


def search(snapshot: Snapshot, vector: NDArray[np.float32], request: SearchRequest) -> SearchResult:
    """Find the passages nearest to a vector and those with the best BM25 scores.

    Args:
        snapshot: The generation.
        vector: Unit vector of the query, shape (d,).
        request: What is searched, and for whom.
    """
    terms = snapshot.lexical.query_terms(request.query, (hint.text for hint in request.hints))
    permitted = snapshot.permitted(request.groups)
    hidden = None if request.hidden is None else snapshot.store.number(request.hidden, permitted)
    where = Where(request.groups, request.category, hidden)
    slices = snapshot.segments.slices(where)
    by_vector = _distinct(
        lambda k: snapshot.vectors.search(vector, k, where)[0], snapshot, request.candidates
    )
    by_bm25 = _distinct(
        lambda k: snapshot.lexical.search(terms, slices, k), snapshot, request.lexical_candidates
    )
    also = snapshot.segments.rows(request.also, request.groups)
    rows = np.unique(np.concatenate([by_vector, by_bm25, also]))
    matches = snapshot.lexical.matches(rows, terms)
    nearest, best = set(by_vector.tolist()), set(by_bm25.tolist())
    entries = snapshot.entries[rows]
    hints = _entry_hints(snapshot, entries.tolist(), request.hints)
    columns = zip(  # in the order of the fields
        snapshot.segments.numbers(rows, request.groups).tolist(),
        np.unique(snapshot.sections[rows], return_inverse=True)[1].tolist(),
        snapshot.text_ids[rows].tolist(),
        snapshot.vectors.similarity(vector, rows).tolist(),
        matches.bm25.astype(np.float64).round(DIGITS).tolist(),
        similarities(snapshot.entry_vectors[entries], vector).tolist(),
        [_FOUND_BY[row in nearest, row in best] for row in rows.tolist()],
        _places(matches.text),
        _places(matches.heading),
        _places(matches.pairs),
        [hints.get(entry, ()) for entry in entries.tolist()],
        strict=True,
    )
    candidates = [Candidate(*each) for each in columns]
    candidates.sort(key=lambda found: (-found.similarity, found.row))
    top = _top_similarity(snapshot, vector, request.groups) if request.probe else None
    return SearchResult(terms, tuple(candidates), top)


def _top_similarity(
    snapshot: Snapshot, vector: NDArray[np.float32], groups: frozenset[str]
) -> float | None:
    """Return the best similarity among everything that these groups may see."""
    _, similarities = snapshot.vectors.search(vector, 1, Where(groups))
    return float(similarities[0]) if len(similarities) else None


def _distinct(
    find: Callable[[int], NDArray[np.int64]], snapshot: Snapshot, k: int
) -> NDArray[np.int64]:
    """Return the best rows of k different texts, so that copies of one do not crowd out others.

    Args:
        find: Returns the best rows, best first, at most as many as it is asked for.
        snapshot: The generation.
        k: Texts wanted.

    Returns:
        Rows, best first; of one text at most `MAX_COPIES`.
    """
    wanted = k
    rows = find(wanted)
    while len(rows) == wanted and len(np.unique(snapshot.text_ids[rows])) < k:
        wanted *= 2
        rows = find(wanted)
    copies: dict[int, int] = {}
    kept: list[int] = []
    for row, text in zip(rows.tolist(), snapshot.text_ids[rows].tolist(), strict=True):
        if text in copies or len(copies) < k:
            copies[text] = copies.get(text, 0) + 1
            if copies[text] <= MAX_COPIES:
                kept.append(row)
    return np.array(kept, dtype=np.int64)


def _places(flags: NDArray[np.bool_]) -> list[frozenset[int]]:
    """Return, for each row of flags, the places that are set."""
    places: list[list[int]] = [[] for _ in range(len(flags))]
    for row, place in zip(*(axis.tolist() for axis in np.nonzero(flags)), strict=True):
        places[row].append(place)
    return [frozenset(row) for row in places]


def _entry_hints(
    snapshot: Snapshot, entries: Sequence[int], matches: Sequence[HintMatch]
) -> dict[int, tuple[str, ...]]:
    """Return the recognized phrases that stand in each entry, for those that have any."""
    if not matches:
        return {}
    keys = {match.key for match in matches if match.kind != "category"}
    named = (match.categories for match in matches if match.kind == "category")
    categories = {category for those in named for category in those if category is not None}
    return snapshot.store.entry_hints(keys, categories, set(entries))
