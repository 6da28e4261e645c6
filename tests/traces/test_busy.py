"""A store that is locked, slow or away delays nobody, and loses nothing that can be written later.

Each test makes the database wait for something that happens only after the rows were handed in: a
store that waited for it would never get that far.
"""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from case_builders import BADGES, ask_artifact
from databases import SERVER, WRITER, locked, writers, written
from embedders import HashEmbedder
from filelock import FileLock
from test_traces import ROW, named, names

from lookup_tool import KnowledgeBase, TraceStore, create_lookup_tool
from lookup_tool.errors import TraceStoreError

FAR_AWAY = 60.0
"""Seconds in which anything is done that waits for nothing."""


def in_time(work: Callable[[], Any]) -> Any:
    """Return what a function returns, if it returns at all."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=FAR_AWAY)


def record(store: TraceStore, *ids: str) -> None:
    for row in named(*ids):
        store.record(row)


NAMES = [f"{number:02}" for number in range(20)]
"""At ten seconds each, they would take longer than `FAR_AWAY`."""


# Locked files


def new_file(path: Path) -> None:
    """Leave it to the store to make the file."""


def in_wal_mode(path: Path) -> None:
    TraceStore(path).close()


def without_wal(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE other (x)")


def an_older_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE tool_invocation (id INTEGER PRIMARY KEY)")


def a_transaction(path: Path) -> AbstractContextManager[object]:
    return locked(path)


def the_lock_of_an_opener(path: Path) -> AbstractContextManager[object]:
    return FileLock(f"{path}.lock")


def a_read(path: Path) -> AbstractContextManager[object]:
    """Keep a file that is not in WAL mode from being written to."""
    return locked(path, "BEGIN; SELECT count(*) FROM sqlite_master")


LOCKS = [
    pytest.param(in_wal_mode, a_transaction, id="wal"),
    pytest.param(without_wal, a_transaction, id="no-wal"),
    pytest.param(an_older_table, a_transaction, id="older-table"),
    pytest.param(without_wal, a_read, id="reader"),
    pytest.param(new_file, the_lock_of_an_opener, id="new-file-opener"),
    pytest.param(in_wal_mode, the_lock_of_an_opener, id="wal-opener"),
]


@pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "at-once"])
@pytest.mark.parametrize(("file", "lock"), LOCKS)
def test_a_store_that_is_locked_when_it_is_opened_takes_every_row(
    tmp_path: Path,
    file: Callable[[Path], None],
    lock: Callable[[Path], AbstractContextManager[object]],
    lazy: bool,
) -> None:
    path = tmp_path / "traces.sqlite"
    file(path)
    with lock(path):
        store = TraceStore(path, lazy=lazy)
        in_time(lambda: record(store, *NAMES))
    store.close()

    assert written(path) == NAMES
    assert store.lost == 0


def test_a_store_that_is_locked_later_takes_every_row_in_order(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        record(store, "before")
        with locked(path):
            in_time(lambda: record(store, *NAMES))
            assert written(path) == ["before"]
        record(store, "after")

    assert written(path) == ["before", *NAMES, "after"]


def test_lookups_wait_for_no_lock(tmp_path: Path) -> None:
    with KnowledgeBase.from_documents(
        [BADGES], into=tmp_path / "kb", embedder=HashEmbedder()
    ) as knowledge:
        tool = create_lookup_tool(knowledge)
        path = tmp_path / "kb" / "traces.sqlite"
        ask_artifact(tool, "first")
        with locked(path):
            asked = in_time(lambda: [ask_artifact(tool, name) for name in NAMES])
            assert len(written(path)) == 1

    assert {artifact["retrievalTrace"]["recordError"] for artifact in asked} == {None}
    ids = [artifact["retrievalTrace"]["invocationId"] for artifact in asked]
    assert written(path)[1:] == ids


def test_threads_that_record_at_once_wait_for_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path, lazy=True)) as store:
        without_wal(path)
        with locked(path), ThreadPoolExecutor(16) as pool:
            waiting = [pool.submit(record, store, *named_by(n)) for n in range(16)]
            for done in waiting:
                done.result(timeout=FAR_AWAY)

    found = written(path)
    assert len(found) == 16 * 20
    for number in range(16):
        assert [name for name in found if name in named_by(number)] == named_by(number)


def named_by(thread: int) -> list[str]:
    return [f"{thread:02}-{name}" for name in NAMES]


def test_a_row_that_is_written_late_has_the_time_of_its_lookup(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        with locked(path):
            record(store, "a")
            recorded = datetime.now(UTC)
        (row,) = store.rows()

    assert row.created_at is not None
    assert row.created_at <= recorded


def test_what_was_recorded_is_read_back_by_the_same_store_even_if_it_had_to_wait(
    tmp_path: Path,
) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        for count, row in enumerate(named("a", "b", "c"), 1):
            with locked(path):
                store.record(row)
            assert store.count() == count
            assert store.row(row.invocation_id) == replace(
                row, created_at=store.rows(1)[0].created_at
            )
        with locked(path):
            record(store, "d")
        assert store.prune(keep=1) == 3


def test_nothing_runs_while_nothing_waits(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    store = TraceStore(path, lazy=True)
    record(store, "a")
    assert writers() == []

    with locked(path):
        record(store, "b")
        assert [thread.name for thread in writers()] == [WRITER]
    store.close()
    assert writers() == []


# Slow files, and what is in memory


def test_a_write_that_turns_out_to_be_slow_is_broken_off_and_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "traces.sqlite"
    monkeypatch.setattr("lookup_tool.traces.database._SLOW", 0.0)  # so every long one is
    with closing(TraceStore(path)) as store:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "CREATE TRIGGER slow BEFORE INSERT ON tool_invocation BEGIN SELECT (WITH RECURSIVE "
                "n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) "
                "SELECT count(*) FROM n); END"
            )
        record(store, "a")
        assert writers() != []
        record(store, "b")

    assert written(path) == ["a", "b"]


def test_a_long_read_in_memory_delays_no_row() -> None:
    with closing(TraceStore("sqlite://")) as store:
        record(store, "a")
        with store._reading():
            in_time(lambda: record(store, *NAMES))
        assert names(store, 100) == [*reversed(NAMES), "a"]


# Servers


@pytest.fixture
def server(tmp_path: Path) -> Any:
    SERVER.begin()
    with closing(TraceStore(f"server:///{tmp_path}/traces.sqlite", lazy=True)) as store:
        yield store
        SERVER.begin()


def test_a_server_that_answers_has_each_row_at_once(server: TraceStore, tmp_path: Path) -> None:
    record(server, "a", "b")

    assert names(server) == ["b", "a"]
    assert server.lost == 0


@pytest.mark.parametrize("known", [True, False], ids=["known", "never-seen"])
def test_a_server_that_hangs_delays_nobody(server: TraceStore, tmp_path: Path, known: bool) -> None:
    if known:
        record(server, "first")
    server._engine.dispose()
    SERVER.answers.clear()

    in_time(lambda: record(server, *NAMES))
    SERVER.answers.set()

    assert names(server, 100) == [*reversed(NAMES), *["first"] * known]
    assert server.lost == 0


def test_a_server_that_is_away_is_told_and_has_every_row_when_it_is_back(
    server: TraceStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookup_tool.traces.store._MOMENT", FAR_AWAY)  # until it is known
    record(server, "first")
    server._engine.dispose()
    SERVER.is_down.set()

    told = set()
    for row in named(*NAMES):
        with pytest.raises(TraceStoreError) as error:
            server.record(row)
        told.add(error.value.reason)
    SERVER.is_down.clear()

    assert names(server, 100) == [*reversed(NAMES), "first"]
    assert told == {"the trace store cannot be reached or written"}
    assert len([message for message in caplog.messages if "refused" in message]) == 1
    assert server.lost == 0


def test_a_row_that_a_server_refuses_costs_no_other(
    server: TraceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(server, "first")
    with closing(sqlite3.connect(tmp_path / "traces.sqlite")) as connection, connection:
        connection.execute("CREATE UNIQUE INDEX once ON tool_invocation (invocation_id)")
    server._engine.dispose()
    SERVER.answers.clear()
    record(server, "a", "b", "a", "c", "d", "first", "e")
    SERVER.answers.set()

    assert names(server) == ["e", "d", "c", "b", "a", "first"]
    assert server.lost == 2
    monkeypatch.setattr("lookup_tool.traces.store._MOMENT", FAR_AWAY)
    with pytest.raises(TraceStoreError) as error:
        record(server, "a")
    assert error.value.reason == "the trace store refuses the row"


# What is lost in the end


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one attempt of the thread be short; `close` is told how long it may take."""
    monkeypatch.setattr("lookup_tool.traces.database.PATIENCE", 0.01)


@pytest.mark.usefixtures("impatient")
def test_what_is_locked_until_the_end_is_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "traces.sqlite"
    store = TraceStore(path)
    with locked(path):
        record(store, "a", "b", "c")
        store.close(seconds=0)
        join_writers()
    record(store, "d")
    store.close()

    assert (store.lost, written(path)) == (3, ["d"])
    assert caplog.messages == [
        f"lookups that could not be recorded: 3; {store.url} was locked, or did not answer, "
        "until the end"
    ]


def join_writers() -> None:
    for thread in writers():
        thread.join(FAR_AWAY)
    assert writers() == []


def test_too_many_waiting_rows_are_dropped_told_counted_and_logged_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lookup_tool.traces.backlog.LIMIT", 3)
    path = tmp_path / "traces.sqlite"
    store = TraceStore(path)
    told = []
    with locked(path):
        record(store, "a", "b", "c")
        for row in named("d", "e", "f"):
            with pytest.raises(TraceStoreError) as error:
                store.record(row)
            told.append(error.value.reason)
        assert len(caplog.messages) == 1
    store.close()

    assert (store.lost, written(path)) == (3, ["a", "b", "c"])
    assert told == ["the trace store is locked or slow, and 3 lookups wait for it already"] * 3
    reason = f"{store.url} is locked or slow, and 3 lookups wait for it already"
    assert caplog.messages == [
        f"lookups that could not be recorded: 1; {reason}",
        f"lookups that could not be recorded: 2; {reason}",
    ]


# Closing


def test_a_store_may_be_closed_twice_and_written_to_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    store = TraceStore(path)
    with locked(path):
        record(store, "a")
    store.close()
    store.close()
    assert written(path) == ["a"]

    with locked(path):
        record(store, "b")
    record(store, "c")
    store.close()

    assert written(path) == ["a", "b", "c"]


@pytest.mark.parametrize("named_store", [True, False], ids=["named", "own"])
def test_a_knowledge_base_closes_the_stores_that_were_opened_for_it(
    tmp_path: Path, named_store: bool
) -> None:
    path = tmp_path / "traces.sqlite" if named_store else tmp_path / "kb" / "traces.sqlite"
    knowledge = KnowledgeBase.from_documents(
        [BADGES], into=tmp_path / "kb", embedder=HashEmbedder()
    )
    tools = [
        create_lookup_tool(knowledge, traces=str(path) if named_store else None) for _ in range(2)
    ]
    ask_artifact(tools[0], "before")
    with locked(path):
        asked = [ask_artifact(tool, "badges")["retrievalTrace"]["invocationId"] for tool in tools]
    knowledge.close()

    assert written(path)[1:] == asked
    assert writers() == []


def test_closing_waits_for_a_lock_that_is_given_back(tmp_path: Path) -> None:
    path, closing_now = tmp_path / "traces.sqlite", Event()
    store = TraceStore(path)
    with locked(path):
        record(store, "a")

        def close() -> None:
            closing_now.set()
            store.close()

        thread = Thread(target=close)
        thread.start()
        closing_now.wait()
    thread.join(FAR_AWAY)

    assert (written(path), store.lost) == (["a"], 0)


def test_the_rows_of_a_store_that_nobody_closed_are_written_and_its_thread_ends(
    tmp_path: Path,
) -> None:
    path = tmp_path / "traces.sqlite"
    TraceStore(path).close()
    with locked(path):
        record(TraceStore(path), "a", "b")
        assert len(writers()) == 1
    join_writers()

    assert written(path) == ["a", "b"]


@pytest.mark.usefixtures("impatient")
def test_the_thread_of_a_store_that_nobody_closed_gives_up_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lookup_tool.traces.backlog.PATIENCE", 0.0)
    path = tmp_path / "traces.sqlite"
    TraceStore(path).close()
    with locked(path):
        record(TraceStore(path), "a", "b")
        join_writers()

    assert written(path) == []
    assert caplog.messages == [
        f"lookups that could not be recorded: 2; sqlite:///{path} was locked, or did not answer, "
        "until the end"
    ]


def test_a_row_that_json_cannot_hold_is_refused_also_while_others_wait(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        with locked(path):
            record(store, "a")
            with pytest.raises(TraceStoreError, match="cannot write to") as error:
                store.record(replace(ROW, retrieval_details={"x": float("nan")}))
        assert error.value.reason == "the row cannot be written as JSON"
        assert (names(store), store.lost) == (["a"], 1)
