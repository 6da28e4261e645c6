"""Write the trace row: compact, bounded, without the documents' content."""

import json
import logging
from typing import Any

from lookup_tool.config import RecordConfig
from lookup_tool.contracts import EvidenceBlock, LookupResult
from lookup_tool.errors import TraceStoreError
from lookup_tool.traces import TraceRow, TraceStore

logger = logging.getLogger(__name__)

_MAX_TEXT = 120
"""Characters of any one text in the details."""

_MAX_HINTS = 20


def record(
    result: LookupResult, store: TraceStore | None, tool_name: str, config: RecordConfig
) -> str | None:
    """Write the row of one lookup; a failure never costs the answer.

    Returns:
        Why it could not be written; None when it was, or when there is no store.
    """
    if store is None:
        return None
    try:
        store.record(trace_row(result, tool_name, config))
    except TraceStoreError as error:
        logger.warning("the lookup could not be recorded: %s", error)
        return str(error)
    except Exception as error:  # `redact` is the user's code and may raise anything
        logger.warning("the lookup could not be recorded", exc_info=error)
        return type(error).__name__
    return None


def trace_row(result: LookupResult, tool_name: str, config: RecordConfig) -> TraceRow:
    """Summarize a result in one row, at most `max_bytes` of details."""
    trace = result.retrieval_trace
    return TraceRow(
        invocation_id=trace.invocation_id,
        tool_name=tool_name,
        query=_redacted(trace.query, config),
        found=result.found,
        evidence_status=result.evidence_status,
        fallback_reason=trace.fallback_reason,
        candidate_count=trace.candidate_count,
        evidence_block_count=trace.evidence_block_count,
        duration_ms=trace.duration_ms,
        knowledge_version=trace.knowledge_version,
        retrieval_details=_bounded(result, config),
    )


def _bounded(result: LookupResult, config: RecordConfig) -> dict[str, Any]:
    """Leave out evidence summaries, last first, then hints, until the details are small enough."""
    for hints in (_MAX_HINTS, 0):
        for blocks in range(len(result.evidence_blocks), -1, -1):
            details = _details(result, config, blocks, hints)
            if len(json.dumps(details, ensure_ascii=False).encode()) <= config.max_bytes:
                return details
    return {"evidenceBlockCount": result.retrieval_trace.evidence_block_count, "truncated": True}


def _details(result: LookupResult, config: RecordConfig, blocks: int, hints: int) -> dict[str, Any]:
    trace = result.retrieval_trace
    attempts: list[dict[str, Any]] = []
    for attempt in trace.attempts:
        dumped = attempt.model_dump(mode="json")
        dumped["query"] = _short(_redacted(attempt.query, config))
        dumped["reason"] = _short(attempt.reason)
        dumped["filter"] = attempt.filter and {k: _short(v) for k, v in attempt.filter.items()}
        attempts.append(dumped)
    recognized = trace.hints.model_dump(mode="json")
    for name in ("titles", "keywords", "categories", "entities"):
        recognized[name] = [_short(text) for text in recognized[name][:hints]]
    details: dict[str, Any] = {
        "transformedQuery": _short(_redacted(trace.transformed_query, config)),
        "queryLength": trace.query_length,
        "queryCut": trace.query_cut,
        "hints": recognized,
        "attempts": attempts,
        "fallbackReason": trace.fallback_reason,
        "error": trace.error,
        "candidateCount": trace.candidate_count,
        "evidenceBlockCount": trace.evidence_block_count,
        "answerability": trace.answerability,
        "relevanceLevel": result.relevance_level,
        "embedder": _short(trace.embedder),
        "evidence": [_summary(block, config) for block in result.evidence_blocks[:blocks]],
        "timings": [timing.model_dump(mode="json") for timing in trace.timings],
    }
    if blocks < len(result.evidence_blocks) or hints < _MAX_HINTS:
        details["truncated"] = True
    return details


def _summary(block: EvidenceBlock, config: RecordConfig) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "rank": block.rank,
        "source": _short(block.source),
        "title": _short(block.title or ""),
        "retrievalLayer": block.retrieval_layer,
        "similarity": block.similarity,
        "score": block.score,
        "hitReasons": [_short(reason) for reason in block.hit_reasons[:_MAX_HINTS]],
    }
    if config.excerpt_chars:
        summary["excerpt"] = " ".join(block.content.split())[: config.excerpt_chars]
    return summary


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def _redacted(text: str, config: RecordConfig) -> str:
    return config.redact(text) if config.redact is not None else text
