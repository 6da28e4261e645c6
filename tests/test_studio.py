"""The graph for LangGraph Studio: imported, and served by the real development server."""

import importlib
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

from lookup_tool import KnowledgeBase, LookupResult, TraceStore

FALLBACK = "I lost my badge, what must I do and what does a replacement cost?"
SALARY = "What is the salary range of band B3?"


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    KnowledgeBase.build(ROOT / "examples" / "handbook", tmp_path / "kb").close()
    return tmp_path / "kb"


def load() -> ModuleType:
    """Import the module as a fresh server does."""
    sys.modules.pop("lookup_tool.studio", None)
    return importlib.import_module("lookup_tool.studio")


def test_importing_the_graph_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKUP_KB", str(tmp_path / "nowhere"))

    graph = load().graph

    assert graph.checkpointer is None
    assert "retrieve_filtered" in graph.get_graph().nodes
    assert list(tmp_path.iterdir()) == []


def test_the_graph_opens_its_knowledge_base_at_the_first_run(
    kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKUP_KB", str(kb))
    graph = load().graph

    results: list[LookupResult] = [
        graph.invoke({"query": query}, context=context)["result"]
        for query, context in ((FALLBACK, None), (SALARY, {"groups": ["people-team"]}))
    ]

    assert [result.retrieval_trace.fallback_reason for result in results] == [
        "filtered_vector_low_quality",
        None,
    ]
    assert results[1].evidence_blocks[0].title == "Salary bands"
    rows = TraceStore(kb / "traces.sqlite").rows()
    assert [row.query for row in rows] == [SALARY, FALLBACK]


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.fixture
def server(kb: Path, tmp_path: Path) -> Iterator[str]:
    """Serve the project's langgraph.json, started from another folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(Path(sys.executable).with_name("langgraph"), "dev", "--host", "127.0.0.1"),
        *("--port", str(port), "--no-browser", "--no-reload", "--config", ROOT / "langgraph.json"),
    ]
    environment = {**os.environ, "LOOKUP_KB": str(kb), "LANGSMITH_TRACING": "false"}
    log = tmp_path / "server.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out) as process,
    ):
        try:
            while not answers(port):
                assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ok", timeout=1):
            return True
    except OSError:
        return False


def test_the_development_server_runs_the_graph(server: str, kb: Path) -> None:
    asked = {"assistant_id": "lookup_knowledge", "context": {"groups": ["people-team"]}}

    results = [
        post(f"{server}/runs/wait", {**asked, "input": {"query": query}})["result"]
        for query in (FALLBACK, SALARY)
    ]

    assert results[0]["retrievalTrace"]["fallbackReason"] == "filtered_vector_low_quality"
    assert results[1]["evidenceBlocks"][0]["title"] == "Salary bands"
    assert TraceStore(kb / "traces.sqlite").count() == 2
    (assistant,) = post(f"{server}/assistants/search", {})
    with urllib.request.urlopen(
        f"{server}/assistants/{assistant['assistant_id']}/schemas", timeout=60
    ) as answer:
        schemas = json.load(answer)
    assert list(schemas["input_schema"]["properties"]) == ["query"]
    assert list(schemas["output_schema"]["properties"]) == ["result"]
    assert list(schemas["context_schema"]["properties"]) == ["groups"]
