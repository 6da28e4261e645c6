"""What the commands share: the consoles, the options, the progress bars."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from lookup_tool.indexing.build import Progress as BuildProgress
from lookup_tool.schema import LoadReport

_PIPED_WIDTH = 160
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_MAX_PROBLEMS = 50
PHASES = {"read": "Reading files", "cut": "Cutting", "embed": "Embedding", "index": "Indexing"}
"""The phases of a build."""


def _named(groups: list[str] | None) -> list[str] | None:
    if not all(group.strip() for group in groups or ()):
        raise typer.BadParameter("a group needs a name")
    return groups or None


KnowledgePath = Annotated[
    Path, typer.Option("--kb", envvar="LOOKUP_KB", help="Folder of the knowledge base.")
]
OptionalKnowledgePath = Annotated[
    Path | None,
    typer.Option("--kb", envvar="LOOKUP_KB", help="Knowledge base whose traces to read."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", help="Access group to ask for; repeat it for several."),
]
DefaultAccess = Annotated[
    list[str] | None,
    typer.Option(
        "--default-access",
        help="Group that may read an entry without `access`, instead of everybody; repeat it for "
        "several. Entries with `access: public` stay open.",
        callback=_named,
    ),
]
TracesUrl = Annotated[
    str | None,
    typer.Option("--traces", help="Database URL or file; by default KB/traces.sqlite."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result contract as JSON.")]


@contextmanager
def bars(phases: Mapping[str, str]) -> Iterator[BuildProgress]:
    """Show a bar for each phase of long work, in a terminal.

    Args:
        phases: What each phase is called.

    Yields:
        A function to call with (phase, done, total).
    """
    columns = (
        TextColumn("{task.description:14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, disable=not err.is_terminal) as shown:
        tasks: dict[str, TaskID] = {}

        def step(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = shown.add_task(phases[phase])
            shown.update(tasks[phase], completed=done, total=total)

        yield step


def print_problems(report: LoadReport) -> None:
    """List what was wrong with the documents, with the remedies."""
    errors = sum(1 for problem in report.problems if problem.level == "error")
    for problem in report.problems[:_MAX_PROBLEMS]:
        style = "red" if problem.level == "error" else "yellow"
        err.print(Text(f"{problem.level}: {problem}", style=style))
    if len(report.problems) > _MAX_PROBLEMS:
        err.print(f"... and {len(report.problems) - _MAX_PROBLEMS} more")
    if report.problems:
        warnings = len(report.problems) - errors
        err.print(f"{counted(warnings, 'warning')}, {counted(errors, 'error')}")


def counted(number: int, what: str) -> str:
    """Write a number with what it counts."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
