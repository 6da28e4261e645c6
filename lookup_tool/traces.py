"""The trace store: one compact row for every lookup, in any database that SQLAlchemy speaks.

SQLite by default, in WAL mode so that readers and several processes do not block each other. An
older table gets the columns that it lacks; its rows stay.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock
from sqlalchemy import (
    JSON,
    URL,
    Boolean,
    Column,
    Dialect,
    Engine,
    Float,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    TypeDecorator,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import QueuePool
from sqlalchemy.schema import CreateColumn

from lookup_tool.errors import TraceStoreError

SCHEMA_VERSION = 1
BUSY_TIMEOUT_MS = 10_000
IN_MEMORY = "sqlite://"

_NAME = "tool_invocation"


class _Time(TypeDecorator[datetime]):
    """UTC times, as ISO text in SQLite; one that cannot be read becomes None."""

    impl = String(40)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        return None if value is None else value.astimezone(UTC).isoformat(" ", "microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        try:
            read = datetime.fromisoformat(str(value))
        except ValueError:
            return None
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read


_TABLE = Table(
    _NAME,
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("invocation_id", String(64), index=True),
    Column("tool_name", String(200)),
    Column("created_at", _Time),
    Column("query", Text),
    Column("found", Boolean),
    Column("evidence_status", String(20)),
    Column("fallback_reason", String(40)),
    Column("candidate_count", Integer),
    Column("evidence_block_count", Integer),
    Column("duration_ms", Float),
    Column("knowledge_version", String(64)),
    Column("retrieval_details", JSON),
    Column("schema_version", Integer),
)


_INSERT = insert(_TABLE)
"""Made once: composing it takes as long as writing a row."""


@dataclass(frozen=True)
class TraceRow:
    """One lookup, as it is stored."""

    invocation_id: str
    tool_name: str
    query: str
    found: bool
    evidence_status: str
    fallback_reason: str | None
    candidate_count: int
    evidence_block_count: int
    duration_ms: float
    knowledge_version: str
    retrieval_details: dict[str, Any]
    created_at: datetime | None = None
    """UTC; set by the store."""


class TraceStore:
    """Writes and reads rows of `tool_invocation`; safe to share between threads."""

    def __init__(self, url: str | Path, *, lazy: bool = False) -> None:
        """Open a store, creating or completing its table.

        Args:
            url: An SQLAlchemy URL, or the path of an SQLite file (its folder is created);
                `sqlite://` lives in memory.
            lazy: Open it at its first use, so that one that cannot be opened costs no lookup.

        Raises:
            TraceStoreError: It cannot be opened.
        """
        parsed = _parsed(url)
        self.url = parsed.render_as_string(hide_password=True)
        self._ready = False
        self._preparing = threading.Lock()
        with self._errors("cannot open the trace store"):
            self._engine = _engine(parsed)
        if not lazy:
            self._prepare()

    def record(self, row: TraceRow) -> None:
        """Write one row.

        Raises:
            TraceStoreError: It cannot be written.
        """
        self._prepare()
        values = {**vars(row), "created_at": datetime.now(UTC), "schema_version": SCHEMA_VERSION}
        with self._errors("cannot write to"), self._engine.begin() as connection:
            connection.execute(_INSERT, values)

    def rows(self, limit: int = 20) -> list[TraceRow]:
        """Return the latest rows, newest first."""
        return self._read(select(_TABLE).order_by(_TABLE.c.id.desc()).limit(limit))

    def row(self, invocation_id: str) -> TraceRow | None:
        """Return the row of one lookup; the beginning of its id will do if it is unique."""
        begins = _TABLE.c.invocation_id.startswith(invocation_id, autoescape=True)
        found = self._read(select(_TABLE).where(begins).limit(2))
        return found[0] if len(found) == 1 else None

    def count(self) -> int:
        """Return how many rows there are."""
        self._prepare()
        with self._errors("cannot read"), self._engine.connect() as connection:
            return connection.execute(select(func.count()).select_from(_TABLE)).scalar_one()

    def prune(self, before: datetime) -> int:
        """Delete rows that were created earlier; return how many."""
        self._prepare()
        older = delete(_TABLE).where(_TABLE.c.created_at < before)
        with self._errors("cannot write to"), self._engine.begin() as connection:
            return connection.execute(older).rowcount

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _read(self, statement: "Select[Any]") -> list[TraceRow]:
        self._prepare()
        with self._errors("cannot read"), self._engine.connect() as connection:
            return [_row(record) for record in connection.execute(statement).mappings()]

    def _prepare(self) -> None:
        """Create the table, or complete an older one, once; other openers of a file wait."""
        with self._preparing:
            if self._ready:
                return
            with self._errors("cannot open the trace store"), _alone(self._engine.url):
                _TABLE.metadata.create_all(self._engine)
                self._complete()
            self._ready = True

    def _complete(self) -> None:
        """Add the columns that an older table lacks; leave one that a newer version made alone."""
        columns = {each["name"].lower(): each for each in inspect(self._engine).get_columns(_NAME)}
        newest = None
        if "schema_version" in columns:
            with self._engine.connect() as connection:
                newest = connection.execute(select(func.max(_TABLE.c.schema_version))).scalar()
        foreign = [
            name
            for name, column in columns.items()
            if name not in _TABLE.columns and not column["nullable"] and column["default"] is None
        ]
        if foreign or (newest is not None and newest > SCHEMA_VERSION):
            what = f"has a column {foreign[0]!r}" if foreign else f"holds rows of schema {newest}"
            raise TraceStoreError(
                f"{self.url}: {_NAME} {what}, which this version cannot write; upgrade "
                "lookup-tool, or name another store"
            )
        with self._engine.begin() as connection:
            for column in _TABLE.columns:
                if column.name not in columns:
                    ddl = CreateColumn(column).compile(self._engine)
                    connection.exec_driver_sql(f"ALTER TABLE {_NAME} ADD COLUMN {ddl}")

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn what a database may raise into one line that names the store."""
        try:
            yield
        except (SQLAlchemyError, OSError, ImportError, ValueError) as error:
            cause = str(getattr(error, "orig", None) or error).split("\n", 1)[0]
            raise TraceStoreError(f"{what} {self.url}: {cause}") from error


def _parsed(url: str | Path) -> URL:
    if url == ":memory:":
        url = IN_MEMORY
    if isinstance(url, Path) or "://" not in url:
        return URL.create("sqlite", database=Path(url).absolute().as_posix())
    try:
        return make_url(url)
    except ArgumentError as error:
        raise TraceStoreError("the trace store's URL cannot be read; use sqlite:///FILE") from error


def _engine(url: URL) -> Engine:
    options: dict[str, Any] = {"json_serializer": _strict_json}
    if url.get_backend_name() != "sqlite":
        return create_engine(url, **options)
    if _sqlite_file(url) is None:
        # One connection is the whole database; the pool lends it to one call at a time.
        options |= {
            "poolclass": QueuePool,
            "pool_size": 1,
            "max_overflow": 0,
            "connect_args": {"check_same_thread": False},
        }
    engine = create_engine(url, **options)
    event.listen(engine, "connect", _configure)
    return engine


def _sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite database; None for one in memory, or another database."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    name = url.database.removeprefix("file:").partition("?")[0]
    if name in {"", ":memory:"} or "memory" in url.query.get("mode", ()):
        return None
    return Path(name)


@contextmanager
def _alone(url: URL) -> Iterator[None]:
    """Keep other openers of the same SQLite file out while its table is made."""
    file = _sqlite_file(url)
    if file is None:
        yield
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock", timeout=BUSY_TIMEOUT_MS / 1000):
        yield


def _configure(connection: Any, _record: Any) -> None:
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = NORMAL",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _strict_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _row(record: Any) -> TraceRow:
    return TraceRow(**{field.name: record[field.name] for field in fields(TraceRow)})
