"""Old rows are deleted on request, or now and then, and nothing else is."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from case_builders import BADGES, ask_artifact
from databases import written
from embedders import HashEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from test_traces import ROW, named, names

from lookup_tool import KnowledgeBase, LookupConfig, TraceStore, create_lookup_tool
from lookup_tool.config import RecordConfig
from lookup_tool.errors import TraceStoreError

Ages = tuple[float | None, ...]

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)


def aged(path: Path, *days: float | None) -> None:
    """Record a row for each age, named by its number; None is a row without a time."""
    with closing(TraceStore(path)) as store:
        for number in range(len(days)):
            store.record(replace(ROW, invocation_id=str(number)))
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, age in enumerate(days):
            created = None if age is None else str(NOW - timedelta(days=age))
            connection.execute(
                "UPDATE tool_invocation SET created_at = ? WHERE id = ?", (created, number + 1)
            )


MONTH = NOW - timedelta(days=30)
LONGER = NOW - timedelta(days=35)

ROWS = [
    # their ages in days, what is kept, and what is left
    pytest.param((40, 31, 29, 1), {"before": MONTH}, ["2", "3"], id="age"),
    pytest.param((40, 31, 29, 1), {"keep": 1}, ["3"], id="number"),
    pytest.param((40, 31, 29, 1), {"before": MONTH, "keep": 3}, ["2", "3"], id="age-first"),
    pytest.param((40, 31, 29, 1), {"before": LONGER, "keep": 1}, ["3"], id="number-first"),
    pytest.param((40, 31, 29, 1), {"keep": 4}, ["0", "1", "2", "3"], id="just-as-many"),
    pytest.param((40, 31, 29, 1), {"keep": 0}, [], id="none"),
    pytest.param((1, 40, 1, 40), {"before": MONTH}, ["0", "2"], id="written-late"),
    pytest.param((None, 40, None, 1), {"before": MONTH}, ["0", "2", "3"], id="without-a-time"),
    pytest.param((None, 40, None, 1), {"keep": 2}, ["2", "3"], id="without-a-time-by-number"),
    pytest.param((1, 1), {}, ["0", "1"], id="no-limit"),
    pytest.param((), {"before": MONTH, "keep": 1}, [], id="empty"),
]


@pytest.mark.parametrize("step", [1, 2, 500])
@pytest.mark.parametrize(("ages", "limits", "left"), ROWS)
def test_a_row_goes_that_is_over_a_limit(
    tmp_path: Path, step: int, ages: Ages, limits: dict[str, Any], left: list[str]
) -> None:
    path = tmp_path / "traces.sqlite"
    aged(path, *ages)
    with pytest.MonkeyPatch.context() as patch, closing(TraceStore(path)) as store:
        patch.setattr("lookup_tool.traces.pruning._STEP", step)
        would = store.prune(**limits, dry_run=True)
        assert store.count() == len(ages)
        deleted = store.prune(**limits)

    assert written(path) == left
    assert would == deleted == len(ages) - len(left)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    gone=st.sets(st.integers(0, 29)),
    keep=st.integers(0, 35),
    step=st.integers(1, 40),
)
def test_the_newest_rows_are_kept_whatever_was_deleted_before(
    gone: set[int], keep: int, step: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, closing(TraceStore("sqlite://")) as store:
        patch.setattr("lookup_tool.traces.pruning._STEP", step)
        for row in named(*map(str, range(30))):
            store.record(row)
        with store._engine.begin() as connection:
            for number in gone:
                connection.exec_driver_sql(
                    "DELETE FROM tool_invocation WHERE invocation_id = ?", (str(number),)
                )
        rest = [str(number) for number in range(30) if number not in gone]

        assert store.prune(keep=keep) == max(0, len(rest) - keep)
        assert names(store, 100) == list(reversed(rest[len(rest) - min(keep, len(rest)) :]))


def test_an_sqlite_file_becomes_smaller_when_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        for row in named(*map(str, range(200))):
            store.record(replace(row, retrieval_details={"text": "x" * 2000}))
        store.prune(keep=1)
        store.close()
        large = path.stat().st_size
        store.vacuum()
        store.close()

    assert large > 10 * path.stat().st_size
    assert written(path) == ["199"]


def test_another_database_is_not_vacuumed(tmp_path: Path) -> None:
    with closing(TraceStore(f"server:///{tmp_path}/traces.db", lazy=True)) as store:
        with pytest.raises(TraceStoreError, match="only an SQLite file") as error:
            store.vacuum()
        assert str(tmp_path) in str(error.value)


# Now and then


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    """Look up with settings of the trace row, until the test has ended, in a file of old rows."""
    path = tmp_path / "traces.sqlite"
    aged(path, 400, 300, 200)
    with (
        closing(TraceStore(path)) as store,
        KnowledgeBase.from_documents([BADGES], embedder=HashEmbedder()) as knowledge,
    ):

        def look_up(config: RecordConfig, times: int = 1) -> list[str]:
            tool = create_lookup_tool(knowledge, traces=store, config=LookupConfig(record=config))
            for _ in range(times):
                assert ask_artifact(tool, "badges")["retrievalTrace"]["recordError"] is None
            wait_for_chore(store)
            return [name for name in written(path) if len(name) == 1]

        yield look_up


def wait_for_chore(store: TraceStore) -> None:
    thread = store._backlog._thread
    if thread is not None:
        thread.join(60)
        assert not thread.is_alive()


def age_of(number: int) -> float:
    """Return an age in days, as of today, between that of a row and that of the next."""
    return (datetime.now(UTC) - NOW).days + 350 - 100 * number


@pytest.mark.parametrize(
    ("config", "left"),
    [
        pytest.param(RecordConfig, ["0", "1", "2"], id="default"),
        pytest.param(lambda: RecordConfig(keep_rows=3), ["1", "2"], id="rows"),
        pytest.param(lambda: RecordConfig(keep_rows=100), ["0", "1", "2"], id="fewer-rows"),
        pytest.param(lambda: RecordConfig(keep_days=age_of(0)), ["1", "2"], id="days"),
        pytest.param(lambda: RecordConfig(keep_days=age_of(0), keep_rows=2), ["2"], id="both"),
        pytest.param(lambda: RecordConfig(keep_days=36_500), ["0", "1", "2"], id="a-century"),
    ],
)
def test_a_store_is_pruned_beside_the_lookups_if_that_is_set(
    ask: Callable[..., list[str]], config: Callable[[], RecordConfig], left: list[str]
) -> None:
    assert ask(config()) == left


def test_a_store_is_pruned_once_in_a_while(
    ask: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookup_tool.traces.store._PRUNE_AFTER", 4)
    config = RecordConfig(keep_rows=3)

    assert ask(config) == ["1", "2"]
    assert ask(config, times=3) == ["1", "2"]
    assert ask(config) == []


def test_a_store_is_pruned_every_hour(
    ask: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("lookup_tool.traces.store.monotonic", lambda: now[0])
    config = RecordConfig(keep_rows=3)

    left = {}
    for seconds in (0, 1, 3599, 3600):
        now[0] = 1000.0 + seconds
        left[seconds] = ask(config)

    assert left == {0: ["1", "2"], 1: ["1", "2"], 3599: ["1", "2"], 3600: []}
