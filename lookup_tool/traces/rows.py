"""A trace row, and the table that keeps it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Dialect,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    insert,
)

SCHEMA_VERSION = 1

Values = dict[str, Any]
"""A row as it is written, by column."""


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


TABLE = Table(
    "tool_invocation",
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


INSERT = insert(TABLE)
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


class _Json(str):
    """JSON that is already text."""

    __slots__ = ()


def values_of(row: TraceRow) -> Values:
    """Return a row as it is written, created now.

    The details become text here: what cannot be JSON is refused at once, and a row that waits takes
    no more memory than it will take on disk.

    Raises:
        ValueError: The details are no strict JSON.
    """
    return {
        **vars(row),
        "retrieval_details": _Json(strict_json(row.retrieval_details)),
        "created_at": datetime.now(UTC),
        "schema_version": SCHEMA_VERSION,
    }


def row_of(record: Mapping[Any, Any]) -> TraceRow:
    """Read a row of the table."""
    return TraceRow(**{field.name: record[field.name] for field in fields(TraceRow)})


def strict_json(value: Any) -> str:
    """Write compact JSON without NaN.

    Raises:
        ValueError: A number is not finite.
        TypeError: JSON has no such value.
    """
    if isinstance(value, _Json):
        return str(value)  # not every driver takes a subclass
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
