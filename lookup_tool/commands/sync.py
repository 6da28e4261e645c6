"""Commands that keep a knowledge base up to date, and tell whether it is whole."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from lookup_tool.commands.console import (
    PHASES,
    DefaultAccess,
    KnowledgePath,
    bars,
    counted,
    err,
    out,
    print_problems,
)
from lookup_tool.errors import KnowledgeNotFoundError, LookupToolError, MissingExtraError
from lookup_tool.indexing.sync import SyncReport
from lookup_tool.knowledge_base import KnowledgeBase

_LOOK_AGAIN_MS = 5_000
"""After this long without a change, what failed is tried again."""

_MOST_SOURCES = 20


def sync(
    docs: Annotated[Path, typer.Argument(help="Folder with markdown files.")],
    kb: KnowledgePath,
    embedder: Annotated[
        str | None,
        typer.Option(help="For a new knowledge base, as in `ingest`; an existing one has its own."),
    ] = None,
    default_access: DefaultAccess = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, and follow the folder until Ctrl-C.")
    ] = False,
) -> None:
    """Bring a knowledge base up to date with a folder: only what has changed costs time.

    Added, edited, renamed and deleted files are found by their content. Readers go on with what
    they have opened. Nothing is written when nothing has changed. Without a knowledge base, one is
    built. Entries without `access` stay as open, or as closed, as they were, unless
    `--default-access` says otherwise; then everything is read again.

    Example: `lookup-tool sync examples/handbook --kb kb --watch`
    """

    def once() -> SyncReport:
        with bars(PHASES) as step:
            return KnowledgeBase.sync(
                docs, kb, embedder=embedder, default_access=default_access, progress=step
            )

    changes = follow(docs, kb) if watch else None
    print_report(once(), docs, kb)
    if changes is None:
        return
    err.say(f"watching {docs}; stop with Ctrl-C")
    with suppress(KeyboardInterrupt):
        keep_in_step(once, changes, lambda report: print_report(report, docs, kb))
    err.say("stopped")


def check(
    kb: Annotated[Path, typer.Argument(envvar="LOOKUP_KB", help="Folder of the knowledge base.")],
) -> None:
    """Read every byte of a knowledge base, and name the files that are damaged.

    Example: `lookup-tool check kb`
    """
    manifest = KnowledgeBase.check(kb)
    size = sum(record.size for record in manifest.files.values())
    out.say(
        f"{kb} is whole: {counted(len(manifest.files), 'file')}, {size:,} bytes "
        f"(version {manifest.version})"
    )


def keep_in_step(
    once: Callable[[], SyncReport],
    changes: Iterable[object],
    tell: Callable[[SyncReport], None],
) -> None:
    """Sync whenever something has changed; what fails is said once, and tried again.

    Args:
        once: Syncs.
        changes: What changed, each time that something did; something empty now and then, so that
            what failed can be tried again. The first one is always followed by a sync: it stands
            for what happened before anybody was watching.
        tell: Called with each report that has something to say.

    Raises:
        KnowledgeNotFoundError: The folder is gone, and there is nothing left to watch.
    """
    behind, said = True, ""
    for change in changes:
        if not change and not behind:
            continue
        try:
            report = once()
        except KnowledgeNotFoundError:
            raise
        except LookupToolError as error:
            behind = True
            if str(error) != said:
                err.say(f"error: {error}", "red")
            said = str(error)
            continue
        behind, said = False, ""
        if report.switched:
            tell(report)


def follow(docs: Path, kb: Path) -> Iterator[object]:
    """Yield the changes under a folder, gathered while they come quickly; ends at Ctrl-C.

    Raises:
        MissingExtraError: watchfiles is not installed.
    """
    try:
        from watchfiles import DefaultFilter, watch  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("--watch", "watch") from error
    root, own = docs.resolve(), kb.resolve()
    # A knowledge base may lie among its documents; writing it is no change of them.
    ignored = [f"{own}{os.sep}"] if own.is_relative_to(root) else []
    return watch(
        root,
        watch_filter=DefaultFilter(ignore_paths=ignored),
        rust_timeout=_LOOK_AGAIN_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
    )


def print_report(report: SyncReport, docs: Path, kb: Path) -> None:
    """Say what a sync did: each change, then one line."""
    print_problems(report.load)
    for name in report.damaged:
        err.say(f"warning: {name} was damaged; built again", "yellow")
    if not report.switched:
        out.say(f"nothing changed: {kb} is up to date with {docs} ({_size(report)})")
        return
    lines = [
        *(f"+ {source}" for source in report.added),
        *(f"~ {source}" for source in report.changed),
        *(f"- {source}" for source in report.removed),
        *(f"{old} -> {new}" for old, new in report.renamed),
    ]
    for line in lines[:_MOST_SOURCES]:
        out.say(line)
    if len(lines) > _MOST_SOURCES:
        out.say(f"... and {len(lines) - _MOST_SOURCES} more")
    out.say(
        f"{len(report.added)} added, {len(report.changed)} changed, "
        f"{len(report.removed)} removed, {len(report.renamed)} renamed; "
        f"{counted(report.embedded, 'passage')} embedded; {kb} has {_size(report)}"
    )


def _size(report: SyncReport) -> str:
    return f"{counted(report.passages, 'passage')}, version {report.version}"
