"""Commands that keep a knowledge base up to date, and tell whether it is whole."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
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
from lookup_tool.errors import (
    KnowledgeError,
    LookupToolError,
    MissingExtraError,
    RemovalsRefusedError,
)
from lookup_tool.indexing.sync import SyncReport
from lookup_tool.knowledge_base import KnowledgeBase

_LOOK_AGAIN_MS = 5_000
"""After this long without a change, what failed is tried again."""

_MOST_SOURCES = 20


def sync(  # noqa: PLR0913 - the options of one command
    docs: Annotated[Path, typer.Argument(help="Folder with markdown files.")],
    kb: KnowledgePath,
    embedder: Annotated[
        str | None,
        typer.Option(help="For a new knowledge base, as in `ingest`; an existing one has its own."),
    ] = None,
    default_access: DefaultAccess = None,
    *,
    allow_removals: Annotated[
        bool,
        typer.Option(
            "--allow-removals",
            help="Let it remove more than half of the entries, where that is 20 or more.",
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, and follow the folder until Ctrl-C.")
    ] = False,
) -> None:
    """Bring a knowledge base up to date with a folder: only what has changed costs time.

    Added, edited, renamed and deleted files are found by their content. Readers go on with what
    they have opened. Nothing is written when nothing has changed. Without a knowledge base, one is
    built. A folder that has lost most of its files is refused: it may be only half there.

    Example: `lookup-tool sync examples/handbook --kb kb --watch`
    """

    def once() -> SyncReport:
        with bars(PHASES) as step:
            return KnowledgeBase.sync(
                docs,
                kb,
                embedder=embedder,
                default_access=default_access,
                allow_removals=allow_removals,
                progress=step,
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
        changes: Something true each time that something may have changed; something false now and
            then, so that what failed can be tried again.
        tell: Called with each report that has something to say.
    """
    behind, said = False, None
    for change in changes:
        if not change and not behind:
            continue
        try:
            report = once()
        except LookupToolError as error:
            # A refusal stands until something changes; how many files are gone may change often.
            refused = isinstance(error, RemovalsRefusedError)
            behind, what = not refused, type(error) if refused else str(error)
            if what != said:
                err.say(f"error: {error} (still watching)", "red")
            said = what
            continue
        if report.switched or said:
            tell(report)
        behind, said = False, None


def follow(docs: Path, kb: Path) -> Iterator[object]:
    """Yield the changes under a folder, gathered while they come quickly; nothing now and then.

    The first one is never nothing: it stands for what happened before anybody was watching. A
    folder that goes away is waited for. One that takes its place (a share that is mounted again, a
    link that leads elsewhere) is watched instead.

    Raises:
        MissingExtraError: watchfiles is not installed.
        KnowledgeError: The folder cannot be watched; raised by the iterator.
    """
    try:
        import watchfiles  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("--watch", "watch") from error
    return _follow(docs, kb)


def _follow(docs: Path, kb: Path) -> Iterator[object]:
    while True:
        yield from _watched(docs, kb)
        yield True  # a sync says that the folder is gone, or sees what is there instead
        time.sleep(_LOOK_AGAIN_MS / 1000)


def _watched(docs: Path, kb: Path) -> Iterator[object]:
    """Yield the changes under a folder until it is gone, or another one is in its place."""
    from watchfiles import Change, DefaultFilter, watch  # noqa: PLC0415

    place, root, own = _place(docs), docs.resolve(), kb.resolve()
    if place is None:
        return
    # A knowledge base may lie among its documents; writing it is no change of them.
    ignored = [f"{own}{os.sep}"] if own.is_relative_to(root) else []
    watching = watch(
        root,
        watch_filter=DefaultFilter(ignore_paths=ignored),
        rust_timeout=_LOOK_AGAIN_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    is_first = True
    try:
        with closing(watching):
            for changes in watching:
                yield changes or is_first
                is_first = False
                # What is made anew often gets the number of what was deleted.
                if _place(docs) != place or (Change.deleted, str(root)) in changes:
                    return
    except FileNotFoundError:
        return
    except (OSError, RuntimeError) as error:  # the latter is how its watcher fails
        if is_first:
            raise KnowledgeError(docs, f"cannot be watched: {error}") from error


def _place(docs: Path) -> tuple[int, int] | None:
    """Return what tells a folder from another one of its name; None where there is none."""
    try:
        found = docs.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


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
