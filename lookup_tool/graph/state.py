"""What flows through the machine.

Concrete types only: LangGraph derives from them what a checkpoint may restore. No reducers: a
thread may run the graph again, and the first node resets what later ones extend.
"""

from typing import Annotated

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
from lookup_tool.knowledge.hints import QueryHints
from lookup_tool.knowledge.search import SearchResult
from lookup_tool.knowledge.view import View
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

    version: str
    """Of that generation."""

    invocation_id: str
    started: float
    """`time.perf_counter()` at the start, in seconds."""

    transformed: TransformedQuery
    hints: QueryHints
    plan: Plan
    found: SearchResult
    attempts: tuple[RetrievalAttempt, ...]
    evidence: EvidenceSet
    blocks: tuple[EvidenceBlock, ...]
    rerank_trace: RerankTrace
    pack: ContextPack
    result: LookupResult
    timings: tuple[StageTiming, ...]


class LookupOutput(TypedDict):
    """What the caller gets."""

    result: LookupResult
