"""Processes that are killed: each runs in a fork of one process, so that nothing is imported twice.

    python tests/forked.py DOCS KB POINT...

kills an ingest and a sync of DOCS, each into a copy of KB, at each named point.

Run as a program, because a test process has threads and must not fork.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from embedders import HashEmbedder

from lookup_tool import KnowledgeBase
from lookup_tool.engines.local import generations, holds
from lookup_tool.indexing import build
from lookup_tool.indexing.pending import PendingVectors


def killed(*_: object, **__: object) -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str) -> None:
    """Die when a function is about to be called."""
    setattr(owner, name, killed)


def after(owner: Any, name: str) -> None:
    """Die when a function has done its work."""
    work: Callable[..., Any] = getattr(owner, name)

    def run(*args: Any, **kwargs: Any) -> None:
        work(*args, **kwargs)
        killed()

    setattr(owner, name, run)


POINTS: dict[str, Callable[[], None]] = {
    "vectors kept": lambda: after(PendingVectors, "keep"),
    "embedded": lambda: after(build, "embed"),
    "passages written": lambda: after(build, "write_passages"),
    "index written": lambda: before(generations, "_seal"),
    "sealed": lambda: after(generations, "_seal"),
    "before the switch": lambda: before(generations, "_switch"),
    "pointer written": lambda: before(Path, "replace"),
    "after the switch": lambda: after(generations, "_switch"),
    "old one renamed": lambda: setattr(holds, "shutil", SimpleNamespace(rmtree=killed)),
    "old one removed": lambda: before(build, "remove_pending"),
}


def work(docs: Path, kb: Path, command: str) -> None:
    """Do what a command does."""
    if command == "ingest":
        KnowledgeBase.build(docs, kb, embedder=HashEmbedder()).close()
    else:
        KnowledgeBase.sync(docs, kb, embedder=HashEmbedder())


def fork(run: Callable[[], object]) -> int:
    """Run something in a fork, and return its process id."""
    child = os.fork()
    if child == 0:
        try:
            run()
        finally:
            os._exit(0)
    return child


def at_points(docs: Path, kb: Path, names: list[str]) -> None:
    """Kill ingest and sync at named points, each in a copy of the knowledge base."""
    for name in names:
        for command in ("ingest", "sync"):
            copy = kb.with_name(f"{command} {name}")
            shutil.copytree(kb, copy)

            def run(name: str = name, command: str = command, copy: Path = copy) -> None:
                POINTS[name]()
                work(docs, copy, command)

            _, status = os.waitpid(fork(run), 0)
            print(name, command, os.waitstatus_to_exitcode(status), sep="\t")  # noqa: T201


if __name__ == "__main__":
    at_points(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
