"""What a run shows from outside: events, updates, and a run tree that nests and stays small."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from case_builders import USER, agent, answers, calls
from conftest import Make
from embedders import HashEmbedder
from langchain_core.tools import StructuredTool
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from lookup_tool import (
    KnowledgeBase,
    LookupContext,
    LookupResult,
    LookupRetriever,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)

BADGE = "I lost my badge, what must I do and what does a replacement cost?"
MISS = "May I bring my dog to the office?"
STAGES = [
    *("transform_query", "retrieve_filtered", "retrieve_unfiltered", "build_evidence"),
    *("rerank_evidence", "pack_context", "assemble_result", "record_trace"),
]


class Parent(TypedDict):
    query: str
    result: LookupResult


def parent(lookup: Any) -> Any:
    graph: Any = StateGraph(Parent, context_schema=LookupContext)
    graph.add_node("look_up", lookup)
    graph.add_edge(START, "look_up")
    graph.add_edge("look_up", END)
    return graph.compile()


def as_node(knowledge: KnowledgeBase, traces: TraceStore) -> Any:
    return parent(build_lookup_graph(knowledge, traces=traces))


def inside_a_node(knowledge: KnowledgeBase, traces: TraceStore) -> Any:
    graph = build_lookup_graph(knowledge, traces=traces)

    def look_up(state: Parent) -> Any:
        return {"result": graph.invoke({"query": state["query"]})["result"]}

    return parent(look_up)


Build = Callable[[KnowledgeBase, TraceStore], Any]
ways = pytest.mark.parametrize("build", [as_node, inside_a_node], ids=["node", "in a node"])
OPTIONS: Any = {"stream_mode": ["updates", "custom"], "subgraphs": True}


def numbers(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "durationMs"}


@ways
def test_a_parent_sees_each_stage_with_its_counts(
    handbook: KnowledgeBase, traces: TraceStore, build: Build
) -> None:
    parts = list(build(handbook, traces).stream({"query": BADGE}, **OPTIONS))

    inner = [(mode, part) for space, mode, part in parts if space and space[0][:8] == "look_up:"]
    assert [name for mode, part in inner if mode == "updates" for name in part] == STAGES
    events = [part for mode, part in inner if mode == "custom"]
    result = parts[-1][2]["look_up"]["result"]
    trace = result.retrieval_trace
    filtered, unfiltered = trace.attempts
    assert [numbers(event) for event in events] == [
        {"invocationId": trace.invocation_id, "stage": stage, **counts}
        for stage, counts in zip(
            STAGES,
            [
                {"plan": "category_filter", "hintedEntryCount": trace.hints.entry_count},
                {
                    "candidateCount": filtered.candidate_count,
                    "topSimilarity": filtered.top_similarity,
                    "outcome": "low_quality",
                },
                {
                    "candidateCount": unfiltered.candidate_count,
                    "topSimilarity": unfiltered.top_similarity,
                    "outcome": "accepted",
                },
                {"evidenceCount": unfiltered.evidence_count},
                {"evidenceBlockCount": len(result.evidence_blocks)},
                {
                    "includedCount": len(result.context_pack.included),
                    "omittedCount": len(result.context_pack.omitted),
                    "used": result.context_pack.used,
                },
                {"evidenceStatus": "sufficient"},
                {"recorded": True},
            ],
            strict=True,
        )
    ]
    assert all(event["durationMs"] >= 0 for event in events)
    assert len(json.dumps(events)) < 2000


@ways
@pytest.mark.parametrize("groups", [(), ("people-team",)], ids=["public", "permitted"])
def test_the_context_of_a_parent_says_who_asks(
    handbook: KnowledgeBase, traces: TraceStore, build: Build, groups: tuple[str, ...]
) -> None:
    given = {"query": "What does band B3 pay?"}

    result = build(handbook, traces).invoke(given, context=LookupContext(groups=groups))["result"]

    assert ("hr/salary-bands.md" in result.model_dump_json()) is bool(groups)


def test_events_of_a_graph_on_its_own_are_its_custom_stream(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    graph = build_lookup_graph(handbook, traces=traces)

    events = list(graph.stream({"query": MISS}, stream_mode="custom"))

    assert [event["stage"] for event in events] == [
        *("transform_query", "retrieve_unfiltered", "build_evidence"),
        *("assemble_result", "record_trace"),
    ]
    assert [events[2]["evidenceCount"], events[3]["evidenceStatus"]] == [0, "no_evidence"]


@pytest.fixture
def tool(handbook: KnowledgeBase, traces: TraceStore) -> StructuredTool:
    return create_lookup_tool(handbook, traces=traces)


async def collected(parts: Any) -> list[Any]:
    return [part async for part in parts]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("subgraphs", [False, True], ids=["agent", "with subgraphs"])
def test_an_agent_hears_each_stage_once(
    tool: StructuredTool, subgraphs: bool, asynchronous: bool
) -> None:
    running = agent(tool, calls({"query": BADGE}))
    options: Any = {"stream_mode": ["custom"], "subgraphs": subgraphs}

    if asynchronous:
        parts = asyncio.run(collected(running.astream(USER, **options)))
    else:
        parts = list(running.stream(USER, **options))

    events = [part[-1] for part in parts]
    assert [(event["tool"], event["stage"]) for event in events] == [
        ("lookup_knowledge", stage) for stage in STAGES
    ]


def test_lookups_made_at_once_are_told_apart(tool: StructuredTool) -> None:
    running = agent(tool, calls({"query": BADGE}, {"query": MISS}))
    heard: dict[str, list[str]] = {}
    state: Any = {}

    for mode, part in running.stream(USER, stream_mode=["custom", "values"]):
        if mode == "values":
            state = part
        else:
            heard.setdefault(part["invocationId"], []).append(part["stage"])

    asked = [m.artifact["retrievalTrace"]["invocationId"] for m in answers(state)]
    assert [len(heard[invocation]) for invocation in asked] == [8, 5]


def test_a_failed_search_is_heard(make: Make, traces: TraceStore) -> None:
    class Down(HashEmbedder):
        def embed_query(self, text: str) -> list[float]:
            if text == "badge":
                raise ConnectionError("secret")
            return super().embed_query(text)

    knowledge = make({"a.md": "# Badges\nLost badges go to the desk.\n"}, Down())
    graph = build_lookup_graph(knowledge, traces=traces)

    events = list(graph.stream({"query": "badge"}, stream_mode="custom"))

    assert [event.get("outcome") or event.get("evidenceStatus") for event in events] == [
        *(None, "error", "unavailable", None)
    ]
    assert "secret" not in json.dumps(events)


# Run trees


class Tracer(BaseTracer):
    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.roots.append(run)


def tree(run: Run) -> Any:
    """Return the names, without what LangGraph adds for its edges."""
    children = [tree(child) for child in run.child_runs if not child.name.startswith("after_")]
    return {run.name: children} if children else run.name


def every(run: Run) -> list[Run]:
    return [run, *(inner for child in run.child_runs for inner in every(child))]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_the_stages_are_runs_under_the_tools_run(tool: StructuredTool, asynchronous: bool) -> None:
    tracer = Tracer()
    running = agent(tool, calls({"query": BADGE}))
    config: Any = {"callbacks": [tracer]}

    asyncio.run(running.ainvoke(USER, config)) if asynchronous else running.invoke(USER, config)

    (root,) = tracer.roots
    assert tree(root) == {
        "LangGraph": [
            {"model": ["ScriptedModel"]},
            {"tools": [{"lookup_knowledge": [{"lookup_knowledge": STAGES}]}]},
            {"model": ["ScriptedModel"]},
        ]
    }


@ways
def test_the_stages_are_runs_under_a_parents_node(
    handbook: KnowledgeBase, traces: TraceStore, build: Build
) -> None:
    tracer = Tracer()

    build(handbook, traces).invoke({"query": BADGE}, {"callbacks": [tracer]})

    (root,) = tracer.roots
    (node,) = root.child_runs
    assert [run.name for run in every(node) if run.name in STAGES] == STAGES
    assert {run.error for run in every(root)} == {None}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_the_stages_are_runs_under_the_retrievers_run(
    handbook: KnowledgeBase, traces: TraceStore, asynchronous: bool
) -> None:
    tracer = Tracer()
    retriever = LookupRetriever(knowledge=handbook, traces=traces)
    config: Any = {"callbacks": [tracer]}

    if asynchronous:
        asyncio.run(retriever.ainvoke(BADGE, config))
    else:
        retriever.invoke(BADGE, config)

    (root,) = tracer.roots
    assert (root.run_type, tree(root)) == (
        "retriever",
        {"LookupRetriever": [{"lookup_retriever": STAGES}]},
    )


HOLDS_CANDIDATES = {"retrieve_filtered", "retrieve_unfiltered", "build_evidence"}


def test_candidates_are_only_in_the_runs_that_work_on_them(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    """They are most of the state: a tracer would keep a copy for every stage."""
    tracer = Tracer()

    build_lookup_graph(handbook, traces=traces).invoke({"query": BADGE}, {"callbacks": [tracer]})

    (root,) = tracer.roots
    stages = [run for run in every(root) if run is not root]
    assert {run.name for run in stages if "found" in run.inputs} == HOLDS_CANDIDATES
    assert "found" not in (root.inputs | (root.outputs or {}))
    edges = [run for run in stages if run.name.startswith("after_")]
    assert {key for run in edges for key in run.inputs} == {"plan", "attempts", "evidence"}
    result = len(str(root.outputs))
    for run in stages:
        if run.name not in HOLDS_CANDIDATES:
            assert len(str(run.inputs)) < 2 * result
