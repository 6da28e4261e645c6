"""An MCP server over HTTP: where it listens, who may ask, and how long a request may take."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Any

import typer
import uvicorn
from mcp.server.fastmcp.server import StreamableHTTPASGIApp
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from lookup_tool.errors import ConfigurationError

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_SHUTDOWN = 5
"""Seconds that an ending server gives to what is under way."""


def serve(server: Any, host: str, port: int, request_timeout: float) -> None:
    """Serve until interrupted or terminated; say where, once it listens.

    Args:
        server: The MCP server.
        host: Address to listen on.
        port: 0 takes any.
        request_timeout: Seconds a client may take to send a request.

    Raises:
        ConfigurationError: There is no such address, or it is taken.
    """
    address = f"[{host}]" if ":" in host else host
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no such address"
            raise ConfigurationError(
                f"cannot listen on {address}:{port}: {reason}; name another --host or --port"
            ) from error
        listening.listen()
        bound, number = listening.getsockname()[:2]
        typer.echo(f"serving at http://{address}:{number}/mcp", err=True)
        protocol: Any = partial(Protocol, request_timeout=request_timeout)
        config = uvicorn.Config(
            web_app(server, address if _is_loopback(bound) else None),
            http=protocol,
            timeout_graceful_shutdown=_SHUTDOWN,
            log_config=None,
            access_log=False,
        )
        with contextlib.suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as an interrupt does
            uvicorn.Server(config).run(sockets=[listening])


class Protocol(H11Protocol):
    """Drops a client that takes too long to send a whole request.

    The time-out of uvicorn itself begins when a request has been answered.
    """

    def __init__(self, *, request_timeout: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = request_timeout
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting, unless the request is whole now."""
        super().data_received(data)
        latest = self.cycle  # of the latest request whose headers are here
        if latest is None or latest.more_body or latest.response_complete:
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End, after an answer that is under way; a request that is not whole gets none."""
        if self._waiting is None:
            super().shutdown()
        else:
            self.transport.close()

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self._seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def web_app(server: Any, local: str | None) -> Starlette:
    """Mount an MCP server at `/mcp`, and say at `/health` that it runs.

    Args:
        server: The MCP server.
        local: Its address, where only this machine reaches it: then requests must name it, so that
            no page in a browser comes through a name of its own that it made point here.
    """
    names = (*_LOOPBACK, *([local] if local else []))
    hosts = [host for name in names for host in (name, f"{name}:*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=local is not None,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
    manager = StreamableHTTPSessionManager(server, stateless=True, security_settings=security)

    @contextlib.asynccontextmanager
    async def running(_app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    async def health(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    routes = [Route("/mcp", StreamableHTTPASGIApp(manager)), Route("/health", health)]
    return Starlette(routes=routes, lifespan=running)


def _is_loopback(address: str) -> bool:
    """Tell whether only this machine reaches a socket that is bound to this address."""
    bound = ip_address(address)
    inner = bound.ipv4_mapped if isinstance(bound, IPv6Address) else None
    return (inner or bound).is_loopback
