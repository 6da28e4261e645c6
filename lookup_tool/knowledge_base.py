"""KnowledgeBase: build one from documents, keep it up to date, open it, search it.

It is a handle on the current generation. Each lookup takes a `View` of it and keeps that to its
end, while `refresh` moves the handle on to what a sync has written.
"""

import logging
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from lookup_tool.config import LookupConfig
from lookup_tool.documents.entries import Problems, entries_from_documents
from lookup_tool.documents.prepared import access_by_default, prepare
from lookup_tool.embedders.embedder import DEFAULT, Embedder
from lookup_tool.engines.local.generations import writing
from lookup_tool.engines.local.snapshot import (
    Manifest,
    Snapshot,
    damaged_files,
    open_current,
    read_pointer,
)
from lookup_tool.errors import KnowledgeDamagedError, LookupToolError
from lookup_tool.indexing.build import Progress, write
from lookup_tool.indexing.sync import SyncReport, build_folder, sync_folder
from lookup_tool.indexing.thresholds import replace_thresholds
from lookup_tool.retrieval.view import View, embedder_for
from lookup_tool.schema import (
    LoadReport,
    QueryHints,
    SearchRequest,
    SearchResult,
    StoredEntry,
    Thresholds,
)

logger = logging.getLogger(__name__)


class KnowledgeBase:
    """Documents that can be searched; safe to share between threads."""

    def __init__(  # noqa: PLR0913 - the parts of a handle, put together by its constructors
        self,
        path: Path,
        snapshot: Snapshot,
        embedder: Embedder,
        *,
        keeps_embedder: bool,
        report: LoadReport | None = None,
        temporary: "tempfile.TemporaryDirectory[str] | None" = None,
        refresh_every: float | None = None,
    ) -> None:
        """Bind an opened generation; use `build`, `open` or `from_documents`.

        Args:
            path: Folder of the knowledge base.
            snapshot: Its current generation.
            embedder: Embeds queries.
            keeps_embedder: Whether the embedder was given, and is kept whatever a later generation
                names.
            report: What the build had to say, when the same embedder has just built it.
            temporary: Removed when the knowledge base is closed.
            refresh_every: Seconds between two looks for a new generation; None looks never.
        """
        self.path = path
        self._embedder = embedder
        self._keeps_embedder = keeps_embedder
        self._temporary = temporary
        self._at_close: list[Callable[[], None]] = []
        self._refresh_every = refresh_every
        self._refreshing = threading.Lock()
        self._next_look = monotonic() + (refresh_every or 0.0)
        self._view = View(path, snapshot, embedder, verified=report is not None)
        self.report = report or LoadReport(entries=self.manifest.entries)

    @classmethod
    def build(  # noqa: PLR0913 - what one build is told
        cls,
        docs: str | Path,
        into: str | Path,
        *,
        embedder: str | Embeddings = DEFAULT,
        config: LookupConfig | None = None,
        default_access: str | Iterable[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Build a knowledge base from a folder of markdown files, and open it.

        An existing knowledge base at `into` is replaced by one atomic switch; readers keep theirs.

        Args:
            docs: Folder with `.md`, `.markdown` and `.mdx` files, searched in depth.
            into: Folder of the knowledge base.
            embedder: Name, or a LangChain embeddings object.
            config: Its `passages` section is used.
            default_access: Groups that may read an entry without `access`, instead of those in
                `config`; by default everybody.
            progress: Called with (phase, done, total).

        Raises:
            KnowledgeNotFoundError: `docs` is no folder.
            KnowledgeError: `docs` holds no entries and would replace a knowledge base, or `into`
                cannot be written, or is `docs`.
            KnowledgeBusyError: Another process is writing at `into`.
            EmbeddingError: The embedder gave vectors of a wrong shape, or none that is usable.
        """
        settings = config or LookupConfig()
        root, model = Path(into), Embedder(embedder, settings.embedding)
        passages = settings.passages.with_default_access(default_access)
        report = build_folder(Path(docs), root, model, passages, progress or _no_progress)
        return cls._built(root, model, report)

    @staticmethod
    def sync(  # noqa: PLR0913 - the options of the one way in
        docs: str | Path,
        into: str | Path,
        *,
        embedder: str | Embeddings | None = None,
        config: LookupConfig | None = None,
        default_access: str | Iterable[str] | None = None,
        allow_removals: bool = False,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Bring a knowledge base up to date with a folder, or build it where there is none.

        What it becomes is what `build` would make of the folder. Only changed files are parsed
        (told by a hash of their content), only passages that were not there are embedded. When
        nothing has changed, nothing is written. Opened knowledge bases `refresh` to see it.

        Args:
            docs: Folder with markdown files.
            into: Folder of the knowledge base.
            embedder: Needed when it was built with an embeddings object; by default the one that
                the knowledge base names, for a new one `wordllama`.
            config: Its `passages` section is used for a new knowledge base, or to cut an existing
                one differently; by default that keeps its own.
            default_access: Groups that may read an entry without `access`, where they are to be
                others than before; by default an existing knowledge base keeps its own.
            allow_removals: Let it remove most of the entries.
            progress: Called with (phase, done, total).

        Raises:
            KnowledgeNotFoundError: `docs` is no folder.
            RemovalsRefusedError: More than half of the entries, and 20 or more, would be removed:
                `docs` may be only half there. Files that were renamed or moved do not count. Or
                `docs` holds no entries at all, which is refused in any case.
            KnowledgeError: `into` cannot be written, or is `docs`.
            KnowledgeBusyError: Another process is writing at `into`.
            KnowledgeDamagedError: Its manifest cannot be read; other damage is mended.
            EmbedderMismatchError: It was built with another embedder.
            EmbeddingError: The embedder failed.
        """
        return sync_folder(
            Path(docs),
            Path(into),
            embedder,
            config,
            progress or _no_progress,
            default_access=default_access,
            allow_removals=allow_removals,
        )

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        into: str | Path | None = None,
        embedder: str | Embeddings = DEFAULT,
        config: LookupConfig | None = None,
        default_access: str | Iterable[str] | None = None,
    ) -> Self:
        """Build a knowledge base from LangChain documents, and open it.

        Args:
            documents: `metadata` may hold what frontmatter may: source, title, category, keywords,
                aliases, entities, access.
            into: Folder of the knowledge base; without one it lives until it is closed.
            embedder: Name, or a LangChain embeddings object.
            config: Its `passages` section is used.
            default_access: Groups that may read a document without `access`, instead of those in
                `config`; by default everybody.
        """
        problems = Problems()
        settings = config or LookupConfig()
        passages = settings.passages.with_default_access(default_access)
        model = Embedder(embedder, settings.embedding)
        found = entries_from_documents(documents, problems, access_by_default(passages))
        entries = [prepare(entry, passages) for entry in found]
        temporary = tempfile.TemporaryDirectory(prefix="lookup-tool-") if into is None else None
        root = Path(temporary.name if temporary else str(into))
        try:
            with writing(root):
                write(
                    entries,
                    root,
                    problems,
                    model,
                    settings=passages,
                    progress=_no_progress,
                )
            report = LoadReport(len(entries), tuple(problems.found))
            return cls._built(root, model, report, temporary)
        except BaseException:
            if temporary is not None:
                temporary.cleanup()
            raise

    @classmethod
    def _built(
        cls,
        root: Path,
        embedder: Embedder,
        report: LoadReport,
        temporary: "tempfile.TemporaryDirectory[str] | None" = None,
    ) -> Self:
        """Open what this embedder has just built."""
        return cls(
            root,
            open_current(root),
            embedder,
            keeps_embedder=not embedder.loads_by_name,
            report=report,
            temporary=temporary,
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: str | Embeddings | None = None,
        config: LookupConfig | None = None,
        refresh_every: float | None = None,
    ) -> Self:
        """Open a knowledge base.

        Args:
            path: Its folder; it need not be writable.
            embedder: Needed when it was built with an embeddings object; by default the model
                whose name the knowledge base carries is loaded at the first search.
            config: Its `embedding` section is used.
            refresh_every: Let lookups move on to a new generation by themselves, and look for one
                at most every so many seconds; by default only `refresh` does.

        Raises:
            KnowledgeNotFoundError: There is none.
            KnowledgeDamagedError: A file is missing or changed.
            EmbedderMismatchError: It was built with another embedder.
        """
        root = Path(path)
        snapshot = open_current(root)
        try:
            settings = (config or LookupConfig()).embedding
            opened = cls(
                root,
                snapshot,
                embedder_for(root, snapshot.manifest, embedder, settings),
                keeps_embedder=embedder is not None,
                refresh_every=refresh_every,
            )
            if embedder is not None:
                opened._view.verify_embedder()
        except BaseException:
            snapshot.close()
            raise
        return opened

    @staticmethod
    def check(path: str | Path) -> Manifest:
        """Read every byte of a knowledge base, and return what it holds.

        Raises:
            KnowledgeNotFoundError: There is none.
            KnowledgeDamagedError: Files are missing or changed, all of which are named, or one of
                them does not fit the others.
        """
        snapshot = open_current(Path(path))
        try:
            if damaged := damaged_files(snapshot.folder, snapshot.manifest):
                problem = f"changed since written: {', '.join(damaged)}"
                raise KnowledgeDamagedError(snapshot.folder, problem)
            snapshot.check()
        finally:
            snapshot.close()
        return snapshot.manifest

    def view(self) -> View:
        """Return the current generation, for one lookup to keep from beginning to end."""
        if self._refresh_every is not None and monotonic() >= self._next_look:
            self._look()
        return self._view

    def refresh(self) -> bool:
        """Move on to the newest generation; lookups that are under way keep theirs.

        Returns:
            Whether there was a newer one.

        Raises:
            KnowledgeDamagedError: It cannot be opened; the one before stays in use.
            EmbedderMismatchError: It was built with another embedder than the one given.
        """
        with self._refreshing:
            return self._move_on()

    def _look(self) -> None:
        """Refresh, unless another thread is doing it; a failure costs no lookup."""
        if not self._refreshing.acquire(blocking=False):
            return
        try:
            self._next_look = monotonic() + (self._refresh_every or 0.0)
            self._move_on()
        except LookupToolError as error:
            logger.warning("the knowledge base was not refreshed: %s", error)
        finally:
            self._refreshing.release()

    def _move_on(self) -> bool:
        if read_pointer(self.path) == self._view.snapshot.pointer:
            return False
        snapshot = open_current(self.path)
        try:
            embedder = self._embedder
            if not self._keeps_embedder and embedder.name != snapshot.manifest.embedder.name:
                embedder = embedder_for(self.path, snapshot.manifest, None, embedder.config)
            view = View(self.path, snapshot, embedder, verified=False)
            if self._keeps_embedder:
                view.verify_embedder()
        except BaseException:
            snapshot.close()
            raise
        # The old generation closes itself when the last lookup that uses it has ended.
        self._view, self._embedder = view, embedder
        self.report = LoadReport(entries=view.manifest.entries)
        return True

    def close(self) -> None:
        """Release the files; a knowledge base in memory is gone afterwards."""
        for release in self._at_close:
            release()
        self._view.snapshot.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def at_close(self, release: Callable[[], None]) -> None:
        """Call a function when the knowledge base is closed."""
        self._at_close.append(release)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def in_memory(self) -> bool:
        """Whether it lives only until it is closed."""
        return self._temporary is not None

    @property
    def manifest(self) -> Manifest:
        """What the current generation holds."""
        return self._view.manifest

    @property
    def version(self) -> str:
        """Hash of the content: the same documents give the same version."""
        return self.manifest.version

    @property
    def embedder(self) -> str:
        """Name of the embedding model."""
        return self._view.embedder

    @property
    def thresholds(self) -> Thresholds:
        """Similarities that belong to this corpus with this embedder."""
        return self._view.thresholds

    def version_for(self, groups: frozenset[str]) -> str:
        """Hash of what these groups may see; what they may not see does not change it."""
        return self.view().version_for(groups)

    def count(self, groups: frozenset[str] = frozenset()) -> int:
        """Return how many passages these groups may see."""
        return self.view().count(groups)

    def hints(self, query: str, groups: frozenset[str] = frozenset()) -> QueryHints:
        """Return what L0 recognizes in a query, among what these groups may see."""
        return self.view().hints(query, groups)

    def read(self, source: str, groups: frozenset[str] = frozenset()) -> StoredEntry:
        """Return an entry, or the section with this source.

        Raises:
            SourceNotFoundError: There is none that these groups may read.
        """
        return self.view().read(source, groups)

    def set_thresholds(self, thresholds: Thresholds) -> None:
        """Write other thresholds, measured on what is opened here, into the knowledge base.

        The next lookups use them; the version stays as it is.

        Raises:
            KnowledgeBusyError: Another process is writing.
            KnowledgeError: It was built again meanwhile, is damaged, or cannot be written.
        """
        replace_thresholds(self.path, self.manifest, thresholds)
        self.refresh()

    def search(self, request: SearchRequest) -> SearchResult:
        """Find passages by vector and by BM25; each has its true similarity to the query.

        Raises:
            EmbeddingError: The query has no usable vector, or none in time.
            EmbedderMismatchError: The model is not the one that the passages were embedded with.
        """
        return self.view().search(request)


def _no_progress(phase: str, done: int, total: int) -> None:
    """Report nothing."""
