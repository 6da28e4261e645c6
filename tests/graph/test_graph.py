"""The machine: its drawing, its state, and what a thread, a checkpoint and a context do to it."""

import operator
import sqlite3
from types import SimpleNamespace
from typing import Any

import pytest
from access import UNREADABLE
from checkpoints import restore_only_known_types
from conftest import Make
from embedders import HashEmbedder
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupContext,
    LookupResult,
    TraceStore,
    build_lookup_graph,
)
from lookup_tool.engines.local.passage_store import PassageStore
from lookup_tool.errors import ConfigurationError
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.retrieval.view import View

PLAIN = "How many days of annual leave do I get?"
FALLBACK = "I lost my badge, what must I do and what does a replacement cost?"
MISS = "May I bring my dog to the office?"


def test_the_drawing_shows_every_edge_with_its_reason(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    drawn = build_lookup_graph(handbook, traces=traces).get_graph()

    edges = {(edge.source, edge.data, edge.target) for edge in drawn.edges}
    assert edges == {
        ("__start__", None, "transform_query"),
        ("transform_query", "category_filter", "retrieve_filtered"),
        ("transform_query", "no_filter", "retrieve_unfiltered"),
        ("transform_query", "no_search", "assemble_result"),
        ("retrieve_filtered", "accepted", "build_evidence"),
        ("retrieve_filtered", "filtered_vector_low_quality", "retrieve_unfiltered"),
        ("retrieve_filtered", "retrieval_error", "assemble_result"),
        ("retrieve_unfiltered", "searched", "build_evidence"),
        ("retrieve_unfiltered", "retrieval_error", "assemble_result"),
        ("build_evidence", "usable_evidence", "rerank_evidence"),
        ("build_evidence", "filtered_vector_no_evidence", "retrieve_unfiltered"),
        ("build_evidence", "nothing_usable", "assemble_result"),
        ("rerank_evidence", None, "pack_context"),
        ("pack_context", None, "assemble_result"),
        ("assemble_result", None, "record_trace"),
        ("record_trace", None, "__end__"),
    }


SEARCH = {"found", "terms", "candidate_count", "query_cut", "attempts", "timings"}
WRITES = {
    "transform_query": {
        "invocation_id",
        "started",
        "transformed",
        "hints",
        "view",
        "generation",
        "scope",
        "plan",
        "found",
        "terms",
        "candidate_count",
        "query_cut",
        "attempts",
        "evidence",
        "blocks",
        "rerank_trace",
        "pack",
        "result",
        "timings",
    },
    "retrieve_filtered": SEARCH,
    "retrieve_unfiltered": SEARCH,
    "build_evidence": {"evidence", "attempts", "timings"},
    "rerank_evidence": {"blocks", "rerank_trace", "timings"},
    "pack_context": {"pack", "timings"},
    "assemble_result": {"result", "timings"},
    "record_trace": {"result"},
}


@pytest.mark.parametrize("query", [PLAIN, FALLBACK, MISS, ""])
def test_every_node_writes_exactly_its_keys(
    handbook: KnowledgeBase, traces: TraceStore, query: str
) -> None:
    graph = build_lookup_graph(handbook, traces=traces)

    for step in graph.stream({"query": query}, stream_mode="updates"):
        for node, update in step.items():
            assert update.keys() == WRITES[node]


def test_the_timings_add_up_to_the_duration(handbook: KnowledgeBase, traces: TraceStore) -> None:
    trace = (
        build_lookup_graph(handbook, traces=traces)
        .invoke({"query": FALLBACK})["result"]
        .retrieval_trace
    )

    assert [timing.stage for timing in trace.timings] == [
        "transform_query",
        "retrieve_filtered",
        "retrieve_unfiltered",
        "build_evidence",
        "rerank_evidence",
        "pack_context",
        "assemble_result",
        "record_trace",
        "framework",
    ]
    assert sum(timing.duration_ms for timing in trace.timings) == pytest.approx(trace.duration_ms)


def comparable(result: LookupResult) -> dict[str, Any]:
    """Return what must be equal in two runs: all but ids and times."""
    trace = result.retrieval_trace
    return {
        **result.model_dump(mode="json", exclude={"retrieval_trace"}),
        "attempts": [a.model_dump(exclude={"duration_ms"}) for a in trace.attempts],
        "hints": trace.hints,
        "fallback": trace.fallback_reason,
    }


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict checkpoints"])
def test_a_thread_carries_nothing_into_the_next_run(
    handbook: KnowledgeBase,
    traces: TraceStore,
    strict: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restore_only_known_types(monkeypatch, strict=strict)
    fresh = build_lookup_graph(handbook, traces=traces)
    nodes = LookupNodes(handbook, LookupConfig(), traces, "lookup_knowledge")
    threaded = draw(nodes).compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}

    for query in (FALLBACK, MISS, PLAIN, "", FALLBACK):
        again = threaded.invoke({"query": query}, thread)["result"]
        assert comparable(again) == comparable(fresh.invoke({"query": query})["result"])


@pytest.mark.parametrize(
    "node",
    [
        "retrieve_filtered",
        "build_evidence",
        "retrieve_unfiltered",
        "rerank_evidence",
        "pack_context",
        "assemble_result",
        "record_trace",
    ],
)
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_a_lookup_goes_on_from_a_checkpoint_before_any_node(
    handbook: KnowledgeBase,
    traces: TraceStore,
    node: str,
    strict: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restore_only_known_types(monkeypatch, strict=strict)
    fresh = build_lookup_graph(handbook, traces=traces).invoke({"query": FALLBACK})["result"]
    nodes = LookupNodes(handbook, LookupConfig(), traces, "lookup_knowledge")
    graph = draw(nodes).compile(checkpointer=InMemorySaver(), interrupt_before=[node])
    thread: Any = {"configurable": {"thread_id": "1"}}

    stopped = graph.invoke({"query": FALLBACK}, thread)
    resumed = 0
    while graph.get_state(thread).next:
        stopped = graph.invoke(None, thread)
        resumed += 1

    assert resumed >= 1
    assert comparable(stopped["result"]) == comparable(fresh)


@pytest.mark.parametrize("query", [FALLBACK, PLAIN], ids=["filtered", "unfiltered"])
def test_texts_that_cannot_be_read_make_it_unavailable_and_leave_a_row(
    handbook: KnowledgeBase, traces: TraceStore, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = build_lookup_graph(handbook, traces=traces)

    def damaged(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(PassageStore, "passages", damaged)
    monkeypatch.setattr(View, "verify_embedder", lambda self: None)  # reads one, too
    result = graph.invoke({"query": query})["result"]

    attempt = result.retrieval_trace.attempts[-1]
    assert (result.evidence_status, result.found) == ("unavailable", False)
    assert (attempt.outcome, attempt.error, attempt.evidence_count) == ("error", "DatabaseError", 0)
    (row,) = traces.rows()
    assert (row.evidence_status, row.retrieval_details["error"]) == ("unavailable", "DatabaseError")


def test_a_checkpoint_gives_the_result_back_as_it_was(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    nodes = LookupNodes(handbook, LookupConfig(), traces, "lookup_knowledge")
    graph = draw(nodes).compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}

    result = graph.invoke({"query": FALLBACK}, thread)["result"]

    assert graph.get_state(thread).values["result"] == result


SALARY = "What does band B3 pay?"


@pytest.mark.parametrize(
    ("context", "found"),
    [
        (None, False),
        (LookupContext(), False),
        (LookupContext(groups=("it-leads",)), False),
        (LookupContext(groups=("people-team",)), True),
        (LookupContext(groups=("it-leads", "people-team")), True),
        ({"groups": ["people-team"]}, True),
        ({"groups": "people-team"}, True),
    ],
)
def test_the_context_decides_what_may_be_seen(
    handbook: KnowledgeBase, traces: TraceStore, context: Any, found: bool
) -> None:
    graph = build_lookup_graph(handbook, traces=traces)

    result = graph.invoke({"query": SALARY}, context=context)["result"]

    assert result.found is found
    assert ("salary-bands" in result.model_dump_json()) is found
    (row,) = traces.rows()
    assert ("salary-bands" in str(row)) is found


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        (["people-team"], True),
        ([], False),
        (lambda runtime: runtime.context.groups, True),
        (lambda runtime: {"it-leads"}, False),
    ],
    ids=["given", "none", "function of the runtime", "function"],
)
def test_groups_of_the_application_come_before_the_context(
    handbook: KnowledgeBase, traces: TraceStore, groups: Any, found: bool
) -> None:
    graph = build_lookup_graph(handbook, traces=traces, groups=groups)

    people = LookupContext(groups=("people-team",))
    result = graph.invoke({"query": SALARY}, context=people)["result"]

    assert ("salary-bands" in result.model_dump_json()) is found


@pytest.mark.parametrize("given", UNREADABLE.values(), ids=UNREADABLE)
def test_groups_that_cannot_be_read_are_told(
    handbook: KnowledgeBase, traces: TraceStore, given: Any
) -> None:
    contexts: list[Any] = [{"groups": given}, SimpleNamespace(groups=given)]
    returning = build_lookup_graph(handbook, traces=traces, groups=lambda _: given)
    reading = build_lookup_graph(handbook, traces=traces)

    for graph, context in [(returning, None), *((reading, each) for each in contexts)]:
        with pytest.raises(ConfigurationError, match=r"access groups? must be"):
            graph.invoke({"query": SALARY}, context=context)
    if not callable(given):
        with pytest.raises(ConfigurationError, match=r"access groups? must be"):
            build_lookup_graph(handbook, traces=traces, groups=given)


class Parent(TypedDict):
    query: str
    result: LookupResult


def test_the_graph_is_a_node_of_a_parent(handbook: KnowledgeBase, traces: TraceStore) -> None:
    parent: Any = StateGraph(Parent, context_schema=LookupContext)
    parent.add_node("look_up", build_lookup_graph(handbook, traces=traces))
    parent.add_edge(START, "look_up")
    parent.add_edge("look_up", END)

    state = parent.compile().invoke(
        {"query": SALARY}, context=LookupContext(groups=("people-team",))
    )

    assert state["result"].evidence_blocks[0].source.startswith("hr/salary-bands.md")


def test_runs_in_a_batch_do_not_mix(handbook: KnowledgeBase, traces: TraceStore) -> None:
    graph = build_lookup_graph(handbook, traces=traces)
    queries = [PLAIN, FALLBACK, MISS] * 5

    states = graph.batch([{"query": query} for query in queries])

    results = list(map(operator.itemgetter("result"), states))
    assert [result.retrieval_trace.query for result in results] == queries
    assert [result.found for result in results] == [True, True, False] * 5
    assert traces.count() == 15


def test_an_empty_knowledge_base_answers_that_it_holds_nothing(
    make: Make, traces: TraceStore
) -> None:
    result = build_lookup_graph(make({}, HashEmbedder()), traces=traces).invoke(
        {"query": "anything"}
    )["result"]

    assert (result.found, result.evidence_status) == (False, "no_evidence")
    assert [attempt.candidate_count for attempt in result.retrieval_trace.attempts] == [0]
    assert traces.count() == 1
