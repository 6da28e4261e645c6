"""The tool inside agents: what a caller's run may do to a lookup.

Families: results under a checkpointer; several lookups in one turn; a caller's limits and
configuration; inner steps while streaming.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_builders import DESK, USER, agent, answers, calls, message_sources, through_agent
from checkpoints import restore_only_known_types
from embedders import HashEmbedder
from langchain_core.documents import Document
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from lookup_tool import (
    KnowledgeBase,
    TraceStore,
    create_lookup_tool,
)

FALLBACK = "I lost my badge, what must I do and what does a replacement cost?"
THREAD: Any = {"configurable": {"thread_id": "1"}}


@dataclass
class Desk:
    tool: StructuredTool
    traces: TraceStore


@pytest.fixture
def desk(desk_path: Path, traces: TraceStore) -> Iterator[Desk]:
    with KnowledgeBase.open(desk_path, embedder=HashEmbedder()) as knowledge:
        yield Desk(create_lookup_tool(knowledge, traces=traces), traces)


def node(tool: StructuredTool, **options: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([tool]))
    graph.set_entry_point("tools")
    return graph.compile(**options)


# D-09 Result must survive a checkpointer


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize("query", ["badge", "nothing of the kind", ""])
def test_d_09_a_checkpoint_gives_content_and_artifact_back(
    desk: Desk, query: str, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_only_known_types(monkeypatch, strict=strict)
    running = agent(desk.tool, calls({"query": query}), checkpointer=InMemorySaver())

    (answer,) = answers(running.invoke(USER, THREAD))

    (kept,) = answers(running.get_state(THREAD).values)
    assert (kept.content, kept.artifact) == (answer.content, answer.artifact)


ODD: dict[str, Any] = {
    "date": date(2024, 5, 1),
    "numpy-float": np.float32(0.5),
    "numpy-integer": np.int64(5),
    "numpy-text": np.str_("Badge"),
    "nan": float("nan"),
    "decimal": Decimal("1.10"),
    "path": Path("a/b"),
    "bytes": b"\xff",
    "set": {"badge"},
    "object": object(),
    "surrogate": "\ud800",
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_odd_metadata_never_reaches_an_artifact(traces: TraceStore, value: Any) -> None:
    named = dict.fromkeys(("title", "category", "keywords", "entities", "aliases", "x"), value)
    document = Document("Report the badge.", metadata={"source": "badge.md", **named})
    with KnowledgeBase.from_documents([document], embedder=HashEmbedder()) as knowledge:
        tool = create_lookup_tool(knowledge, traces=traces)
        (answer,) = through_agent(tool, calls({"query": "report badge"}))

    serializer = JsonPlusSerializer(pickle_fallback=False)
    assert message_sources(answer) == ["badge.md"]
    assert serializer.loads_typed(serializer.dumps_typed(answer)) == answer
    assert json.loads(json.dumps(answer.artifact, allow_nan=False)) == answer.artifact


# D-13 Three lookups in one turn

TURNS: dict[str, list[str]] = {
    "D-13": ["badge", "parking", "vpn"],
    "the-same": ["vpn", "vpn", "vpn"],
    "a-miss-between": ["badge", "giraffe", "", "vpn"],
    "many": ["badge", "parking", "vpn"] * 6,
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("queries", TURNS.values(), ids=TURNS)
def test_lookups_of_one_turn_each_get_their_own_evidence(
    desk: Desk, queries: list[str], asynchronous: bool
) -> None:
    says = calls(*({"query": query} for query in queries))
    running = agent(desk.tool, says, checkpointer=InMemorySaver())

    state = asyncio.run(running.ainvoke(USER, THREAD)) if asynchronous else None
    found = answers(state or running.invoke(USER, THREAD))

    assert [message.tool_call_id for message in found] == [str(n) for n in range(len(queries))]
    assert [message_sources(message) for message in found] == [
        [f"{query}.md"] if f"{query}.md" in DESK else [] for query in queries
    ]
    ids = {row.invocation_id: row.query for row in desk.traces.rows(100)}
    traced = [message.artifact["retrievalTrace"]["invocationId"] for message in found]
    assert [ids[invocation] for invocation in traced] == queries
    assert len(ids) == len(queries) == len(set(traced))


def test_a_wrong_call_does_not_spoil_the_right_ones_of_its_turn(desk: Desk) -> None:
    found = through_agent(desk.tool, calls({"query": "badge"}, {}, {"query": "vpn"}))

    assert [message.status for message in found] == ["success", "error", "success"]
    assert [message_sources(found[0]), message_sources(found[2])] == [["badge.md"], ["vpn.md"]]


# D-15 Caller's recursion limit

CONFIGS: dict[str, Any] = {
    "D-15": {"recursion_limit": 5},
    "least": {"recursion_limit": 4},
    "one-worker": {"max_concurrency": 1},
    "thread": THREAD,
    "names": {"tags": ["a"], "metadata": {"b": 1}, "run_name": "c", "configurable": {"d": 2}},
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_callers_configuration_does_not_reach_the_lookup(
    handbook: KnowledgeBase, traces: TraceStore, config: Any
) -> None:
    tool = create_lookup_tool(handbook, traces=traces)
    says = calls({"query": FALLBACK}, {"query": FALLBACK})

    found = answers(agent(tool, says, checkpointer=None).invoke(USER, config))

    assert [message.artifact["retrievalTrace"]["fallbackReason"] for message in found] == [
        "filtered_vector_low_quality",
        "filtered_vector_low_quality",
    ]


# D-25 Inner steps visible while streaming

STEPS = (
    *("transform_query", "retrieve_unfiltered", "build_evidence", "rerank_evidence"),
    *("pack_context", "assemble_result", "record_trace"),
)


def inner(parts: Iterator[Any]) -> list[str]:
    return [n for space, update in parts if space and space[0].startswith("tools:") for n in update]


async def collected(parts: Any) -> Iterator[Any]:
    return iter([part async for part in parts])


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["plain", "checkpointer"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["D-25-sync", "D-25-async"])
def test_the_stages_appear_under_the_tools_node(desk: Desk, saver: Any, asynchronous: bool) -> None:
    options: Any = {"stream_mode": "updates", "subgraphs": True}
    running = agent(desk.tool, calls({"query": "vpn"}), checkpointer=saver)

    if asynchronous:
        parts = asyncio.run(collected(running.astream(USER, THREAD, **options)))
    else:
        parts = running.stream(USER, THREAD, **options)

    assert inner(parts) == [*STEPS]


def test_without_subgraphs_a_caller_sees_only_its_own_steps(desk: Desk) -> None:
    running = agent(desk.tool, calls({"query": "vpn"}))

    steps = [name for part in running.stream(USER, stream_mode="updates") for name in part]

    assert steps == ["model", "tools", "model"]


def test_every_lookup_of_a_turn_streams_its_stages(desk: Desk) -> None:
    running = node(desk.tool)
    says = {"messages": [calls({"query": "vpn"}, {"query": "badge"})]}

    found = inner(running.stream(says, stream_mode="updates", subgraphs=True))

    assert sorted(found) == sorted(STEPS * 2)
