"""The trace store keeps one row for every lookup, whoever writes at the same time."""

import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier

import pytest

from lookup_tool.errors import TraceStoreError
from lookup_tool.traces import IN_MEMORY, TraceRow, TraceStore

ROW = TraceRow(
    invocation_id="0a1b2c",
    tool_name="lookup_knowledge",
    query="用 vpn, naïve?",
    found=True,
    evidence_status="weak",
    fallback_reason=None,
    candidate_count=7,
    evidence_block_count=2,
    duration_ms=1.25,
    knowledge_version="v1",
    retrieval_details={"attempts": [{"reason": "no_filter"}], "error": None, "text": "年假"},
)
THREADS = 8


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TraceStore]:
    url = IN_MEMORY if request.param == "memory" else tmp_path / "traces.sqlite"
    with closing(TraceStore(url)) as opened:
        yield opened


def at_once(work: Callable[[int], None]) -> None:
    """Run work(0) to work(7) in threads that start together."""
    barrier = Barrier(THREADS)

    def run(number: int) -> None:
        barrier.wait(timeout=30)
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(run, number) for number in range(THREADS)]:
            future.result()


def named(*names: str) -> list[TraceRow]:
    return [replace(ROW, invocation_id=name) for name in names]


def names(store: TraceStore, limit: int = 20) -> list[str]:
    return [row.invocation_id for row in store.rows(limit)]


def test_a_row_comes_back_as_it_was_with_the_time_in_utc(store: TraceStore) -> None:
    before = datetime.now(UTC)
    store.record(ROW)
    after = datetime.now(UTC)

    (row,) = store.rows()

    assert row == replace(ROW, created_at=row.created_at)
    assert row.created_at is not None
    assert before <= row.created_at <= after
    assert row.created_at.utcoffset() == timedelta(0)
    assert store.count() == 1


def test_the_latest_rows_come_first_up_to_the_limit(store: TraceStore) -> None:
    for row in named("a", "b", "c"):
        store.record(row)

    assert names(store) == ["c", "b", "a"]
    assert names(store, limit=2) == ["c", "b"]
    assert store.count() == 3


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("abc1", "abc1"),
        ("abc2", "abc2"),
        ("abd", "abd3"),
        ("abc", None),
        ("ab", None),
        ("bc1", None),
        ("abc11", None),
        ("abd_", None),
        ("abd%", None),
        ("_bd3", None),
        ("%d3", None),
    ],
)
def test_a_row_is_found_by_the_beginning_of_its_id_when_it_is_the_only_one(
    store: TraceStore, asked: str, found: str | None
) -> None:
    for row in named("abc1", "abc2", "abd3"):
        store.record(row)

    row = store.row(asked)

    assert (row and row.invocation_id) == found


def test_threads_that_share_a_store_lose_nothing(store: TraceStore) -> None:
    def write(thread: int) -> None:
        for row in named(*(f"{thread}-{n}" for n in range(20))):
            store.record(row)
            assert store.row(row.invocation_id) is not None

    at_once(write)

    expected = {f"{thread}-{n}" for thread in range(THREADS) for n in range(20)}
    assert store.count() == len(expected)
    assert set(names(store, limit=1000)) == expected


def test_stores_that_open_a_new_file_together_lose_nothing(tmp_path: Path) -> None:
    def write(thread: int) -> None:
        with closing(TraceStore(tmp_path / "traces.sqlite")) as own:
            own.record(replace(ROW, invocation_id=str(thread)))

    at_once(write)

    with closing(TraceStore(tmp_path / "traces.sqlite")) as opened:
        assert sorted(names(opened)) == [str(thread) for thread in range(THREADS)]


WRITE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_traces import ROW, named
from lookup_tool.traces import TraceStore
print("ready", flush=True)
sys.stdin.readline()
store = TraceStore(Path(sys.argv[1]))
for row in named(*(f"{sys.argv[2]}-{number}" for number in range(100))):
    store.record(row)
store.close()
"""


def test_processes_that_write_one_file_lose_nothing_and_never_find_it_locked(
    tmp_path: Path,
) -> None:
    path, tests = tmp_path / "traces.sqlite", str(Path(__file__).parent)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, path, str(number), tests],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:  # now they all begin
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    ends = [(*writer.communicate(), writer.returncode) for writer in writers]

    assert ends == [("", "", 0)] * 4
    with closing(TraceStore(path)) as opened:
        expected = {f"{writer}-{number}" for writer in range(4) for number in range(100)}
        assert set(names(opened, limit=1000)) == expected
        assert opened.count() == 400


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_details_that_are_no_json_are_refused(store: TraceStore, value: float) -> None:
    with pytest.raises(TraceStoreError, match=r"^cannot write to [^\n]+$"):
        store.record(replace(ROW, retrieval_details={"score": value}))

    assert store.count() == 0


@pytest.mark.parametrize(
    "zone",
    [UTC, timezone(timedelta(hours=9)), timezone(timedelta(hours=-9))],
    ids=["utc", "east", "west"],
)
def test_pruning_deletes_only_what_is_older_in_any_time_zone(
    store: TraceStore, zone: timezone
) -> None:
    for row in named("a", "b"):
        store.record(row)
    now = datetime.now(zone)

    assert store.prune(now - timedelta(hours=1)) == 0
    assert store.count() == 2
    assert store.prune(now + timedelta(hours=1)) == 2
    assert store.count() == 0


def test_a_row_created_at_the_very_moment_is_not_pruned(store: TraceStore) -> None:
    store.record(ROW)
    created = store.rows()[0].created_at
    assert created is not None

    assert store.prune(created) == 0
    assert store.prune(created + timedelta(microseconds=1)) == 1


def test_rows_stay_when_the_file_is_opened_again(tmp_path: Path) -> None:
    for row in named("a", "b"):
        with closing(TraceStore(tmp_path / "traces.sqlite")) as opened:
            opened.record(row)

    with closing(TraceStore(f"sqlite:///{tmp_path}/traces.sqlite")) as opened:
        assert names(opened) == ["b", "a"]


def test_an_older_table_is_completed_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(sqlite3.connect(path)) as old, old:
        old.execute(
            "CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY, invocation_id TEXT, query TEXT)"
        )
        old.execute("INSERT INTO tool_invocation (invocation_id, query) VALUES ('old', 'leave?')")

    with closing(TraceStore(path)) as opened:
        opened.record(ROW)
        new, kept = opened.rows()

    assert new == replace(ROW, created_at=new.created_at)
    assert (kept.invocation_id, kept.query, kept.created_at) == ("old", "leave?", None)


@pytest.mark.parametrize(
    "name", ["traces.sqlite", "a b.sqlite", "a%20b.sqlite", "a#b.sqlite", "a?b.sqlite", "é.sqlite"]
)
def test_a_path_names_its_file_and_its_folder_is_created(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / "folder" / name

    with closing(TraceStore(path)) as opened:
        opened.record(ROW)

    assert name in {found.name for found in path.parent.iterdir()}


def test_a_store_that_cannot_be_opened_says_so_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder, and no database either\n" * 50)

    for path in (tmp_path, file, file / "traces.sqlite"):
        with pytest.raises(TraceStoreError, match=r"^cannot open the trace store [^\n]+$") as error:
            TraceStore(path)
        assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("no url://", id="no url"),
        pytest.param("nosuch://me:hidden@localhost/db", id="unknown database"),
        pytest.param("oracle://me:hidden@localhost/db", id="driver that is not installed"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(TraceStoreError, match=r"^[^\n]+$") as error:
        TraceStore(url)

    assert "hidden" not in str(error.value)
