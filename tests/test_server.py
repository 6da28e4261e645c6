"""The MCP server: with the official client in memory, over stdio and over HTTP, and from agents."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import CallToolResult, TextContent
from test_cli import PROGRAM, run

from lookup_tool import KnowledgeBase, LookupConfig, LookupResult, TraceStore, create_lookup_tool
from lookup_tool.config import QueryConfig
from lookup_tool.server import create_mcp_server

PLAIN = "How many days of annual leave do I get?"
MISS = "May I bring my dog to the office?"
SALARY = "What is the salary range of band B3?"


def tool_of(knowledge: KnowledgeBase, **options: Any) -> Any:
    return create_lookup_tool(knowledge, traces=TraceStore("sqlite://"), **options)


async def ask(
    tool: Any, arguments: dict[str, Any], *, name: str | None = None, **options: Any
) -> CallToolResult:
    """Call a tool through the server and the official client, in memory."""
    server = create_mcp_server(tool)
    async with create_connected_server_and_client_session(server) as session:
        return await session.call_tool(name or tool.name, arguments, **options)


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def lasting(artifact: dict[str, Any] | None) -> dict[str, Any]:
    """Return an artifact without what differs between two lookups: times, and the row's id."""
    assert artifact is not None
    trace = dict(artifact["retrievalTrace"])
    for name in ("invocationId", "durationMs", "timings"):
        del trace[name]
    trace["attempts"] = [{**each, "durationMs": 0} for each in trace["attempts"]]
    return {**artifact, "retrievalTrace": trace}


def artifact_of(tool: Any, query: str) -> dict[str, Any]:
    call = {"name": tool.name, "args": {"query": query}, "id": "1", "type": "tool_call"}
    return tool.invoke(call).artifact


async def test_the_offered_tool_says_what_it_takes_gives_and_leaves_alone(
    handbook: KnowledgeBase,
) -> None:
    tool = tool_of(handbook)
    async with create_connected_server_and_client_session(create_mcp_server(tool)) as session:
        (offered,) = (await session.list_tools()).tools

    assert (offered.name, offered.description) == ("lookup_knowledge", tool.description)
    assert offered.inputSchema == {
        "type": "object",
        "required": ["query"],
        "properties": {"query": {"type": "string", "description": "The question, in plain words."}},
    }
    assert offered.outputSchema == LookupResult.model_json_schema(mode="serialization")
    assert offered.annotations is not None
    assert offered.annotations.readOnlyHint is True


@pytest.mark.parametrize("query", [PLAIN, MISS, ""], ids=["found", "miss", "blank"])
async def test_the_structured_content_is_the_artifact(handbook: KnowledgeBase, query: str) -> None:
    tool = tool_of(handbook)

    result = await ask(tool, {"query": query})

    assert lasting(result.structuredContent) == lasting(artifact_of(tool, query))
    assert text(result) == tool.invoke(query)
    assert result.isError is False


@pytest.mark.parametrize("arguments", [{}, {"query": 5}, {"question": PLAIN}], ids=str)
async def test_a_wrong_call_is_an_error_that_says_how_to_mend_it(
    handbook: KnowledgeBase, arguments: dict[str, Any]
) -> None:
    result = await ask(tool_of(handbook), arguments)

    assert (result.isError, result.structuredContent) == (True, None)
    assert text(result).endswith(
        "Call again with one argument: `query`, a string with the question."
    )


async def test_an_unknown_tool_is_an_error_that_names_the_one(handbook: KnowledgeBase) -> None:
    result = await ask(tool_of(handbook), {"query": PLAIN}, name="search")

    assert result.isError is True
    assert text(result) == "There is no tool 'search' here: call 'lookup_knowledge'."


async def test_a_failed_lookup_is_an_error_without_internals(handbook: KnowledgeBase) -> None:
    def fails(query: str) -> str:
        raise RuntimeError("secret at /srv/secret")

    tool = tool_of(handbook, config=LookupConfig(query=QueryConfig(transform=fails)))

    result = await ask(tool, {"query": PLAIN})

    assert result.isError is True
    assert result.structuredContent is not None
    assert result.structuredContent["evidenceStatus"] == "unavailable"
    assert "secret" not in result.model_dump_json()
    assert text(result).startswith("The lookup failed; this does not mean that there is nothing.")


PEOPLE = {"groups": ["people-team"]}
USER = {"langgraph_auth_user": {"identity": "reader-1", **PEOPLE}}


@pytest.mark.parametrize("place", ["arguments", "meta"])
@pytest.mark.parametrize(
    "said",
    [
        PEOPLE,
        USER,
        {"context": PEOPLE},
        {"runtime": {"context": PEOPLE}},
        {"config": {"configurable": {**PEOPLE, **USER}, "context": PEOPLE}},
        {"state": PEOPLE, "store": PEOPLE, "callbacks": None, "tool_call_id": "1"},
    ],
    ids="-".join,
)
async def test_a_client_names_no_groups(
    handbook: KnowledgeBase, said: dict[str, Any], place: str
) -> None:
    arguments = {"query": SALARY, **(said if place == "arguments" else {})}
    options: dict[str, Any] = {"meta": said} if place == "meta" else {}

    for groups in ((), None, ["it-leads"]):
        closed = await ask(tool_of(handbook, groups=groups), arguments, **options)
        assert closed.structuredContent is not None
        assert closed.structuredContent["evidenceStatus"] == "no_evidence"
        assert "salary-bands" not in closed.model_dump_json()
    opened = await ask(tool_of(handbook, groups=["people-team"]), arguments, **options)
    assert "salary-bands" in opened.model_dump_json()


@asynccontextmanager
async def over_stdio(errors: Path, command: Path | str, *args: str) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(command=str(command), args=[*args])
    with errors.open("w") as errlog:
        async with (
            stdio_client(server, errlog) as (reading, writing),
            ClientSession(reading, writing) as session,
        ):
            await session.initialize()
            yield session


async def test_over_stdio_with_groups_of_the_operator(
    handbook: KnowledgeBase, tmp_path: Path
) -> None:
    errors, traces = tmp_path / "errors", tmp_path / "traces.sqlite"
    options = ("--kb", str(handbook.path), "--traces", str(traces), "--group", "people-team")

    async with over_stdio(errors, PROGRAM, "mcp", *options) as session:
        (offered,) = (await session.list_tools()).tools
        results = [await session.call_tool(offered.name, {"query": q}) for q in (SALARY, MISS)]

    tool = tool_of(handbook, groups=["people-team"])
    for result, query in zip(results, (SALARY, MISS), strict=True):
        assert lasting(result.structuredContent) == lasting(artifact_of(tool, query))
    assert TraceStore(traces).count() == 2
    assert errors.read_text() == ""


NOISY = """
import sys
from lookup_tool.cli import main
from lookup_tool.retrieval.view import View

search = View.search
def noisy(self, request):
    print("a stray line")
    return search(self, request)
View.search = noisy
main(["--debug", "mcp", *sys.argv[1:]])
"""


async def test_logs_and_stray_lines_stay_out_of_the_protocol(
    handbook: KnowledgeBase, tmp_path: Path
) -> None:
    errors = tmp_path / "errors"
    options = ("--kb", str(handbook.path), "--traces", str(tmp_path / "traces.sqlite"))

    async with over_stdio(errors, sys.executable, "-c", NOISY, *options) as session:
        result = await session.call_tool("lookup_knowledge", {"query": PLAIN})

    assert result.isError is False
    logged = errors.read_text()
    assert "a stray line" in logged
    assert "DEBUG:" in logged


def test_an_interrupt_ends_a_server_that_waits_for_its_client(handbook_path: Path) -> None:
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [PROGRAM, "mcp", "--kb", handbook_path]
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 1, "result": {}}

        process.send_signal(signal.SIGINT)

        assert (process.wait(), process.stderr.read()) == (-signal.SIGINT, "")


@pytest.fixture
def url(handbook_path: Path, tmp_path: Path) -> Iterator[str]:
    """Serve over HTTP on a free port, as an operator does, and interrupt it afterwards."""
    options = ("--kb", str(handbook_path), "--traces", str(tmp_path / "traces.sqlite"))
    command = [PROGRAM, "mcp", "--http", "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            assert said.startswith("serving at http://127.0.0.1:"), said + process.stderr.read()
            yield said.split()[-1]
        finally:
            process.send_signal(signal.SIGINT)
            assert (process.wait(), process.stderr.read()) == (0, "")


async def test_over_http_for_clients_and_agents(
    handbook: KnowledgeBase, url: str, tmp_path: Path
) -> None:
    """One test for the one server."""
    async with (
        streamable_http_client(url) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        result = await session.call_tool("lookup_knowledge", {"query": PLAIN})
    assert lasting(result.structuredContent) == lasting(artifact_of(tool_of(handbook), PLAIN))

    served: Any = {"transport": "streamable_http", "url": url}
    await an_agent_uses(await MultiServerMCPClient({"handbook": served}).get_tools())

    rows = TraceStore(tmp_path / "traces.sqlite").rows()
    assert [row.query for row in rows] == [MISS, PLAIN, PLAIN]
    assert status(url, {"Host": "evil.example:8321"}) == 421
    assert status(url, {"Origin": "http://evil.example"}) == 403


async def test_an_agent_starts_it_as_the_readme_shows_through_the_adapters(
    handbook_path: Path, tmp_path: Path
) -> None:
    blocks = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (block,) = (each for each in blocks if "mcpServers" in each)
    shown = json.loads(block)["mcpServers"]["handbook"]
    assert shown["command"] == PROGRAM.name
    args = [part.replace("/path/to/kb", str(handbook_path)) for part in shown["args"]]
    args += ["--traces", str(tmp_path / "traces.sqlite")]
    started: Any = {"transport": "stdio", "command": str(PROGRAM), "args": args}

    async with MultiServerMCPClient({"handbook": started}).session("handbook") as session:
        await an_agent_uses(await load_mcp_tools(session))


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self


async def an_agent_uses(tools: list[BaseTool]) -> None:
    calls: list[Any] = [
        {"name": "lookup_knowledge", "args": args, "id": str(number)}
        for number, args in enumerate(({"query": PLAIN}, {"query": MISS}, {}))
    ]
    script = iter(AIMessage("", tool_calls=[call]) for call in calls)
    model = ScriptedModel(messages=iter([*script, AIMessage("done")]))

    said: Any = {"messages": [("user", "hello")]}
    state = await create_agent(model, tools).ainvoke(said)

    found, missed, wrong = (message for message in state["messages"] if message.type == "tool")
    assert [each.status for each in (found, missed, wrong)] == ["success", "success", "error"]
    assert found.artifact["structured_content"]["evidenceBlocks"][0]["source"] in found.text
    assert missed.artifact["structured_content"]["found"] is False
    assert wrong.text.startswith("The call had a missing `query`.")


def status(url: str, headers: dict[str, str]) -> int:
    accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    request = urllib.request.Request(url, body, {**accepted, **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_port_that_is_taken_is_one_line(handbook_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        refused = run("mcp", "--http", "--port", port, "--kb", handbook_path)

    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use; name another --host "
        "or --port\n"
    )


def test_a_missing_extra_is_one_line(handbook_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    refused = run("mcp", "--kb", handbook_path)

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.splitlines() == [
        "error: The MCP server needs an extra: pip install 'lookup-tool[mcp]'"
    ]
