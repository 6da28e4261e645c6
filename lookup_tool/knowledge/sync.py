"""From a folder to a new generation: everything again, or only what has changed.

Both ways end in the same `write`. A sync reads and hashes every file, and takes from the current
generation what belongs to unchanged ones; what it writes is what a build from nothing would write.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from langchain_core.embeddings import Embeddings
from typing_extensions import TypedDict

from lookup_tool.config import LookupConfig, PassageConfig
from lookup_tool.embeddings import DEFAULT, Embedder
from lookup_tool.errors import KnowledgeError, RemovalsRefusedError
from lookup_tool.knowledge.build import Progress, write
from lookup_tool.knowledge.documents import Entry, LoadProblem, LoadReport, Problems
from lookup_tool.knowledge.folder import LoadedFile, check_folder, load_folder
from lookup_tool.knowledge.generations import remove_unused, writing
from lookup_tool.knowledge.pending import remove_pending
from lookup_tool.knowledge.prepared import PreparedEntry, prepare
from lookup_tool.knowledge.previous import Previous
from lookup_tool.knowledge.snapshot import (
    Manifest,
    Snapshot,
    damaged_files,
    open_current,
    read_manifest,
    read_pointer,
)
from lookup_tool.knowledge.view import embedder_for

logger = logging.getLogger(__name__)

_FEWEST_REMOVED = 20
"""So few entries may be removed even if they are most of a knowledge base."""

_NAMED = 5
_EMPTY = hashlib.sha256().hexdigest()


@dataclass(frozen=True)
class SyncReport:
    """What one sync did."""

    version: str
    """Of the knowledge base, after it."""

    passages: int
    """In the knowledge base, after it."""

    added: tuple[str, ...] = ()
    """Sources of new files."""

    changed: tuple[str, ...] = ()
    """Sources of files with other content than before."""

    removed: tuple[str, ...] = ()
    """Sources that are gone."""

    renamed: tuple[tuple[str, str], ...] = ()
    """Old and new source of files with the same content; they are in no other list."""

    embedded: int = 0
    """Texts that were embedded; the vectors of all others were there."""

    switched: bool = False
    """Whether there is a new generation; else nothing had changed."""

    damaged: tuple[str, ...] = ()
    """Files of the knowledge base that were damaged, so that everything was built again."""

    load: LoadReport = field(default_factory=LoadReport)
    """What was wrong with the documents."""


def build_folder(
    docs: Path, root: Path, embedder: Embedder, settings: PassageConfig, progress: Progress
) -> LoadReport:
    """Build a knowledge base from a folder, and read nothing of one that is there."""
    _check_places(docs, root)
    problems = Problems()
    with writing(root):
        files = load_folder(docs, problems, lambda done, total: progress("read", done, total))
        if not files and (root / "CURRENT").exists():
            raise KnowledgeError(docs, _no_entries(root))
        entries = _cut(files, settings, progress)
        write(entries, root, problems, embedder, settings=settings, progress=progress)
    return LoadReport(len(entries), tuple(problems.found))


def sync_folder(  # noqa: PLR0913 - the arguments of `KnowledgeBase.sync`
    docs: Path,
    root: Path,
    embedder: str | Embeddings | None,
    config: LookupConfig | None,
    progress: Progress,
    *,
    allow_removals: bool,
) -> SyncReport:
    """Bring a knowledge base up to date with a folder; `KnowledgeBase.sync` explains it."""
    _check_places(docs, root)
    with writing(root):
        if not (root / "CURRENT").exists():
            return _Sync(docs, root, None, embedder, config).run(progress)
        manifest = read_manifest(root)
        sync = _Sync(docs, root, manifest, embedder, config, allow_removals=allow_removals)
        # Before it is opened: a file that is missing or cut off keeps it from opening at all.
        if damaged := damaged_files(root / read_pointer(root).generation, manifest):
            report = sync.mend(damaged, progress)
        else:
            with closing(open_current(root)) as snapshot:
                report = sync.run(progress, snapshot)
        # A sync before this one may have been killed between its switch and this.
        remove_unused(root)
        remove_pending(root)
    return report


def _check_places(docs: Path, root: Path) -> None:
    """Refuse what cannot be meant, before anything is written."""
    check_folder(docs)
    if root.resolve() == docs.resolve():
        raise KnowledgeError(root, "holds the documents; name another folder to build in")


def _no_entries(root: Path) -> str:
    return f"holds no entries; the knowledge base in {root} was left as it is"


def _cut(
    files: list[LoadedFile], settings: PassageConfig, progress: Progress
) -> list[PreparedEntry]:
    """Prepare what is not prepared yet; the list is emptied, as whole texts take memory."""
    entries: list[PreparedEntry] = []
    total = len(files)
    files.reverse()
    while files:
        file = files.pop()
        entry = file.entry
        if isinstance(entry, Entry):
            entry = prepare(entry, settings, file.sha256, file.problems)
        entries.append(entry)
        progress("cut", len(entries), total)
    return entries


class _Sync:
    """One sync of a knowledge base that is held by `writing`."""

    def __init__(  # noqa: PLR0913 - what one sync goes by
        self,
        docs: Path,
        root: Path,
        manifest: Manifest | None,
        embedder: str | Embeddings | None,
        config: LookupConfig | None,
        *,
        allow_removals: bool = False,
    ) -> None:
        self._docs = docs
        self._root = root
        self._entries = 0 if manifest is None else manifest.entries
        self._allow_removals = allow_removals
        settings = config or LookupConfig()
        self._settings = settings.passages
        self._damaged: tuple[str, ...] = ()
        if manifest is None:
            self._embedder = Embedder(embedder or DEFAULT, settings.embedding)
            return
        if config is None:
            self._settings = manifest.passage_settings
        self._embedder = embedder_for(root, manifest, embedder, settings.embedding)

    def mend(self, damaged: Sequence[str], progress: Progress) -> SyncReport:
        """Build everything again, and take nothing from what is damaged."""
        logger.warning("%s: %s damaged, building again", self._root, ", ".join(damaged))
        self._damaged = tuple(damaged)
        return self.run(progress)

    def run(self, progress: Progress, snapshot: Snapshot | None = None) -> SyncReport:
        """Read the folder, and write a generation if anything is not as in the one before."""
        previous = None if snapshot is None else Previous(snapshot, self._settings)
        problems = Problems()
        files = load_folder(
            self._docs,
            problems,
            lambda done, total: progress("read", done, total),
            known=None if previous is None else previous.entry,
        )
        now = {file.source: file.sha256 for file in files}
        before = {} if previous is None else previous.sha256s
        if previous is not None and now == before and self._makes_the_same(previous):
            manifest = previous.snapshot.manifest
            return SyncReport(
                version=manifest.version,
                passages=manifest.passages,
                load=LoadReport(len(files), _united(problems.found, previous.problems)),
            )
        changes = _changes(before, now)
        emptied = (source for source in changes["changed"] if now[source] == _EMPTY)
        self._check_removals((*changes["removed"], *emptied), len(files))
        entries = _cut(files, self._settings, progress)
        manifest, computed = write(
            entries,
            self._root,
            problems,
            self._embedder,
            settings=self._settings,
            progress=progress,
            previous=previous,
        )
        return SyncReport(
            **changes,
            version=manifest.version,
            passages=manifest.passages,
            embedded=computed,
            switched=True,
            damaged=self._damaged,
            load=LoadReport(len(entries), tuple(problems.found)),
        )

    def _check_removals(self, sources: Sequence[str], left: int) -> None:
        """Refuse to remove most of the entries.

        Args:
            sources: Of the entries whose files are gone or empty now; none where they cannot be
                told, in a damaged knowledge base.
            left: Files in the folder.

        Raises:
            RemovalsRefusedError: The folder may be only half there.
        """
        removed = max(len(sources), self._entries - left)
        if removed and not left:
            raise RemovalsRefusedError(self._docs, _no_entries(self._root), removed, self._entries)
        are_most = removed >= _FEWEST_REMOVED and 2 * removed > self._entries
        if are_most and not self._allow_removals:
            named = f" ({', '.join(sources[:_NAMED])}, ...)" if sources else ""
            problem = (
                f"{removed} of the {self._entries} entries of {self._root} are gone or empty"
                f"{named}; if they are to be removed, sync with `--allow-removals`"
            )
            raise RemovalsRefusedError(self._docs, problem, removed, self._entries)

    def _makes_the_same(self, previous: Previous) -> bool:
        """Tell whether unchanged files would become what is there."""
        return (
            previous.cut_alike and self._embedder.name == previous.snapshot.manifest.embedder.name
        )


def _united(*lists: Iterable[LoadProblem]) -> tuple[LoadProblem, ...]:
    return tuple(dict.fromkeys(chain(*lists)))


class _Changes(TypedDict):
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]


def _changes(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> _Changes:
    """Compare the hashes of files, by source."""
    added = [source for source in now if source not in before]
    removed = [source for source in before if source not in now]
    renamed: list[tuple[str, str]] = []
    for old in tuple(removed):
        new = next((each for each in added if now[each] == before[old]), None)
        if new is not None:
            renamed.append((old, new))
            removed.remove(old)
            added.remove(new)
    return {
        "added": tuple(added),
        "changed": tuple(s for s in now if s in before and now[s] != before[s]),
        "removed": tuple(removed),
        "renamed": tuple(renamed),
    }
