"""Whatever a parser raises at a damaged file becomes one error that names the file."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lookup_tool.errors import KnowledgeDamagedError, KnowledgeError


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever is raised while a file is read into an error that names it.

    Parsers raise nearly anything at bytes that were not written for them: `tokenize.TokenError` at
    the header of an array, `RecursionError` at brackets, `MemoryError` at a shape.

    Raises:
        KnowledgeDamagedError: The file cannot be read, or its content has a wrong form.
    """
    try:
        yield
    except (KnowledgeError, sqlite3.ProgrammingError):
        raise  # the latter says that the knowledge base was closed
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        problem = f"cannot be read ({reason or type(error).__name__})"
        raise KnowledgeDamagedError(path, problem) from error


def check_file(path: Path) -> None:
    """Check that there is a file: opening a pipe in its place would wait for ever.

    Raises:
        KnowledgeDamagedError: There is none.
    """
    with reading(path):
        if not path.is_file():
            raise KnowledgeDamagedError(path, "is no file" if path.exists() else "missing")


def read_file(path: Path) -> bytes:
    """Return what a file holds.

    Raises:
        KnowledgeDamagedError: It cannot be read.
    """
    check_file(path)
    with reading(path):
        return path.read_bytes()
