"""`lookup-tool trace`: look at the lookups that were made, and delete old ones."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lookup_tool.commands.console import (
    OptionalKnowledgePath,
    TracesUrl,
    add_row,
    counted,
    out,
    print_json,
)
from lookup_tool.errors import ConfigurationError
from lookup_tool.traces import TraceRow, TraceStore
from lookup_tool.traces.database import parsed, sqlite_file

trace_app = typer.Typer(
    help="Look at the lookups that were made, and delete old ones.", no_args_is_help=True
)

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


@trace_app.command("prune")
def prune_traces(  # noqa: PLR0913 - the options of one command
    kb: OptionalKnowledgePath = None,
    traces: TracesUrl = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Delete lookups older than this: a number and s, m (minutes), h, d or w, as 30d.",
        ),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=0, help="Delete all but so many of the newest lookups.")
    ] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")
    ] = False,
    vacuum: Annotated[
        bool,
        typer.Option(
            "--vacuum",
            help="Make an SQLite file smaller afterwards; it takes as much room again meanwhile.",
        ),
    ] = False,
) -> None:
    """Delete old lookups.

    With both `--older-than` and `--keep`, a lookup goes if either says so. Lookups that are made
    meanwhile are recorded as always. An SQLite file keeps its size: new lookups fill the room of
    deleted ones, and `--vacuum` makes it smaller. `RecordConfig(keep_days=30)` in Python deletes
    old ones now and then.

    Example: `lookup-tool trace prune --kb kb --older-than 30d --dry-run`
    """
    if older_than is None and keep is None:
        raise ConfigurationError(
            "say what to delete: --older-than 30d, or --keep 100000 for all but the newest"
        )
    before = None if older_than is None else _ago(older_than)
    with _traces(kb, traces) as store:
        deleted = store.prune(before, keep=keep, dry_run=dry_run)
        left = store.count()
        if dry_run:
            out.print(f"would delete {counted(deleted, 'lookup')}; {left - deleted} would be left")
            return
        out.print(f"deleted {counted(deleted, 'lookup')}; {left} left")
        if vacuum:
            store.vacuum()


_AGE = re.compile(r"\s*([0-9]{1,9})\s*([smhdw])\s*")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _ago(age: str) -> datetime:
    """Return the time that lies an age like 30d back.

    Raises:
        ConfigurationError: It is no age, or there were no dates yet.
    """
    found = _AGE.fullmatch(age)
    if found is None:
        raise ConfigurationError(
            f"--older-than {age!r} is no age: give a whole number and a unit, "
            "as 45s, 90m (minutes), 12h, 30d or 2w"
        )
    number, unit = found.groups()
    try:
        return datetime.now(UTC) - timedelta(**{_UNITS[unit]: int(number)})
    except OverflowError as error:
        raise ConfigurationError(
            f"--older-than {age!r} goes back to before the year 1; give a shorter age"
        ) from error


@contextmanager
def _traces(kb: Path | None, url: str | None) -> Iterator[TraceStore]:
    if url is None:
        if kb is None:
            raise ConfigurationError("name a knowledge base with --kb, or a database with --traces")
        url = str(kb / "traces.sqlite")
    file = sqlite_file(parsed(url))
    if file is not None and not file.exists():
        raise ConfigurationError(f"{file}: no lookups were recorded here yet")
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
