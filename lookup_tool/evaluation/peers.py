"""What a user would pick instead: BM25, dense search, and their reciprocal rank fusion.

They rank the same passages with the same embedder and the same BM25 as the lookups, in the same
run. A section or an entry stands where its first passage does. Each list is `DEPTH` texts deep, so
that ten different entries can be told apart; the fusion takes the first 50 passages of each.
"""

from collections.abc import Callable, Mapping, Sequence

from lookup_tool.evaluation.report import Peer
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import Candidate, SearchRequest, StoredPassage

DEPTH = 200
FUSED = 50
RRF_CONSTANT = 60
"""Cormack, Clarke and Buettcher, Reciprocal Rank Fusion outperforms Condorcet, SIGIR 2009."""


def rank_passages(
    knowledge: KnowledgeBase, query: str, groups: frozenset[str] = frozenset()
) -> Mapping[Peer, Sequence[StoredPassage]]:
    """Return the passages of a query in the order of each peer, best first."""
    request = SearchRequest(query, groups, candidates=DEPTH, lexical_candidates=DEPTH)
    view = knowledge.view()
    candidates = view.search(request).candidates
    passages = view.passages([found.row for found in candidates], groups)
    bm25 = [passages[row] for row in _ordered(candidates, "lexical", lambda found: found.bm25)]
    dense = [
        passages[row] for row in _ordered(candidates, "vector", lambda found: found.similarity)
    ]
    return {"bm25": bm25, "dense": dense, "rrf": fuse(bm25, dense)}


def fuse(*lists: Sequence[StoredPassage]) -> list[StoredPassage]:
    """Fuse ranked lists: a passage scores 1 / (60 + its rank) in each; ties by row."""
    scores: dict[int, float] = {}
    passages: dict[int, StoredPassage] = {}
    for ranked in lists:
        for rank, passage in enumerate(ranked[:FUSED], start=1):
            scores[passage.row] = scores.get(passage.row, 0.0) + 1.0 / (RRF_CONSTANT + rank)
            passages[passage.row] = passage
    return sorted(passages.values(), key=lambda passage: (-scores[passage.row], passage.row))


def _ordered(
    candidates: Sequence[Candidate], found_by: str, score: Callable[[Candidate], float]
) -> list[int]:
    found = [candidate for candidate in candidates if found_by in candidate.found_by]
    found.sort(key=lambda candidate: (-score(candidate), candidate.row))
    return [candidate.row for candidate in found]
