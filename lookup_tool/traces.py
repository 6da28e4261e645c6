"""The trace store: one compact row for every lookup, in any database that SQLAlchemy speaks.

SQLite by default, in WAL mode so that readers and several processes do not block each other. An
older table gets the columns that it lacks; its rows stay.
"""

import json
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
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

_TABLE = Table(
    "tool_invocation",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("invocation_id", String(64), index=True),
    Column("tool_name", String(200)),
    Column("created_at", DateTime(timezone=True)),
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

    def __init__(self, url: str | Path) -> None:
        """Open a store, creating or completing its table.

        Args:
            url: An SQLAlchemy URL, or the path of an SQLite file (its folder is created);
                `sqlite://` lives in memory.

        Raises:
            TraceStoreError: It cannot be opened.
        """
        self.url = _as_url(url)
        try:
            self._engine = _engine(self.url)
            self._create()
        except (SQLAlchemyError, OSError) as error:
            raise TraceStoreError(f"cannot open the trace store {self.url}: {_cause(error)}") from (
                error
            )

    def record(self, row: TraceRow) -> None:
        """Write one row.

        Raises:
            TraceStoreError: It cannot be written.
        """
        values = {**asdict(row), "created_at": datetime.now(UTC), "schema_version": SCHEMA_VERSION}
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(_TABLE), values)
        except (SQLAlchemyError, ValueError) as error:
            raise TraceStoreError(f"cannot write to {self.url}: {_cause(error)}") from error

    def rows(self, limit: int = 20) -> list[TraceRow]:
        """Return the latest rows, newest first."""
        statement = select(_TABLE).order_by(_TABLE.c.id.desc()).limit(limit)
        with self._engine.connect() as connection:
            return [_row(record) for record in connection.execute(statement).mappings()]

    def row(self, invocation_id: str) -> TraceRow | None:
        """Return the row of one lookup; the beginning of its id will do when it is the only one."""
        statement = select(_TABLE).where(_TABLE.c.invocation_id.startswith(invocation_id)).limit(2)
        with self._engine.connect() as connection:
            found = list(connection.execute(statement).mappings())
        return _row(found[0]) if len(found) == 1 else None

    def count(self) -> int:
        """Return how many rows there are."""
        with self._engine.connect() as connection:
            return connection.execute(select(func.count()).select_from(_TABLE)).scalar_one()

    def prune(self, before: datetime) -> int:
        """Delete rows that were created earlier; return how many."""
        with self._engine.begin() as connection:
            return connection.execute(delete(_TABLE).where(_TABLE.c.created_at < before)).rowcount

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _create(self) -> None:
        _TABLE.metadata.create_all(self._engine)
        present = {column["name"] for column in inspect(self._engine).get_columns(_TABLE.name)}
        missing = [column for column in _TABLE.columns if column.name not in present]
        if missing:
            with self._engine.begin() as connection:
                for column in missing:
                    ddl = CreateColumn(column).compile(self._engine)
                    connection.exec_driver_sql(f"ALTER TABLE {_TABLE.name} ADD COLUMN {ddl}")


def _as_url(url: str | Path) -> str:
    if isinstance(url, str) and "://" in url:
        return url
    return f"sqlite:///{Path(url).absolute().as_posix()}"


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise TraceStoreError(f"{url!r} is no database URL; use sqlite:///FILE") from error
    options: dict[str, Any] = {"json_serializer": _strict_json}
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed, **options)
    if parsed.database in {None, "", ":memory:"}:
        # One connection is the whole database; the pool lends it to one call at a time.
        options |= {
            "poolclass": QueuePool,
            "pool_size": 1,
            "max_overflow": 0,
            "connect_args": {"check_same_thread": False},
        }
    else:
        Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parsed, **options)
    event.listen(engine, "connect", _configure)
    return engine


def _configure(connection: Any, _record: Any) -> None:
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = NORMAL",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _strict_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _cause(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    return str(original).split("\n", 1)[0]


def _row(record: Any) -> TraceRow:
    values = {field.name: record[field.name] for field in fields(TraceRow)}
    created = values["created_at"]
    if created is not None and created.tzinfo is None:  # SQLite keeps no zone
        values["created_at"] = created.replace(tzinfo=UTC)
    return TraceRow(**values)
