"""Small candidates, evidence, blocks and results; each test names only what it is about."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from lookup_tool.contracts import (
    CompletenessHint,
    ContextPack,
    EvidenceBlock,
    HintSummary,
    LineRange,
    LookupResult,
    RetrievalAttempt,
    RetrievalTrace,
)
from lookup_tool.schema import Candidate, QueryTerm, StoredPassage
from lookup_tool.stages.evidence import Evidence
from lookup_tool.stages.sections import Section
from lookup_tool.text import fold
from lookup_tool.text import terms as terms_of

_PASSAGE = StoredPassage(
    row=0,
    entry="a.md",
    source="a.md",
    title="Title",
    category="hr",
    breadcrumb=("Title",),
    text="Text.",
    lead="",
    joint="",
    start_line=1,
    end_line=1,
)


def passage(source: str = "a.md", **changes: Any) -> StoredPassage:
    return replace(_PASSAGE, source=source, entry=source.partition("#")[0], **changes)


_texts: dict[int, StoredPassage] = {}


def read(rows: Iterable[int]) -> dict[int, StoredPassage]:
    """Return the passages of candidates, by row, as a knowledge base does."""
    return {row: _texts[row] for row in rows}


def candidate(found: StoredPassage, similarity: float = 0.5, **changes: Any) -> Candidate:
    """Make a candidate, and keep its passage where `read` finds it, in place of an earlier one."""
    _texts[found.row] = found
    plain = Candidate(
        row=found.row,
        section=_number(found.source),
        text_id=hash(fold(found.lead + found.text)),
        similarity=similarity,
        bm25=0.0,
        entry_similarity=0.5,
        found_by=("vector",),
        in_text=frozenset(),
        in_heading=frozenset(),
        pairs=frozenset(),
        hints=(),
    )
    return replace(plain, **changes)


def _number(source: str) -> int:
    """Number sources in their order."""
    return int.from_bytes(source.encode().ljust(40, b"\0"))


def evidence(source: str = "a.md", **changes: Any) -> Evidence:
    """Make a block of one passage; `title` and `similarity`, say, are those of the passage."""
    duplicates = changes.pop("duplicates", ())
    own = {each.name: changes.pop(each.name) for each in fields(Section) if each.name in changes}
    of_passage = {
        each.name: changes.pop(each.name) for each in fields(StoredPassage) if each.name in changes
    }
    shown = passage(source, **of_passage)
    found = candidate(shown, **changes)
    section = Section(
        found=(found,),
        best=found,
        found_by=found.found_by,
        in_text=found.in_text,
        in_heading=found.in_heading,
        pairs=found.pairs,
        hints=found.hints,
        text_ids=(found.text_id,),
    )
    return Evidence(replace(section, **own), (shown,), duplicates)


def query_terms(*words: str, weight: float = 1.0) -> tuple[QueryTerm, ...]:
    return tuple(QueryTerm(terms_of(word)[0], word, weight) for word in words)


def block(source: str = "a.md", **changes: Any) -> EvidenceBlock:
    values: dict[str, Any] = {
        "title": "Title",
        "breadcrumb": ("Title",),
        "category": "hr",
        "content": "Text.",
        "similarity": 0.5,
        "score": 0.5,
        "rank": 1,
        "hit_reasons": ("vector",),
        "lines": LineRange(start=1, end=1),
    }
    return EvidenceBlock(source=source, **{**values, **changes})


def attempt(**changes: Any) -> RetrievalAttempt:
    values: dict[str, Any] = {
        "strategy": "unfiltered",
        "query": "a question",
        "filter": None,
        "reference_threshold": 0.45,
        "outcome": "accepted",
        "reason": "no_filter",
        "duration_ms": 1.0,
    }
    return RetrievalAttempt(**{**values, **changes})


def trace(**changes: Any) -> RetrievalTrace:
    values: dict[str, Any] = {
        "query": "a question",
        "query_length": 10,
        "query_cut": False,
        "transformed_query": "a question",
        "hints": HintSummary(),
        "attempts": (attempt(),),
        "answerability": 0.7,
        "knowledge_version": "v1",
        "embedder": "table",
        "invocation_id": "id-1",
    }
    return RetrievalTrace(**{**values, **changes})


def result(*blocks: EvidenceBlock, **changes: Any) -> LookupResult:
    values: dict[str, Any] = {
        "found": bool(blocks),
        "evidence_status": "sufficient" if blocks else "no_evidence",
        "message": "A message.",
        "relevance_level": "medium" if blocks else "none",
        "completeness_hint": CompletenessHint(level="none", note="nothing"),
        "evidence_blocks": blocks,
        "context_pack": ContextPack(budget=100),
        "retrieval_trace": trace(evidence_block_count=len(blocks)),
    }
    return LookupResult(**{**values, **changes})
