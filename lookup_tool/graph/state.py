"""What flows through the machine.

Concrete types only: LangGraph derives from them what a checkpoint may restore. No reducers: a
thread may run the graph again, and the first node resets what later ones extend.
"""

from typing import Annotated, Any, get_type_hints

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from lookup_tool.contracts import (
    ContextPack,
    EvidenceBlock,
    LookupResult,
    RerankTrace,
    RetrievalAttempt,
    StageTiming,
)
from lookup_tool.retrieval.view import View
from lookup_tool.schema import QueryHints, QueryTerm, SearchResult
from lookup_tool.stages.evidence import EvidenceSet
from lookup_tool.stages.transform import Plan, TransformedQuery


class LookupInput(TypedDict):
    """What the caller gives."""

    query: str


class LookupState(TypedDict, total=False):
    """Everything that the stages hand on."""

    query: str
    view: Annotated[View, UntrackedValue]
    """The generation that this lookup uses from beginning to end; never in a checkpoint."""

    generation: str
    scope: str
    """Marks of the generation and of the caller: a run goes on with the same ones only."""

    invocation_id: str
    started: float
    """`time.perf_counter()` at the start, in seconds."""

    transformed: TransformedQuery
    hints: QueryHints
    plan: Plan
    found: SearchResult
    """By far the largest part: only the nodes that need it read it."""

    terms: tuple[QueryTerm, ...]
    """Terms of the query that was searched for last."""

    candidate_count: int
    """Different texts that post-processing receives."""

    query_cut: bool
    """The embedder read only the query's ends."""

    attempts: tuple[RetrievalAttempt, ...]
    evidence: EvidenceSet
    blocks: tuple[EvidenceBlock, ...]
    rerank_trace: RerankTrace
    pack: ContextPack
    result: LookupResult
    """None until it is put together: the one of the turn before is gone."""

    timings: tuple[StageTiming, ...]


BEGUN = ("view", "generation", "scope", "invocation_id", "timings")
"""Keys that every node after the first reads: it goes on only with the same ones."""


class Planned(TypedDict):
    """What decides after the query is prepared."""

    plan: Plan


class Attempted(TypedDict):
    """What decides after a search."""

    attempts: tuple[RetrievalAttempt, ...]


class Judged(Attempted):
    """What decides after post-processing."""

    evidence: EvidenceSet


class LookupOutput(TypedDict):
    """What the caller gets."""

    result: LookupResult


def reads(*keys: str) -> type[Any]:
    """Narrow the state to what one node reads.

    LangGraph hands a node the whole state otherwise, and tracers keep a copy of it for each.
    """
    hints = get_type_hints(LookupState, include_extras=True)
    narrow: Any = TypedDict  # its static form takes only literal keys
    return narrow("Reads", {key: hints[key] for key in keys})
