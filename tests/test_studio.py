"""The graphs for LangGraph Studio: imported, and served by the real development server."""

import importlib
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from langchain_core.messages import HumanMessage
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from lookup_tool import LookupResult, LookupToolError, TraceStore

PLAIN = "How many days of annual leave do I get?"
FALLBACK = "I lost my badge, what must I do and what does a replacement cost?"
SALARY = "What is the salary range of band B3?"
MISS = "May I bring my dog to the office?"
PEOPLE: Any = {"groups": ["people-team"]}


@pytest.fixture
def kb(handbook_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a knowledge base of the test's own, as a server's environment does."""
    path = tmp_path / "kb"
    shutil.copytree(handbook_path, path, ignore=shutil.ignore_patterns("traces.sqlite*"))
    monkeypatch.setenv("LOOKUP_KB", str(path))
    return path


def load(name: str) -> ModuleType:
    """Import a module as a fresh server does."""
    for each in ("lookup_tool.studio", "lookup_tool.studio_agent"):
        sys.modules.pop(each, None)
    return importlib.import_module(f"lookup_tool.{name}")


def said(agent: Any, question: Any, **options: Any) -> list[Any]:
    return agent.invoke({"messages": [HumanMessage(question)]}, **options)["messages"]


def test_importing_the_graphs_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKUP_KB", str(tmp_path / "nowhere"))

    agent = load("studio_agent").build_agent()
    graph = importlib.import_module("lookup_tool.studio").graph

    assert (graph.checkpointer, agent.checkpointer) == (None, None)
    assert "retrieve_filtered" in graph.get_graph().nodes
    assert {*agent.get_graph().nodes} == {"__start__", "model", "tools", "__end__"}
    assert list(tmp_path.iterdir()) == []


def test_the_graph_opens_its_knowledge_base_at_the_first_run(kb: Path) -> None:
    graph = load("studio").graph

    results: list[LookupResult] = [
        graph.invoke({"query": query}, context=context)["result"]
        for query, context in ((FALLBACK, None), (SALARY, PEOPLE))
    ]

    assert [result.retrieval_trace.fallback_reason for result in results] == [
        "filtered_vector_low_quality",
        None,
    ]
    assert results[1].evidence_blocks[0].title == "Salary bands"
    rows = TraceStore(kb / "traces.sqlite").rows()
    assert [row.query for row in rows] == [SALARY, FALLBACK]


def test_the_scripted_agent_looks_up_once_and_quotes_the_best_block(kb: Path) -> None:
    studio = load("studio_agent")

    _, asked, looked_up, answer = said(studio.build_agent(), [{"type": "text", "text": PLAIN}])

    assert [call["args"] for call in asked.tool_calls] == [{"query": PLAIN}]
    best = looked_up.artifact["evidenceBlocks"][0]
    quoted, source, notice = answer.text.rsplit("\n\n", 2)
    assert quoted.replace("> ", "").replace(">", "") == best["content"]
    assert source == f"Source: {best['source']}"
    assert notice == studio.NOTICE
    assert "not a language model" in notice


def test_the_scripted_agent_passes_a_miss_on(kb: Path) -> None:
    studio = load("studio_agent")

    *_, looked_up, answer = said(studio.build_agent(), MISS)

    assert looked_up.artifact["found"] is False
    assert answer.text == (
        f"I have nothing to quote. The tool says: {looked_up.text}\n\n{studio.NOTICE}"
    )


@pytest.mark.parametrize("graph", ["machine", "agent"])
@pytest.mark.parametrize(
    ("named", "says"),
    [("nowhere", "build one with `lookup-tool ingest"), ("", "set LOOKUP_KB")],
    ids=["named", "none"],
)
def test_a_run_without_a_knowledge_base_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, says: str, graph: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOKUP_KB", named)
    agent = load("studio_agent").build_agent()
    machine = importlib.import_module("lookup_tool.studio").graph

    with pytest.raises(LookupToolError, match=says):
        said(agent, PLAIN) if graph == "agent" else machine.invoke({"query": PLAIN})
    assert list(tmp_path.iterdir()) == []


def test_the_agents_groups_come_from_the_context(kb: Path) -> None:
    agent = load("studio_agent").build_agent()

    answers = [said(agent, SALARY, context=context)[-1].text for context in ({}, PEOPLE)]

    assert ["salary-bands" in answer for answer in answers] == [False, True]


def test_a_named_model_is_opened_by_langchain(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    studio = load("studio_agent")
    named: list[str] = []

    class ProvidersModel(studio.ScriptedModel):
        def __init__(self, model: str) -> None:
            super().__init__()
            named.append(model)

    provider = SimpleNamespace(ChatOpenAI=ProvidersModel, __spec__=None)
    monkeypatch.setitem(sys.modules, "langchain_openai", provider)

    answer = said(studio.build_agent("openai:a-model"), PLAIN)[-1]

    assert named == ["a-model"]
    assert "28 days" in answer.text


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what the server needs of a fresh clone, beside the installed package."""
    folder = tmp_path_factory.mktemp("studio") / "clone"
    for name in ("graph", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "langgraph.json", folder)
    return folder


@pytest.fixture(scope="module")
def server(clone: Path) -> Iterator[SyncLangGraphClient]:
    """Run `langgraph dev` in the clone, without a knowledge base and without a model's key."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(Path(sys.executable).with_name("langgraph"), "dev", "--host", "127.0.0.1"),
        *("--port", str(port), "--no-browser", "--no-reload"),
    ]
    ours = ("LOOKUP_KB", "LOOKUP_MODEL")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment |= {"LANGSMITH_TRACING": "false"}
    log = clone.parent / "server.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(command, cwd=clone, env=environment, stdout=out, stderr=out) as process,
    ):
        try:
            while not answers(port):
                assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
            with get_sync_client(url=f"http://127.0.0.1:{port}") as client:
                yield client
        finally:
            process.terminate()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ok", timeout=1):
            return True
    except OSError:
        return False


def test_the_development_server_serves_both_graphs(
    server: SyncLangGraphClient, clone: Path
) -> None:
    """One test for the one server, which takes seconds to start."""
    assistants = {each["graph_id"]: each["assistant_id"] for each in server.assistants.search()}
    assert {*assistants} == {"lookup_knowledge", "agent"}

    the_drawing_and_the_forms_are_there(server, assistants)
    a_run_shows_what_every_stage_wrote(server)
    a_thread_is_asked_twice(server)
    groups_are_the_context(server)
    the_agent_answers_and_streams(server)

    traces = clone / ".demo" / "handbook" / "traces.sqlite"
    assert TraceStore(traces).count() == 6


def the_drawing_and_the_forms_are_there(
    server: SyncLangGraphClient, assistants: dict[str, str]
) -> None:
    drawn = server.assistants.get_graph(assistants["lookup_knowledge"])
    labels = {edge["data"] for edge in drawn["edges"] if edge.get("conditional")}
    assert labels == {
        *("category_filter", "no_filter", "no_search", "accepted", "searched", "retrieval_error"),
        *("filtered_vector_low_quality", "filtered_vector_no_evidence"),
        *("usable_evidence", "nothing_usable"),
    }
    fields = {"lookup_knowledge": ("query", "result"), "agent": ("messages", "messages")}
    for graph, (given, returned) in fields.items():
        schemas = server.assistants.get_schemas(assistants[graph])
        assert given in properties(schemas["input_schema"])
        assert returned in properties(schemas["output_schema"])
        assert {given, returned} <= properties(schemas["state_schema"])
        assert properties(schemas["context_schema"]) == {"groups"}


def properties(schema: Any) -> set[str]:
    return {*schema["properties"]}


def a_run_shows_what_every_stage_wrote(server: SyncLangGraphClient) -> None:
    thread = server.threads.create()["thread_id"]
    stream = server.runs.stream(
        thread, "lookup_knowledge", input={"query": FALLBACK}, stream_mode="updates"
    )
    wrote = [
        (node, keys)
        for part in stream
        if part.event == "updates"
        for node, keys in part.data.items()
    ]
    assert [node for node, _ in wrote] == [
        *("transform_query", "retrieve_filtered", "retrieve_unfiltered", "build_evidence"),
        *("rerank_evidence", "pack_context", "assemble_result", "record_trace"),
    ]
    updates = dict(wrote)
    assert updates["transform_query"]["plan"] == "category_filter"
    assert [each["outcome"] for each in updates["retrieve_unfiltered"]["attempts"]] == [
        *("low_quality", "accepted"),
    ]
    result = updates["record_trace"]["result"]
    assert len(updates["rerank_evidence"]["blocks"]) == len(result["evidenceBlocks"]) > 0
    states: list[Any] = server.threads.get_history(thread, limit=20)
    assert [*states[1]["next"], *states[-2]["next"]] == ["record_trace", "transform_query"]
    assert states[0]["values"]["result"] == result


def a_thread_is_asked_twice(server: SyncLangGraphClient) -> None:
    thread = server.threads.create()["thread_id"]
    asked: list[Any] = [{"query": query} for query in (FALLBACK, MISS)]
    answers: list[Any] = [
        server.runs.wait(thread, "lookup_knowledge", input=each) for each in asked
    ]
    first, second = (answer["result"] for answer in answers)
    assert first["retrievalTrace"]["fallbackReason"] == "filtered_vector_low_quality"
    assert (second["found"], second["evidenceBlocks"]) == (False, [])
    assert answers[1]["attempts"] == second["retrievalTrace"]["attempts"]


def groups_are_the_context(server: SyncLangGraphClient) -> None:
    asked: Any = {"input": {"query": SALARY}, "context": PEOPLE}
    answer: Any = server.runs.wait(None, "lookup_knowledge", **asked)  # pyright: ignore
    assert answer["result"]["evidenceBlocks"][0]["title"] == "Salary bands"


def the_agent_answers_and_streams(server: SyncLangGraphClient) -> None:
    thread = server.threads.create()["thread_id"]
    turns: list[Any] = [{"messages": [{"role": "user", "content": text}]} for text in (PLAIN, MISS)]
    answer: Any = server.runs.wait(thread, "agent", input=turns[0])
    assert "Source: hr/annual-leave.md#how-many-days-you-get" in answer["messages"][-1]["content"]
    stream = server.runs.stream(thread, "agent", input=turns[1], stream_mode="updates")
    nodes = [node for part in stream if part.event == "updates" for node in part.data]
    assert nodes == ["model", "tools", "model"]
    state: Any = server.threads.get_state(thread)["values"]
    assert [message["type"] for message in state["messages"]] == ["human", "ai", "tool", "ai"] * 2
    assert "I have nothing to quote" in state["messages"][-1]["content"]
