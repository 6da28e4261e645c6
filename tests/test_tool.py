"""The tool: every way to call it, what the model sees, and what never gets through."""

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pytest
from access import UNREADABLE
from conftest import Make
from embedders import HashEmbedder
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from typing_extensions import TypedDict

from lookup_tool import KnowledgeBase, TraceStore, create_lookup_tool
from lookup_tool.errors import ConfigurationError

PLAIN = "How many days of annual leave do I get?"
FALLBACK = "I lost my badge, what must I do and what does a replacement cost?"
MISS = "May I bring my dog to the office?"
SALARY = "What does band B3 pay?"


@pytest.fixture
def tool(handbook: KnowledgeBase, traces: TraceStore) -> StructuredTool:
    return create_lookup_tool(handbook, traces=traces)


def call(tool: StructuredTool, **arguments: Any) -> ToolMessage:
    return tool.invoke({"name": tool.name, "args": arguments, "id": "7", "type": "tool_call"})


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self


def calls(*arguments: dict[str, Any]) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": "lookup_knowledge", "args": args, "id": str(number)}
            for number, args in enumerate(arguments)
        ],
    )


def agent(tool: StructuredTool, says: AIMessage, **options: Any) -> Any:
    model = ScriptedModel(messages=iter([says, AIMessage("done")]))
    return create_agent(model, tools=[tool], **options)


def answers(state: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


USER: Any = {"messages": [("user", "hello")]}


def test_the_model_is_offered_one_required_argument(tool: StructuredTool) -> None:
    offered = convert_to_openai_tool(tool)["function"]

    assert offered["name"] == "lookup_knowledge"
    assert "no evidence" in offered["description"]
    assert offered["parameters"] == {
        "type": "object",
        "required": ["query"],
        "properties": {"query": {"type": "string", "description": "The question, in plain words."}},
    }


def test_three_ways_to_call_give_the_same_text(tool: StructuredTool) -> None:
    message = call(tool, query=PLAIN)

    assert message.tool_call_id == "7"
    assert message.content == tool.invoke(PLAIN) == tool.invoke({"query": PLAIN})
    assert message.content == asyncio.run(tool.ainvoke(PLAIN))


def test_the_artifact_is_the_result_as_plain_json(tool: StructuredTool) -> None:
    artifact = call(tool, query=FALLBACK).artifact

    assert json.loads(json.dumps(artifact, allow_nan=False)) == artifact
    assert artifact["retrievalTrace"]["fallbackReason"] == "filtered_vector_low_quality"


def test_a_miss_tells_the_model_what_to_do_next(tool: StructuredTool) -> None:
    message = call(tool, query=MISS)

    assert isinstance(message.content, str)
    assert message.content == message.artifact["message"]
    assert "holds no evidence" in message.content
    assert "will not help" in message.content
    assert message.status == "success"


def test_changing_a_result_does_not_change_the_next(tool: StructuredTool) -> None:
    first = call(tool, query=PLAIN).artifact
    sources = [block["source"] for block in first["evidenceBlocks"]]
    first["evidenceBlocks"].clear()

    again = call(tool, query=PLAIN).artifact

    assert [block["source"] for block in again["evidenceBlocks"]] == sources


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "missing `query`"),
        ({"q": "badge"}, "missing `query`"),
        ({"query": None}, "type NoneType"),
        ({"query": ["badge", "lost"]}, "type list"),
        ({"query": 404}, "type int"),
        ({"query": True}, "type bool"),
        ({"query": {"text": "badge"}}, "type dict"),
    ],
)
def test_a_wrong_call_is_corrected_and_leaves_no_row(
    tool: StructuredTool, traces: TraceStore, arguments: dict[str, Any], says: str
) -> None:
    (answer,) = answers(agent(tool, calls(arguments)).invoke(USER))

    assert answer.status == "error"
    assert says in answer.text
    assert "`query`, a string" in answer.text
    assert traces.count() == 0


def test_extra_arguments_are_ignored(tool: StructuredTool) -> None:
    said = {"query": SALARY, "groups": ["people-team"], "k": 5, "runtime": None}

    (answer,) = answers(agent(tool, calls(said)).invoke(USER))

    assert answer.artifact["found"] is False


def test_parallel_calls_each_get_their_own_evidence(
    tool: StructuredTool, traces: TraceStore
) -> None:
    asked = [PLAIN, FALLBACK, MISS]
    running = agent(tool, calls(*({"query": query} for query in asked)))

    found = answers(running.invoke(USER))

    assert [answer.artifact["retrievalTrace"]["query"] for answer in found] == asked
    assert len({row.invocation_id for row in traces.rows()}) == 3


async def test_an_async_agent_works_too(tool: StructuredTool) -> None:
    (answer,) = answers(await agent(tool, calls({"query": PLAIN})).ainvoke(USER))

    assert answer.artifact["found"] is True


def test_a_checkpoint_keeps_message_and_artifact(tool: StructuredTool) -> None:
    running = agent(tool, calls({"query": PLAIN}), checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}

    (answer,) = answers(running.invoke(USER, thread))

    (kept,) = answers(running.get_state(thread).values)
    assert (kept.content, kept.artifact) == (answer.content, answer.artifact)


def test_a_low_recursion_limit_of_the_caller_does_not_break_a_lookup(tool: StructuredTool) -> None:
    limited: Any = {"recursion_limit": 4}

    (answer,) = answers(agent(tool, calls({"query": FALLBACK})).invoke(USER, limited))

    assert answer.artifact["retrievalTrace"]["fallbackReason"] == "filtered_vector_low_quality"


# Access


@dataclass
class Caller:
    groups: Collection[str]


@pytest.mark.parametrize(
    ("options", "context", "found"),
    [
        ({}, None, False),
        ({}, Caller(["people-team"]), True),
        ({}, Caller(["sales"]), False),
        ({}, {"groups": ["people-team"]}, True),
        ({}, {"user": "somebody"}, False),
        ({"groups": ["people-team"]}, None, True),
        ({"groups": "people-team"}, None, True),
        ({"groups": []}, Caller(["people-team"]), False),
        ({"groups": lambda runtime: runtime.context["teams"]}, {"teams": ["people-team"]}, True),
    ],
)
def test_groups_come_from_the_application(
    handbook: KnowledgeBase,
    traces: TraceStore,
    options: dict[str, Any],
    context: Any,
    found: bool,
) -> None:
    tool = create_lookup_tool(handbook, traces=traces, **options)
    schema = type(context) if isinstance(context, Caller) else dict
    running = agent(tool, calls({"query": SALARY}), context_schema=schema)

    (answer,) = answers(running.invoke(USER, context=context))

    assert answer.artifact["found"] is found
    assert ("salary" in json.dumps(answer.artifact)) is found


def test_groups_that_cannot_be_read_are_unavailable_not_public(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    def unreadable(runtime: Any) -> list[str]:
        return runtime.context.teams

    tool = create_lookup_tool(handbook, traces=traces, groups=unreadable)

    artifact = call(tool, query=PLAIN).artifact

    assert (artifact["found"], artifact["evidenceStatus"]) == (False, "unavailable")


@pytest.mark.parametrize("given", UNREADABLE.values(), ids=UNREADABLE)
def test_no_shape_of_groups_lets_anybody_in_by_accident(
    handbook: KnowledgeBase, traces: TraceStore, given: Any
) -> None:
    returning = create_lookup_tool(handbook, traces=traces, groups=lambda _: given)
    reading = create_lookup_tool(handbook, traces=traces)
    contexts: list[tuple[type, Any]] = [(dict, {"groups": given}), (Caller, Caller(given))]

    found = [call(returning, query=SALARY)]
    for schema, context in contexts:
        running = agent(reading, calls({"query": SALARY}), context_schema=schema)
        found += answers(running.invoke(USER, context=context))

    for answer in found:
        assert answer.artifact["evidenceStatus"] == "unavailable"
        assert answer.artifact["retrievalTrace"]["error"] == "ConfigurationError"
        assert "salary" not in json.dumps(answer.artifact["evidenceBlocks"])
    if not callable(given):
        with pytest.raises(ConfigurationError, match=r"access groups? must be"):
            create_lookup_tool(handbook, traces=traces, groups=given)


# The error boundary


class Broken(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.broken = True

    def embed_query(self, text: str) -> list[float]:
        if self.broken:
            raise ConnectionError("https://internal.example/secret")
        return super().embed_query(text)


def broken_tool(make: Make, traces: TraceStore) -> StructuredTool:
    embedder = Broken()
    embedder.broken = False
    knowledge = make({"a.md": "# Badges\nLost badges go to the desk.\n"}, embedder)
    embedder.broken = True
    return create_lookup_tool(knowledge, traces=traces)


def test_a_failing_embedder_is_unavailable_and_the_run_goes_on(
    make: Make, traces: TraceStore
) -> None:
    state = agent(broken_tool(make, traces), calls({"query": "badges"})).invoke(USER)

    (answer,) = answers(state)
    assert state["messages"][-1].content == "done"
    assert answer.artifact["evidenceStatus"] == "unavailable"
    assert "does not mean that there is nothing" in answer.text
    assert "internal.example" not in json.dumps(answer.artifact)
    (row,) = traces.rows()
    assert row.evidence_status == "unavailable"
    assert row.retrieval_details["attempts"][0]["error"] == "ConnectionError"


def test_an_error_outside_the_search_is_recorded_once(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    def fail(runtime: Any) -> list[str]:
        raise RuntimeError("no session")

    artifact = call(create_lookup_tool(handbook, traces=traces, groups=fail), query=PLAIN).artifact

    assert artifact["retrievalTrace"]["error"] == "RuntimeError"
    (row,) = traces.rows()
    assert (row.query, row.retrieval_details["error"]) == (PLAIN, "RuntimeError")


def test_a_trace_that_cannot_be_written_does_not_cost_the_answer(
    handbook: KnowledgeBase, tmp_path: Any
) -> None:
    store = TraceStore(tmp_path / "traces.sqlite")
    tool = create_lookup_tool(handbook, traces=store)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE tool_invocation")

    artifact = call(tool, query=PLAIN).artifact
    store.close()

    assert artifact["found"] is True
    assert artifact["retrievalTrace"]["recordError"] == (
        "TraceStoreError: the trace store has a table that this version cannot use"
    )


def test_every_lookup_leaves_one_row(tool: StructuredTool, traces: TraceStore) -> None:
    for query in (PLAIN, FALLBACK, MISS, ""):
        call(tool, query=query)

    assert [(row.query, row.fallback_reason) for row in reversed(traces.rows())] == [
        (PLAIN, None),
        (FALLBACK, "filtered_vector_low_quality"),
        (MISS, None),
        ("", None),
    ]


def test_two_tools_look_into_their_own_knowledge(make: Make, traces: TraceStore) -> None:
    badges = make({"badges.md": "# Badges\nLost badges go to the desk.\n"}, HashEmbedder())
    shelves = make({"shelves.md": "# Shelves\nLost badges are no shelves.\n"}, HashEmbedder())
    tools = [
        create_lookup_tool(badges, traces=traces, name="lookup_badges"),
        create_lookup_tool(shelves, traces=traces, name="lookup_shelves"),
    ]

    found = [call(tool, query="lost badges").artifact["evidenceBlocks"] for tool in tools]

    assert [[block["source"] for block in blocks] for blocks in found] == [
        ["badges.md"],
        ["shelves.md"],
    ]
    assert [row.tool_name for row in traces.rows()] == ["lookup_shelves", "lookup_badges"]


class Parent(TypedDict):
    text: str


def test_the_context_of_a_calling_graph_is_never_handed_on(tool: StructuredTool) -> None:
    """A direct call has no tool runtime: whatever surrounds it opens nothing."""

    def ask(state: Parent) -> Parent:
        return {"text": tool.invoke(SALARY)}

    parent = StateGraph(Parent, context_schema=Caller)
    parent.add_node("ask", ask)
    parent.set_entry_point("ask")

    state = parent.compile().invoke({"text": ""}, context=Caller(groups=["people-team"]))

    assert "holds no evidence" in state["text"]
