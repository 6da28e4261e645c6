"""Write the trace row: compact, bounded, without the documents' content."""

import json
import logging
from typing import Any

from lookup_tool.config import RecordConfig
from lookup_tool.contracts import EvidenceBlock, HintSummary, LookupResult, RetrievalAttempt
from lookup_tool.errors import TraceStoreError
from lookup_tool.text import encodable
from lookup_tool.traces import TraceRow, TraceStore

logger = logging.getLogger(__name__)

_MAX_TEXT = 120
"""Characters of any one text in the details."""

_MAX_HINTS = 20


def record(
    result: LookupResult, store: TraceStore | None, tool_name: str, config: RecordConfig
) -> str | None:
    """Write the row of one lookup; a failure never costs the answer, nor a delay.

    Returns:
        Why it is not written, without a path or a URL, for it goes to whoever asked; the log has
        the rest. None when it is or will be written, or when there is no store.
    """
    if store is None:
        return None
    try:
        store.record(trace_row(result, tool_name, config))
        store.prune_now_and_then(config.keep_rows, config.keep_days)
    except TraceStoreError as error:  # which the store has logged
        return f"{TraceStoreError.__name__}: {error.reason}"
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
        retrieval_details=_bounded(_details(result, config), config.max_bytes),
    )


def _bounded(details: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """Leave out evidence summaries, last first, then hints, until the details are small enough."""
    while len(json.dumps(details, ensure_ascii=False).encode()) > max_bytes:
        if details.get("evidence"):
            details = {**details, "evidence": details["evidence"][:-1], "truncated": True}
        elif details.get("hints"):
            details = {**details, "hints": {}}
        else:
            count = details["evidenceBlockCount"]
            return {"evidenceBlockCount": count, "truncated": True}
    return details


def _details(result: LookupResult, config: RecordConfig) -> dict[str, Any]:
    trace = result.retrieval_trace
    return {
        "transformedQuery": _short(_redacted(trace.transformed_query, config)),
        "queryLength": trace.query_length,
        "queryCut": trace.query_cut,
        "hints": _hints(trace.hints, config),
        "attempts": [_attempt(attempt, config) for attempt in trace.attempts],
        "fallbackReason": trace.fallback_reason,
        "error": trace.error,
        "candidateCount": trace.candidate_count,
        "evidenceBlockCount": trace.evidence_block_count,
        "answerability": trace.answerability,
        "relevanceLevel": result.relevance_level,
        "embedder": _short(trace.embedder),
        "evidence": [_summary(block, config) for block in result.evidence_blocks],
        "timings": [timing.model_dump(mode="json") for timing in trace.timings],
    }


def _hints(hints: HintSummary, config: RecordConfig) -> dict[str, Any]:
    """Keep what was recognized; where queries are redacted, only how much: it is their words."""
    dumped: dict[str, Any] = hints.model_dump(mode="json")
    if config.redact is not None:
        return {"entryCount": hints.entry_count}
    for name in ("titles", "keywords", "categories", "entities"):
        dumped[name] = [_short(text) for text in dumped[name][:_MAX_HINTS]]
    return dumped


def _attempt(attempt: RetrievalAttempt, config: RecordConfig) -> dict[str, Any]:
    chosen = attempt.filter and {name: _short(value) for name, value in attempt.filter.items()}
    return {
        **attempt.model_dump(mode="json"),
        "query": _short(_redacted(attempt.query, config)),
        "reason": _reason(attempt.reason, config),
        "filter": chosen,
    }


def _summary(block: EvidenceBlock, config: RecordConfig) -> dict[str, Any]:
    reasons = (_reason(reason, config) for reason in block.hit_reasons[:_MAX_HINTS])
    summary: dict[str, Any] = {
        "rank": block.rank,
        "source": _short(block.source),
        "title": _short(block.title or ""),
        "retrievalLayer": block.retrieval_layer,
        "similarity": block.similarity,
        "score": block.score,
        "hitReasons": list(dict.fromkeys(reasons)),
    }
    if config.excerpt_chars:
        summary["excerpt"] = " ".join(block.content.split())[: config.excerpt_chars]
    return summary


def _reason(reason: str, config: RecordConfig) -> str:
    """Shorten a reason; where queries are redacted, keep its kind alone."""
    return _short(reason if config.redact is None else reason.partition(":")[0])


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def _redacted(text: str, config: RecordConfig) -> str:
    return text if config.redact is None else encodable(config.redact(text) or "")
