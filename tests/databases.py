"""Databases that make their callers wait: a file that is locked, and a server that says nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as alive
from types import SimpleNamespace
from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

WRITER = "lookup-tool traces"
"""Name of the threads that write late."""


def writers() -> list[Thread]:
    """Return the threads that are writing late."""
    return [thread for thread in alive() if thread.name == WRITER]


@contextmanager
def locked(path: Path, begin: str = "BEGIN EXCLUSIVE") -> Iterator[None]:
    """Hold a file as another program would, until the end of the block."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in begin.split(";"):
            other.execute(statement).fetchall()
        yield
        other.execute("COMMIT")


def written(path: Path) -> list[str]:
    """Return the ids that another program finds, in the order of the rows."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT invocation_id FROM tool_invocation ORDER BY id")
        return [name for (name,) in found]


class OperationalError(sqlite3.OperationalError):
    """The server is not there; unlike SQLite's errors, this one has no code."""


class Server:
    """A database server, of which SQLAlchemy knows no more than of any other."""

    def __init__(self) -> None:
        self.answers, self.is_down = Event(), Event()

    def begin(self) -> None:
        """Be there, and answer."""
        self.answers.set()
        self.is_down.clear()

    def connect(self, *args: Any, **options: Any) -> sqlite3.Connection:
        """Connect, as soon as it answers."""
        self.answers.wait()
        if self.is_down.is_set():
            raise OperationalError("connection to server at 10.1.2.3 refused")
        return sqlite3.connect(*args, **options)


SERVER = Server()


class ServerDialect(SQLiteDialect_pysqlite):
    """Reaches `SERVER` through URLs like `server:///FILE`."""

    name = "server"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return SQLite's driver, but for how it connects."""
        return SimpleNamespace(**{**vars(sqlite3), "connect": SERVER.connect})


registry.register("server", __name__, ServerDialect.__name__)
