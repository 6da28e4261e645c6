"""What Studio and its server rely on in a compiled graph.

Families: no node runs on the event loop; the drawing shows every stage and every way; the graph has
no checkpointer of its own, takes the server's, and has a schema for each form that is shown.

The server itself is not started here: its rules are checked on the graph.
"""

import inspect
import json
import threading
from typing import Any

import pytest
from case_builders import Make
from embedders import HashEmbedder
from langgraph.checkpoint.memory import InMemorySaver

from lookup_tool import KnowledgeBase, LookupConfig, TraceStore, build_lookup_graph
from lookup_tool.config import PackConfig, QueryConfig, RecordConfig

STAGES = {
    *("transform_query", "retrieve_filtered", "retrieve_unfiltered", "build_evidence"),
    *("rerank_evidence", "pack_context", "assemble_result", "record_trace"),
}

# F-01 Blocking calls under the dev server


def test_f_01_nodes_are_plain_functions(handbook: KnowledgeBase, traces: TraceStore) -> None:
    """The server runs a plain function in a thread; a coroutine would run on its event loop."""
    nodes = build_lookup_graph(handbook, traces=traces).builder.nodes

    assert {*nodes} == STAGES
    for node in nodes.values():
        runnable: Any = node.runnable
        assert callable(runnable.func)
        assert not inspect.iscoroutinefunction(runnable.func)


async def test_f_01_stages_of_an_async_run_stay_off_the_event_loop(
    make: Make, traces: TraceStore
) -> None:
    threads: list[int] = []

    def seen(text: str) -> str:
        threads.append(threading.get_ident())
        return text

    class Seen(HashEmbedder):
        def embed_query(self, text: str) -> list[float]:
            return super().embed_query(seen(text))

    config = LookupConfig(
        query=QueryConfig(transform=seen),
        pack=PackConfig(count_tokens=lambda text: len(seen(text))),
        record=RecordConfig(redact=seen),
    )
    knowledge = make({"badge.md": "# Badge\nReport it.\n"}, Seen())
    threads.clear()
    graph = build_lookup_graph(knowledge, config=config, traces=traces)

    results = [(await graph.ainvoke({"query": "badge"}))["result"] for _ in range(2)]

    assert [result.found for result in results] == [True, True]
    assert traces.count() == 2
    assert len(threads) >= 8
    assert threading.get_ident() not in threads


# F-03 Drawn graph lacks the conditional edge

CONDITIONAL = {
    ("transform_query", "retrieve_filtered"),
    ("transform_query", "retrieve_unfiltered"),
    ("transform_query", "assemble_result"),
    ("retrieve_filtered", "build_evidence"),
    ("retrieve_filtered", "retrieve_unfiltered"),
    ("retrieve_filtered", "assemble_result"),
    ("retrieve_unfiltered", "build_evidence"),
    ("retrieve_unfiltered", "assemble_result"),
    ("build_evidence", "rerank_evidence"),
    ("build_evidence", "retrieve_unfiltered"),
    ("build_evidence", "assemble_result"),
}


@pytest.mark.parametrize("xray", [False, True], ids=["plain", "xray"])
def test_f_03_the_drawing_shows_every_stage_and_every_way(
    handbook: KnowledgeBase, traces: TraceStore, xray: bool
) -> None:
    drawn = build_lookup_graph(handbook, traces=traces).get_graph(xray=xray)

    assert {*drawn.nodes} == STAGES | {"__start__", "__end__"}
    assert {(e.source, e.target) for e in drawn.edges if e.conditional} == CONDITIONAL
    assert [e.source for e in drawn.edges if e.target == "__end__"] == ["record_trace"]
    picture = drawn.draw_mermaid()
    for source, target in CONDITIONAL:
        assert any(
            line.startswith(f"\t{source} -. ") and line.endswith(f".-> {target};")
            for line in picture.splitlines()
        )


def test_the_drawing_that_a_server_sends_holds_the_conditional_edges(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    sent = build_lookup_graph(handbook, traces=traces).get_graph().to_json()

    edges = json.loads(json.dumps(sent))["edges"]
    assert {(e["source"], e["target"]) for e in edges if e.get("conditional")} == CONDITIONAL


# F-05 Exported graph has its own checkpointer


@pytest.mark.parametrize("config", [None, LookupConfig()], ids=["default", "configured"])
def test_f_05_a_graph_has_no_checkpointer_and_takes_the_servers(
    handbook: KnowledgeBase, traces: TraceStore, config: LookupConfig | None
) -> None:
    """Start-up of the server is checked where the Studio files are."""
    graph = build_lookup_graph(handbook, traces=traces, config=config)
    served = graph.copy(update={"checkpointer": InMemorySaver()})
    thread: Any = {"configurable": {"thread_id": "1"}}

    results = [served.invoke({"query": "badge"}, thread)["result"] for _ in range(2)]

    assert (graph.checkpointer, graph.store) == (None, None)
    assert results[0].evidence_blocks == results[1].evidence_blocks
    assert served.get_state(thread).values["result"] == results[1]


def test_a_server_can_show_a_form_for_input_context_and_output(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    graph = build_lookup_graph(handbook, traces=traces)

    assert graph.get_input_jsonschema()["required"] == ["query"]
    assert graph.get_input_jsonschema()["properties"]["query"]["type"] == "string"
    assert [*graph.get_output_jsonschema()["properties"]] == ["result"]
    assert [*(graph.get_context_jsonschema() or {})["properties"]] == ["groups"]
