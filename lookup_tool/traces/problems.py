"""What can go wrong with a trace store: whether to try again, and what may be told to whom.

A database's own messages name paths, hosts and rows. They are for the operator, in an error's text
and in the log. The `reason` of an error is one of the short texts below, which anybody may read.
"""

import re
import sqlite3
from errno import EACCES, ENOSPC, EPERM, EROFS

from sqlalchemy.exc import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from lookup_tool.errors import TraceStoreError


class StoreBusyError(TraceStoreError):
    """Somebody else is using the database: the row can be written when they have finished."""


class StoreUnreachableError(TraceStoreError):
    """A database server does not answer, or not as it should; it may again, so the row waits."""


_BUSY = ("is held by another program", "try again when that has finished")
_UNREACHABLE = ("cannot be reached or written", "check the database server and the URL")
_READ_ONLY = ("is read-only", "make the file and its folder writable, or name another store")
_FULL = ("is on a full disk", "make room there")
_NO_FILE = ("cannot be opened", "its folder must exist and be writable, or name another store")
_DAMAGED = ("is damaged, or no database", "move that file away, or name another store")
_DISK = ("cannot be read or written", "check its disk")
_REFUSED = ("refuses the row", "see the constraints and triggers of tool_invocation")
_OTHER_TABLE = ("has a table that this version cannot use", "name another store")
_UNUSABLE = ("cannot be used", "name another store")

_SQLITE = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_PROTOCOL: _BUSY,
    sqlite3.SQLITE_INTERRUPT: _BUSY,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_AUTH: _READ_ONLY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: _NO_FILE,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_CONSTRAINT: _REFUSED,
    sqlite3.SQLITE_ERROR: _OTHER_TABLE,
}
"""By primary result code: the low byte of an extended one. <https://www.sqlite.org/rescode.html>"""

_OTHERS = (
    (IntegrityError | DataError, _REFUSED),
    (ProgrammingError, _OTHER_TABLE),
    (OperationalError | InterfaceError, _UNREACHABLE),
)
"""By PEP 249: an operational error is not the programmer's, and may pass."""

_LOCK = re.compile(r"\b(dead)?lock", re.IGNORECASE)
"""MySQL: Lock wait timeout exceeded. PostgreSQL: deadlock detected, due to lock timeout."""

_SYSTEM = {ENOSPC: _FULL, EROFS: _READ_ONLY, EACCES: _READ_ONLY, EPERM: _READ_ONLY}


def problem(error: Exception, what: str, url: str) -> TraceStoreError:
    """Return the error to raise instead: one line that names the store and the remedy.

    Args:
        error: What SQLAlchemy, its driver, the lock or the file system raised.
        what: What was being done, to stand before the URL.
        url: The store, without its password.
    """
    cause = str(getattr(error, "orig", None) or error).split("\n", 1)[0]
    told = _told(error)
    kind = {_BUSY: StoreBusyError, _UNREACHABLE: StoreUnreachableError}.get(told, TraceStoreError)
    reason, remedy = told
    return kind(f"{what} {url}: {cause}; {remedy}", f"the trace store {reason}")


def _told(error: Exception) -> tuple[str, str]:
    if isinstance(error, PoolTimeout | TimeoutError):  # of the pool, or of the lock on the file
        return _BUSY
    if isinstance(error, OSError):
        return _SYSTEM.get(error.errno or 0, _NO_FILE)
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE.get(code & 0xFF, _UNUSABLE)
    if isinstance(error, OperationalError) and _LOCK.search(str(error.orig)):
        return _BUSY
    return next((told for kind, told in _OTHERS if isinstance(error, kind)), _UNUSABLE)
