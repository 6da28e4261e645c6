"""An agent with the tool, to try it in LangGraph Studio; without a model's key a script answers."""

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph.state import CompiledStateGraph

from lookup_tool.config import LookupContext
from lookup_tool.errors import MissingExtraError
from lookup_tool.graph.app import TOOL_NAME
from lookup_tool.studio import groups_on_server, knowledge, traces
from lookup_tool.tool import create_lookup_tool

NOTICE = (
    "(I am a script, not a language model: I look your question up once and quote the best "
    "passage. Set LOOKUP_MODEL for a real one.)"
)


class ScriptedModel(BaseChatModel):
    """Stands in for a chat model: calls the tool with the question, then quotes what it found."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":  # type: ignore[override]
        """Return itself: the script knows one tool."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        last = messages[-1]
        says = _answer(last) if isinstance(last, ToolMessage) else _ask(last)
        return ChatResult(generations=[ChatGeneration(message=says)])


def _ask(question: BaseMessage) -> AIMessage:
    call = {"name": TOOL_NAME, "args": {"query": question.text}, "id": f"lookup-{question.id}"}
    return AIMessage("", tool_calls=[call])


def _answer(looked_up: ToolMessage) -> AIMessage:
    """Quote the best block with its source, or pass on what the tool says instead."""
    result = looked_up.artifact
    if not result["found"]:
        return AIMessage(f"I have nothing to quote. The tool says: {looked_up.text}\n\n{NOTICE}")
    best = result["evidenceBlocks"][0]
    quoted = "\n".join(f"> {line}".rstrip() for line in best["content"].splitlines())
    return AIMessage(f"{quoted}\n\nSource: {best['source']}\n\n{NOTICE}")


def build_agent(model: str | None = None) -> CompiledStateGraph[Any, LookupContext, Any, Any]:
    """Compile an agent whose one tool is `lookup_knowledge`, over the knowledge base of Studio.

    Args:
        model: Its chat model, as `langchain.chat_models.init_chat_model` takes it
            (`anthropic:MODEL`); without one, a script that says that it is one.

    Raises:
        MissingExtraError: `langchain` is not installed.
    """
    try:
        from langchain.agents import create_agent  # noqa: PLC0415 - an extra
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("The agent in Studio", "agents") from error
    return create_agent(
        init_chat_model(model) if model else ScriptedModel(),
        tools=[create_lookup_tool(knowledge, traces=traces, groups=groups_on_server)],
        context_schema=LookupContext,
    )
