"""`lookup-tool trace`, and what `ask` says of its row."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from case_builders import BADGES
from command_line import run
from databases import locked, written
from test_traces import ROW

from lookup_tool import KnowledgeBase, TraceStore

AGES = {
    "weeks": timedelta(weeks=3),
    "days": timedelta(days=3),
    "hours": timedelta(hours=3),
    "minutes": timedelta(minutes=3),
    "now": timedelta(0),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Make a store with a row for each age."""
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        for name in AGES:
            store.record(replace(ROW, invocation_id=name))
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, age in AGES.items():
            connection.execute(
                "UPDATE tool_invocation SET created_at = ? WHERE invocation_id = ?",
                (str(datetime.now(UTC) - age), name),
            )
    return path


@pytest.mark.parametrize(
    ("options", "said", "left"),
    [
        (["--older-than", "2w"], "deleted 1 lookup; 4 left", ["days", "hours", "minutes", "now"]),
        (["--older-than", "2d"], "deleted 2 lookups; 3 left", ["hours", "minutes", "now"]),
        (["--older-than", " 2 h "], "deleted 3 lookups; 2 left", ["minutes", "now"]),
        (["--older-than", "2m"], "deleted 4 lookups; 1 left", ["now"]),
        (["--older-than", "100s"], "deleted 4 lookups; 1 left", ["now"]),
        (["--older-than", "0s"], "deleted 5 lookups; 0 left", []),
        (["--older-than", "100w"], "deleted 0 lookups; 5 left", list(AGES)),
        (["--keep", "2"], "deleted 3 lookups; 2 left", ["minutes", "now"]),
        (["--keep", "0"], "deleted 5 lookups; 0 left", []),
        (["--keep", "100000"], "deleted 0 lookups; 5 left", list(AGES)),
        (["--keep", "4", "--older-than", "2d"], "deleted 2 lookups; 3 left", list(AGES)[2:]),
        (["--keep", "1", "--vacuum"], "deleted 4 lookups; 1 left", ["now"]),
        (
            ["--keep", "1", "--vacuum", "--dry-run"],
            "would delete 4 lookups; 1 would be left",
            list(AGES),
        ),
    ],
)
def test_old_lookups_are_deleted_and_counted(
    file: Path, options: list[str], said: str, left: list[str]
) -> None:
    assert run("trace", "prune", "--traces", file, *options).lines == [said]
    assert written(file) == left


def test_the_lookups_of_a_knowledge_base_are_pruned(tmp_path: Path, file: Path) -> None:
    assert run("trace", "prune", "--kb", tmp_path, "--keep", 1).lines == [
        "deleted 4 lookups; 1 left"
    ]
    assert run("trace", "prune", "--traces", f"sqlite:///{file}", "--keep", 0).lines == [
        "deleted 1 lookup; 0 left"
    ]


@pytest.mark.parametrize(
    "age",
    ["", "30", "d", "30x", "1.5d", "-1d", "1d12h", "30 days", "30D", "3M", "٣d", "d30", "1e3s"],
)
def test_what_is_no_age_is_told_and_deletes_nothing(file: Path, age: str) -> None:
    result = run("trace", "prune", "--traces", file, f"--older-than={age}")

    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"error: --older-than {age!r} is no age: give a whole number and a unit, as 45s, 90m "
        "(minutes), 12h, 30d or 2w\n"
    )
    assert written(file) == list(AGES)


@pytest.mark.parametrize("age", ["999999999w", "999999999d", "200000w"])
def test_an_age_before_all_dates_is_told(file: Path, age: str) -> None:
    result = run("trace", "prune", "--traces", file, "--older-than", age)

    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: --older-than {age!r} goes back to before the year 1")


def test_pruning_wants_to_know_what(file: Path) -> None:
    result = run("trace", "prune", "--traces", file)

    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: say what to delete: --older-than 30d, or --keep 100000")
    assert written(file) == list(AGES)


@pytest.mark.parametrize("command", [["list"], ["show", "a"], ["prune", "--keep", "1"]])
@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_store_that_is_not_there_is_not_made(
    tmp_path: Path, command: list[str], form: str
) -> None:
    path = tmp_path / "nowhere.sqlite"

    result = run("trace", *command, "--traces", form.format(path))

    assert (result.code, result.err) == (1, f"error: {path}: no lookups were recorded here yet\n")
    assert list(tmp_path.iterdir()) == []


def test_lookups_are_listed_while_a_program_writes(file: Path) -> None:
    with locked(file):
        assert len(run("trace", "list", "--traces", file).lines) == 1 + len(AGES)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no database\n" * 200, "file is not a database; move that file away, or name another"),
        (None, "unable to open database file; its folder must exist and be writable"),
    ],
    ids=["text", "folder"],
)
def test_a_store_that_cannot_be_read_is_one_line_with_the_remedy(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "traces.sqlite"
    path.mkdir() if content is None else path.write_bytes(content)

    result = run("trace", "list", "--traces", path)

    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: cannot open the trace store sqlite:///{path}: {says}")
    assert result.err.count("\n") == 1


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    path = tmp_path / "kb"
    KnowledgeBase.from_documents([BADGES], into=path).close()
    return path


def test_ask_says_where_its_row_is(kb: Path) -> None:
    said = run("ask", "lost badges", "--kb", kb)

    row = json.loads(run("trace", "show", said.lines[-1].split()[2], "--kb", kb).out)
    assert said.lines[-1].endswith(f" in sqlite:///{kb}/traces.sqlite")
    assert (row["query"], said.err) == ("lost badges", "")


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_ask_answers_and_says_why_there_is_no_row(kb: Path, options: list[str]) -> None:
    (kb / "traces.sqlite").mkdir()

    said = run("ask", "lost badges", "--kb", kb, *options)

    assert "Lost badges are blocked" in said.out
    assert said.err == (
        f"not recorded in sqlite:///{kb}/traces.sqlite: TraceStoreError: the trace store cannot "
        "be opened; --debug tells more\n"
    )
    assert (said.code, "trace: row" in said.out) == (0, False)
