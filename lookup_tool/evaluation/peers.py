"""What a user would pick instead: BM25, dense search, and their reciprocal rank fusion.

They rank the same passages with the same embedder and the same BM25 as the lookups, in the same
run. A section or an entry stands where its first passage does. Each list is `DEPTH` texts deep, so
that ten different entries can be told apart; the fusion takes the first 50 passages of each.

`fill_budget` puts their passages into the budget that evidence is packed into.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from lookup_tool.config import PackConfig
from lookup_tool.contracts import EvidenceBlock, LineRange
from lookup_tool.evaluation.delivery import PackedText
from lookup_tool.evaluation.report import Peer
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import Candidate, SearchRequest, StoredPassage
from lookup_tool.stages.pack import element
from lookup_tool.text import approximate_tokens

DEPTH = 200
FUSED = 50
RRF_CONSTANT = 60
"""Cormack, Clarke and Buettcher, Reciprocal Rank Fusion outperforms Condorcet, SIGIR 2009."""

HIT_REASONS: Mapping[Peer, tuple[str, ...]] = {
    "bm25": ("lexical",),
    "dense": ("vector",),
    "rrf": ("vector", "lexical"),
}
"""What a passage's header names, as that of an evidence block does."""


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


def fill_budget(peer: Peer, passages: Sequence[StoredPassage], config: PackConfig) -> PackedText:
    """Pack a ranking's passages while they fit, as a user of a plain retriever would.

    Each has the header of an evidence block. The first passage that does not fit whole, and those
    after it, are left out.
    """
    counted_tokens = config.count_tokens or approximate_tokens
    count = len if config.unit == "characters" else counted_tokens
    text, used = "", 0
    packed: list[StoredPassage] = []
    for rank, passage in enumerate(passages, start=1):
        block = _block(passage, rank, HIT_REASONS[peer])
        longer = f"{text}\n\n{element(block, block.content)}".lstrip("\n")
        if count(longer) > config.budget:
            break
        text, used = longer, ceil(count(longer))
        packed.append(passage)
    return PackedText(
        sections=tuple(frozenset({passage.source}) for passage in packed),
        entries=tuple(frozenset({passage.entry}) for passage in packed),
        used=used,
    )


def _block(passage: StoredPassage, rank: int, hit_reasons: tuple[str, ...]) -> EvidenceBlock:
    """Return the passage as a block; its similarity and score are not packed."""
    return EvidenceBlock(
        source=passage.source,
        title=passage.title,
        breadcrumb=passage.breadcrumb,
        category=passage.category,
        content=passage.lead + passage.text,
        similarity=0.0,
        score=0.0,
        rank=rank,
        hit_reasons=hit_reasons,
        lines=LineRange(start=passage.start_line, end=passage.end_line),
    )


def _ordered(
    candidates: Sequence[Candidate], found_by: str, score: Callable[[Candidate], float]
) -> list[int]:
    found = [candidate for candidate in candidates if found_by in candidate.found_by]
    found.sort(key=lambda candidate: (-score(candidate), candidate.row))
    return [candidate.row for candidate in found]
