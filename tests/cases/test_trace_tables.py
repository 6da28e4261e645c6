"""Trace persistence: files and tables that are old, newer, odd, or cannot be written.

Families: an older table (columns missing, spelled in capitals, with times in other formats) is
completed or refused with the file's name, and never costs an answer; a newer one is left as it is;
completing is repeatable, also by several openers at once; and a store that cannot be opened or
written is refused when it is named, or shown in the result, never on standard output. A result says
why in a few words; the log, which is the operator's, has the path and the database's own message.
"""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from case_builders import BADGE_TEXT, ask_artifact
from embedders import HashEmbedder
from langchain_core.documents import Document
from sqlalchemy import Engine, event

from lookup_tool import KnowledgeBase, TraceStore, create_lookup_tool
from lookup_tool.errors import TraceStoreError

OLD = "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, tool_name TEXT, created_at TEXT)"


@pytest.fixture
def badges(tmp_path: Path) -> Iterator[KnowledgeBase]:
    texts = [Document(BADGE_TEXT, metadata={"source": "badges.md"})]
    with KnowledgeBase.from_documents(
        texts, into=tmp_path / "kb", embedder=HashEmbedder()
    ) as knowledge:
        yield knowledge


def ask(knowledge: KnowledgeBase, traces: TraceStore | str | None = None) -> dict[str, Any]:
    return ask_artifact(create_lookup_tool(knowledge, traces=traces), "lost badges")


def record_error(artifact: dict[str, Any]) -> str | None:
    assert (artifact["found"], artifact["evidenceBlocks"][0]["content"]) == (True, BADGE_TEXT)
    return artifact["retrievalTrace"]["recordError"]


def told_apart(artifact: dict[str, Any], path: Path, caplog: pytest.LogCaptureFixture) -> str:
    """Return what the caller is told, having checked that only the log names the file."""
    error = record_error(artifact)
    assert error is not None
    whole = json.dumps(artifact, ensure_ascii=False)
    assert (str(path.parent) in whole, "sqlite" in whole) == (False, False)
    assert any(str(path) in message for message in caplog.messages)
    assert not any("\n" in message for message in caplog.messages)
    return error


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def dump(path: Path) -> list[str]:
    """Return the schema and every row."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def schema(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA table_info(tool_invocation)").fetchall()


def two_rows(created: str) -> str:
    row = f"('lookup', {created})"
    return f"INSERT INTO tool_invocation (tool_name, created_at) VALUES {row}, {row}"


@pytest.mark.parametrize(
    "created",
    [
        pytest.param("'2024-05-01 09:00:00'", id="E-10"),
        pytest.param("'2024-05-01T09:00:00'", id="iso"),
        pytest.param("'2024-05-01T09:00:00Z'", id="iso-utc"),
        pytest.param("'2024-05-01 09:00:00.123456+02:00'", id="with-zone"),
        pytest.param("'2024-05-01'", id="date-only"),
        pytest.param("NULL", id="null"),
        pytest.param("''", id="empty"),
        pytest.param("'01/05/2024 9 am'", id="other-format"),
        pytest.param("1714554000", id="unix-time"),
    ],
)
def test_an_old_table_is_completed_and_its_rows_stay_readable(
    badges: KnowledgeBase, tmp_path: Path, created: str
) -> None:
    path = tmp_path / "old.sqlite"
    execute(path, OLD, two_rows(created))

    with closing(TraceStore(path)) as store:
        assert record_error(ask(badges, store)) is None
        assert store.count() == 3
        assert [row.tool_name for row in store.rows()] == ["lookup_knowledge", "lookup", "lookup"]
        assert store.rows()[0].query == "lost badges"


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY)", id="id-only"),
        pytest.param(
            "CREATE TABLE tool_invocation (ID INTEGER PRIMARY KEY, Query TEXT, FOUND BOOLEAN)",
            id="columns-in-capitals",
        ),
        pytest.param("CREATE TABLE TOOL_INVOCATION (id INTEGER PRIMARY KEY)", id="table-capitals"),
        pytest.param(
            "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, note TEXT, n INT NOT NULL "
            "DEFAULT 5)",
            id="more-columns",
        ),
        pytest.param(
            "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, duration_ms TEXT, found TEXT)",
            id="other-types",
        ),
        pytest.param(
            'CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, "odd ""name" TEXT)',
            id="odd-names",
        ),
    ],
)
def test_a_table_that_can_be_completed_is_completed_once(
    badges: KnowledgeBase, tmp_path: Path, table: str
) -> None:
    path = tmp_path / "old.sqlite"
    execute(path, table, "INSERT INTO tool_invocation (id) VALUES (1), (2)")
    with closing(TraceStore(path)) as store:
        assert record_error(ask(badges, store)) is None
    completed = schema(path)

    with closing(TraceStore(path)) as store:
        assert record_error(ask(badges, store)) is None
        assert store.count() == 4
        assert [row.found for row in store.rows(2)] == [True, True]

    assert schema(path) == completed


OTHER_TABLE = "TraceStoreError: the trace store has a table that this version cannot use"
NEWER_TABLE = "TraceStoreError: the trace store has a table that this version cannot write"
REFUSES = "TraceStoreError: the trace store refuses the row"

REFUSED = [
    pytest.param(
        "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, tenant TEXT NOT NULL)",
        NEWER_TABLE,
        id="E-11",
    ),
    pytest.param("CREATE TABLE tool_invocation (query TEXT)", REFUSES, id="no-id"),
    pytest.param("CREATE VIEW tool_invocation AS SELECT 1 AS id", OTHER_TABLE, id="view"),
    pytest.param(
        "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, tool_name TEXT CHECK (0))",
        REFUSES,
        id="check-that-fails",
    ),
    pytest.param(
        "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, fallback_reason TEXT NOT NULL)",
        REFUSES,
        id="known-column-that-may-not-be-null",
    ),
    pytest.param(
        "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, tool_name TEXT UNIQUE)",
        REFUSES,
        id="unique",
    ),
]


@pytest.mark.parametrize(("table", "says"), REFUSED)
def test_a_table_that_cannot_be_used_is_told_and_costs_no_answer(
    badges: KnowledgeBase,
    table: str,
    says: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = badges.path / "traces.sqlite"
    execute(path, table)
    ask(badges)  # with a unique name, the second row is the one too many

    assert told_apart(ask(badges), path, caplog) == says
    assert capsys.readouterr().out == ""


def newer(path: Path, *changes: str) -> None:
    """Write a store of a later version."""
    TraceStore(path).close()
    execute(
        path,
        *changes,
        "INSERT INTO tool_invocation (tool_name, schema_version) VALUES ('later', 99)",
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="E-11-stamp"),
        pytest.param(("ALTER TABLE tool_invocation ADD COLUMN tenant TEXT",), id="column-added"),
        pytest.param(("ALTER TABLE tool_invocation DROP COLUMN duration_ms",), id="column-gone"),
        pytest.param(
            ("ALTER TABLE tool_invocation RENAME COLUMN query TO question",), id="column-renamed"
        ),
    ],
)
def test_a_newer_store_is_left_as_it_is_and_the_message_says_so(
    badges: KnowledgeBase,
    tmp_path: Path,
    changes: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "newer.sqlite"
    newer(path, *changes)
    before = dump(path)

    with pytest.raises(TraceStoreError, match="upgrade lookup-tool") as refused:
        TraceStore(path)
    with closing(TraceStore(path, lazy=True)) as lazy:
        assert told_apart(ask(badges, lazy), path, caplog) == NEWER_TABLE

    assert str(path) in str(refused.value)
    assert dump(path) == before


def test_e_11_two_processes_complete_one_table(tmp_path: Path) -> None:
    path, alone = tmp_path / "old.sqlite", tmp_path / "alone.sqlite"
    for each in (path, alone):
        execute(each, OLD, two_rows("'2024-05-01 09:00:00'"))
    TraceStore(alone).close()
    code = (
        "import sys; from lookup_tool import TraceStore; sys.stdin.read(1); "
        "store = TraceStore(sys.argv[1]); print(store.count()); store.close()"
    )
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", code, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("x")
        opener.stdin.flush()

    said = [opener.communicate(timeout=60) for opener in openers]

    assert said == [("2\n", "")] * 3
    assert schema(path) == schema(alone)


# Places that cannot be written


def folder_at(path: Path) -> None:
    path.mkdir()


def text_at(path: Path) -> None:
    path.write_text("no database\n" * 200)


def cut_short(path: Path) -> None:
    TraceStore(path).close()
    path.write_bytes(path.read_bytes()[:5000])


def link_to_nowhere(path: Path) -> None:
    path.symlink_to("/nowhere/at/all/traces.sqlite")


NOT_OPENED = "TraceStoreError: the trace store cannot be opened"
DAMAGED = "TraceStoreError: the trace store is damaged, or no database"

UNUSABLE = [
    pytest.param(folder_at, NOT_OPENED, id="E-14-folder"),
    pytest.param(text_at, DAMAGED, id="text-file"),
    pytest.param(cut_short, DAMAGED, id="cut-short"),
    pytest.param(link_to_nowhere, NOT_OPENED, id="link-to-nowhere"),
]


@pytest.mark.parametrize(("spoil", "says"), UNUSABLE)
def test_a_store_of_its_own_that_cannot_be_written_costs_no_answer(
    badges: KnowledgeBase,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], None],
    says: str,
) -> None:
    path = badges.path / "traces.sqlite"
    spoil(path)

    assert told_apart(ask(badges), path, caplog) == says
    assert capfd.readouterr().out == ""


def test_a_full_disk_costs_no_answer(
    badges: KnowledgeBase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "traces.sqlite"
    TraceStore(path).close()
    with no_room(), closing(TraceStore(path)) as store:
        for _ in range(9):  # the pages that are there take a few
            ask(badges, store)
        error = told_apart(ask(badges, store), path, caplog)

    assert error == "TraceStoreError: the trace store is on a full disk"


@contextmanager
def no_room() -> Iterator[None]:
    """Let every new connection to an SQLite file find no room for another page."""

    def fill(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA max_page_count = 1")

    event.listen(Engine, "connect", fill)
    try:
        yield
    finally:
        event.remove(Engine, "connect", fill)


@pytest.mark.parametrize("spoil", [folder_at, text_at])
def test_a_store_that_is_named_and_cannot_be_opened_is_refused_with_its_path(
    badges: KnowledgeBase, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "traces.sqlite"
    spoil(path)

    with pytest.raises(TraceStoreError, match=r"^cannot open the trace store [^\n]+$") as refused:
        create_lookup_tool(badges, traces=str(path))
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("place", ["new/traces.sqlite", "a/b/c/d.db", "ünï cödé/用.sqlite"])
@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_e_14_a_missing_folder_is_created(
    badges: KnowledgeBase, tmp_path: Path, place: str, form: str
) -> None:
    path = tmp_path / place

    assert record_error(ask(badges, form.format(path))) is None
    assert any("INSERT INTO" in line for line in dump(path))


def test_a_folder_that_cannot_be_created_is_refused_with_its_path(
    badges: KnowledgeBase, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "sub" / "traces.sqlite"

    with pytest.raises(TraceStoreError, match="cannot open the trace store") as refused:
        create_lookup_tool(badges, traces=str(path))
    assert str(path) in str(refused.value)


def drop_table(path: Path) -> None:
    execute(path, "DROP TABLE tool_invocation")


def add_trigger(path: Path) -> None:
    execute(
        path,
        "CREATE TRIGGER locked BEFORE INSERT ON tool_invocation "
        "BEGIN SELECT RAISE(ABORT, 'attempt to write a readonly database'); END",
    )


def rename_column(path: Path) -> None:
    execute(path, "ALTER TABLE tool_invocation RENAME COLUMN query TO question")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(drop_table, OTHER_TABLE), (add_trigger, REFUSES), (rename_column, OTHER_TABLE)],
)
def test_a_store_that_fails_later_is_shown_in_the_result(
    badges: KnowledgeBase,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], None],
    says: str,
) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        assert record_error(ask(badges, store)) is None
        spoil(path)
        assert told_apart(ask(badges, store), path, caplog) == says


@pytest.mark.parametrize("uri", ["mode=ro", "mode=ro&immutable=1"])
def test_e_14_a_store_that_may_only_be_read_costs_no_answer(
    badges: KnowledgeBase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    uri: str,
) -> None:
    path, here = tmp_path / "traces.sqlite", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    TraceStore(path).close()
    with closing(TraceStore(f"sqlite:///file:{path}?{uri}&uri=true", lazy=True)) as store:
        error = told_apart(ask(badges, store), path, caplog)

    assert error == "TraceStoreError: the trace store is read-only"
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["file:shared?mode=memory&cache=shared&uri=true", "file::memory:?uri=true"]
)
def test_a_database_in_memory_with_a_name_leaves_no_file(
    badges: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with closing(TraceStore(f"sqlite:///{name}")) as store:
        assert record_error(ask(badges, store)) is None
        assert store.count() == 1

    assert list(here.iterdir()) == []
