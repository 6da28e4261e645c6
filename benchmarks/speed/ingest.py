"""Files to a knowledge base, without the embedding: files a second, and memory."""

import threading
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import psutil

from corpora import Corpus, CorpusEmbeddings, Words
from lookup_tool.knowledge_base import KnowledgeBase

FILES = 5_000
SECTIONS = 3
WORDS_PER_SECTION = 110


def measure(folder: Path) -> dict[str, Any]:
    """Build from files of about 2 KB, with an embedder whose time is taken off."""
    docs, root = folder / "docs", folder / "kb"
    _write_files(docs)
    embeddings = _Timed(Corpus(FILES * SECTIONS, 256))
    memory, cpu = _Peak(), process_time()
    phases: dict[str, float] = {}
    started = last = perf_counter()

    def progress(phase: str, done: int, total: int) -> None:
        nonlocal last
        now = perf_counter()
        phases[phase] = phases.get(phase, 0.0) + now - last
        last = now

    with memory, KnowledgeBase.build(docs, root, embedder=embeddings, progress=progress) as built:
        seconds = perf_counter() - started
        passages = built.manifest.passages
    return {
        "files": FILES,
        "passages": passages,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(process_time() - cpu, 2),
        "seconds_embedding": round(phases.get("embed", 0.0), 2),
        "files_per_s_without_embedding": round(FILES / (seconds - phases.get("embed", 0.0))),
        "phases_s": {phase: round(each, 2) for phase, each in phases.items()},
        "peak_mb": round(memory.peak / 1e6),
    }


def _write_files(docs: Path) -> None:
    words = Words(3)
    for number in range(FILES):
        path = docs / f"part-{number % 50}" / f"entry-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        title = " ".join(words.draw(3))
        sections = "".join(
            f"\n## {' '.join(words.draw(2))}\n\n{' '.join(words.draw(WORDS_PER_SECTION))}.\n"
            for _ in range(SECTIONS)
        )
        path.write_text(
            f"---\ntitle: {title}\ncategory: part {number % 20}\nkeywords: [{words.draw(1)[0]}]\n"
            f"---\n# {title}\n{sections}",
            encoding="utf-8",
        )


class _Timed(CorpusEmbeddings):
    """Runs in the process, without a model."""


class _Peak:
    """Follows the resident memory of this process and of those that it starts."""

    def __init__(self) -> None:
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "_Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        before = own.memory_info().rss
        while not self._done.wait(0.02):
            used = own.memory_info().rss - before
            for child in own.children(recursive=True):
                try:
                    used += child.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, used)
