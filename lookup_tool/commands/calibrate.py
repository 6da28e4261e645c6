"""`lookup-tool calibrate`: fit a knowledge base's thresholds, and show what that gains."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lookup_tool.calibration.calibrate import calibrate as measure
from lookup_tool.calibration.report import Calibration, State
from lookup_tool.commands.console import Groups, bars, out, print_json
from lookup_tool.commands.plots import check_plot, plot_calibration
from lookup_tool.config import as_groups
from lookup_tool.evaluation.questions import read_questions
from lookup_tool.knowledge_base import KnowledgeBase


def calibrate(  # noqa: PLR0913 - the options of one command
    kb: Annotated[Path, typer.Argument(envvar="LOOKUP_KB", help="Folder of the knowledge base.")],
    queries: Annotated[
        Path | None,
        typer.Option(
            help="JSONL file of questions, as for `eval`, with and without an answer; by default "
            "sentences of the documents are asked, with their entry and without it."
        ),
    ] = None,
    *,
    keep: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1,
            help="Share of the answerable questions that must get evidence; by default, what tells "
            "both kinds apart best.",
        ),
    ] = None,
    group: Groups = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the curve into this file.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure, and write nothing.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything, the curve too, as JSON.")
    ] = False,
) -> None:
    """Measure these documents with this embedder, and write the thresholds that fit them.

    Three things are written into the knowledge base: when evidence is usable (the answerability
    rule), when a filtered search is repeated (the reference threshold), and what is never evidence
    (the evidence floor). The content and its version stay; `ingest` and `sync` with the same
    embedder keep what was measured. Worth it for every embedder but `wordllama`, whose values are
    shipped, and with questions of your own for every one.

    Example: `lookup-tool calibrate kb --queries questions.jsonl --plot curve.png`
    """
    questions = None if queries is None else read_questions(queries)
    if plot is not None:
        check_plot(plot)
    with KnowledgeBase.open(kb) as knowledge, bars({"ask": "Asking"}) as step:
        calibration = measure(
            knowledge,
            questions,
            keep=keep,
            groups=as_groups(group or ()),
            dry_run=dry_run,
            progress=lambda done, total: step("ask", done, total),
        )
    if plot is not None:
        plot_calibration(calibration, plot)
    if as_json:
        print_json(calibration.model_dump(mode="json"))
    else:
        _print(calibration)


def _print(calibration: Calibration) -> None:
    out.say(calibration.gain, "bold")
    what = "questions" if calibration.labelled else "sentences of the documents"
    out.say(
        f"{calibration.answerable} answerable {what} and {calibration.unanswerable} others, "
        f"{calibration.embedder}, version {calibration.knowledge_version}"
    )
    table = Table("", "before", "after", box=None, pad_edge=False, header_style="dim")
    before, after = _values(calibration.before), _values(calibration.after)
    for name, value in before.items():
        table.add_row(name, value, after[name])
    out.print()
    out.print(table)
    out.print()
    out.say("written" if calibration.written else "nothing was written (--dry-run)")


def _values(state: State) -> dict[str, str]:
    thresholds, filters = state.thresholds, state.filters
    values = {
        "answerable, kept": f"{state.rates.kept:.1%}",
        "false evidence": f"{state.rates.false_evidence:.1%}",
        "midpoint of the rule": f"{thresholds.rule.midpoint:.3f}",
        "its weight of similarity": f"{thresholds.rule.similarity:.2f}",
        "reference threshold": f"{thresholds.reference_threshold:.3f}",
        "evidence floor": f"{thresholds.evidence_floor:.3f}",
    }
    if filters is not None:
        values["wrong filters caught"] = f"{filters.caught:.1%}"
        values["right ones repeated"] = f"{filters.needless:.1%}"
    return values
