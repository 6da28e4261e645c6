"""Processes killed at random moments: builds, syncs, calibrations, and writers of trace rows.

Whatever the moment, what is left is as before or as after, what an embedder was paid for is not
lost, and the next writer leaves nothing lying about. Run by `make soak`.

This process starts no thread, so that it can be forked: everything is done in forks of it.
"""

import os
import pickle
import random
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from embedders import HashEmbedder
from forked import fork
from mutations import WORDS, Documents, content

from lookup_tool import KnowledgeBase, TraceStore, calibrate
from lookup_tool.embedders import embedder as embeddings
from lookup_tool.schema import SearchRequest
from lookup_tool.traces import TraceRow

SEED = 20250711
KILLS = 100

T = TypeVar("T")

_BATCH = 4
"""Texts that are embedded at once: few, so that few documents are many batches."""

_PROBES = 2
"""Texts that are embedded to see whether the embedder is the same."""


class Slow(HashEmbedder):
    """Takes its time, and notes how many texts it was paid for."""

    def __init__(self, bill: Path, seconds: float = 0.01) -> None:
        super().__init__()
        self.bill = bill
        self.seconds = seconds

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        time.sleep(self.seconds)
        with self.bill.open("a", encoding="utf-8") as bill:
            bill.write(f"{len(texts)}\n")
        return super().embed_documents(texts)


Work = Callable[[Path, Path, Slow], object]
"""Does something with a folder of documents and a knowledge base."""


def build(docs: Path, kb: Path, embedder: Slow) -> None:
    KnowledgeBase.build(docs, kb, embedder=embedder).close()


def sync(docs: Path, kb: Path, embedder: Slow) -> None:
    KnowledgeBase.sync(docs, kb, embedder=embedder, allow_removals=True)


def fit(_: Path, kb: Path, embedder: Slow) -> None:
    with KnowledgeBase.open(kb, embedder=embedder) as knowledge:
        calibrate(knowledge)


@dataclass(frozen=True)
class Part:
    """What is killed."""

    name: str
    work: Work
    starts: tuple[str, ...]
    """What it begins with: `nothing`, or a knowledge base of `earlier` or `current` documents."""


PARTS = (
    Part("builds", build, ("nothing", "earlier")),
    Part("syncs", sync, ("earlier",)),
    Part("calibrations", fit, ("current",)),
)


def told(job: Callable[[], T]) -> T:
    """Return what a job returns in a fork."""
    read, write = os.pipe()

    def run() -> None:
        try:
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(job(), pipe)
        except BaseException:
            traceback.print_exc()
            raise

    child = fork(run)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(answer)  # of our own fork


def killed(job: Callable[[], object], moment: Callable[[], object]) -> bool:
    """Kill a job when `moment` returns; tell whether it had not ended before."""
    child = fork(job)
    moment()
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def left(kb: Path, bill: Path) -> dict[str, object] | None:
    """Open what is left, read every byte of it, and return what it holds; None for nothing."""
    if not (kb / "CURRENT").exists():
        return None
    with KnowledgeBase.open(kb, embedder=Slow(bill)) as base:
        base.search(SearchRequest(WORDS[0]))
    found = content(kb)
    found["calibrated_at"] = found["calibrated_at"] is not None  # the time is another one
    return found


def kept(kb: Path) -> int:
    """Count the vectors that wait for their generation."""
    file = kb / "embedded.sqlite"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as connection:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return connection.execute("SELECT count(*) FROM vectors").fetchone()[0] if tables else 0


class Rounds:
    """The kills of one part."""

    def __init__(self, part: Part, folder: Path, seed: int) -> None:
        self.part = part
        self.folder = folder
        self.chance = random.Random(seed)
        self.documents = Documents(folder / "docs", seed)
        self.docs = self.documents.root
        self.bill = folder / "bill"
        self.earlier = folder / "earlier"
        self.tally: Counter[str] = Counter()
        self._done("earlier", build, None)

    def run(self) -> None:
        """Change the documents, kill, look, go on; the next round begins with what came of it."""
        for _ in range(self.chance.randrange(1, 6)):
            self.documents.mutate()
        fresh = self._done("fresh", build, None)
        start = {
            "nothing": None,
            "earlier": self.earlier,
            "current": self.folder / "fresh",
        }[self.chance.choice(self.part.starts)]
        before = None if start is None else told(lambda: left(start, self.bill))
        begun = time.perf_counter()
        after = self._done("undisturbed", self.part.work, start)
        seconds, needed = time.perf_counter() - begun, self._paid()

        kb = self._copy(start, "kb")
        self.bill.unlink(missing_ok=True)
        was_killed = killed(
            lambda: self.part.work(self.docs, kb, Slow(self.bill)), self._moment(kb, seconds)
        )
        paid, waiting = self._paid(), kept(kb)
        found = told(lambda: left(kb, self.bill))
        assert found in (before, after), "it is neither as before nor as after"
        assert was_killed or found == after, "it has failed by itself"
        if found == before and self.part.work is not fit:
            assert paid - waiting <= _BATCH + _PROBES, "vectors were lost"

        self.bill.unlink(missing_ok=True)
        told(lambda: sync(self.docs, kb, Slow(self.bill, 0)))
        again = self._paid()
        names = {path.name.partition("-")[0] for path in kb.iterdir()}
        assert names == {"CURRENT", ".lock", "generation"}, f"{names} are left over"
        assert len(list(kb.glob("generation-*"))) == 1, "generations are left over"
        assert again <= max(0, needed - waiting) + _PROBES, "vectors were paid for twice"
        synced = told(lambda: left(kb, self.bill))
        assert synced in (fresh, after), "a sync does not end where a build does"
        shutil.rmtree(self.earlier)
        kb.rename(self.earlier)
        self.tally["killed" if was_killed else "ended before"] += 1
        self.tally["as after" if found == after else "as before"] += 1
        self.tally["vectors kept"] += waiting

    def _done(self, name: str, work: Work, start: Path | None) -> dict[str, object] | None:
        """Do something undisturbed, and return what comes of it."""
        kb = self._copy(start, name)
        self.bill.unlink(missing_ok=True)
        told(lambda: work(self.docs, kb, Slow(self.bill)))
        return told(lambda: left(kb, self.folder / "other bill"))

    def _copy(self, start: Path | None, name: str) -> Path:
        kb = self.folder / name
        shutil.rmtree(kb, ignore_errors=True)
        if start is not None:
            shutil.copytree(start, kb)
        return kb

    def _moment(self, kb: Path, seconds: float) -> Callable[[], None]:
        """Return a wait for any moment, or for one after the first file was begun."""
        anywhen, later = self.chance.uniform(0, 1.1 * seconds), self.chance.uniform(0, 0.05)
        if self.chance.random() < 0.5:
            return lambda: time.sleep(anywhen)

        def wait() -> None:
            end = time.perf_counter() + 2 * seconds
            while time.perf_counter() < end and not any(kb.glob("*.partial")):
                time.sleep(0.0005)
            time.sleep(later)

        return wait

    def _paid(self) -> int:
        return sum(map(int, self.bill.read_text().split())) if self.bill.exists() else 0


def row(number: int) -> TraceRow:
    return TraceRow(
        invocation_id=f"{number:08}",
        tool_name="lookup_knowledge",
        query=f"Question {number}?",
        found=True,
        evidence_status="sufficient",
        fallback_reason=None,
        candidate_count=number,
        evidence_block_count=1,
        duration_ms=1.0,
        knowledge_version="v1",
        retrieval_details={"number": number, "rest": "x" * 1_400},
    )


class TraceRounds:
    """The kills of a process that writes trace rows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.file = folder / "traces.sqlite"
        self.tally: Counter[str] = Counter()
        self.written = 0

    def run(self) -> None:
        """Write, kill, read; often into a file that is not there yet."""
        if self.chance.random() < 0.3:
            for file in self.file.parent.iterdir():
                file.unlink()
            self.written = 0
            self.tally["new files"] += 1
        seen = 0

        def moment() -> None:
            nonlocal seen
            time.sleep(self.chance.uniform(0, 0.15))
            seen = committed(self.file)

        assert killed(lambda: write(self.file, self.written), moment), "it has ended by itself"
        numbers = told(lambda: read(self.file))
        assert numbers == list(range(len(numbers))), "rows are missing"
        assert len(numbers) >= max(seen, self.written), "rows that were there are gone"
        self.tally["killed"] += 1
        self.tally["rows"] += len(numbers) - self.written
        self.written = len(numbers)


def write(file: Path, first: int) -> None:
    """Write rows without end."""
    store = TraceStore(file)
    for number in count(first):
        store.record(row(number))


def committed(file: Path) -> int:
    """Count the rows that another process can read now."""
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute("SELECT count(*) FROM tool_invocation").fetchone()[0]
        except sqlite3.OperationalError:
            return 0  # there is no table yet, or it is just being made


def read(file: Path) -> list[int]:
    """Return the numbers of all rows, oldest first; each is as it was written."""
    store = TraceStore(file)
    rows = store.rows(limit=1_000_000)[::-1]
    store.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for each in rows:
        expected = row(int(each.invocation_id))
        assert (each.query, each.retrieval_details) == (expected.query, expected.retrieval_details)
    return [int(each.invocation_id) for each in rows]


def parts(folder: Path) -> Iterator[tuple[str, int, Any]]:
    """Yield the name, the seed and the rounds of each part."""
    for seed, part in enumerate(PARTS, start=SEED):
        (folder / part.name).mkdir()
        yield part.name, seed, Rounds(part, folder / part.name, seed)
    (folder / "traces").mkdir()
    seed = SEED + len(PARTS)
    yield "trace rows", seed, TraceRounds(folder / "traces", seed)


def random_kills(folder: Path, kills: int = KILLS) -> None:
    """Kill each kind of process at random moments, and say how it was found."""
    embeddings.BATCH = _BATCH
    for name, seed, rounds in parts(folder):
        for number in range(kills):
            try:
                rounds.run()
            except AssertionError as difference:
                sys.exit(f"{name}, seed {seed}, kill {number}: {difference}")
        print(f"{kills} kills of {name}, seed {seed}: {dict(rounds.tally)}", flush=True)  # noqa: T201
