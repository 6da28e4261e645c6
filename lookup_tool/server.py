"""The tool for MCP clients: `lookup-tool mcp`, over standard input and output or over HTTP.

The access groups are the operator's, for every client of one server; no client can name any. Needs
the extra `mcp`.
"""

import asyncio
import contextlib
import io
import signal
import socket
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from lookup_tool.config import as_groups
from lookup_tool.contracts import LookupResult
from lookup_tool.errors import ConfigurationError, MissingExtraError
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.tool import create_lookup_tool

_REFRESH = 5.0
"""Seconds after which a lookup looks for what a sync has written meanwhile."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


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
    http: Annotated[
        bool, typer.Option("--http", help="Serve over streamable HTTP, not standard input.")
    ] = False,
) -> None:
    """Serve `lookup_knowledge` to MCP clients (Claude, Cursor, VS Code and others).

    A client starts it itself and talks to it over standard input and output. With `--http` it is
    a server of its own at `http://HOST:PORT/mcp`; it asks for no password, so whoever reaches
    the port reads what the groups may read.

    Example: `lookup-tool mcp --kb kb --group people-team`
    """
    with KnowledgeBase.open(kb, refresh_every=_REFRESH) as knowledge:
        tool = create_lookup_tool(knowledge, traces=traces, groups=as_groups(group))
        server = create_mcp_server(tool)
        if http:
            _serve_http(server, host, port)
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
            raise ValueError(f"There is no tool {name!r} here: call {tool.name!r}.")
        call = {"name": name, "args": arguments, "id": "mcp", "type": "tool_call"}
        message: ToolMessage = await tool.ainvoke(call)
        result: dict[str, Any] | None = message.artifact
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=message.text)],
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


def _serve_http(server: Any, host: str, port: int) -> None:
    """Serve until interrupted; say where, once it listens."""
    import uvicorn  # noqa: PLC0415 - an extra

    address = f"[{host}]" if ":" in host else host
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {address}:{port}: {error.strerror}; "
                "name another --host or --port"
            ) from error
        listening.listen()
        typer.echo(f"serving at http://{address}:{listening.getsockname()[1]}/mcp", err=True)
        config = uvicorn.Config(_web_app(server, address), log_config=None, access_log=False)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


def _web_app(server: Any, address: str) -> Any:
    """Mount the server at `/mcp`; on this machine's own address, for pages of this machine only."""
    from mcp.server.fastmcp.server import StreamableHTTPASGIApp  # noqa: PLC0415 - an extra
    from mcp.server.streamable_http_manager import (  # noqa: PLC0415 - an extra
        StreamableHTTPSessionManager,
    )
    from mcp.server.transport_security import (  # noqa: PLC0415 - an extra
        TransportSecuritySettings,
    )
    from starlette.applications import Starlette  # noqa: PLC0415 - an extra
    from starlette.routing import Route  # noqa: PLC0415 - an extra

    # A page in a browser must not reach a local server through a name that it made point here.
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=address in _LOOPBACK,
        allowed_hosts=[f"{name}:*" for name in _LOOPBACK],
        allowed_origins=[f"http://{name}:*" for name in _LOOPBACK],
    )
    manager = StreamableHTTPSessionManager(server, stateless=True, security_settings=security)

    @contextlib.asynccontextmanager
    async def running(_app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Route("/mcp", StreamableHTTPASGIApp(manager))], lifespan=running)
