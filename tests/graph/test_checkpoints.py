"""Threads with a checkpointer: a run goes on for its own caller only, and leaves nothing behind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from checkpoints import restore_only_known_types
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from lookup_tool import KnowledgeBase, LookupConfig, LookupContext, LookupResult, TraceStore
from lookup_tool.errors import CallerChangedError, KnowledgeChangedError, LookupToolError
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.graph.scope import hash_generation, hash_scope

FALLBACK = "I lost my badge, what must I do and what does a replacement cost?"
SALARY = "What is the salary range of band B3?"
LEAVE = "How many days of annual leave do I get?"
THREAD: Any = {"configurable": {"thread_id": "1"}}
PEOPLE = LookupContext(groups=("people-team",))
OTHERS: dict[str, Any] = {
    "nobody": None,
    "no group": LookupContext(),
    "another group": LookupContext(groups=("it-leads",)),
    "one more": LookupContext(groups=("it-leads", "people-team")),
}
FIRST = "transform_query"
LATER = [
    *("retrieve_filtered", "retrieve_unfiltered", "build_evidence", "rerank_evidence"),
    *("pack_context", "assemble_result", "record_trace"),
]
RESTRICTED = ("salary-bands", "Salary bands")

Run = Callable[..., Any]


def threaded(knowledge: KnowledgeBase, traces: TraceStore, *stops: str) -> Any:
    """Compile the machine as an application does that keeps threads, and shows every stage."""
    nodes = LookupNodes(knowledge, LookupConfig(), traces, "lookup_knowledge")
    graph = draw(nodes).compile(checkpointer=InMemorySaver(), interrupt_before=[*stops])
    return graph.copy({"output_channels": graph.stream_channels})


def question(node: str) -> dict[str, str]:
    """Return a question whose lookup comes by the node."""
    return {"query": FALLBACK if node.startswith("retrieve_") else SALARY}


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Run:
    """Invoke a graph in both ways."""

    def invoke(graph: Any, *args: Any, **options: Any) -> Any:
        if request.param:
            return asyncio.run(graph.ainvoke(*args, **options))
        return graph.invoke(*args, **options)

    return invoke


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def strict(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    restore_only_known_types(monkeypatch, strict=request.param)


def names_what_is_restricted(said: object) -> bool:
    return any(name in str(said) for name in RESTRICTED)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("node", LATER)
def test_a_run_goes_on_for_the_caller_that_it_was_begun_for_only(
    handbook: KnowledgeBase, traces: TraceStore, run: Run, node: str
) -> None:
    graph = threaded(handbook, traces, node)
    run(graph, question(node), THREAD, context=PEOPLE)
    assert graph.get_state(THREAD).next == (node,)

    for context in OTHERS.values():
        with pytest.raises(CallerChangedError, match="ask again"):
            run(graph, None, THREAD, context=context)

    assert traces.count() == 0
    assert graph.get_state(THREAD).next == (node,)
    again: Any = {"groups": [" people-team", "people-team"]}
    while graph.get_state(THREAD).next:
        run(graph, None, THREAD, context=again)
    assert graph.get_state(THREAD).values["result"].found
    assert traces.count() == 1


@pytest.mark.parametrize("began", OTHERS.values(), ids=OTHERS)
def test_more_groups_are_other_groups(
    handbook: KnowledgeBase, traces: TraceStore, run: Run, began: Any
) -> None:
    graph = threaded(handbook, traces, "rerank_evidence")
    run(graph, {"query": FALLBACK}, THREAD, context=began)

    with pytest.raises(CallerChangedError):
        run(graph, None, THREAD, context=PEOPLE)
    assert run(graph, None, THREAD, context=began)["result"].found


def test_who_goes_on_before_the_first_node_begins_anew(
    handbook: KnowledgeBase, traces: TraceStore, run: Run
) -> None:
    graph = threaded(handbook, traces, FIRST)
    run(graph, {"query": SALARY}, THREAD, context=PEOPLE)

    state = run(graph, None, THREAD)

    assert state["result"].found is False
    assert not names_what_is_restricted(state)


@pytest.mark.usefixtures("strict")
def test_an_older_checkpoint_goes_on_for_its_own_caller_only(
    handbook: KnowledgeBase, traces: TraceStore, run: Run
) -> None:
    graph = threaded(handbook, traces)
    run(graph, {"query": SALARY}, THREAD, context=PEOPLE)
    history = [each for each in graph.get_state_history(THREAD) if each.next]
    assert [each.next[0] for each in history] == [
        *("record_trace", "assemble_result", "pack_context", "rerank_evidence"),
        *("build_evidence", "retrieve_unfiltered", "transform_query", "__start__"),
    ]

    for old in history[:-2]:
        with pytest.raises(CallerChangedError):
            run(graph, None, old.config)
        assert names_what_is_restricted(run(graph, None, old.config, context=PEOPLE)["result"])
    for old in history[-2:]:
        assert not names_what_is_restricted(run(graph, None, old.config))


EDITS: dict[str, Any] = {
    "another query": {"query": LEAVE},
    "no scope": {"scope": ""},
    "another run": {"invocation_id": "0" * 32},
    "a view": {"view": None},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_state_goes_on_for_nobody_else(
    handbook: KnowledgeBase, traces: TraceStore, run: Run, edit: Any
) -> None:
    graph = threaded(handbook, traces)
    run(graph, {"query": SALARY}, THREAD, context=PEOPLE)

    graph.update_state(THREAD, edit, as_node="build_evidence")
    with pytest.raises((CallerChangedError, KnowledgeChangedError), match="ask again"):
        run(graph, None, THREAD)


@pytest.mark.parametrize("node", LATER)
def test_a_jump_to_a_node_is_no_way_around(
    handbook: KnowledgeBase, traces: TraceStore, run: Run, node: str
) -> None:
    graph = threaded(handbook, traces)
    run(graph, {"query": SALARY}, THREAD, context=PEOPLE)

    with pytest.raises(CallerChangedError):
        run(graph, Command(goto=node), THREAD)
    with pytest.raises(LookupToolError):  # nothing was begun there, and there is no query
        run(graph, Command(goto=node), {"configurable": {"thread_id": "new"}})


MODES = ["values", "updates", "debug", "checkpoints", "tasks", "custom"]


def streamed(graph: Any, given: Any, asynchronous: bool) -> list[tuple[str, Any]]:
    async def collect() -> list[tuple[str, Any]]:
        return [part async for part in graph.astream(given, THREAD, stream_mode=MODES)]

    if asynchronous:
        return asyncio.run(collect())
    return [*graph.stream(given, THREAD, stream_mode=MODES)]


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("query", [LEAVE, FALLBACK, "What is a zebra?", ""])
@pytest.mark.parametrize("stop", [(), ("pack_context",)], ids=["ended", "stopped"])
def test_after_the_first_node_nothing_of_the_turn_before_is_told(
    handbook: KnowledgeBase,
    traces: TraceStore,
    query: str,
    asynchronous: bool,
    stop: tuple[str, ...],
) -> None:
    graph = threaded(handbook, traces)
    before = graph.invoke({"query": SALARY}, THREAD, context=PEOPLE, interrupt_before=stop)
    assert names_what_is_restricted(before)
    old = (*RESTRICTED, before["invocation_id"], before["scope"], before["generation"])

    parts = streamed(graph, {"query": query}, asynchronous)

    started = next(n for n, (mode, part) in enumerate(parts) if mode == "tasks")
    assert parts[started][1]["input"] == {"query": query}
    told = [*parts[started:], ("state", graph.get_state(THREAD).values)]
    assert {mode for mode, _ in told} == {*MODES, "state"}
    assert [(mode, word) for mode, part in told for word in old if word in str(part)] == []
    assert next(part for mode, part in told if mode == "values")["result"] is None


class Parent(TypedDict):
    query: str
    result: LookupResult


def test_a_parents_thread_goes_on_for_its_own_caller_only(
    handbook: KnowledgeBase, traces: TraceStore, run: Run
) -> None:
    nodes = LookupNodes(handbook, LookupConfig(), traces, "lookup_knowledge")
    parent: Any = StateGraph(Parent, context_schema=LookupContext)
    parent.add_node("look_up", draw(nodes).compile(interrupt_before=["rerank_evidence"]))
    parent.add_edge(START, "look_up")
    parent.add_edge("look_up", END)
    graph = parent.compile(checkpointer=InMemorySaver())
    run(graph, {"query": SALARY}, THREAD, context=PEOPLE)
    assert graph.get_state(THREAD).next == ("look_up",)

    with pytest.raises(CallerChangedError):
        run(graph, None, THREAD)

    assert names_what_is_restricted(run(graph, None, THREAD, context=PEOPLE)["result"])


def test_the_state_tells_neither_groups_nor_that_hidden_entries_have_changed(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    graph = threaded(handbook, traces)
    states = [
        graph.invoke({"query": LEAVE}, {"configurable": {"thread_id": str(n)}}, context=PEOPLE)
        for n in range(2)
    ]

    for state in states:
        assert "people-team" not in str(state)
        assert handbook.view().generation not in str(state)
    for mark in ("scope", "generation"):
        assert len({state[mark] for state in states}) == 2


def test_a_mark_depends_on_all_that_it_is_made_of() -> None:
    marks = [
        hash_scope(LookupContext(), "a", "1"),
        hash_scope(LookupContext(groups=("b",)), "a", "1"),
        hash_scope(LookupContext(groups=("b", "c")), "a", "1"),
        hash_scope(LookupContext(groups=("b, c",)), "a", "1"),
        hash_scope(LookupContext(), "b", "1"),
        hash_scope(LookupContext(), "a", "2"),
        hash_generation("a", "1"),
        hash_generation("b", "1"),
        hash_generation("a", "2"),
    ]

    assert len({*marks}) == len(marks)
    assert marks[2] == hash_scope(LookupContext(groups=("c", "b", "c")), "a", "1")
