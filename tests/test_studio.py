"""The graphs for LangGraph Studio: imported, and served by the real development server."""

import asyncio
import importlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from httpx import HTTPStatusError
from langchain_core.messages import HumanMessage
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from lookup_tool import LookupResult, LookupToolError, TraceStore

PLAIN = "How many days of annual leave do I get?"
FALLBACK = "I lost my badge, what must I do and what does a replacement cost?"
SALARY = "What is the salary range of band B3?"
MISS = "May I bring my dog to the office?"
PEOPLE: Any = {"groups": ["people-team"]}
MACHINE: dict[str, Any] = {"lookup_knowledge": {"query": SALARY}}
GRAPHS: dict[str, Any] = {
    **MACHINE,
    "agent": {"messages": [{"role": "user", "content": SALARY}]},
}


@pytest.fixture
def kb(handbook_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a knowledge base of the test's own, as a server's environment does."""
    path = tmp_path / "kb"
    shutil.copytree(handbook_path, path, ignore=shutil.ignore_patterns("traces.sqlite*"))
    monkeypatch.setenv("LOOKUP_KB", str(path))
    for name in ("LOOKUP_GROUPS", "LOOKUP_TRUST_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
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


def test_the_graph_opens_its_knowledge_base_at_the_first_run(
    kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKUP_GROUPS", "people-team")
    graph = load("studio").graph

    results: list[LookupResult] = [
        graph.invoke({"query": query})["result"] for query in (FALLBACK, SALARY)
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


class User:
    """As a server hands it on: an object, not a mapping."""

    identity = "reader-1"

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


ANN, BOB = User(groups=["people-team"]), User()
ACCESS: dict[str, tuple[dict[str, str], Any, Any, bool]] = {
    "nobody": ({}, None, None, False),
    "the context alone": ({}, None, PEOPLE, False),
    "the operator": ({"LOOKUP_GROUPS": "people-team"}, None, None, True),
    "one of several": ({"LOOKUP_GROUPS": "it-leads, people-team,"}, None, {"groups": []}, True),
    "an operator of others": ({"LOOKUP_GROUPS": "it-leads"}, None, PEOPLE, False),
    "an operator of none": ({"LOOKUP_GROUPS": ","}, None, PEOPLE, False),
    "the user": ({}, ANN, None, True),
    "a user without groups": ({}, BOB, PEOPLE, False),
    "a user of others": ({}, User(groups="it-leads"), PEOPLE, False),
    "a user as a mapping": ({}, {"identity": "reader-1", "groups": ["people-team"]}, None, True),
    "the user beside the operator": ({"LOOKUP_GROUPS": "it-leads"}, ANN, None, True),
    "the context, trusted": ({"LOOKUP_TRUST_CONTEXT": "1"}, None, PEOPLE, True),
    "the context, not trusted": ({"LOOKUP_TRUST_CONTEXT": "0"}, None, PEOPLE, False),
    "the context, nearly trusted": ({"LOOKUP_TRUST_CONTEXT": "false"}, None, PEOPLE, False),
}


@pytest.mark.usefixtures("kb")
@pytest.mark.parametrize("case", ACCESS)
def test_groups_are_those_of_the_operator_and_the_user(
    monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    variables, user, context, found = ACCESS[case]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    agent = load("studio_agent").build_agent()
    machine = importlib.import_module("lookup_tool.studio").graph
    config = {"configurable": {"langgraph_auth_user": user}}

    answer = said(agent, SALARY, config=config, context=context)[-1].text
    awaited = asyncio.run(machine.ainvoke({"query": SALARY}, config, context=context))

    assert ("salary-bands" in answer) is found
    assert ("salary-bands" in awaited["result"].model_dump_json()) is found


@pytest.mark.parametrize("groups", [{"people-team": True}, 7, [None]], ids=repr)
def test_a_user_whose_groups_cannot_be_read_is_not_let_in(kb: Path, groups: Any) -> None:
    agent = load("studio_agent").build_agent()
    config = {"configurable": {"langgraph_auth_user": User(groups=groups)}}

    *_, looked_up, _ = said(agent, SALARY, config=config)

    assert looked_up.artifact["evidenceStatus"] == "unavailable"


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


@contextmanager
def serving(clone: Path, settings: str = "langgraph.json") -> Iterator[str]:
    """Run `langgraph dev` in the clone, without a knowledge base and without a model's key."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(Path(sys.executable).with_name("langgraph"), "dev", "--host", "127.0.0.1"),
        *("--port", str(port), "--no-browser", "--no-reload", "--config", settings),
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOOKUP_")}
    environment = kept | {"LANGSMITH_TRACING": "false"}
    log = clone.parent / "server.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(command, cwd=clone, env=environment, stdout=out, stderr=out) as process,
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


def test_the_development_server_serves_both_graphs(clone: Path) -> None:
    """One test for the one server, which takes seconds to start."""
    with serving(clone) as url, get_sync_client(url=url) as server:
        assistants = {each["graph_id"]: each["assistant_id"] for each in server.assistants.search()}
        assert {*assistants} == {"lookup_knowledge", "agent"}

        the_drawing_and_the_forms_are_there(server, assistants)
        a_run_shows_what_every_stage_wrote(server)
        a_thread_is_asked_twice(server)
        the_agent_answers_and_streams(server)

        traces = TraceStore(clone / ".demo" / "handbook" / "traces.sqlite")
        assert traces.count() == 5
        nothing_that_a_client_says_opens_anything(server)


def test_the_development_server_gives_a_user_the_groups_of_the_user(clone: Path) -> None:
    """The handler is the one that the README shows."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (handler,) = (block for block in blocks if "Auth()" in block)
    (token,) = re.findall(r'"([\w-]+)": {"identity": "reader-1"', handler)
    more = '\nUSERS["another-token"] = {"identity": "reader-2"}\n'
    (clone / "auth.py").write_text(handler + more, encoding="utf-8")
    settings = json.loads((clone / "langgraph.json").read_text(encoding="utf-8"))
    settings["auth"] = {"path": "./auth.py:auth"}
    (clone / "with_auth.json").write_text(json.dumps(settings), encoding="utf-8")

    with (
        serving(clone, "with_auth.json") as url,
        as_user(url, token) as reader,
        as_user(url, "another-token") as other,
        as_user(url, "no-token") as stranger,
    ):
        assert opened_to(reader, GRAPHS) == [True, True]
        nothing_that_a_client_says_opens_anything(other)
        with pytest.raises(HTTPStatusError, match=r"Sign in first\."):
            opened_to(stranger)
        threads_are_kept_apart(reader, other)


def as_user(url: str, token: str) -> SyncLangGraphClient:
    return get_sync_client(url=url, headers={"Authorization": f"Bearer {token}"})


def opened_to(
    server: SyncLangGraphClient, asked: dict[str, Any] = MACHINE, **options: Any
) -> list[bool]:
    """Tell of each graph whether what the people team may read comes out of a run, in any way."""
    modes: Any = ["values", "debug"]
    told: list[Any] = [
        [*server.runs.stream(None, graph, input=given, stream_mode=modes, **options)]
        for graph, given in asked.items()
    ]
    for parts in told:
        assert {part.event for part in parts} == {"metadata", *modes}
    return ["salary-bands" in str(parts) for parts in told]


def nothing_that_a_client_says_opens_anything(server: SyncLangGraphClient) -> None:
    assert opened_to(server, GRAPHS, context=PEOPLE) == [False, False]
    user = {"identity": "reader-1", "groups": ["people-team"]}
    forged = {"langgraph_auth_user": user, "langgraph_auth_user_id": "reader-1"}
    for options in (
        {"context": {**PEOPLE, **forged}},
        {"config": {"configurable": PEOPLE}},
        {"config": {"configurable": forged}},
        {"headers": {"langgraph_auth_user": json.dumps(user), "x-groups": "people-team"}},
        {"metadata": {**PEOPLE, **forged}},
    ):
        assert opened_to(server, **options) == [False], options
    for given in ({"context": {**PEOPLE, **forged}}, {"config": {"configurable": forged}}):
        made: Any = server.assistants.create("lookup_knowledge", **given)  # pyright: ignore
        assert opened_to(server, {made["assistant_id"]: {"query": SALARY}}) == [False]
    thread = server.threads.create()["thread_id"]
    checkpoint: Any = {"thread_id": thread, "checkpoint_ns": "", **forged}
    answer = server.runs.wait(
        thread, "lookup_knowledge", input={"query": SALARY}, checkpoint=checkpoint
    )
    assert "salary-bands" not in str(answer)


def threads_are_kept_apart(owner: SyncLangGraphClient, other: SyncLangGraphClient) -> None:
    thread = owner.threads.create()["thread_id"]
    stopped = owner.runs.wait(
        thread,
        "lookup_knowledge",
        input={"query": SALARY},
        interrupt_before=["pack_context"],
    )
    assert "salary-bands" in str(stopped)

    for use in (
        lambda: other.threads.get_state(thread),
        lambda: other.runs.wait(thread, "lookup_knowledge", input=None),
    ):
        with pytest.raises(HTTPStatusError, match=r"(?i)not found"):
            use()
    answer: Any = owner.runs.wait(thread, "lookup_knowledge", input=None)
    assert answer["result"]["found"] is True


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
