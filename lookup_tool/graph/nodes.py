"""The nodes: each reads the state, calls its stage and returns the keys that it wrote."""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from time import perf_counter
from typing import cast

from lookup_tool.config import LookupConfig, LookupContext, WhoAsks, caller_of, groups_of
from lookup_tool.contracts import (
    ContextPack,
    FallbackReason,
    HintSummary,
    LookupResult,
    RerankTrace,
    RetrievalTrace,
    StageTiming,
)
from lookup_tool.errors import ConfigurationError
from lookup_tool.graph.scope import Work, hash_generation, hash_scope
from lookup_tool.graph.state import LookupState
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import DIGITS, HintKind, QueryHints, SearchRequest, SearchResult
from lookup_tool.stages.assemble import Findings, assemble
from lookup_tool.stages.evidence import (
    Criteria,
    EvidenceSet,
    read_evidence,
    usable_sections,
)
from lookup_tool.stages.pack import pack
from lookup_tool.stages.record import record
from lookup_tool.stages.rerank import rerank
from lookup_tool.stages.retrieve import FALLBACKS, count_texts, retrieve
from lookup_tool.stages.transform import plan, transform
from lookup_tool.traces import TraceStore

logger = logging.getLogger(__name__)


def timed(work: Work) -> Work:
    """Let a node add its wall time to `timings`."""

    @wraps(work)
    def run(state: LookupState, caller: LookupContext) -> LookupState:
        started = perf_counter()
        update = work(state, caller)
        before = update["timings"] if "timings" in update else state["timings"]
        return {**update, "timings": (*before, _timing(work.__name__, started))}

    return run


@dataclass(frozen=True)
class LookupNodes:
    """The nodes of one graph, bound to what they depend on."""

    knowledge: KnowledgeBase
    config: LookupConfig
    traces: TraceStore | None
    tool_name: str
    who_asks: WhoAsks = caller_of

    def transform_query(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Clean the query, recognize hints, decide how to search, and reset the thread's state."""
        started = perf_counter()
        query = state.get("query")
        if not isinstance(query, str):
            raise ConfigurationError(
                f"the graph needs a `query`, a string; it got {type(query).__name__}"
            )
        transformed = transform(query, self.config.query)
        enabled = self.config.hints.enabled
        view = self.knowledge.view()
        hints = view.hints(transformed.text, groups_of(caller)) if enabled else QueryHints()
        invocation_id = uuid.uuid4().hex
        return {
            "view": view,
            "generation": hash_generation(view.generation, invocation_id),
            "scope": hash_scope(caller, view.generation, invocation_id),
            "invocation_id": invocation_id,
            "started": started,
            "transformed": transformed,
            "hints": hints,
            "plan": plan(transformed, hints, self.config),
            "found": SearchResult(),
            "terms": (),
            "candidate_count": 0,
            "query_cut": False,
            "attempts": (),
            "evidence": EvidenceSet(),
            "blocks": (),
            "rerank_trace": RerankTrace(),
            "pack": ContextPack(budget=self.config.pack.budget, unit=self.config.pack.unit),
            "result": cast("LookupResult", None),
            "timings": (),
        }

    def retrieve_filtered(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Search the category that the hints agree on, with the transformed query."""
        hints = state["hints"]
        request = self._request(state["transformed"].text, state, caller)
        request = replace(request, category=hints.category, category_name=hints.category_name)
        return self._search(request, f"category_filter: {hints.because}", state)

    def retrieve_unfiltered(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Search everything permitted; after a filtered attempt, with the raw query."""
        attempts = state["attempts"]
        query = state["transformed"].raw if attempts else state["transformed"].text
        reason = FALLBACKS[attempts[-1].outcome] if attempts else "no_filter"
        return self._search(self._request(query, state, caller), reason, state)

    def build_evidence(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Turn candidates into evidence, and note in the attempt how much there is."""
        found, view, groups = state["found"], state["view"], groups_of(caller)
        is_declared = self.config.retrieval.reference_threshold is not None
        criteria = Criteria(
            rule=view.thresholds.rule,
            passages=view.count(groups),
            minimum_answerability=self.config.evidence.minimum_answerability,
            evidence_floor=self._evidence_floor(state),
            good_enough=self._reference_threshold(state) if is_declared else None,
        )
        sections, answerability = usable_sections(found.candidates, found.terms, criteria)
        *before, last = state["attempts"]
        outcome, error = last.outcome, None
        try:
            blocks = read_evidence(sections, partial(view.passages, groups=groups))
            outcome = outcome if blocks else "no_evidence"
        except Exception as problem:  # a damaged file, as in a search
            logger.warning("the evidence cannot be read", exc_info=problem)
            blocks, outcome, error = (), "error", type(problem).__name__
        noted = last.model_copy(
            update={"evidence_count": len(blocks), "outcome": outcome, "error": error}
        )
        evidence = EvidenceSet(blocks, answerability)
        return {"evidence": evidence, "attempts": (*before, noted)}

    def rerank_evidence(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Order the evidence, and keep the best."""
        blocks, trace = rerank(
            state["evidence"].blocks,
            state["terms"],
            state["hints"].matches,
            self.config.rerank,
            self.config.evidence.max_blocks,
        )
        return {"blocks": blocks, "rerank_trace": trace}

    def pack_context(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Pack the evidence for the agent."""
        return {"pack": pack(state["blocks"], self.config.pack)}

    def assemble_result(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Put the result together."""
        findings = Findings(
            trace=self._trace(state, groups_of(caller)),
            terms=tuple(state["terms"]),
            evidence=tuple(state["evidence"].blocks),
            blocks=tuple(state["blocks"]),
            rerank_trace=state["rerank_trace"],
            pack=state["pack"],
            searched=state["view"].count(groups_of(caller)),
            retrieval_enabled=self.config.retrieval.enabled,
        )
        return {"result": assemble(findings, self.config.assemble)}

    def record_trace(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Write the trace row; add this node's own time, and what went wrong, to the result."""
        started = perf_counter()
        result = state["result"]
        trace = result.retrieval_trace.model_copy(
            update=_durations(state["timings"], state["started"])
        )
        error = record(
            result.model_copy(update={"retrieval_trace": trace}),
            self.traces,
            self.tool_name,
            self.config.record,
        )
        timings = (*state["timings"], _timing("record_trace", started))
        trace = trace.model_copy(
            update={**_durations(timings, state["started"]), "record_error": error}
        )
        return {"result": result.model_copy(update={"retrieval_trace": trace})}

    def _reference_threshold(self, state: LookupState) -> float:
        own = state["view"].thresholds.reference_threshold
        return _rounded(self.config.retrieval.reference_threshold, own)

    @property
    def _reference_ratio(self) -> float | None:
        """A threshold that is set is final."""
        settings = self.config.retrieval
        return settings.reference_ratio if settings.reference_threshold is None else None

    def _evidence_floor(self, state: LookupState) -> float:
        own = state["view"].thresholds.evidence_floor
        return _rounded(self.config.retrieval.evidence_floor, own)

    def _request(self, query: str, state: LookupState, caller: LookupContext) -> SearchRequest:
        return SearchRequest(
            query=query,
            groups=groups_of(caller),
            candidates=self.config.retrieval.candidates,
            lexical_candidates=self.config.retrieval.lexical_candidates,
            hints=tuple(state["hints"].matches),
        )

    def _search(self, request: SearchRequest, reason: str, state: LookupState) -> LookupState:
        retrieved = retrieve(
            state["view"].search,
            request,
            reason,
            self._reference_threshold(state),
            state["found"].candidates,
            self._reference_ratio,
        )
        found = retrieved.found
        return {
            "found": found,
            "terms": found.terms,
            "candidate_count": count_texts(found.candidates),
            "query_cut": found.query_cut,
            "attempts": (*state["attempts"], retrieved.attempt),
        }

    def _trace(self, state: LookupState, groups: frozenset[str]) -> RetrievalTrace:
        attempts = tuple(state["attempts"])
        searched = any(attempt.outcome != "error" for attempt in attempts)
        fallback: FallbackReason | None = FALLBACKS[attempts[0].outcome] if attempts[1:] else None
        transformed = state["transformed"]
        return RetrievalTrace(
            query=transformed.raw,
            query_length=transformed.length,
            query_cut=transformed.cut or state["query_cut"],
            transformed_query=transformed.text,
            hints=_summary(state["hints"]),
            attempts=attempts,
            fallback_reason=fallback,
            candidate_count=state["candidate_count"],
            evidence_block_count=len(state["blocks"]),
            answerability=state["evidence"].answerability if searched else None,
            knowledge_version=state["view"].version_for(groups),
            embedder=state["view"].embedder,
            invocation_id=state["invocation_id"],
            error=attempts[-1].error if attempts else None,
        )


def _rounded(configured: float | None, own: float) -> float:
    """Return a threshold with as many digits as a similarity has, so that equal ones compare so."""
    return round(own if configured is None else configured, DIGITS)


def _summary(hints: QueryHints) -> HintSummary:
    def texts(kind: HintKind) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.text for m in hints.matches if m.kind == kind))

    return HintSummary(
        titles=hints.titles,
        keywords=texts("keyword"),
        categories=tuple(name for _, name in hints.category_names),
        entities=texts("entity"),
        entry_count=hints.entry_count,
    )


def _timing(stage: str, started: float) -> StageTiming:
    return StageTiming(stage=stage, duration_ms=round((perf_counter() - started) * 1000, 3))


def _durations(timings: Sequence[StageTiming], started: float) -> dict[str, object]:
    """Return the whole duration, and timings that add up to it."""
    whole = round((perf_counter() - started) * 1000, 3)
    rest = round(whole - sum(timing.duration_ms for timing in timings), 3)
    framework = StageTiming(stage="framework", duration_ms=rest)
    return {"duration_ms": whole, "timings": (*timings, framework)}
