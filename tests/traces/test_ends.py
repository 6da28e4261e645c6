"""Processes that end, or fork, while rows wait: each row is written once.

The programs run beside the tests, which hold the lock until a program has told that it handed its
rows in. What a program does after that, it does while somebody waits for it to end.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from databases import locked, written

from lookup_tool import TraceStore

BEGIN = """
import atexit, multiprocessing, os, sys, threading
sys.path.insert(0, sys.argv[2])
from test_traces import named
from lookup_tool import TraceStore

def record(store, *ids):
    for row in named(*ids):
        store.record(row)

def tell():
    print("handed in", flush=True)
"""

EXIT = """
store = TraceStore(sys.argv[1])
record(store, "a", "b")
tell()
"""

RAISE = (
    EXIT
    + """
raise SystemExit(0)
"""
)

IN_A_THREAD = """
store = TraceStore(sys.argv[1])
thread = threading.Thread(target=record, args=(store, "a", "b"))
thread.start()
thread.join()
tell()
"""

AT_EXIT = """
# Runs before the package's own, and Python lets nobody start a thread any more.
def start(self):
    raise RuntimeError("can't start new thread at interpreter shutdown")
threading.Thread.start = start

@atexit.register
def last():
    record(TraceStore(sys.argv[1]), "a", "b")
    tell()
"""

SEVERAL = """
stores = [TraceStore(sys.argv[1]) for _ in range(2)]
record(stores[0], "a")
record(stores[1], "b")
tell()
"""

CHILD = """
def child(path):
    record(TraceStore(path), "a", "b")
    tell()

if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=child, args=(sys.argv[1],))
    process.start()
    process.join()
"""

FORK = """
store = TraceStore(sys.argv[1])
record(store, "a")
child = os.fork()
if child == 0:
    record(store, "b")
    tell()
    store.close()
    os._exit(0)
os.waitpid(child, 0)
store.close()
"""

FORK_IN_USE = """
store = TraceStore(sys.argv[1])
with store._backlog._changed, store._database._turn, store._database._preparing:
    child = os.fork()
    if child == 0:
        record(store, "a", "b")
        tell()
        store.close()
        os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(EXIT, id="exit"),
        pytest.param(RAISE, id="sys-exit"),
        pytest.param(IN_A_THREAD, id="thread"),
        pytest.param(AT_EXIT, id="at-exit"),
        pytest.param(SEVERAL, id="several-stores"),
        pytest.param(CHILD, id="multiprocessing"),
        pytest.param(FORK, id="fork"),
        pytest.param(FORK_IN_USE, id="fork-in-use"),
    ],
)
def test_a_program_that_ends_writes_each_row_once(tmp_path: Path, program: str) -> None:
    path, tests = tmp_path / "traces.sqlite", Path(__file__).parents[1]
    TraceStore(path).close()
    with locked(path):
        running = subprocess.Popen(
            [sys.executable, "-c", BEGIN + program, path, tests],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert running.stdout is not None
        assert running.stdout.readline() == "handed in\n"
    said = running.communicate(timeout=60)

    assert (said, running.returncode) == (("", ""), 0)
    assert sorted(written(path)) == ["a", "b"]
