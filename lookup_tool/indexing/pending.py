"""Vectors that an unfinished build has paid for: kept until a generation that has them is current.

They lie in `KB/embedded.sqlite`, by the hash of embedder and text. A build that was killed goes on
where it was, whatever has changed in the documents meanwhile.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookup_tool.engines.local.generations import disk_errors

_NAME = "embedded.sqlite"


class PendingVectors:
    """The vectors of one embedder that wait for their generation."""

    def __init__(self, root: Path, embedder: str) -> None:
        """Open the file, or make it; a damaged one is worth nothing and is made again.

        Raises:
            KnowledgeError: It cannot be written.
        """
        self._root = root
        self._embedder = embedder
        with disk_errors(root):
            self._connection = sqlite3.connect(root / _NAME)
            if not _is_whole(self._connection):
                self._connection.close()
                remove_pending(root)
                self._connection = sqlite3.connect(root / _NAME)
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) "
                "STRICT, WITHOUT ROWID"
            )

    def find(self, texts: Sequence[str]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield place and vector, shape (d,), of those texts that have one."""
        for place, text in enumerate(texts):
            record = self._connection.execute(
                "SELECT vector FROM vectors WHERE key = ?", [self._key(text)]
            ).fetchone()
            if record is not None:
                yield place, np.frombuffer(record[0], dtype=np.float32)

    def keep(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keep the vectors of texts, shape (n, d).

        Raises:
            KnowledgeError: They cannot be written.
        """
        with disk_errors(self._root), self._connection:
            self._connection.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?)",
                [(self._key(t), v.tobytes()) for t, v in zip(texts, vectors, strict=True)],
            )

    def clear(self) -> None:
        """Forget all: the embedder gives other vectors now."""
        with self._connection:
            self._connection.execute("DELETE FROM vectors")

    def close(self) -> None:
        """Close the file; the vectors stay."""
        self._connection.close()

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self._embedder}\0{text}".encode()).digest()


def remove_pending(root: Path) -> None:
    """Remove every vector that was kept: a generation has them now."""
    for name in (_NAME, f"{_NAME}-journal"):
        (root / name).unlink(missing_ok=True)


def _is_whole(connection: sqlite3.Connection) -> bool:
    try:
        return connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
    except sqlite3.OperationalError:
        raise  # it cannot be opened at all, which is something else
    except sqlite3.DatabaseError:
        return False
