"""What a model may do wrong, and what may go wrong inside a lookup: neither ends an agent's run.

Families: arguments that are missing, misnamed or of another type; queries without text; failures
at every place of a lookup, which end as `unavailable`, are recorded, and tell the model nothing of
what is inside.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from case_builders import DESK, USER, Make, agent, answers, calls, message_sources, through_agent
from embedders import HashEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.errors import GraphRecursionError
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupToolError,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)
from lookup_tool.config import PackConfig, QueryConfig, RecordConfig


class CountingEmbedder(HashEmbedder):
    """Keeps the queries, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []
        self.gives: Any = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [HashEmbedder.embed_query(self, text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        if isinstance(self.gives, BaseException):
            raise self.gives
        return super().embed_query(text) if self.gives is None else self.gives


@dataclass
class Desk:
    tool: StructuredTool
    knowledge: KnowledgeBase
    embedder: CountingEmbedder
    traces: TraceStore


@pytest.fixture
def desk(desk_path: Path, traces: TraceStore) -> Iterator[Desk]:
    embedder = CountingEmbedder()
    with KnowledgeBase.open(desk_path, embedder=embedder) as knowledge:
        yield Desk(create_lookup_tool(knowledge, traces=traces), knowledge, embedder, traces)


def through_node(tool: StructuredTool, says: AIMessage) -> list[ToolMessage]:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([tool]))
    graph.set_entry_point("tools")
    return answers(graph.compile().invoke({"messages": [says]}))


Through = Callable[[StructuredTool, AIMessage], list[ToolMessage]]
both = pytest.mark.parametrize("through", [through_node, through_agent], ids=["node", "agent"])

# D-02 Wrong or missing argument name; D-05 Query of the wrong type

WRONG: dict[str, Any] = {
    "D-02-q": {"q": "badge"},
    "D-02-nothing": {},
    "capital": {"Query": "badge"},
    "plural": {"queries": ["badge"]},
    "padded": {"query ": "badge"},
    "question": {"question": "badge"},
    "single-input": {"__arg1": "badge"},
    "wrapped": {"args": {"query": "badge"}},
    "our-own-names": {"runtime": None, "state": {}, "config": {}, "groups": ["board"]},
    "D-04-none": {"query": None},
    "D-05-list": {"query": ["badge", "lost"]},
    "D-05-number": {"query": 404},
    "D-05-object": {"query": {"text": "badge"}},
    "D-05-bool": {"query": True},
    "float": {"query": 1.5},
    "nan": {"query": float("nan")},
    "empty-list": {"query": []},
    "nested": {"query": [[["badge"]]]},
    "schema": {"query": {"type": "string", "description": "badge"}},
}


@both
@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_a_wrong_call_is_told_what_to_send(desk: Desk, through: Through, arguments: Any) -> None:
    (answer,) = through(desk.tool, calls(arguments))

    assert answer.status == "error"
    assert "Call again with one argument: `query`, a string" in answer.text
    assert (desk.embedder.queries, desk.traces.count()) == ([], 0)
    assert answer.text == desk.tool.invoke(arguments)


def test_a_corrected_model_gets_its_evidence_in_the_same_run(desk: Desk) -> None:
    says = [calls({"q": "badge"}), calls({"query": None}), calls({"query": "badge"})]

    told = answers(agent(desk.tool, *says).invoke(USER))

    assert [message.status for message in told] == ["error", "error", "success"]
    assert message_sources(told[-1]) == ["badge.md"]


@pytest.fixture(scope="module")
def unasked(desk_path: Path) -> Iterator[StructuredTool]:
    with KnowledgeBase.open(desk_path, embedder=HashEmbedder()) as knowledge:
        store = TraceStore("sqlite://")
        yield create_lookup_tool(knowledge, traces=store)
        assert store.count() == 0
        store.close()


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(value=values)
def test_no_value_but_text_is_ever_searched(unasked: StructuredTool, value: Any) -> None:
    call = {"name": unasked.name, "args": {"query": value}, "id": "1", "type": "tool_call"}

    answer = unasked.invoke(call)

    assert answer.status == "error"
    assert "`query`, a string" in answer.text


NO_QUERY: dict[str, Any] = {
    "nothing": {},
    "q": {"q": "badge"},
    "none": {"query": None},
    "number": {"query": 404},
}


@pytest.mark.parametrize("given", NO_QUERY.values(), ids=NO_QUERY)
def test_the_graph_refuses_what_is_no_query_and_names_the_field(desk: Desk, given: Any) -> None:
    with pytest.raises((LookupToolError, ValueError, TypeError), match="query"):
        build_lookup_graph(desk.knowledge, traces=desk.traces).invoke(given)


# D-04 None or empty query from the model

BLANK = ["", " ", "\n\t\r", "\u3000", "\u00a0", "\u200b", "\ufeff", "\u00ad", "\u2060 \u200d"]


@both
@pytest.mark.parametrize("query", BLANK, ids=["D-04-empty", *map(ascii, BLANK[1:])])
def test_a_blank_query_is_told_so_without_a_search(
    desk: Desk, through: Through, query: str
) -> None:
    (answer,) = through(desk.tool, calls({"query": query}))

    assert answer.text == "The query is empty: call again with the question in plain words."
    assert answer.artifact["retrievalTrace"]["attempts"] == []
    assert (desk.embedder.queries, desk.traces.count()) == ([], 1)


# D-17 Failure inside the tool

ERRORS: dict[str, Any] = {
    "D-17": ConnectionError("https://internal.example/secret"),
    "timeout": TimeoutError("secret"),
    "runtime": RuntimeError("secret"),
    "memory": MemoryError("secret"),
    "key": KeyError("secret"),
    "stop": StopIteration("secret"),
    "stop-async": StopAsyncIteration("secret"),
    "recursion": RecursionError("secret"),
    "framework": GraphRecursionError("secret"),
    "disk": OSError(28, "secret"),
}
VECTORS: dict[str, Any] = {
    "nothing": [],
    "nan": [float("nan")] * 256,
    "infinite": [float("inf")] * 256,
    "zero": [0.0] * 256,
    "short": [1.0],
    "text": "secret",
    "texts": ["secret"] * 256,
    "nested": [[1.0] * 256],
    "number": 1.0,
}


@pytest.mark.parametrize("gives", [*ERRORS.values(), *VECTORS.values()], ids=[*ERRORS, *VECTORS])
def test_a_failing_embedder_does_not_end_the_run(
    desk: Desk, caplog: pytest.LogCaptureFixture, gives: Any
) -> None:
    """There is no flag that lets the exception through: its traceback is in the log."""
    desk.embedder.gives = gives

    (answer,) = through_agent(desk.tool, calls({"query": "badge"}))

    assert_failed(answer)
    (row,) = desk.traces.rows()
    error = answer.artifact["retrievalTrace"]["error"]
    assert (row.evidence_status, row.retrieval_details["error"]) == ("unavailable", error)
    assert not isinstance(gives, Exception) or error == type(gives).__name__
    assert [
        str(r.exc_info[0].__name__) for r in caplog.records if r.exc_info and r.exc_info[0]
    ] == [error]


def assert_failed(answer: ToolMessage) -> None:
    assert answer.artifact["evidenceStatus"] == "unavailable"
    assert answer.artifact["found"] is False
    assert "The lookup failed; this does not mean that there is nothing." in answer.text
    assert "secret" not in answer.model_dump_json()


def fail(*_: Any) -> Any:
    raise ConnectionError("secret")


PLACES: dict[str, dict[str, Any]] = {
    "transform": {"config": LookupConfig(query=QueryConfig(transform=fail))},
    "transform-no-text": {"config": LookupConfig(query=QueryConfig(transform=lambda _: 5))},  # type: ignore[arg-type,return-value]
    "count": {"config": LookupConfig(pack=PackConfig(count_tokens=fail))},
    "groups": {"groups": fail},
}


@both
@pytest.mark.parametrize("options", PLACES.values(), ids=PLACES)
def test_a_failure_anywhere_else_does_not_end_the_run_either(
    desk: Desk, through: Through, options: dict[str, Any]
) -> None:
    tool = create_lookup_tool(desk.knowledge, traces=desk.traces, **options)

    (answer,) = through(tool, calls({"query": "badge"}))

    assert_failed(answer)
    (row,) = desk.traces.rows()
    assert row.retrieval_details["error"] == answer.artifact["retrievalTrace"]["error"] is not None


def test_a_closed_knowledge_base_does_not_end_the_run(make: Make, traces: TraceStore) -> None:
    knowledge = make(DESK, HashEmbedder())
    tool = create_lookup_tool(knowledge, traces=traces)
    knowledge.close()

    (answer,) = through_agent(tool, calls({"query": "badge"}))

    assert_failed(answer)
    assert traces.count() == 1


def test_a_failing_redaction_costs_the_row_and_not_the_answer(desk: Desk) -> None:
    config = LookupConfig(record=RecordConfig(redact=fail))
    tool = create_lookup_tool(desk.knowledge, traces=desk.traces, config=config)

    (answer,) = through_agent(tool, calls({"query": "badge"}))

    assert message_sources(answer) == ["badge.md"]
    assert answer.artifact["retrievalTrace"]["recordError"] == "ConnectionError"


def test_an_interrupt_from_the_keyboard_is_let_through(desk: Desk) -> None:
    desk.embedder.gives = KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        desk.tool.invoke("badge")
