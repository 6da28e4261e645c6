"""How old rows are deleted: a few at a time, so that nobody waits for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, false, func, or_, select

from lookup_tool.traces.database import TraceDatabase
from lookup_tool.traces.rows import TABLE

_STEP = 500
"""Ids that one transaction looks at."""


@dataclass(frozen=True)
class Retention:
    """How long rows are kept: one that either limit is over goes."""

    before: datetime | None = None
    """Rows that were created earlier are too old; those without a time never are."""

    keep: int | None = None
    """How many of the newest rows are kept."""

    def expired(self, connection: Connection) -> ColumnElement[bool]:
        """Return the condition of the rows that go."""
        return or_(false(), *self._conditions(connection))

    def _conditions(self, connection: Connection) -> Iterator[ColumnElement[bool]]:
        if self.before is not None:
            yield TABLE.c.created_at < self.before
        if self.keep is not None:
            rows = connection.scalar(select(func.count()).select_from(TABLE)) or 0
            if rows > self.keep:
                oldest_first = select(TABLE.c.id).order_by(TABLE.c.id)
                last = connection.scalar(oldest_first.offset(rows - self.keep - 1).limit(1))
                yield TABLE.c.id <= last


def count_expired(database: TraceDatabase, retention: Retention) -> int:
    """Return how many rows would be deleted."""
    with database.begin("cannot read") as connection:
        counted = select(func.count()).select_from(TABLE).where(retention.expired(connection))
        return connection.execute(counted).scalar_one()


def delete_expired(
    database: TraceDatabase, retention: Retention, *, thorough: bool = True
) -> Iterator[int]:
    """Delete rows, lowest ids first, in transactions of some milliseconds.

    Args:
        database: Where they are.
        retention: Which they are.
        thorough: Look at every row. Otherwise end with the first transaction that finds nothing to
            delete: ids are as good as in the order of time.

    Yields:
        How many rows a transaction has deleted.
    """
    ids = select(TABLE.c.id).limit(1)
    if retention.keep is None:
        ids = ids.where(TABLE.c.created_at.is_not(None))
    with database.begin("cannot read") as connection:
        where = retention.expired(connection)
        lowest = connection.scalar(ids.order_by(TABLE.c.id)) or 1
        highest = connection.scalar(ids.order_by(TABLE.c.id.desc())) or 0
    for first in range(lowest, highest + 1, _STEP):
        some = delete(TABLE).where(TABLE.c.id.between(first, first + _STEP - 1), where)
        with database.begin("cannot write to") as connection:
            deleted = connection.execute(some).rowcount
        yield deleted
        if not deleted and not thorough:
            return
