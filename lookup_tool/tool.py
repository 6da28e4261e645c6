"""`lookup_knowledge` as a LangChain tool: the graph behind one argument, and the error boundary.

What the model sees is text. The result contract is the message's artifact, as plain JSON types.
Nothing that goes wrong inside ends an agent's run: it comes back as `unavailable`.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection
from typing import Any

from langchain_core.tools import StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lookup_tool.config import LookupConfig, LookupContext, as_groups, groups_of
from lookup_tool.contracts import HintSummary, LookupResult, RetrievalTrace
from lookup_tool.graph.app import TOOL_NAME, open_traces
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.knowledge.base import KnowledgeBase
from lookup_tool.stages.assemble import Findings, assemble
from lookup_tool.stages.record import record
from lookup_tool.stages.transform import transform
from lookup_tool.traces import TraceStore

logger = logging.getLogger(__name__)

DESCRIPTION = (
    "Look up what the documents of this knowledge base say. Call it before you answer any question "
    "whose answer may stand in them, with the question in plain words, one question a call. It "
    "returns passages with their sources: answer from these passages only, and name the sources. "
    "When it says that there is no evidence, the documents do not answer the question: call it "
    "once more with other words, or tell the user so. Never fill the gap from memory, and do not "
    "repeat the same query."
)

RECURSION_LIMIT = 25
"""Steps of one lookup are at most 9; without a limit of its own, the caller's would apply."""

Groups = Collection[str] | Callable[[ToolRuntime[Any, Any] | None], Collection[str]]


class LookupArguments(BaseModel):
    """What a model may send; anything else that it sends is ignored."""

    model_config = ConfigDict(extra="ignore")

    query: str = Field(description="The question, in plain words.")


def create_lookup_tool(  # noqa: PLR0913 - the options of the one way in
    knowledge: KnowledgeBase,
    *,
    config: LookupConfig | None = None,
    traces: TraceStore | str | None = None,
    groups: Groups | None = None,
    name: str = TOOL_NAME,
    description: str | None = None,
) -> StructuredTool:
    """Wrap a knowledge base as a tool for agents.

    Args:
        knowledge: Where to look.
        config: Settings; by default what we ship.
        traces: Store for the trace rows, or its URL; by default `traces.sqlite` in the knowledge
            base, in memory for a knowledge base in memory.
        groups: The caller's access groups, or a function of the tool's runtime that returns them;
            by default the `groups` of the runtime's context, else none: public entries only.
        name: Name of the tool.
        description: Tells the model when to call it and what a miss means.

    Returns:
        A tool whose content is text for the model and whose artifact is the result contract as
        plain JSON types.
    """
    settings = config or LookupConfig()
    store = open_traces(knowledge, traces)
    lookup = _Lookup(knowledge, settings, store, groups, name)

    def call(
        query: str,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]
    ) -> tuple[str, dict[str, Any]]:
        return lookup(query, runtime)

    async def acall(
        query: str,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]
    ) -> tuple[str, dict[str, Any]]:
        return await asyncio.to_thread(lookup, query, runtime)

    return StructuredTool.from_function(
        func=call,
        coroutine=acall,
        name=name,
        description=description or DESCRIPTION,
        args_schema=LookupArguments,
        response_format="content_and_artifact",
        handle_validation_error=_correction,
    )


class _Lookup:
    """One lookup, with the error boundary around it."""

    def __init__(
        self,
        knowledge: KnowledgeBase,
        config: LookupConfig,
        traces: TraceStore,
        groups: Groups | None,
        name: str,
    ) -> None:
        self._knowledge = knowledge
        self._config = config
        self._traces = traces
        self._groups = groups
        self._name = name
        nodes = LookupNodes(knowledge, config, traces, name)
        self._graph = draw(nodes).compile(checkpointer=False, name=name)

    def __call__(
        self, query: str, runtime: ToolRuntime[Any, Any] | None
    ) -> tuple[str, dict[str, Any]]:
        try:
            context = LookupContext(groups=tuple(sorted(self._caller_groups(runtime))))
            state = self._graph.invoke(
                {"query": query}, {"recursion_limit": RECURSION_LIMIT}, context=context
            )
            result: LookupResult = state["result"]
        except Exception as error:
            logger.exception("%s failed", self._name)
            result = self._unavailable(query, error)
        return content_of(result), result.model_dump(mode="json")

    def _caller_groups(self, runtime: ToolRuntime[Any, Any] | None) -> frozenset[str]:
        if callable(self._groups):
            return as_groups(self._groups(runtime))
        if self._groups is not None:
            return as_groups(self._groups)
        return groups_of(None if runtime is None else runtime.context)

    def _unavailable(self, query: str, error: Exception) -> LookupResult:
        """Build and record the result of a lookup that failed outside its searches."""
        prepared = transform(query, self._config.query.model_copy(update={"transform": None}))
        trace = RetrievalTrace(
            query=prepared.raw,
            query_length=prepared.length,
            query_cut=prepared.cut,
            transformed_query=prepared.text,
            hints=HintSummary(),
            knowledge_version=self._knowledge.version_for(frozenset()),
            embedder=self._knowledge.embedder,
            invocation_id=uuid.uuid4().hex,
            error=type(error).__name__,
        )
        result = assemble(Findings(trace=trace), self._config.assemble)
        failure = record(result, self._traces, self._name, self._config.record)
        trace = trace.model_copy(update={"record_error": failure})
        return result.model_copy(update={"retrieval_trace": trace})


def content_of(result: LookupResult) -> str:
    """Return what the model sees: a status line and the packed evidence, or the message alone."""
    if not result.context_pack.included:
        return result.message
    missing = result.completeness_hint.missing_terms
    note = f" Not mentioned in the evidence: {', '.join(missing)}." if missing else ""
    return f"{result.message}{note}\n\n{result.context_pack.text}"


def _correction(error: ValidationError | Any) -> str:
    """Tell a model how to mend its call."""
    sent = "a missing `query`"
    if isinstance(error, ValidationError) and error.errors()[0]["type"] != "missing":
        sent = f"a `query` of type {type(error.errors()[0]['input']).__name__}"
    return (
        f"The call had {sent}. Call again with one argument: `query`, a string with the question."
    )
