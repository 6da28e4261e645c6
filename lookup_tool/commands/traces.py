"""`lookup-tool trace`: look at the lookups that were made."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lookup_tool.commands.console import (
    OptionalKnowledgePath,
    TracesUrl,
    add_row,
    out,
    print_json,
)
from lookup_tool.errors import ConfigurationError
from lookup_tool.traces import TraceRow, TraceStore

trace_app = typer.Typer(help="Look at the lookups that were made.", no_args_is_help=True)

_LEAST_WIDTHS = {"id": 8, "time (UTC)": 19, "status": 12, "blocks": 6, "ms": 6}
"""Columns of `trace list` that are never cut."""


@trace_app.command("list")
def list_traces(
    kb: OptionalKnowledgePath = None,
    traces: TracesUrl = None,
    limit: Annotated[int, typer.Option(min=1, help="Most rows to show.")] = 20,
) -> None:
    """List the latest lookups, newest first."""
    table = Table(box=None)
    for heading in ("id", "time (UTC)", "query", "status", "fallback", "blocks", "ms"):
        table.add_column(heading, no_wrap=True, min_width=_LEAST_WIDTHS.get(heading))
    with _traces(kb, traces) as store:
        rows = store.rows(limit)
    for row in rows:
        add_row(table, *_cells(row))
    out.print(table if rows else "no lookups yet")


@trace_app.command("show")
def show_trace(
    invocation_id: Annotated[str, typer.Argument(help="Id of a lookup, or its beginning.")],
    kb: OptionalKnowledgePath = None,
    traces: TracesUrl = None,
) -> None:
    """Print everything that was recorded of one lookup, as JSON."""
    with _traces(kb, traces) as store:
        row = store.row(invocation_id)
    if row is None:
        raise ConfigurationError(
            f"no single lookup {invocation_id!r}; see `lookup-tool trace list`"
        )
    print_json(asdict(row))


@contextmanager
def _traces(kb: Path | None, url: str | None) -> Iterator[TraceStore]:
    if url is None:
        if kb is None:
            raise ConfigurationError("name a knowledge base with --kb, or a database with --traces")
        file = kb / "traces.sqlite"
        if not file.exists():
            raise ConfigurationError(f"{file}: no lookups were recorded here yet")
        url = str(file)
    store = TraceStore(url)
    try:
        yield store
    finally:
        store.close()


def _cells(row: TraceRow) -> tuple[str, ...]:
    query = " ".join(row.query.split())
    return (
        row.invocation_id[:8],
        "" if row.created_at is None else f"{row.created_at:%Y-%m-%d %H:%M:%S}",
        query if len(query) <= 50 else f"{query[:47]}...",  # noqa: PLR2004 - a column's width
        row.evidence_status,
        row.fallback_reason or "",
        str(row.evidence_block_count),
        f"{row.duration_ms:.1f}",
    )
