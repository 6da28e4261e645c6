"""Where lookups are recorded and read back, without ever delaying one.

A row is written at once where that takes no time. Where the database is locked, slow or far away, a
thread writes it.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Select, func, select

from lookup_tool.errors import TraceStoreError
from lookup_tool.traces.backlog import Backlog
from lookup_tool.traces.database import PATIENCE, TraceDatabase, parsed
from lookup_tool.traces.problems import StoreBusyError, StoreUnreachableError
from lookup_tool.traces.pruning import Retention, count_expired, delete_expired
from lookup_tool.traces.rows import TABLE, TraceRow, Values, row_of, values_of

_MOMENT = 0.1
"""Seconds that a lookup waits for a database that a thread writes to; most need less."""

_PRUNE_AFTER = 1_000
"""Rows from one pruning to the next, or an hour."""

_HOUR = 3600.0


class TraceStore:
    """Writes and reads rows of `tool_invocation`; safe to share between threads."""

    def __init__(self, url: str | Path, *, lazy: bool = False) -> None:
        """Open a store, creating or completing its table; one that is locked opens later.

        Args:
            url: An SQLAlchemy URL, or the path of an SQLite file (its folder is created);
                `sqlite://` lives in memory.
            lazy: Open it at its first use, so that one that cannot be opened costs no lookup.

        Raises:
            TraceStoreError: It cannot be opened.
        """
        self._database = TraceDatabase(parsed(url))
        self._engine = self._database.engine
        self._backlog = Backlog(self._database.insert, self.url)
        self._until_pruned = 0
        self._next_prune = 0.0
        weakref.finalize(self, self._backlog.abandon).atexit = False
        if not lazy:
            with suppress(StoreBusyError):
                self._database.prepare(quick=True)

    @property
    def url(self) -> str:
        """The URL, without its password."""
        return self._database.url

    @property
    def lost(self) -> int:
        """How many rows were handed in and will never be written; the log says why."""
        return self._backlog.lost

    def record(self, row: TraceRow) -> None:
        """Write one row, or hand it to a thread that writes it as soon as it can.

        It takes a third of a second at most, whatever the database does.

        Raises:
            TraceStoreError: It cannot be written; or the database does not answer, and it waits.
        """
        try:
            values = values_of(row)
        except (TypeError, ValueError) as error:
            refused = TraceStoreError(
                f"cannot write to {self.url}: {error}", "the row cannot be written as JSON"
            )
            self._backlog.lose(1, refused)
            raise refused from error
        database = self._database
        if not database.is_sqlite or database.was_slow or not self._backlog.is_empty:
            self._backlog.put(values, _MOMENT)
        else:
            self._write(values)

    def _write(self, values: Values) -> None:
        try:
            self._database.insert([values], quick=True)
        except (StoreBusyError, StoreUnreachableError):
            self._backlog.put(values)
        except TraceStoreError as error:
            self._backlog.lose(1, error)
            raise

    def rows(self, limit: int = 20) -> list[TraceRow]:
        """Return the latest rows, newest first."""
        return self._read(select(TABLE).order_by(TABLE.c.id.desc()).limit(limit))

    def row(self, invocation_id: str) -> TraceRow | None:
        """Return the row of one lookup; the beginning of its id will do if it is unique."""
        begins = TABLE.c.invocation_id.startswith(invocation_id, autoescape=True)
        found = self._read(select(TABLE).where(begins).limit(2))
        return found[0] if len(found) == 1 else None

    def count(self) -> int:
        """Return how many rows there are."""
        with self._reading() as connection:
            return connection.execute(select(func.count()).select_from(TABLE)).scalar_one()

    def prune(
        self, before: datetime | None = None, *, keep: int | None = None, dry_run: bool = False
    ) -> int:
        """Delete rows that are too old, and rows that are not among the newest.

        An SQLite file keeps its size, and new rows fill the room; `vacuum` makes it smaller.

        Args:
            before: Delete what was created earlier; a row without a time stays.
            keep: Delete all but so many.
            dry_run: Delete nothing.

        Returns:
            How many rows were deleted, or would be.
        """
        retention = Retention(before, keep)
        self._backlog.flush()
        if dry_run:
            return count_expired(self._database, retention)
        return sum(delete_expired(self._database, retention))

    def prune_now_and_then(self, keep_rows: int | None, keep_days: float | None) -> None:
        """Let a thread prune, when the latest time is an hour or a thousand calls ago.

        Args:
            keep_rows: How many of the newest rows stay; None keeps all.
            keep_days: Days after which a row goes; None keeps all.
        """
        if keep_rows is None and keep_days is None:
            return
        self._until_pruned -= 1
        if self._until_pruned > 0 and monotonic() < self._next_prune:
            return
        self._until_pruned, self._next_prune = _PRUNE_AFTER, monotonic() + _HOUR
        before = None if keep_days is None else datetime.now(UTC) - timedelta(days=keep_days)
        self._backlog.do(
            delete_expired(self._database, Retention(before, keep_rows), thorough=False)
        )

    def vacuum(self) -> None:
        """Make an SQLite file as small as its rows; it is locked meanwhile, and copied.

        Raises:
            TraceStoreError: It is no SQLite file, or there is no room for the copy.
        """
        self._database.vacuum()

    def close(self, seconds: float = PATIENCE) -> None:
        """Write what waits, in so many seconds at most, and close every connection.

        A store that is written to afterwards opens again.
        """
        self._backlog.close(seconds)
        self._database.dispose()

    def _read(self, statement: "Select[Any]") -> list[TraceRow]:
        with self._reading() as connection:
            return [row_of(record) for record in connection.execute(statement).mappings()]

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Read what was recorded, if need be after ten seconds without what waits."""
        self._backlog.flush()
        with self._database.begin("cannot read") as connection:
            yield connection
