"""Trace persistence: one row for every lookup, from any thread.

Families: who writes (threads, async, a tool node, several stores on one file, memory); and what is
written whatever happens (hit, miss, retry, blank, failure of any part), once, and never for a call
that was no lookup.
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from case_builders import BADGES, CAFE, LAB, LAB_TABLE, ask_artifact, stored
from embedders import HashEmbedder, TableEmbedder
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from lookup_tool import KnowledgeBase, LookupConfig, TraceStore, create_lookup_tool
from lookup_tool.config import PackConfig, QueryConfig, RetrievalConfig

# Who writes


def test_e_01_a_tool_of_the_main_thread_writes_from_everywhere(
    badges: KnowledgeBase, tmp_path: Path
) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        tool = create_lookup_tool(badges, traces=store)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: ask_artifact(tool, f"badges {number}"), range(8)))
        asyncio.run(_three_at_once(tool))
        node: Any = StateGraph(MessagesState)
        node.add_node("tools", ToolNode([tool]))
        node.set_entry_point("tools")
        asked: Any = {"name": tool.name, "args": {"query": "from a node"}, "id": "1"}
        node.compile().invoke({"messages": [AIMessage("", tool_calls=[asked])]})

    queries = [f"badges {number}" for number in range(8)]
    queries += ["async 0", "async 1", "async 2", "from a node"]
    assert sorted(row["query"] for row in stored(path)) == sorted(queries)


async def _three_at_once(tool: StructuredTool) -> None:
    await asyncio.gather(*(tool.ainvoke({"query": f"async {number}"}) for number in range(3)))


def test_e_02_no_row_is_lost_under_load(badges: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        tool = create_lookup_tool(badges, traces=store)

        def ask(thread: int) -> list[str | None]:
            found = [ask_artifact(tool, f"{thread}-{number}") for number in range(200)]
            return [artifact["retrievalTrace"]["recordError"] for artifact in found]

        with ThreadPoolExecutor(8) as pool:
            errors = [error for some in pool.map(ask, range(8)) for error in some]

    assert set(errors) == {None}
    assert len({row["query"] for row in stored(path)}) == 1600


def test_stores_of_one_file_lose_nothing_to_each_other(
    badges: KnowledgeBase, tmp_path: Path
) -> None:
    path = tmp_path / "traces.sqlite"

    def ask(number: int) -> None:
        with closing(TraceStore(path)) as store:
            tool = create_lookup_tool(badges, traces=store, name=f"tool_{number}")
            for _ in range(10):
                assert ask_artifact(tool, "badges")["retrievalTrace"]["recordError"] is None

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, range(6)))

    names = [row["tool_name"] for row in stored(path)]
    assert {name: names.count(name) for name in set(names)} == {f"tool_{n}": 10 for n in range(6)}


def test_a_reader_in_the_middle_of_a_read_blocks_no_lookup(
    badges: KnowledgeBase, tmp_path: Path
) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store, closing(sqlite3.connect(path)) as reader:
        tool = create_lookup_tool(badges, traces=store)
        ask_artifact(tool, "first")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tool_invocation").fetchone()
        assert ask_artifact(tool, "second")["retrievalTrace"]["recordError"] is None

    assert [row["query"] for row in stored(path)] == ["first", "second"]


def test_a_writer_that_holds_the_file_is_waited_for(badges: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store, closing(sqlite3.connect(path)) as writer:
        tool = create_lookup_tool(badges, traces=store)
        writer.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ask_artifact, tool, "badges")
            writer.execute("DELETE FROM tool_invocation")
            writer.commit()
            assert waiting.result()["retrievalTrace"]["recordError"] is None

    assert [row["query"] for row in stored(path)] == ["badges"]


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(":memory:", id="E-05"),
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite+pysqlite://",
        "sqlite+pysqlite:///:memory:",
    ],
)
def test_rows_in_memory_are_seen_by_every_thread_and_leave_no_file(
    badges: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(TraceStore(url)) as store, closing(TraceStore(url)) as other:
        tool = create_lookup_tool(badges, traces=store)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda number: ask_artifact(tool, f"badges {number}"), range(3)))
        with ThreadPoolExecutor(1) as pool:
            rows = pool.submit(store.rows).result()
        assert {row.query for row in rows} == {"badges 0", "badges 1", "badges 2"}
        assert other.count() == 0

    assert list(tmp_path.iterdir()) == []


# Whatever happens


class Failing(TableEmbedder):
    def embed_query(self, text: str) -> list[float]:
        if "fail" in text:
            raise ConnectionError(text)
        return super().embed_query(text)


@pytest.fixture(scope="module")
def lab() -> Iterator[KnowledgeBase]:
    with KnowledgeBase.from_documents([LAB, CAFE], embedder=Failing(LAB_TABLE)) as knowledge:
        yield knowledge


def test_e_16_five_calls_give_five_rows(lab: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    config = LookupConfig(retrieval=RetrievalConfig(reference_threshold=0.6))
    with closing(TraceStore(path)) as store:
        tool = create_lookup_tool(lab, traces=store, config=config)
        for query in ("hit", "miss", "lab question", "fail", ""):
            ask_artifact(tool, query)

    assert [
        (
            row["query"],
            row["evidence_status"],
            row["fallback_reason"],
            [(a["strategy"], a["outcome"], a["error"]) for a in row["details"]["attempts"]],
            row["details"]["error"],
        )
        for row in stored(path)
    ] == [
        ("hit", "sufficient", None, [("unfiltered", "accepted", None)], None),
        ("miss", "no_evidence", None, [("unfiltered", "no_evidence", None)], None),
        (
            "lab question",
            "sufficient",
            "filtered_vector_low_quality",
            [("filtered", "low_quality", None), ("unfiltered", "accepted", None)],
            None,
        ),
        (
            "fail",
            "unavailable",
            None,
            [("unfiltered", "error", "ConnectionError")],
            "ConnectionError",
        ),
        ("", "no_evidence", None, [], None),
    ]


def _raise(*_: object) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("query", "options", "status", "error"),
    [
        pytest.param(" \t\n", {}, "no_evidence", None, id="white-space"),
        pytest.param("\u200b\ufeff\u2060", {}, "no_evidence", None, id="invisible"),
        pytest.param("x" * 100_000, {}, "no_evidence", None, id="too-long"),
        pytest.param(
            "hit",
            {"config": LookupConfig(retrieval=RetrievalConfig(enabled=False))},
            "unavailable",
            None,
            id="switched-off",
        ),
        pytest.param("hit", {"groups": _raise}, "unavailable", "ZeroDivisionError", id="groups"),
        pytest.param(
            "hit",
            {"config": LookupConfig(query=QueryConfig(transform=_raise))},
            "unavailable",
            "ZeroDivisionError",
            id="transform",
        ),
        pytest.param(
            "hit",
            {"config": LookupConfig(query=QueryConfig(transform=lambda _: None))},  # type: ignore[arg-type,return-value]
            "sufficient",
            None,
            id="transform-to-nothing",
        ),
        pytest.param(
            "hit",
            {"config": LookupConfig(pack=PackConfig(count_tokens=_raise))},
            "unavailable",
            "ZeroDivisionError",
            id="count-tokens",
        ),
    ],
)
def test_every_lookup_leaves_exactly_one_row_each_way(
    lab: KnowledgeBase, query: str, options: dict[str, Any], status: str, error: str | None
) -> None:
    with closing(TraceStore("sqlite://")) as traces:
        tool = create_lookup_tool(lab, traces=traces, **options)
        tool.invoke(query)
        asyncio.run(tool.ainvoke(query))
        tool.batch([query])
        rows = traces.rows()

    assert [(row.evidence_status, row.retrieval_details["error"]) for row in rows] == [
        (status, error)
    ] * 3


@pytest.mark.parametrize("query", [None, 5, ["hit"], {"q": "hit"}, b"\xff", 1.5, True])
def test_a_call_with_a_wrong_type_is_no_lookup(
    lab: KnowledgeBase, traces: TraceStore, query: Any
) -> None:
    sent: Any = {"args": {"query": query}, "id": "1", "type": "tool_call"}
    tool = create_lookup_tool(lab, traces=traces)

    assert "Call again" in tool.invoke({"name": tool.name, **sent}).text
    assert traces.count() == 0


def test_a_closed_knowledge_base_is_unavailable_and_recorded(traces: TraceStore) -> None:
    knowledge = KnowledgeBase.from_documents([BADGES], embedder=HashEmbedder())
    tool = create_lookup_tool(knowledge, traces=traces)
    knowledge.close()

    assert ask_artifact(tool, "badges")["evidenceStatus"] == "unavailable"
    assert [row.evidence_status for row in traces.rows()] == ["unavailable"]
