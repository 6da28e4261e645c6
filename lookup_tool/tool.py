"""`lookup_knowledge` as a LangChain tool: the graph behind one argument, and the error boundary.

What the model sees is text, or search results. The result contract is the message's artifact, as
plain JSON types. Nothing that goes wrong inside ends an agent's run: it becomes `unavailable`.
"""

from typing import Any, get_args

from langchain_core.tools import StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lookup_tool.config import (
    Groups,
    LookupConfig,
    LookupContext,
    WhoAsks,
    who_asks,
)
from lookup_tool.content import Content, ContentFormat, content_of
from lookup_tool.conversation import already_asked, as_repeated
from lookup_tool.errors import ConfigurationError
from lookup_tool.graph.app import TOOL_NAME, open_traces
from lookup_tool.graph.lookup import Lookup
from lookup_tool.graph.progress import ReportingContext
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.threads import threads_of
from lookup_tool.traces import TraceStore

DESCRIPTION = (
    "Look up what the documents of this knowledge base say. Call it before you answer any question "
    "whose answer may stand in them, with the question in plain words, one question a call. It "
    "returns passages with their sources: answer from these passages only, and name the sources. "
    "When it says that there is no evidence, the documents do not answer the question: call it "
    "once more with other words, or tell the user so. Never fill the gap from memory, and do not "
    "repeat the same query."
)


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
    content_format: ContentFormat = "text",
) -> StructuredTool:
    """Wrap a knowledge base as a tool for agents.

    Args:
        knowledge: Where to look.
        config: Settings; by default what we ship.
        traces: Store for the trace rows, or its URL; by default `traces.sqlite` in the knowledge
            base, in memory for a knowledge base in memory.
        groups: The caller's access groups, or a function of the tool's runtime that returns them
            (it gets None outside an agent); by default the `groups` of the runtime's context, else
            none: public entries only. A context is trusted: on a server whose clients send their
            own, give a function that asks somebody else.
        name: Name of the tool.
        description: Tells the model when to call it and what a miss means.
        content_format: `text`, or `search_result`: content blocks that Anthropic's models cite. A
            miss is text in both.

    Returns:
        A tool whose content is for the model and whose artifact is the result contract as plain
        JSON types.

    Raises:
        ConfigurationError: There is no such content format, or the groups cannot be read.
    """
    if content_format not in get_args(ContentFormat):
        raise ConfigurationError(
            f"unknown content_format {content_format!r}: use {' or '.join(get_args(ContentFormat))}"
        )
    who = who_asks(groups)
    settings = config or LookupConfig()
    lookup = Lookup(knowledge, settings, open_traces(knowledge, traces), name)
    threads = threads_of(knowledge, f"await {name}", settings.retrieval.threads)

    def look_up(query: str, given: object) -> tuple[Content, dict[str, Any]]:
        # Agents inject it; anything else under its name comes from a caller and says nothing.
        runtime: ToolRuntime[Any, Any] | None = given if isinstance(given, ToolRuntime) else None
        result = lookup(query, lambda: _context(who, runtime, name))
        if runtime is not None and already_asked(query, name, runtime):
            result = as_repeated(result)
        return content_of(result, content_format), result.model_dump(mode="json")

    def call(
        query: str,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]
    ) -> tuple[Content, dict[str, Any]]:
        return look_up(query, runtime)

    async def acall(
        query: str,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]
    ) -> tuple[Content, dict[str, Any]]:
        return await threads.run(look_up, query, runtime)

    return StructuredTool.from_function(
        func=call,
        coroutine=acall,
        name=name,
        description=description or DESCRIPTION,
        args_schema=LookupArguments,
        response_format="content_and_artifact",
        handle_validation_error=_correction,
    )


def _context(who: WhoAsks, runtime: ToolRuntime[Any, Any] | None, name: str) -> LookupContext:
    """Say who asks; inside an agent, also where the progress goes."""
    caller = who(runtime)
    if runtime is None:
        return caller
    write = runtime.stream_writer
    return ReportingContext(
        groups=caller.groups, report=lambda event: write({"tool": name, **event})
    )


def _correction(error: ValidationError | Any) -> str:
    """Tell a model how to mend its call."""
    sent = "a missing `query`"
    if isinstance(error, ValidationError) and error.errors()[0]["type"] != "missing":
        sent = f"a `query` of type {type(error.errors()[0]['input']).__name__}"
    return (
        f"The call had {sent}. Call again with one argument: `query`, a string with the question."
    )
