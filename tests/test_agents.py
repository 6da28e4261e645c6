"""The tool in whole agent runs: threads in a database, models that repeat themselves, outages."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from case_builders import USER, answers, calls
from checkpoints import restore_only_known_types
from embedders import HashEmbedder
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from lookup_tool import KnowledgeBase, LookupConfig, TraceStore, create_lookup_tool
from lookup_tool.config import RetrievalConfig

LEAVE = "How many days of annual leave do I get?"
BADGE = "I lost my badge, what must I do and what does a replacement cost?"
MISS = "May I bring my dog to the office?"
THREAD: Any = {"configurable": {"thread_id": "1"}}

Reply = Callable[[list[BaseMessage]], AIMessage]


class ReplyingModel(BaseChatModel):
    """A chat model that a function of the history speaks for."""

    reply: Reply

    @property
    def _llm_type(self) -> str:
        return "replying"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.reply(messages))])


def agent(tool: BaseTool, reply: Reply, **options: Any) -> Any:
    return create_agent(ReplyingModel(reply=reply), tools=[tool], **options)


def asks_what_the_user_asks(messages: list[BaseMessage]) -> AIMessage:
    last = messages[-1]
    return AIMessage("done") if isinstance(last, ToolMessage) else calls({"query": last.text})


@pytest.fixture
def tool_of_handbook(handbook: KnowledgeBase, traces: TraceStore) -> StructuredTool:
    return create_lookup_tool(handbook, traces=traces)


# Threads


@contextmanager
def in_memory(_: Path) -> Iterator[InMemorySaver]:
    yield InMemorySaver()


@contextmanager
def in_sqlite(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(path / "threads.sqlite")) as saver:
        yield saver


SAVERS = {"memory": in_memory, "sqlite": in_sqlite}


def said_in_turns(running: Any, run: Callable[[Any], dict[str, Any]]) -> list[list[Any]]:
    found = []
    for question in (LEAVE, MISS, BADGE):
        # With an id: LangGraph would give it one while another thread writes the message.
        state = run({"messages": [HumanMessage(question, id=question)]})
        found.append(answers(state))
    return found


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize("saver", SAVERS.values(), ids=SAVERS)
def test_turns_of_one_thread_keep_their_own_answers(
    tool_of_handbook: StructuredTool,
    tmp_path: Path,
    saver: Any,
    strict: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restore_only_known_types(monkeypatch, strict=strict)
    with saver(tmp_path) as checkpointer:
        running = agent(tool_of_handbook, asks_what_the_user_asks, checkpointer=checkpointer)

        first, second, third = said_in_turns(running, lambda given: running.invoke(given, THREAD))

        kept = answers(running.get_state(THREAD).values)
    assert [message.artifact["found"] for message in third] == [True, False, True]
    assert third[:2] == second
    assert second[:1] == first
    assert kept == third


async def test_an_async_agent_keeps_its_thread_in_sqlite(
    tool_of_handbook: StructuredTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_only_known_types(monkeypatch)
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        running = agent(tool_of_handbook, asks_what_the_user_asks, checkpointer=saver)

        for question in (LEAVE, LEAVE):
            await running.ainvoke({"messages": [HumanMessage(question)]}, THREAD)

        first, second = answers((await running.aget_state(THREAD)).values)
    assert first.artifact["evidenceBlocks"] == second.artifact["evidenceBlocks"]
    assert ["already asked" in message.text for message in (first, second)] == [False, True]


class EvenVersions(SqliteSaver):
    """Gives every version the same length, where the random part of the original varies."""

    def get_next_version(self, current: Any, channel: Any) -> str:
        return f"{int(str(current or '0')) + 1:032}"


def rows_and_bytes(saver: SqliteSaver) -> tuple[int, int]:
    columns = {
        "checkpoints": ("checkpoint_ns", "checkpoint", "metadata"),
        "writes": ("checkpoint_ns", "channel", "value"),
    }
    sizes = [
        size
        for table, names in columns.items()
        for (size,) in saver.conn.execute(
            f"SELECT {' + '.join(f'length(CAST({name} AS BLOB))' for name in names)} FROM {table}"
        )
    ]
    return len(sizes), sum(sizes)


def test_turns_add_to_the_database_what_a_trivial_tool_with_the_same_messages_adds(
    tool_of_handbook: StructuredTool, tmp_path: Path
) -> None:
    """Nothing of the inner graph is stored: no namespace, no state, no row of its own."""
    with EvenVersions.from_conn_string(str(tmp_path / "ours.sqlite")) as saver:
        running = agent(tool_of_handbook, asks_what_the_user_asks, checkpointer=saver)
        messages = said_in_turns(running, lambda given: running.invoke(given, THREAD))[-1]
        ours = rows_and_bytes(saver)
    again = iter(messages)

    @tool("lookup_knowledge", response_format="content_and_artifact")
    def trivial(query: str) -> tuple[Any, Any]:
        """Give what the real tool gave."""
        message = next(again)
        return message.content, message.artifact

    with EvenVersions.from_conn_string(str(tmp_path / "trivial.sqlite")) as saver:
        running = agent(trivial, asks_what_the_user_asks, checkpointer=saver)
        assert said_in_turns(running, lambda given: running.invoke(given, THREAD)) != []
        assert rows_and_bytes(saver) == ours


# Models that repeat themselves


def repeats_until_told(question: str) -> Reply:
    """Ask one question again and again, until the tool says that it was already asked."""

    def reply(messages: list[BaseMessage]) -> AIMessage:
        told = isinstance(messages[-1], ToolMessage) and "already asked" in messages[-1].text
        return AIMessage("I cannot find it.") if told else calls({"query": question})

    return reply


OFF = LookupConfig(retrieval=RetrievalConfig(enabled=False))
REPEATED = {
    "a miss": (MISS, LookupConfig(), "use other words, or tell the user"),
    "a hit": (LEAVE, LookupConfig(), "answer from the evidence"),
    "an outage": (LEAVE, OFF, "tell the user that the knowledge base is unavailable"),
    "nothing": ("", LookupConfig(), "call again with the question"),
}


@pytest.mark.parametrize(("question", "config", "step"), REPEATED.values(), ids=REPEATED)
def test_a_model_that_repeats_itself_is_stopped_at_its_second_call(
    handbook: KnowledgeBase, traces: TraceStore, question: str, config: LookupConfig, step: str
) -> None:
    tool = create_lookup_tool(handbook, traces=traces, config=config)
    running = agent(tool, repeats_until_told(question))

    for state in (running.invoke(USER), asyncio.run(running.ainvoke(USER))):
        first, second = answers(state)
        assert state["messages"][-1].text == "I cannot find it."
        assert "already asked" not in first.text
        assert step in second.text
        assert second.text.startswith(second.artifact["message"])
        assert second.artifact["message"].endswith(first.artifact["message"])
        assert second.artifact["evidenceBlocks"] == first.artifact["evidenceBlocks"]
    assert traces.count() == 4


def test_a_repeat_is_noticed_across_turns_and_not_across_threads(
    tool_of_handbook: StructuredTool,
) -> None:
    running = agent(tool_of_handbook, asks_what_the_user_asks, checkpointer=InMemorySaver())
    other: Any = {"configurable": {"thread_id": "2"}}

    states = [
        running.invoke({"messages": [HumanMessage(MISS)]}, thread)
        for thread in (THREAD, THREAD, other)
    ]

    told = [answers(state)[-1] for state in states]

    assert ["already asked" in message.text for message in told] == [False, True, False]


def test_of_equal_calls_made_at_once_the_first_is_no_repeat(
    tool_of_handbook: StructuredTool,
) -> None:
    def reply(messages: list[BaseMessage]) -> AIMessage:
        asks = calls({"query": MISS}, {"query": LEAVE}, {"query": f" {MISS.upper()}"})
        return AIMessage("done") if isinstance(messages[-1], ToolMessage) else asks

    told = answers(agent(tool_of_handbook, reply).invoke(USER))

    assert ["already asked" in message.text for message in told] == [False, False, True]


def test_a_wrong_call_is_not_a_question(tool_of_handbook: StructuredTool) -> None:
    says = iter([calls({"q": LEAVE}), calls({"query": LEAVE}), AIMessage("done")])

    told = answers(agent(tool_of_handbook, lambda _: next(says)).invoke(USER))

    assert [message.status for message in told] == ["error", "success"]
    assert "already asked" not in told[1].text


def test_a_miss_says_what_was_searched_and_what_to_do(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    """The filtered search comes first, and its category is named."""
    query = "Where is the badge of the Mars colony?"
    config = LookupConfig(retrieval=RetrievalConfig(lexical_candidates=0, evidence_floor=1))
    told = create_lookup_tool(handbook, traces=traces, config=config).invoke(query)

    count = handbook.count(frozenset())
    assert f"({count} passages were searched, those of the category 'it' first)" in told
    assert "try once with other words, or tell the user" in told


def test_an_outage_is_over_when_it_is_over(tmp_path: Path, traces: TraceStore) -> None:
    class Flaky(HashEmbedder):
        down = False

        def embed_query(self, text: str) -> list[float]:
            if self.down:
                raise ConnectionError
            return super().embed_query(text)

    embedder = Flaky()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Badges\nLost badges go to the desk.\n")
    with KnowledgeBase.build(tmp_path / "docs", tmp_path / "kb", embedder=embedder) as knowledge:
        tool = create_lookup_tool(knowledge, traces=traces)
        running = agent(tool, asks_what_the_user_asks, checkpointer=InMemorySaver())
        for embedder.down in (True, False):
            state = running.invoke({"messages": [HumanMessage("lost badges")]}, THREAD)

    assert [message.artifact["evidenceStatus"] for message in answers(state)] == [
        "unavailable",
        "sufficient",
    ]
