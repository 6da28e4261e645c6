"""One database with the table of trace rows, and how long its callers wait for it.

SQLite by default, in WAL mode so that readers and several processes do not block each other. An
older table gets the columns that it lacks; its rows stay.
"""

import math
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from typing import Any

from filelock import FileLock
from sqlalchemy import URL, Connection, Engine, create_engine, event, func, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import Pool, QueuePool
from sqlalchemy.schema import CreateColumn

from lookup_tool.errors import TraceStoreError
from lookup_tool.traces.problems import StoreBusyError, problem
from lookup_tool.traces.rows import INSERT, SCHEMA_VERSION, TABLE, Values, strict_json

IN_MEMORY = "sqlite://"

PATIENCE = 10.0
"""Seconds that readers, and the thread that writes late, wait for somebody else's transaction."""

QUICK = 0.03
"""Seconds that an answer waits for one. Only the first write of all may wait for several in a row,
nine at most; a wait in vain is the last."""

_SLOW = 0.1
"""Seconds from which a write is slow."""

_INSTRUCTIONS = 10_000
"""Of SQLite's machine, between two looks at the clock; a write takes some hundreds."""

_LATEST = 100
"""Rows that show whether a newer version has written to a table; all of them would take long."""

_databases: "weakref.WeakSet[TraceDatabase]" = weakref.WeakSet()
_inherited: list[Pool] = []
"""Connections that belong to the process before a fork: closing one here would break it there."""


class TraceDatabase:
    """Connections to one database, whose table is made at its first use."""

    def __init__(self, url: URL) -> None:
        """Make the engines; nothing is opened yet.

        Raises:
            TraceStoreError: The URL names no database that can be used here.
        """
        self.url = url.render_as_string(hide_password=True)
        self.file = sqlite_file(url)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.in_memory = self.is_sqlite and self.file is None
        self.was_slow = False
        """Whether the latest write was."""
        with self._errors("cannot open the trace store"):
            self.engine = _engine(url, PATIENCE)
            self._quick = self.engine if self.file is None else _engine(url, QUICK)
        if self._quick is not self.engine:
            event.listen(self._quick, "connect", self._watch)
        self._start_over()
        _databases.add(self)

    def _start_over(self) -> None:
        self._ready = False
        self._preparing = threading.Lock()
        self._turn = threading.Lock()
        self._break_off_at = math.inf

    def _watch(self, connection: Any, _record: Any) -> None:
        """Break off what an answer waits for when it turns out to be slow."""
        connection.set_progress_handler(lambda: monotonic() > self._break_off_at, _INSTRUCTIONS)

    def prepare(self, *, quick: bool = False) -> None:
        """Create the table, or complete an older one, once; other openers of a file wait.

        Raises:
            StoreBusyError: Somebody else is using the database.
            TraceStoreError: It cannot be opened, or its table cannot be used.
        """
        if self._ready:
            return
        engine = self._quick if quick else self.engine
        with self._held(self._preparing, quick=quick):
            if self._ready:
                return
            if quick:
                self._break_off_at = monotonic() + _SLOW
            with self._errors("cannot open the trace store"), self._alone(quick=quick):
                TABLE.metadata.create_all(engine)
                self._complete(engine)
            self._ready = True

    @contextmanager
    def begin(self, what: str, *, quick: bool = False) -> Iterator[Connection]:
        """Begin a transaction, in a database that is prepared.

        Args:
            what: What is done in it, for the message of an error.
            quick: Wait no longer than an answer may.

        Raises:
            StoreBusyError: Somebody else is using the database.
            TraceStoreError: Anything else went wrong.
        """
        self.prepare(quick=quick)
        engine = self._quick if quick else self.engine
        # One quick write at a time. In memory, one of anything: one connection is the database.
        turn = self._held(self._turn, quick=quick) if quick or self.in_memory else nullcontext()
        with turn:
            if quick:
                self._break_off_at = monotonic() + _SLOW
            with self._errors(what), engine.begin() as connection:
                yield connection

    def insert(self, rows: Sequence[Values], *, quick: bool = False) -> None:
        """Write rows, all or none.

        Raises:
            StoreBusyError: Somebody else is using the database.
            TraceStoreError: They cannot be written.
        """
        self.prepare(quick=quick)
        started = monotonic()
        with self.begin("cannot write to", quick=quick) as connection:
            connection.execute(INSERT, rows)
        self.was_slow = monotonic() - started > _SLOW

    def vacuum(self) -> None:
        """Rewrite an SQLite file without the room that deleted rows have left.

        Raises:
            TraceStoreError: It is another database, or it cannot be done now.
        """
        if not self.is_sqlite:
            raise TraceStoreError(f"{self.url}: only an SQLite file is made smaller from here")
        self.prepare()
        alone = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._errors("cannot write to"), alone.connect() as connection:
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def dispose(self) -> None:
        """Close every connection; the next use opens new ones."""
        for engine in (self.engine, self._quick):
            engine.dispose()
        if self.in_memory:
            self._ready = False

    def leave_to_parent(self) -> None:
        """Begin anew in the child of a fork, without a connection or a lock of the parent's.

        What was in memory is the parent's, too.
        """
        for engine in (self.engine, self._quick):
            _inherited.append(engine.pool)
            engine.dispose(close=False)
        self._start_over()

    def _complete(self, engine: Engine) -> None:
        """Add the columns that an older table lacks; leave one that a newer version made alone."""
        table = TABLE.name
        columns = {each["name"].lower(): each for each in inspect(engine).get_columns(table)}
        newest = None
        if "schema_version" in columns:
            latest = select(TABLE.c.schema_version).order_by(TABLE.c.id.desc()).limit(_LATEST)
            with engine.connect() as connection:
                newest = connection.scalar(select(func.max(latest.subquery().c.schema_version)))
        foreign = [
            name
            for name, column in columns.items()
            if name not in TABLE.columns and not column["nullable"] and column["default"] is None
        ]
        if foreign or (newest is not None and newest > SCHEMA_VERSION):
            what = f"has a column {foreign[0]!r}" if foreign else f"holds rows of schema {newest}"
            raise TraceStoreError(
                f"{self.url}: {table} {what}, which this version cannot write; upgrade "
                "lookup-tool, or name another store",
                "the trace store has a table that this version cannot write",
            )
        with engine.begin() as connection:
            for column in TABLE.columns:
                if column.name not in columns:
                    ddl = CreateColumn(column).compile(engine)
                    connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {ddl}")

    @contextmanager
    def _alone(self, *, quick: bool) -> Iterator[None]:
        """Keep other openers of the same SQLite file out while its table is made."""
        if self.file is None:
            yield
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{self.file}.lock")
        with lock.acquire(timeout=_wait(quick=quick), poll_interval=QUICK / 3):
            yield

    @contextmanager
    def _held(self, lock: threading.Lock, *, quick: bool) -> Iterator[None]:
        if not lock.acquire(timeout=_wait(quick=quick)):
            raise StoreBusyError(f"{self.url} is in use", "the trace store is in use")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn what a database may raise into one line that names the store."""
        try:
            yield
        except (SQLAlchemyError, OSError, ImportError, ValueError) as error:
            raise problem(error, what, self.url) from error


def _wait(*, quick: bool) -> float:
    return QUICK if quick else PATIENCE


def parsed(url: str | Path) -> URL:
    """Read a URL, or the path of an SQLite file.

    Raises:
        TraceStoreError: It is neither.
    """
    if url == ":memory:":
        url = IN_MEMORY
    if isinstance(url, Path) or "://" not in url:
        return URL.create("sqlite", database=Path(url).absolute().as_posix())
    try:
        return make_url(url)
    except ArgumentError as error:
        raise TraceStoreError("the trace store's URL cannot be read; use sqlite:///FILE") from error


def sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite database; None for one in memory, or another database."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    name = url.database.removeprefix("file:").partition("?")[0]
    if name in {"", ":memory:"} or "memory" in url.query.get("mode", ()):
        return None
    return Path(name)


def _engine(url: URL, wait: float) -> Engine:
    options: dict[str, Any] = {"json_serializer": strict_json}
    if url.get_backend_name() != "sqlite":
        return create_engine(url, **options)
    if sqlite_file(url) is None:
        # One connection is the whole database; the pool lends it to one call at a time.
        options |= {
            "poolclass": QueuePool,
            "pool_size": 1,
            "max_overflow": 0,
            "connect_args": {"check_same_thread": False},
        }

    def configure(connection: Any, _record: Any) -> None:
        for pragma in (
            f"busy_timeout = {wait * 1000:.0f}",
            "journal_mode = WAL",
            "synchronous = NORMAL",
        ):
            connection.execute(f"PRAGMA {pragma}")

    engine = create_engine(url, **options)
    event.listen(engine, "connect", configure)
    return engine


def _leave_all_to_parent() -> None:
    for database in tuple(_databases):
        database.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)
