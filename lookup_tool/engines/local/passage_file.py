"""The file behind `PassageStore`: its schema, how it is written, how a sync reads it back.

Equal entries in equal order give an equal file, byte for byte.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path

from lookup_tool.documents.phrases import phrase_key
from lookup_tool.schema import Access, LoadProblem, Passage, Phrase, PreparedEntry
from lookup_tool.text import category_key

_SCHEMA = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    title TEXT NOT NULL,
    category TEXT,
    category_key TEXT,
    access INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    digest TEXT NOT NULL,
    sha256 TEXT,
    problems TEXT NOT NULL,
    as_cut INTEGER NOT NULL
) STRICT;
CREATE TABLE passages (
    row INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL REFERENCES entries (id),
    source TEXT NOT NULL,
    breadcrumb TEXT NOT NULL,
    text TEXT NOT NULL,
    lead TEXT NOT NULL,
    joint TEXT NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL
) STRICT;
CREATE TABLE names (
    name TEXT NOT NULL,
    access INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    entry INTEGER NOT NULL REFERENCES entries (id),
    PRIMARY KEY (name, access, weight, entry)
) STRICT, WITHOUT ROWID;
CREATE TABLE contested (
    name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TABLE phrases (
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    entry INTEGER NOT NULL REFERENCES entries (id),
    access INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (key, access, entry, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE categories (
    key TEXT NOT NULL,
    category_key TEXT NOT NULL,
    text TEXT NOT NULL,
    access INTEGER NOT NULL,
    PRIMARY KEY (key, access, category_key)
) STRICT, WITHOUT ROWID;
CREATE TABLE starts (
    atom TEXT NOT NULL,
    access INTEGER NOT NULL,
    longest INTEGER NOT NULL,
    PRIMARY KEY (atom, access)
) STRICT, WITHOUT ROWID;
"""
# What is looked up for a caller has the access set in its key: what others may see is not even
# gone through, so that no lookup takes longer for it.

# Sorted at once, which is faster than row by row.
_INDEXES = """
CREATE INDEX passages_by_entry ON passages (entry, row);
CREATE INDEX entries_by_access ON entries (access);
INSERT INTO names
    SELECT source, access, 2 * (access <> {public}), id FROM entries
    UNION
    SELECT p.source, e.access, 2 * (e.access <> {public}) + (p.source <> e.source), e.id
    FROM passages p JOIN entries e ON e.id = p.entry
    ORDER BY 1, 2, 3, 4;
INSERT INTO contested SELECT name FROM names GROUP BY name HAVING count(*) > 1;
"""

# Made once, and without a search for white space: there are many small texts.
_json = json.JSONEncoder(ensure_ascii=False).encode
_from_json = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class EntryRecord:
    """An entry on its way to disk."""

    entry: PreparedEntry
    access: int
    """Number of its access set."""

    first_row: int
    """Of its passages; they stand together."""

    passages: tuple[Passage, ...]
    """In document order, as they are searched."""

    @property
    def as_cut(self) -> bool:
        """Whether nothing was left out since it was prepared."""
        return self.entry.passages == self.passages


def write_passages(path: Path, records: Iterable[EntryRecord]) -> None:
    """Write entries, their passages and their phrases into a new file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        # The file is flushed once, when it is whole; until then nobody opens it.
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;"
        )
        connection.executescript(_SCHEMA)
        public = -1
        for number, record in enumerate(records):
            _write_entry(connection, number, record)
            if record.entry.access is None:
                public = record.access
        connection.executescript(_INDEXES.format(public=public))
        longest: dict[tuple[str, int], int] = {}
        for key, access in connection.execute(
            "SELECT key, access FROM phrases UNION SELECT key, access FROM categories"
        ):
            first, *others = key.split(" ")
            longest[first, access] = max(longest.get((first, access), 0), 1 + len(others))
        connection.executemany(
            "INSERT INTO starts VALUES (?, ?, ?)",
            [(*start, most) for start, most in longest.items()],
        )


def _write_entry(connection: sqlite3.Connection, number: int, record: EntryRecord) -> None:
    entry = record.entry
    key = category_key(entry.category) if entry.category else None
    connection.execute(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            entry.source,
            entry.title,
            entry.category,
            key,
            record.access,
            _json(entry.metadata),
            entry.digest,
            entry.sha256,
            _json([astuple(problem) for problem in entry.problems]),
            record.as_cut,
        ),
    )
    connection.executemany(
        "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                row,
                number,
                passage.source,
                _json(passage.breadcrumb),
                passage.text,
                passage.lead,
                passage.joint,
                passage.start_line,
                passage.end_line,
            )
            for row, passage in enumerate(record.passages, record.first_row)
        ],
    )
    connection.executemany(
        "INSERT INTO phrases VALUES (?, ?, ?, ?, ?)",
        [(phrase.key, phrase.kind, number, record.access, phrase.text) for phrase in entry.phrases],
    )
    if key and entry.category and (named := phrase_key(entry.category)):
        connection.execute(
            "INSERT OR IGNORE INTO categories VALUES (?, ?, ?, ?)",
            (named, key, entry.category, record.access),
        )


@dataclass(frozen=True)
class StoredRecord:
    """An entry as an earlier generation has it."""

    entry: PreparedEntry
    rows: tuple[int, ...]
    as_cut: bool
    """Whether its passages are those that it was cut into; else it has to be cut again."""


def read_passages(path: Path, access_sets: Sequence[Access]) -> Iterator[StoredRecord]:
    """Read back what was written, in the order of the entries.

    Args:
        path: The file.
        access_sets: By number.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        phrases: defaultdict[int, list[Phrase]] = defaultdict(list)
        for number, *fields in connection.execute(
            "SELECT entry, key, kind, text FROM phrases ORDER BY key, access, entry, kind"
        ):
            phrases[number].append(Phrase(*fields))
        rows: defaultdict[int, list[int]] = defaultdict(list)
        passages: defaultdict[int, list[Passage]] = defaultdict(list)
        for number, row, name, breadcrumb, *fields in connection.execute(
            """SELECT entry, row, source, breadcrumb, text, start_line, end_line, lead, joint
               FROM passages ORDER BY row"""
        ):
            rows[number].append(row)
            passages[number].append(Passage(name, tuple(_from_json(breadcrumb)[0]), *fields))
        for (
            number,
            source,
            title,
            category,
            access,
            metadata,
            digest,
            sha256,
            faults,
            as_cut,
        ) in connection.execute(
            """SELECT id, source, title, category, access, metadata, digest, sha256, problems,
                          as_cut FROM entries ORDER BY id"""
        ):
            yield StoredRecord(
                PreparedEntry(
                    source=source,
                    title=title,
                    category=category,
                    access=access_sets[access],
                    metadata=json.loads(metadata),
                    phrases=tuple(phrases[number]),
                    passages=tuple(passages[number]),
                    digest=digest,
                    sha256=sha256,
                    problems=tuple(LoadProblem(*fault) for fault in json.loads(faults)),
                ),
                tuple(rows[number]),
                bool(as_cut),
            )
