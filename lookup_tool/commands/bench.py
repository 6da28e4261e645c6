"""`lookup-tool bench`: where the time of a lookup goes, in one's own knowledge base."""

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from lookup_tool.commands.console import Groups, bars, out, print_json
from lookup_tool.config import LookupContext, as_groups
from lookup_tool.contracts import LookupResult
from lookup_tool.errors import ConfigurationError
from lookup_tool.evaluation.questions import read_questions
from lookup_tool.graph.app import build_lookup_graph
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.traces import IN_MEMORY

TITLES = 200
"""Questions that are made from titles where none are given."""


@dataclass(frozen=True)
class Spread:
    """Milliseconds of many lookups."""

    p50: float
    p95: float


@dataclass(frozen=True)
class SpeedReport:
    """How long lookups take."""

    passages: int
    questions: int
    open_ms: float
    """To open the knowledge base."""

    first_ms: float
    """The first lookup, which loads the embedder."""

    lookups_per_second: float
    """One after the other, after the first."""

    lookup: Spread
    """The whole lookup."""

    stages: dict[str, Spread]
    """Each stage, over the lookups that passed through it; the embedding is part of retrieval. What
    a lookup takes before its first stage and after its last one is `start and end`."""

    resident_mb: float | None
    """Most memory that this process has used; None where the system does not say."""


def bench(
    kb: Annotated[Path, typer.Argument(envvar="LOOKUP_KB", help="Folder of the knowledge base.")],
    *,
    queries: Annotated[
        Path | None,
        typer.Option(help="JSONL file, one question a line with its `query`, as `eval` reads it."),
    ] = None,
    group: Groups = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Measure how long lookups take, and where the time goes.

    Each question is looked up once, one after the other; nothing is recorded in the knowledge base.
    Without a file, questions are made from the titles of entries.

    Example: `lookup-tool bench kb`
    """
    started = perf_counter()
    with KnowledgeBase.open(kb) as knowledge, bars({"ask": "Asking"}) as step:
        opened = perf_counter() - started
        context = LookupContext(groups=tuple(as_groups(group)))
        questions = _questions(knowledge, queries, frozenset(context.groups))
        graph = build_lookup_graph(knowledge, traces=IN_MEMORY)
        report = _measured(
            lambda query: graph.invoke({"query": query}, context=context)["result"],
            questions,
            knowledge.count(frozenset(context.groups)),
            opened,
            lambda done: step("ask", done, len(questions)),
        )
    if as_json:
        print_json(asdict(report))
    else:
        _print(report)


def _questions(
    knowledge: KnowledgeBase, file: Path | None, groups: frozenset[str]
) -> tuple[str, ...]:
    """Read questions, or make them.

    Raises:
        ConfigurationError: There is nothing to ask about.
    """
    if file is not None:
        return tuple(question.query for question in read_questions(file))
    titles = knowledge.view().titles(TITLES, groups)
    if not titles:
        raise ConfigurationError(f"{knowledge.path}: holds no entries to ask about")
    return tuple(f"What does it say about {title}?" for title in titles)


def _measured(
    look_up: Callable[[str], LookupResult],
    questions: Sequence[str],
    passages: int,
    opened: float,
    progress: Callable[[int], None],
) -> SpeedReport:
    first = _timed(look_up, questions[0])[0]
    whole: list[float] = []
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for done, question in enumerate(questions, start=1):
        milliseconds, result = _timed(look_up, question)
        whole.append(milliseconds)
        for timing in result.retrieval_trace.timings:
            stages[timing.stage].append(timing.duration_ms)
        stages["start and end"].append(milliseconds - result.retrieval_trace.duration_ms)
        progress(done)
    return SpeedReport(
        passages=passages,
        questions=len(questions),
        open_ms=round(opened * 1000, 1),
        first_ms=round(first, 1),
        lookups_per_second=round(1000 * len(whole) / sum(whole), 1),
        lookup=_spread(whole),
        stages={stage: _spread(times) for stage, times in stages.items()},
        resident_mb=_resident_mb(),
    )


def _timed(look_up: Callable[[str], Any], question: str) -> tuple[float, Any]:
    started = perf_counter()
    result = look_up(question)
    return (perf_counter() - started) * 1000, result


def _spread(times: Sequence[float]) -> Spread:
    p50, p95 = np.percentile(times, [50, 95])
    return Spread(round(float(p50), 3), round(float(p95), 3))


def _resident_mb() -> float | None:
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - Windows has none

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3), 1)


def _print(report: SpeedReport) -> None:
    table = Table("ms", box=None)
    for name in ("p50", "p95"):
        table.add_column(name, justify="right")
    for stage, spread in {**report.stages, "whole lookup": report.lookup}.items():
        table.add_row(stage, f"{spread.p50:.2f}", f"{spread.p95:.2f}")
    out.print(table)
    memory = "" if report.resident_mb is None else f", {report.resident_mb:,.0f} MB of memory"
    out.say(
        f"{report.lookups_per_second:,.0f} lookups a second ({report.questions} questions, "
        f"{report.passages:,} passages); opened in {report.open_ms:,.0f} ms, first answer after "
        f"{report.first_ms:,.0f} ms more{memory}"
    )
