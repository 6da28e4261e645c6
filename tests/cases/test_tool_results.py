"""What results share with each other: nothing that changes, and nothing that can be changed.

Families: the same question giving the same bytes; results, rows and documents that nobody else
holds; several tools and knowledge bases in one process.
"""

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Make
from embedders import HashEmbedder
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
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

ENTRIES = {
    "badge.md": "---\ncategory: desk\nkeywords: [badge]\n---\n# Badge\nReport it at the desk.\n",
    "parking.md": "# Parking\nPermits come from facilities.\n",
    "vpn.md": "# VPN\nInstall the client on your laptop.\n",
}
MARS = "What is the capital of the Mars colony?"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with build(tmp_path_factory.mktemp("desk"), ENTRIES) as knowledge:
        yield knowledge


@pytest.fixture
def tool(desk: KnowledgeBase, traces: TraceStore) -> StructuredTool:
    return create_lookup_tool(desk, traces=traces)


def build(folder: Path, entries: dict[str, str]) -> KnowledgeBase:
    (folder / "docs").mkdir(parents=True)
    for name, text in entries.items():
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    return KnowledgeBase.build(folder / "docs", folder / "kb", embedder=HashEmbedder())


def tool_call(tool: StructuredTool, query: str) -> dict[str, Any]:
    return {"name": tool.name, "args": {"query": query}, "id": "1", "type": "tool_call"}


def ask(tool: StructuredTool, query: str) -> ToolMessage:
    return tool.invoke(tool_call(tool, query))


def stable(value: Any) -> Any:
    """Leave out what may differ between two runs: ids and times."""
    if isinstance(value, dict):
        changing = {"invocationId", "durationMs", "timings"}
        return {key: stable(part) for key, part in value.items() if key not in changing}
    return [stable(part) for part in value] if isinstance(value, list) else value


def dumped(state: dict[str, Any]) -> Any:
    return stable(state["result"].model_dump(mode="json"))


# D-20 Same question, same bytes


@pytest.mark.parametrize("query", ["badge", "where do permits come from?", MARS, ""])
def test_d_20_the_same_question_gives_the_same_bytes(
    tool: StructuredTool, traces: TraceStore, query: str
) -> None:
    first, second = ask(tool, query), ask(tool, query)

    assert first.content == second.content
    assert stable(first.artifact) == stable(second.artifact)
    assert len({row.invocation_id for row in traces.rows()}) == 2


def test_files_written_in_another_order_and_place_give_the_same_bytes(
    tool: StructuredTool, traces: TraceStore, tmp_path: Path
) -> None:
    with build(tmp_path, dict(reversed(ENTRIES.items()))) as again:
        other = create_lookup_tool(again, traces=traces)

        assert stable(ask(other, "badge").artifact) == stable(ask(tool, "badge").artifact)


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
    message = ask(tool, query)
    untouched = copy.deepcopy(message)
    ruin(message.artifact)
    message.content = "ruined"

    again = ask(tool, query)

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
    desk: KnowledgeBase, traces: TraceStore
) -> None:
    result = build_lookup_graph(desk, traces=traces).invoke({"query": "badge"})["result"]

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
        messages = [*threads.map(lambda source: ask(tools[source], "desk"), asked)]
    messages += [ask(tools[source], "desk") for source in asked]

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

    statuses = [ask(t, "badge budget").artifact for t in (board, silent, public, board, public)]

    assert [(a["evidenceStatus"] == "unavailable", "secret.md" in str(a)) for a in statuses] == [
        (False, True),
        (True, False),
        (False, False),
        (False, True),
        (False, False),
    ]


def test_each_knowledge_base_has_its_own_traces_by_default(tmp_path: Path) -> None:
    with build(tmp_path / "a", ENTRIES) as first, build(tmp_path / "b", ENTRIES) as second:
        for knowledge, query in ((first, "badge"), (second, "vpn")):
            create_lookup_tool(knowledge).invoke(query)

        stored = [TraceStore(knowledge.path / "traces.sqlite") for knowledge in (first, second)]

    assert [[row.query for row in store.rows()] for store in stored] == [["badge"], ["vpn"]]
    for store in stored:
        store.close()
