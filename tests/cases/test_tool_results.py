"""What results share with each other: nothing that changes, and nothing that can be changed.

Families: the same question giving the same bytes; results, rows and documents that nobody else
holds; several tools and knowledge bases in one process.
"""

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from case_builders import ENTRIES, MARS, Make, ask_tool, build_entries, dumped, stable
from embedders import HashEmbedder
from langchain_core.documents import Document
from langchain_core.tools import StructuredTool
from pydantic import ValidationError

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)
from lookup_tool.config import RetrievalConfig

# D-20 Same question, same bytes


@pytest.mark.parametrize("query", ["badge", "where do permits come from?", MARS, ""])
def test_d_20_the_same_question_gives_the_same_bytes(
    tool: StructuredTool, traces: TraceStore, query: str
) -> None:
    first, second = ask_tool(tool, query), ask_tool(tool, query)

    assert first.content == second.content
    assert stable(first.artifact) == stable(second.artifact)
    assert len({row.invocation_id for row in traces.rows()}) == 2


def test_files_written_in_another_order_and_place_give_the_same_bytes(
    tool: StructuredTool, traces: TraceStore, tmp_path: Path
) -> None:
    with build_entries(tmp_path, dict(reversed(ENTRIES.items()))) as again:
        other = create_lookup_tool(again, traces=traces)

        assert stable(ask_tool(other, "badge").artifact) == stable(ask_tool(tool, "badge").artifact)


# D-27 Caller mutates the result


def ruin(value: Any) -> None:
    """Change every list and mapping in place, innermost first."""
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            ruin(part)
    if isinstance(value, dict):
        value.update(dict.fromkeys(value, "ruined") | {"new": 1})
    else:
        value.clear()


@pytest.mark.parametrize("query", ["badge", MARS, ""])
def test_d_27_a_ruined_result_does_not_reach_the_next(tool: StructuredTool, query: str) -> None:
    message = ask_tool(tool, query)
    untouched = copy.deepcopy(message)
    ruin(message.artifact)
    message.content = "ruined"

    again = ask_tool(tool, query)

    assert again.content == untouched.content
    assert stable(again.artifact) == stable(untouched.artifact)


def test_ruined_documents_rows_and_state_do_not_reach_the_next(traces: TraceStore) -> None:
    metadata = {"source": "a.md", "title": "Badge", "keywords": ["badge"], "category": "desk"}
    document = Document("Report it at the desk.", metadata=metadata)
    with KnowledgeBase.from_documents([document], embedder=HashEmbedder()) as knowledge:
        graph = build_lookup_graph(knowledge, traces=traces)
        first = graph.invoke({"query": "badge"})
        before, row = dumped(first), copy.deepcopy(traces.rows()[0])
        ruin(document.metadata)
        document.page_content = "ruined"
        ruin(traces.rows()[0].retrieval_details)
        ruin(first["result"].retrieval_trace.attempts[0].filter or {})

        assert traces.rows() == [row]
        assert dumped(graph.invoke({"query": "badge"})) == before


def test_a_result_of_the_graph_cannot_be_assigned_to(
    front_desk: KnowledgeBase, traces: TraceStore
) -> None:
    result = build_lookup_graph(front_desk, traces=traces).invoke({"query": "badge"})["result"]

    with pytest.raises(ValidationError, match="frozen"):
        result.evidence_blocks[0].content = "ruined"
    assert isinstance(result.evidence_blocks, tuple)


# D-29 Two tools, two knowledge bases


def test_d_29_two_tools_in_one_process_do_not_mix(make: Make, traces: TraceStore) -> None:
    hr = make({"leave.md": "# Leave\nThe desk files it.\n"}, HashEmbedder())
    it = make({"laptop.md": "# Laptop\nThe desk lends it.\n"}, HashEmbedder())
    tools = {
        "leave.md": create_lookup_tool(hr, traces=traces, name="lookup_hr"),
        "laptop.md": create_lookup_tool(it, traces=traces, name="lookup_it"),
    }
    asked = [*tools] * 5

    with ThreadPoolExecutor(8) as threads:
        messages = [*threads.map(lambda source: ask_tool(tools[source], "desk"), asked)]
    messages += [ask_tool(tools[source], "desk") for source in asked]

    found = [[b["source"] for b in message.artifact["evidenceBlocks"]] for message in messages]
    assert found == [[source] for source in asked * 2]
    assert [message.name for message in messages] == [tools[source].name for source in asked * 2]
    by_name = {row.invocation_id: row.tool_name for row in traces.rows(100)}
    assert [by_name[m.artifact["retrievalTrace"]["invocationId"]] for m in messages] == [
        tools[source].name for source in asked * 2
    ]


def test_two_tools_over_one_knowledge_base_keep_their_own_settings(
    make: Make, traces: TraceStore
) -> None:
    secret = "---\naccess: [board]\n---\n# Badge budget\nThe badge budget.\n"
    knowledge = make({**ENTRIES, "secret.md": secret}, HashEmbedder())
    off = LookupConfig(retrieval=RetrievalConfig(enabled=False))
    public = create_lookup_tool(knowledge, traces=traces)
    board = create_lookup_tool(knowledge, traces=traces, groups=["board"])
    silent = create_lookup_tool(knowledge, traces=traces, config=off)

    statuses = [
        ask_tool(t, "badge budget").artifact for t in (board, silent, public, board, public)
    ]

    assert [(a["evidenceStatus"] == "unavailable", "secret.md" in str(a)) for a in statuses] == [
        (False, True),
        (True, False),
        (False, False),
        (False, True),
        (False, False),
    ]


def test_each_knowledge_base_has_its_own_traces_by_default(tmp_path: Path) -> None:
    with (
        build_entries(tmp_path / "a", ENTRIES) as first,
        build_entries(tmp_path / "b", ENTRIES) as second,
    ):
        for knowledge, query in ((first, "badge"), (second, "vpn")):
            create_lookup_tool(knowledge).invoke(query)

        stored = [TraceStore(knowledge.path / "traces.sqlite") for knowledge in (first, second)]

    assert [[row.query for row in store.rows()] for store in stored] == [["badge"], ["vpn"]]
    for store in stored:
        store.close()
