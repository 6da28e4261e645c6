"""What the commands share: the consoles, the options, the progress bars.

What is printed was written by strangers, in documents, names and questions. No terminal obeys it:
everything goes through `Screen`, `print_json` or a log's `LogFormatter`.
"""

import io
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lookup_tool.escapes import escaped, one_line
from lookup_tool.indexing.build import Progress as BuildProgress
from lookup_tool.schema import LoadReport

_PIPED_WIDTH = 160


class Screen(Console):
    """Shows what strangers wrote as it is: neither control characters nor markup do anything."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(
            stderr=stderr,
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
        )

    def say(self, text: str, style: str = "") -> None:
        """Print one line, whatever the text holds."""
        self.print(Text(one_line(text), style=style))

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Escape what a terminal would obey, but for what `rich` adds itself."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(escaped(part.text), part.style)


out = Screen(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
err = Screen(stderr=True)


class LogFormatter(logging.Formatter):
    """Shows logs as `Screen` shows everything else."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of one record."""
        return escaped(super().format(record))


def use_any_encoding() -> None:
    """Let characters that an output cannot take be escaped, where they would end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not what an application put in its place
            stream.reconfigure(errors="backslashreplace")


def print_json(value: Any) -> None:
    """Print a value as JSON that holds in every encoding."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    typer.echo(escaped(json.dumps(value, ensure_ascii=not is_unicode, indent=2, default=str)))


def add_row(table: Table, *cells: str) -> None:
    """Add a row of one-line cells."""
    table.add_row(*(Text(one_line(cell)) for cell in cells))


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
        err.say(f"{problem.level}: {problem}", style)
    if len(report.problems) > _MAX_PROBLEMS:
        err.say(f"... and {len(report.problems) - _MAX_PROBLEMS} more")
    if report.problems:
        warnings = len(report.problems) - errors
        err.say(f"{counted(warnings, 'warning')}, {counted(errors, 'error')}")


def counted(number: int, what: str) -> str:
    """Write a number with what it counts."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
