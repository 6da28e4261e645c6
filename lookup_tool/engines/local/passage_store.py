"""The texts, entries and phrases of one generation, in one read-only SQLite file."""

import json
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lookup_tool.engines.local.damage import reading
from lookup_tool.engines.local.names import Claim, Names, as_claimed
from lookup_tool.errors import KnowledgeDamagedError
from lookup_tool.retrieval.hints import MAX_TITLES, longest_first, ngrams
from lookup_tool.schema import HintMatch, QueryHints, StoredEntry, StoredPassage
from lookup_tool.text import atoms


class PassageStore:
    """Reads one generation's file; safe to use from many threads."""

    def __init__(self, path: Path, entries: int, passages: int) -> None:
        """Open the file.

        Args:
            path: The file.
            entries: How many it must have.
            passages: How many it must have.

        Raises:
            KnowledgeDamagedError: It cannot be read, or has other ones. So does every method.
        """
        self._path = path
        self._passages = passages
        self._lock = threading.Lock()
        with reading(path):
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
        try:  # SQLite reads nothing until it is asked
            self._check_extent(entries, passages)
            contested = self._all("SELECT name FROM contested", [])
        except BaseException:
            self._connection.close()
            raise
        self._contested = frozenset(name for (name,) in contested)

    def _check_extent(self, entries: int, passages: int) -> None:
        """Look at the last entry and the last passage, which takes no time."""
        last = self._all("SELECT (SELECT max(id) FROM entries), max(row) FROM passages", [])[0]
        if last != tuple(number - 1 if number else None for number in (entries, passages)):
            raise KnowledgeDamagedError(self._path, "has other entries than the manifest says")

    def check(self) -> None:
        """Read entries and passages: none may be missing, or hold values of another type."""
        # By table: SQLite 3.40 finds fault with sound ones that have no row ids.
        said = [self._all(f"PRAGMA quick_check({name})", []) for name in ("entries", "passages")]
        [(count,)] = self._all("SELECT count(*) FROM passages", [])
        if said != [[("ok",)]] * 2 or count != self._passages:
            raise KnowledgeDamagedError(self._path, "does not hold what was written")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def passages(self, rows: Sequence[int], access: Sequence[int] = ()) -> dict[int, StoredPassage]:
        """Return passages by row.

        Args:
            rows: Their rows.
            access: Numbers of the access sets that the reader may read: they decide about names.
        """
        found = self._all(
            """SELECT p.row, p.entry, e.source, p.source, e.title, e.category, p.breadcrumb, p.text,
                      p.lead, p.joint, p.start_line, p.end_line
               FROM json_each(?) wanted JOIN passages p ON p.row = wanted.value
               JOIN entries e ON e.id = p.entry""",
            [json.dumps(list(rows))],
        )
        names = self._names(access)
        with reading(self._path):
            # One text for the parser: there are many small ones.
            breadcrumbs = json.loads(f"[{','.join(record[6] for record in found)}]")
            return {
                row: StoredPassage(
                    row,
                    names.entry(number, entry),
                    names.section(number, entry, source),
                    title,
                    category,
                    tuple(breadcrumb),
                    *rest,
                )
                for (row, number, entry, source, title, category, _, *rest), breadcrumb in zip(
                    found, breadcrumbs, strict=True
                )
            }

    def entry(self, source: str, access: Sequence[int]) -> StoredEntry | None:
        """Return the entry, or one section of it, that has this source; None if not permitted."""
        found = self._find(source, access)
        if found is None:
            return None
        number, name = found
        ((own, title, category, metadata),) = self._all(
            "SELECT source, title, category, metadata FROM entries WHERE id = ?", [number]
        )
        rows = self._all(
            "SELECT row FROM passages WHERE entry = ? AND (? OR source = ?) ORDER BY row",
            [number, name == own, name],
        )
        passages = self.passages([row for (row,) in rows], access)
        with reading(self._path):
            about = json.loads(metadata)
        name = self._names(access).entry(number, own)
        return StoredEntry(name, title, category, about, tuple(passages[row] for (row,) in rows))

    def number(self, source: str, access: Sequence[int]) -> int | None:
        """Return the number of the entry with this source; None if it is not permitted."""
        found = self._find(source, access)
        return None if found is None else found[0]

    def _find(self, source: str, access: Sequence[int]) -> tuple[int, str] | None:
        """Return the number of a permitted entry with a source, its own or of a section.

        Returns:
            The number, and the source as the entry claims it.
        """
        names = self._names(access)
        for name in dict.fromkeys((source, as_claimed(source))):
            for number, own in self._all(
                """SELECT n.entry, e.source FROM names n JOIN entries e ON e.id = n.entry
                   WHERE n.name = ? AND n.access IN (SELECT value FROM json_each(?))""",
                [name, json.dumps(list(access))],
            ):
                if names.section(number, own, name) == source:
                    return number, name
        return None

    def _names(self, access: Sequence[int]) -> Names:
        permitted = json.dumps(list(access))

        def claims(name: str) -> list[Claim]:
            found = self._all(
                """SELECT n.entry, n.weight, e.digest FROM names n JOIN entries e ON e.id = n.entry
                   WHERE n.name = ? AND n.access IN (SELECT value FROM json_each(?))""",
                [name, permitted],
            )
            return [Claim(*each) for each in found]

        return Names(self._contested, claims)

    def titles(self, count: int, access: Sequence[int]) -> list[str]:
        """Return titles of permitted entries, at most so many, at equal distances."""
        found = self._all(
            """SELECT title FROM entries WHERE access IN (SELECT value FROM json_each(?))
               ORDER BY id""",
            [json.dumps(list(access))],
        )
        step = max(1, -(-len(found) // count))
        return [title for (title,) in found[::step]]

    def hints(self, query: str, access: Sequence[int]) -> QueryHints:
        """Recognize phrases in a query; what is not permitted does not exist.

        The category to filter by is left open: that takes the texts, too.

        Args:
            query: Any text.
            access: Numbers of the access sets that the caller may read.
        """
        found = atoms(query)
        permitted = json.dumps(list(access))
        longest = self._all(
            """SELECT atom, max(longest) FROM starts
               WHERE atom IN (SELECT value FROM json_each(?1))
                 AND access IN (SELECT value FROM json_each(?2))
               GROUP BY atom""",
            [json.dumps(found), permitted],
        )
        grams = ngrams(found, dict(longest))
        keys = json.dumps([key for _, _, key in grams])
        known = self._all(
            """SELECT f.key, f.kind, min(f.text), e.category_key, min(e.category)
               FROM phrases f JOIN entries e ON e.id = f.entry
               WHERE f.key IN (SELECT value FROM json_each(?1))
                 AND f.access IN (SELECT value FROM json_each(?2))
               GROUP BY f.key, f.kind, e.category_key
               UNION ALL
               SELECT key, 'category', min(text), category_key, min(text) FROM categories
               WHERE key IN (SELECT value FROM json_each(?1))
                 AND access IN (SELECT value FROM json_each(?2))
               GROUP BY key, category_key
               ORDER BY 1, 2, 4""",
            [keys, permitted],
        )
        picked = longest_first(grams, {key for key, *_ in known})
        matches = _merge(known, picked)
        if not matches:
            return QueryHints()
        entries = self._all(
            """SELECT count(DISTINCT entry), NULL FROM phrases
               WHERE key IN (SELECT value FROM json_each(?1))
                 AND access IN (SELECT value FROM json_each(?2))
               UNION ALL SELECT * FROM (
               SELECT NULL, e.title FROM phrases f JOIN entries e ON e.id = f.entry
               WHERE f.key IN (SELECT value FROM json_each(?1))
                 AND f.access IN (SELECT value FROM json_each(?2))
               GROUP BY e.title ORDER BY min(e.source), e.title LIMIT ?3)""",
            [json.dumps(picked), permitted, MAX_TITLES],
        )
        return QueryHints(
            matches=matches,
            titles=tuple(title for _, title in entries[1:]),
            entry_count=entries[0][0],
        )

    def entry_hints(
        self, keys: Iterable[str], categories: Iterable[str], entries: Iterable[int]
    ) -> dict[int, tuple[str, ...]]:
        """Return which recognized phrases the metadata of entries hold.

        Args:
            keys: Keys of phrases.
            categories: Keys of categories.
            entries: Numbers of entries.

        Returns:
            For each of these entries that has any, `kind:text` of its phrases, as their author
            wrote them, and of its category.
        """
        found = self._all(
            """SELECT entry, kind, text FROM (
                   SELECT f.entry, f.kind, f.text FROM entries e
                   CROSS JOIN phrases f ON f.access = e.access AND f.entry = e.id  -- in this order
                   WHERE e.id IN (SELECT value FROM json_each(?3))
                     AND f.key IN (SELECT value FROM json_each(?1))
                   UNION ALL
                   SELECT id, 'category', category FROM entries
                   WHERE id IN (SELECT value FROM json_each(?3))
                     AND category_key IN (SELECT value FROM json_each(?2)))
               ORDER BY entry, kind = 'category', kind, text""",
            [json.dumps(list(keys)), json.dumps(list(categories)), json.dumps(list(entries))],
        )
        hints: dict[int, tuple[str, ...]] = {}
        for entry, kind, text in found:
            hints[entry] = (*hints.get(entry, ()), f"{kind}:{text}")
        return hints

    def _all(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with reading(self._path), self._lock:
            return self._connection.execute(statement, parameters).fetchall()


def _merge(found: Iterable[tuple[Any, ...]], picked: Sequence[str]) -> tuple[HintMatch, ...]:
    """Gather the categories of each (phrase, kind), in the order of the picked phrases."""
    merged: dict[tuple[str, str], HintMatch] = {}
    for key, kind, text, category, name in found:
        before = merged.get((key, kind), HintMatch(kind, text, key, ()))
        merged[key, kind] = replace(
            before, categories=(*before.categories, category), names=(*before.names, name)
        )
    order = {key: place for place, key in enumerate(picked)}
    kept = [match for match in merged.values() if match.key in order]
    return tuple(sorted(kept, key=lambda match: order[match.key]))
