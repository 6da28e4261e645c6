"""The trace store: one compact row for every lookup, in any database that SQLAlchemy speaks.

`store` is what others use; `rows` has the table, `database` one database with that table,
`backlog` the rows that wait for it, `pruning` what is deleted, `problems` what can go wrong.
"""

from lookup_tool.traces.database import IN_MEMORY
from lookup_tool.traces.rows import TraceRow
from lookup_tool.traces.store import TraceStore

__all__ = ["IN_MEMORY", "TraceRow", "TraceStore"]
