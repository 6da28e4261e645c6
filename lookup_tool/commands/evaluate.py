"""`lookup-tool eval`: measure a knowledge base, show the figures, and gate on them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import typer

from lookup_tool.commands.console import Groups, bars, err, print_json
from lookup_tool.commands.evaluation_tables import print_report
from lookup_tool.config import as_groups
from lookup_tool.errors import ConfigurationError
from lookup_tool.evaluation.evaluate import evaluate as measure
from lookup_tool.evaluation.questions import read_questions
from lookup_tool.evaluation.report import (
    LESS_IS_BETTER,
    METRICS,
    EvaluationReport,
    Grouping,
    Peer,
)
from lookup_tool.knowledge_base import KnowledgeBase

_MAX_NAMES = 5

METRICS_HELP = "**Metrics** (`METRIC` of the gates, and the names in the JSON):\n\n" + "\n".join(
    f"- `{name}`: {meaning}" for name, meaning in METRICS.items()
)


@dataclass(frozen=True)
class Gate:
    """A bound that a metric must keep."""

    metric: str
    bound: float
    kind: Literal["under", "over"]

    @classmethod
    def read(cls, text: str, kind: Literal["under", "over"]) -> "Gate":
        """Read `METRIC=VALUE`.

        Raises:
            ConfigurationError: It is none, or the other kind of gate is meant.
        """
        option = f"--fail-{kind} {text}"
        metric, _, value = text.partition("=")
        if metric not in METRICS:
            raise ConfigurationError(f"{option}: no such metric; one of {', '.join(METRICS)}")
        if (metric in LESS_IS_BETTER) is (kind == "under"):
            right = "over" if kind == "under" else "under"
            raise ConfigurationError(f"{option}: take --fail-{right} for {metric}")
        try:
            return cls(metric, float(value), kind)
        except ValueError as error:
            raise ConfigurationError(f"{option}: write METRIC=VALUE, as in {metric}=0.7") from error

    def failure(self, report: EvaluationReport) -> str | None:
        """Return what to say when the bound is not kept.

        Raises:
            ConfigurationError: The questions cannot measure the metric.
        """
        estimate = report.metrics.get(self.metric)
        if estimate is None:
            raise ConfigurationError(f"{self.metric} cannot be measured with these questions")
        value = estimate.value
        kept = value >= self.bound if self.kind == "under" else value <= self.bound
        return None if kept else f"failed: {self.metric} is {value:.4f}, {self.kind} {self.bound:g}"


def evaluate(  # noqa: PLR0913 - the options of one command
    kb: Annotated[Path, typer.Argument(envvar="LOOKUP_KB", help="Folder of the knowledge base.")],
    queries: Annotated[
        Path,
        typer.Option(
            help="JSONL file, one question a line: `query`, `relevant` (entries that answer it), "
            "and if you like `id`, `relevant_sections`, `grades`, `category`, `kind`, `language`, "
            "`answerable`."
        ),
    ],
    *,
    compare: Annotated[
        str,
        typer.Option(
            help="Rankings of the same passages to measure beside, in the same budget; none if "
            "empty."
        ),
    ] = ",".join(get_args(Peer)),
    by: Annotated[Grouping, typer.Option(help="What to group the questions by.")] = "category",
    fail_under: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=VALUE", help="Exit with 1 when a metric is under this."),
    ] = None,
    fail_over: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=VALUE", help="The same for what should be low."),
    ] = None,
    group: Groups = None,
    worst: Annotated[int, typer.Option(min=0, help="Most questions to list of each kind.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Measure what an agent gets, and why, with questions whose answers are known.

    What is delivered, and abstention, are measured as shipped, over the packed text; ranking with
    the answerability rule off, over the ranked blocks before packing. The other rankings fill the
    same budget with whole passages under the same headers. Intervals are 95 %, over resampled
    questions. The gates may be repeated.

    Example: `lookup-tool eval kb --queries questions.jsonl --fail-under delivered=0.9`
    """
    gates = [Gate.read(text, "under") for text in fail_under or ()]
    gates += [Gate.read(text, "over") for text in fail_over or ()]
    peers = _peers(compare)
    questions = read_questions(queries)
    with KnowledgeBase.open(kb) as knowledge, bars({"ask": "Asking"}) as step:
        report = measure(
            knowledge,
            questions,
            compare=peers,
            by=by,
            groups=as_groups(group or ()),
            progress=lambda done, total: step("ask", done, total),
        )
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        print_report(report, worst)
    _warn_of_missing(report)
    failures = [failure for gate in gates if (failure := gate.failure(report))]
    for failure in failures:
        err.say(failure, "red")
    if failures:
        raise typer.Exit(1)


def _peers(text: str) -> tuple[Peer, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in get_args(Peer):
            known = ", ".join(get_args(Peer))
            raise ConfigurationError(f"--compare {text}: no ranking {name!r}; one of {known}")
    return tuple(cast("Peer", name) for name in names)


def _warn_of_missing(report: EvaluationReport) -> None:
    missing = report.missing
    if missing:
        more = ", ..." if len(missing) > _MAX_NAMES else ""
        err.say(
            "warning: relevant ids not in the knowledge base, counted as not found: "
            f"{len(missing)} ({', '.join(missing[:_MAX_NAMES])}{more})",
            "yellow",
        )
