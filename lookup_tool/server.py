"""The tool for MCP clients: `lookup-tool mcp`, over standard input and output or over HTTP.

The access groups are the operator's, for every client of one server; no client can name any. Needs
the extra `mcp`.
"""

import asyncio
import contextlib
import io
import logging
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from lookup_tool.config import as_groups
from lookup_tool.contracts import LookupResult
from lookup_tool.errors import MissingExtraError
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.tool import create_lookup_tool

logger = logging.getLogger(__name__)

_REFRESH = 5.0
"""Seconds after which a lookup looks for what a sync has written meanwhile."""


def mcp(  # noqa: PLR0913 - the options of one command
    kb: Annotated[
        Path, typer.Option("--kb", envvar="LOOKUP_KB", help="Folder of the knowledge base.")
    ],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Access group of every client; repeat it for several."),
    ] = None,
    traces: Annotated[
        str | None,
        typer.Option("--traces", help="Database URL or file; by default KB/traces.sqlite."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on, with --http.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on, with --http; 0 takes any.")
    ] = 8321,
    *,
    request_timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds a client may take to send a request, with --http."),
    ] = 10.0,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over streamable HTTP, not standard input.")
    ] = False,
) -> None:
    """Serve `lookup_knowledge` to MCP clients (Claude, Cursor, VS Code and others).

    A client starts it itself and talks to it over standard input and output. With `--http` it is
    a server of its own at `http://HOST:PORT/mcp`; it asks for no password, so whoever reaches
    the port reads what the groups may read. `http://HOST:PORT/health` answers while it runs.

    Example: `lookup-tool mcp --kb kb --group people-team`
    """
    with KnowledgeBase.open(kb, refresh_every=_REFRESH) as knowledge:
        tool = create_lookup_tool(knowledge, traces=traces, groups=as_groups(group))
        server = create_mcp_server(tool)
        if http:
            from lookup_tool.http_server import serve  # noqa: PLC0415 - an extra

            serve(server, host, port, request_timeout)
        else:
            # An interrupt ends it at once: asyncio would wait for the read of standard input.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            asyncio.run(_serve_stdio(server))


def create_mcp_server(tool: StructuredTool) -> Any:
    """Offer a lookup tool as an MCP server.

    Args:
        tool: What `create_lookup_tool` gave. There is no runtime here: its groups are those it was
            created with, else none.

    Returns:
        An `mcp.server.lowlevel.Server` with this one tool. Its structured content is the tool's
        artifact; a call that was wrong, or a lookup that failed, is marked as an error.

    Raises:
        MissingExtraError: `mcp` is not installed.
    """
    try:
        from mcp import types  # noqa: PLC0415 - an extra
        from mcp.server.lowlevel import Server  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("The MCP server", "mcp") from error
    offered = types.Tool(
        name=tool.name,
        description=tool.description,
        inputSchema=convert_to_openai_tool(tool)["function"]["parameters"],
        outputSchema=LookupResult.model_json_schema(mode="serialization"),
        annotations=types.ToolAnnotations(
            title="Look up the documents",
            readOnlyHint=True,
            idempotentHint=True,
            destructiveHint=False,
            openWorldHint=False,
        ),
    )
    server: Any = Server("lookup-tool", version=version("lookup-tool"))

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [offered]

    @server.call_tool(validate_input=False)  # the tool says itself how to mend a call
    async def call_tool(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        if name != tool.name:
            return answer(f"There is no tool {name!r} here: call {tool.name!r}.", None)
        call = {"name": name, "args": arguments, "id": "mcp", "type": "tool_call"}
        try:
            message: ToolMessage = await tool.ainvoke(call)
        except Exception:  # what it says may name places on this machine
            logger.exception("a call of %s failed", name)
            return answer("The lookup failed; the log of the server says why.", None)
        return answer(message.text, message.artifact)

    def answer(text: str, result: dict[str, Any] | None) -> types.CallToolResult:
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structuredContent=result,
            isError=result is None or result["evidenceStatus"] == "unavailable",
        )

    return server


async def _serve_stdio(server: Any) -> None:
    """Serve one client until it closes standard input; a stray `print` goes to standard error."""
    import anyio  # noqa: PLC0415 - an extra
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - an extra

    protocol = anyio.wrap_file(io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8"))
    with contextlib.redirect_stdout(sys.stderr):
        async with stdio_server(stdout=protocol) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
