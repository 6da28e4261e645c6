"""From a folder to a new generation: everything again, or only what has changed.

Both ways end in the same `write`. A sync reads and hashes every file, and takes from the current
generation what belongs to unchanged ones; what it writes is what a build from nothing would write.
"""

import hashlib
import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from os.path import realpath
from pathlib import Path

from langchain_core.embeddings import Embeddings
from typing_extensions import TypedDict

from lookup_tool.config import LookupConfig, PassageConfig
from lookup_tool.documents.entries import Problems
from lookup_tool.documents.folder import LoadedFile, check_folder, load_folder
from lookup_tool.documents.prepared import access_by_default, prepare
from lookup_tool.embedders.embedder import DEFAULT, Embedder
from lookup_tool.engines.local.generations import remove_unused, writing
from lookup_tool.engines.local.snapshot import (
    Manifest,
    Snapshot,
    damaged_files,
    open_current,
    read_manifest,
    read_pointer,
)
from lookup_tool.errors import KnowledgeDamagedError, KnowledgeError, RemovalsRefusedError
from lookup_tool.indexing.build import Progress, write
from lookup_tool.indexing.pending import remove_pending
from lookup_tool.indexing.previous import Previous
from lookup_tool.retrieval.view import embedder_for
from lookup_tool.schema import Entry, LoadProblem, LoadReport, PreparedEntry

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
        files = load_folder(
            docs,
            problems,
            lambda done, total: progress("read", done, total),
            default=access_by_default(settings),
        )
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
    default_access: str | Iterable[str] | None = None,
    allow_removals: bool = False,
) -> SyncReport:
    """Bring a knowledge base up to date with a folder; `KnowledgeBase.sync` explains it."""
    _check_places(docs, root)
    with writing(root):
        if not (root / "CURRENT").exists():
            settings = _settings(PassageConfig(), config, default_access)
            return _Sync(docs, root, None, embedder, settings).run(progress)
        manifest = read_manifest(root)
        settings = _settings(manifest.passage_settings, config, default_access)
        sync = _Sync(docs, root, manifest, embedder, settings, allow_removals=allow_removals)
        # Before it is opened: a file that is missing or cut off keeps it from opening at all.
        damaged = damaged_files(root / read_pointer(root).generation, manifest)
        report = None
        if not damaged:
            try:
                with closing(open_current(root)) as snapshot:
                    report = sync.run(progress, snapshot)
            except KnowledgeDamagedError as error:  # its checksums are those of the damage
                damaged = [error.path.name]
        report = report or sync.mend(damaged, progress)
        # A sync before this one may have been killed between its switch and this.
        remove_unused(root)
        remove_pending(root)
    return report


def _check_places(docs: Path, root: Path) -> None:
    """Refuse what cannot be meant, before anything is written."""
    check_folder(docs)
    if realpath(root) == realpath(docs):  # `resolve` raises at links in a circle
        raise KnowledgeError(root, "holds the documents; name another folder to build in")


def _settings(
    own: PassageConfig, config: LookupConfig | None, default_access: str | Iterable[str] | None
) -> LookupConfig:
    """Settle how files are read: as told, else as those of the knowledge base were.

    A default access is kept even where other settings are given: nothing opens by being left out.
    """
    given = own if config is None else config.passages
    accesses = (default_access, given.default_access, own.default_access)
    said = next((access for access in accesses if access is not None), None)
    passages = given.with_default_access(said)
    return (config or LookupConfig()).model_copy(update={"passages": passages})


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
        config: LookupConfig,
        *,
        allow_removals: bool = False,
    ) -> None:
        self._docs = docs
        self._root = root
        self._entries = 0 if manifest is None else manifest.entries
        self._allow_removals = allow_removals
        self._settings = config.passages
        self._damaged: tuple[str, ...] = ()
        if manifest is None:
            self._embedder = Embedder(embedder or DEFAULT, config.embedding)
            return
        self._embedder = embedder_for(root, manifest, embedder, config.embedding)

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
            default=access_by_default(self._settings),
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
    by_hash: dict[str | None, deque[str]] = defaultdict(deque)
    for source in added:
        by_hash[now[source]].append(source)
    renamed = {old: by_hash[before[old]].popleft() for old in removed if by_hash[before[old]]}
    kept = set(renamed.values())
    return {
        "added": tuple(source for source in added if source not in kept),
        "changed": tuple(s for s in now if s in before and now[s] != before[s]),
        "removed": tuple(source for source in removed if source not in renamed),
        "renamed": tuple(renamed.items()),
    }
