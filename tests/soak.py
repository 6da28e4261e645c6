"""What takes too long for the tests: 1,000 random changes, 400 kills at random moments, and 200
knowledge bases with and without what a caller may not see.

Run by `make soak`. It ends at the first difference, with the seed and the number of the step.
"""

import sys
import tempfile
import time
from pathlib import Path

from mutations import WORDS, Documents, SometimesBlind, content, found
from soak_kills import random_kills
from wall import walls

from lookup_tool import KnowledgeBase

SEED = 20250704
CHANGES = 1_000


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


if __name__ == "__main__":
    # The first one forks, and must find no threads.
    for soak in (random_kills, changes, walls):
        with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
            begun = time.perf_counter()
            soak(Path(temporary))
            print(f"{time.perf_counter() - begun:.0f} s")  # noqa: T201
