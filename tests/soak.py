"""What takes too long for the tests: 1,000 random changes, 200 kills at random moments, and 200
knowledge bases with and without what a caller may not see.

Run by `make soak`. It ends at the first difference, with the seed and the number of the step.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from forked import fork, work
from mutations import WORDS, Documents, SometimesBlind, content, found
from wall import walls

from lookup_tool import KnowledgeBase

SEED = 20250704
CHANGES = 1_000
KILLS = 200


def changes(folder: Path) -> None:
    """Sync after every change, and compare with a build from nothing."""
    documents, blind = Documents(folder / "docs", SEED), SometimesBlind()
    kb, fresh = folder / "kb", folder / "fresh"
    embedded = passages = noops = 0
    for number in range(CHANGES):
        documents.mutate()
        report = KnowledgeBase.sync(documents.root, kb, embedder=blind)
        KnowledgeBase.build(documents.root, fresh, embedder=blind).close()
        query = WORDS[number % len(WORDS)]
        if content(kb) != content(fresh) or found(kb, query) != found(fresh, query):
            sys.exit(f"seed {SEED}, change {number}: a sync and a build differ in {folder}")
        embedded += report.embedded
        passages += report.passages
        noops += not report.switched
    print(  # noqa: T201
        f"{CHANGES} changes: every sync equal to a build from nothing, byte for byte; {noops} had "
        f"nothing to do; {embedded:,} of {passages:,} passages were embedded"
    )


def kills(folder: Path) -> None:
    """Kill builds at random moments; what is left is what was there, or what was to come."""
    documents, chance = Documents(folder / "docs", SEED), random.Random(SEED)
    kb, next_ = folder / "kb", folder / "next"
    work(documents.root, kb, "ingest")
    started = time.perf_counter()
    os.waitpid(fork(lambda: work(documents.root, next_, "ingest")), 0)
    whole = time.perf_counter() - started
    ends: Counter[str] = Counter()
    for number in range(KILLS):
        before = content(kb)
        documents.mutate()
        shutil.rmtree(next_)
        work(documents.root, next_, "ingest")
        command = chance.choice(["ingest", "sync"])
        child = fork(lambda command=command: work(documents.root, kb, command))
        time.sleep(chance.uniform(0, 1.2 * whole))
        os.kill(child, signal.SIGKILL)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
        left = content(kb)
        if left not in (before, content(next_)):
            sys.exit(f"seed {SEED}, kill {number}: neither as before nor as after in {folder}")
        ends["killed" if killed else "done before"] += 1
        ends["as after" if left == content(next_) else "as before"] += 1
    work(documents.root, kb, "sync")
    rest = {path.name for path in kb.iterdir()} - {"CURRENT", ".lock"}
    if len(rest) != 1:
        sys.exit(f"left over after {KILLS} kills: {sorted(rest)}")
    print(f"{KILLS} kills: {dict(ends)}")  # noqa: T201


if __name__ == "__main__":
    for soak in (changes, kills, walls):
        with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
            begun = time.perf_counter()
            soak(Path(temporary))
            print(f"{time.perf_counter() - begun:.0f} s")  # noqa: T201
