"""Measure speed: `python benchmarks/speed [--sizes 1k,10k,100k,1m] [--out DIR]`.

Everything that is compared runs in turns in one run; the figures are medians, and ratios count more
than milliseconds. Knowledge bases are kept in `--cache` and used again.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import cold
import lookups
import scan
from corpora import Corpus, CorpusEmbeddings, build, opened, questions
from lookup_tool.knowledge_base import KnowledgeBase
from report import markdown

try:
    import ingest
    import processes
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is not installed: pip install '.[bench]'")

DIMENSIONS = {1_000_000: 256}
DIMENSION = 384
QUESTIONS = 40
UNITS = {"k": 1_000, "m": 1_000_000}
HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"


def main() -> None:
    """Run what is asked for, and print and keep the report."""
    parser = argparse.ArgumentParser(prog="python benchmarks/speed", description=__doc__)
    parser.add_argument("--sizes", default="1k,10k,100k", help="passages, as in 1k,10k,100k,1m")
    parser.add_argument("--out", type=Path, help="folder for speed.json and speed.md")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "lookup-tool-speed",
        help="folder of the synthetic knowledge bases (100k takes 0.3 GB, 1m 2 GB)",
    )
    chosen = parser.parse_args()
    found: dict[str, Any] = {
        "machine": {
            "cpus": os.cpu_count(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "load": round(os.getloadavg()[0], 1),
        },
        "sizes": {},
    }
    for text in chosen.sizes.split(","):
        size = _size(text)
        print(f"{size:,} passages", flush=True)
        found["sizes"][size] = _measure(size, chosen.cache)
    print("start and ingest", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        handbook = Path(folder) / "handbook"
        KnowledgeBase.build(HANDBOOK, handbook).close()
        found["start_up"] = processes.start_up(handbook)
        found["cold"] = cold.measure(Path(folder) / "cold")
        found["ingest"] = ingest.measure(Path(folder) / "ingest")
    print(markdown(found))
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "speed.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        (chosen.out / "speed.md").write_text(markdown(found), encoding="utf-8")


def _measure(size: int, cache: Path) -> dict[str, Any]:
    dimension = DIMENSIONS.get(size, DIMENSION)
    corpus, root = Corpus(size, dimension), cache / f"{size}x{dimension}"
    try:
        build(corpus, root)
        with opened(corpus, root) as knowledge:
            everything = questions(knowledge, QUESTIONS, filtered=False)
            filtered = questions(knowledge, QUESTIONS, filtered=True)
            scanned = scan.measure(knowledge, everything, filtered)
        asked = [*everything, *filtered]
        with opened(corpus, root, asked) as knowledge:
            embeddings = CorpusEmbeddings(corpus, asked)
            looked_up = lookups.measure(knowledge, embeddings, everything, filtered)
    except BaseException:
        if not (root / "CURRENT").exists():
            shutil.rmtree(root, ignore_errors=True)
        raise
    return {
        "dimension": dimension,
        "scan": scanned,
        "lookup": looked_up,
        "process": processes.measure(root, size, dimension),
    }


def _size(text: str) -> int:
    text = text.strip().lower()
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


if __name__ == "__main__":
    main()
