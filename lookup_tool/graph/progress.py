"""What a lookup tells while it runs: one small event a stage, on LangGraph's `custom` stream.

An event is `{"stage", "invocationId", "durationMs"}` and the stage's counts, plain JSON types; no
text of an entry is in it. To tell more of a stage, change its line in `COUNTS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any, Protocol

from langgraph.runtime import Runtime
from langgraph.types import StreamWriter

from lookup_tool.config import LookupContext
from lookup_tool.graph.state import LookupState


class Node(Protocol):
    """A node of the graph."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, state: LookupState, *, runtime: Runtime[LookupContext]) -> LookupState:
        """Return the keys that it wrote."""
        ...


@dataclass(frozen=True, kw_only=True)
class ReportingContext(LookupContext):
    """Who asks, and where the events go.

    LangGraph drops what an inner graph writes unless the outermost caller streams its subgraphs; a
    tool hands its own writer on, which is heard either way.
    """

    report: StreamWriter


def _search(update: LookupState) -> dict[str, Any]:
    attempt = update["attempts"][-1]
    return {
        "candidateCount": attempt.candidate_count,
        "topSimilarity": attempt.top_similarity,
        "outcome": attempt.outcome,
    }


COUNTS: Mapping[str, Callable[[LookupState], dict[str, Any]]] = {
    "transform_query": lambda update: {
        "plan": update["plan"],
        "hintedEntryCount": update["hints"].entry_count,
    },
    "retrieve_filtered": _search,
    "retrieve_unfiltered": _search,
    "build_evidence": lambda update: {"evidenceCount": len(update["evidence"].blocks)},
    "rerank_evidence": lambda update: {"evidenceBlockCount": len(update["blocks"])},
    "pack_context": lambda update: {
        "includedCount": len(update["pack"].included),
        "omittedCount": len(update["pack"].omitted),
        "used": update["pack"].used,
    },
    "assemble_result": lambda update: {"evidenceStatus": update["result"].evidence_status},
    "record_trace": lambda update: {
        "recorded": update["result"].retrieval_trace.record_error is None
    },
}
"""What each stage tells, from the keys that it wrote."""


def reported(node: Node) -> Node:
    """Let a node send its event when it is done."""
    stage, counts = node.__name__, COUNTS[node.__name__]

    @wraps(node)
    def run(state: LookupState, *, runtime: Runtime[LookupContext]) -> LookupState:
        started = perf_counter()
        update = node(state, runtime=runtime)
        context = runtime.context
        write = context.report if isinstance(context, ReportingContext) else runtime.stream_writer
        invocation_id = update.get("invocation_id") or state["invocation_id"]
        duration = round((perf_counter() - started) * 1000, 3)
        event = {"stage": stage, "invocationId": invocation_id, "durationMs": duration}
        write(event | counts(update))
        return update

    return run
