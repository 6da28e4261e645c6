"""What only a fresh process shows: start-up, memory, and two processes at once.

`python benchmarks/speed/processes.py ask KB SIZE DIMENSION` opens a knowledge base, answers, and
prints what it took, as JSON.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import psutil

HERE = Path(__file__)
ASKED = 60


def ask(root: Path, size: int, dimension: int) -> dict[str, float]:
    """Open a knowledge base in this process and look something up, measuring both."""
    from corpora import Corpus, CorpusEmbeddings, questions
    from lookup_tool.graph.app import build_lookup_graph
    from lookup_tool.knowledge.base import KnowledgeBase

    corpus, before = Corpus(size, dimension), psutil.Process().memory_info().rss
    started = perf_counter()
    knowledge = KnowledgeBase.open(root, embedder=CorpusEmbeddings(corpus))
    opened = perf_counter() - started
    asked = questions(knowledge, ASKED, filtered=False)
    knowledge.close()
    knowledge = KnowledgeBase.open(root, embedder=CorpusEmbeddings(corpus, asked))
    graph = build_lookup_graph(knowledge, traces="sqlite://")
    started = perf_counter()
    for question in asked:
        graph.invoke({"query": question.text})
    seconds = perf_counter() - started
    used = psutil.Process().memory_info().rss - before
    return {
        "open_s": round(opened, 3),
        "lookups_per_s": round(len(asked) / seconds, 1),
        "resident_mb": round(used / 1e6),
        "resident_over_vectors": round(used / (size * dimension * 4), 2),
    }


def measure(root: Path, size: int, dimension: int) -> dict[str, Any]:
    """Run `ask` alone and then twice at once."""
    command = [sys.executable, str(HERE), "ask", str(root), str(size), str(dimension)]
    (alone,) = _together([command])
    both = _together([command, command])
    rate = sum(each["lookups_per_s"] for each in both)
    return {**alone, "two_processes_per_s": round(rate, 1)}


def start_up(handbook: Path) -> dict[str, float]:
    """Return the median seconds of an import and of a first answer on the command line."""
    code = (
        "import time; t = time.perf_counter(); import lookup_tool; print(time.perf_counter() - t)"
    )
    imports = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    cli = "from lookup_tool.cli import main; main()"
    question = ["ask", "How many days of annual leave do I get?", "--kb", str(handbook)]
    answers: list[float] = []
    for _ in range(5):
        started = perf_counter()
        subprocess.run([sys.executable, "-c", cli, *question], check=True, capture_output=True)
        answers.append(perf_counter() - started)
    return {
        "import_s": round(median(imports), 3),
        "first_cli_answer_s": round(median(answers), 2),
    }


def _together(commands: list[list[str]]) -> list[dict[str, float]]:
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
    return [json.loads(each.communicate()[0]) for each in running]


if __name__ == "__main__":
    _, _, where, passages, width = sys.argv
    print(json.dumps(ask(Path(where), int(passages), int(width))))
