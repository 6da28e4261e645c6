"""KnowledgeBase: build one from documents, open it, search it.

Everything that a caller may not see is left out here, in every method: `groups` decides which rows,
phrases and entries exist for that call.
"""

import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from lookup_tool.config import LookupConfig
from lookup_tool.embeddings import DEFAULT, Embedder, Thresholds
from lookup_tool.errors import EmbedderMismatchError, KnowledgeError, SourceNotFoundError
from lookup_tool.knowledge.build import Progress, build_generation
from lookup_tool.knowledge.documents import (
    LoadReport,
    Problems,
    entries_from_documents,
)
from lookup_tool.knowledge.folder import load_folder
from lookup_tool.knowledge.hints import QueryHints, derive_category
from lookup_tool.knowledge.passage_store import StoredEntry, StoredPassage
from lookup_tool.knowledge.search import SearchRequest, SearchResult, search
from lookup_tool.knowledge.snapshot import Manifest, Snapshot, open_current
from lookup_tool.knowledge.thresholds import replace_thresholds
from lookup_tool.knowledge.tokens import bound, visible
from lookup_tool.knowledge.vectors import rows_in

_SAME_VECTOR = 0.999
"""Least cosine between a stored vector and the same text embedded again by the same model."""


class KnowledgeBase:
    """Documents that can be searched; safe to share between threads."""

    def __init__(
        self,
        path: Path,
        snapshot: Snapshot,
        embedder: Embedder,
        report: LoadReport | None = None,
        temporary: "tempfile.TemporaryDirectory[str] | None" = None,
    ) -> None:
        """Bind an opened generation; use `build`, `open` or `from_documents`.

        Args:
            path: Folder of the knowledge base.
            snapshot: Its current generation.
            embedder: Embeds queries.
            report: What the build had to say, when the same embedder has just built it.
            temporary: Removed when the knowledge base is closed.
        """
        self.path = path
        self._snapshot = snapshot
        self._embedder = embedder
        self._temporary = temporary
        self._at_close: list[Callable[[], None]] = []
        self._verified = report is not None
        self._verifying = threading.Lock()
        self.report = report or LoadReport(entries=self.manifest.entries)

    @classmethod
    def build(
        cls,
        docs: str | Path,
        into: str | Path,
        *,
        embedder: str | Embeddings = DEFAULT,
        config: LookupConfig | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Build a knowledge base from a folder of markdown files, and open it.

        An existing knowledge base at `into` is replaced by one atomic switch; readers keep theirs.

        Args:
            docs: Folder with `.md`, `.markdown` and `.mdx` files, searched in depth.
            into: Folder of the knowledge base.
            embedder: Name, or a LangChain embeddings object.
            config: Its `passages` section is used.
            progress: Called with (phase, done, total).

        Raises:
            KnowledgeNotFoundError: `docs` is no folder.
            KnowledgeError: `docs` holds no entries and would replace a knowledge base, or `into`
                cannot be written, or is `docs`.
            KnowledgeBusyError: Another process is writing at `into`.
            EmbeddingError: The embedder gave vectors of a wrong shape, or none that is usable.
        """
        step = progress or _no_progress
        problems = Problems()
        model = Embedder(embedder)
        if Path(into).resolve() == Path(docs).resolve():
            raise KnowledgeError(Path(into), "holds the documents; name another folder to build in")
        entries = load_folder(Path(docs), problems, lambda done, total: step("read", done, total))
        if not entries and (Path(into) / "CURRENT").exists():
            raise KnowledgeError(
                Path(docs), f"holds no entries; the knowledge base in {into} was left as it is"
            )
        settings = (config or LookupConfig()).passages
        build_generation(entries, Path(into), problems, model, settings=settings, progress=step)
        report = LoadReport(len(entries), tuple(problems.found))
        return cls(Path(into), open_current(Path(into)), model, report)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        into: str | Path | None = None,
        embedder: str | Embeddings = DEFAULT,
        config: LookupConfig | None = None,
    ) -> Self:
        """Build a knowledge base from LangChain documents, and open it.

        Args:
            documents: `metadata` may hold what frontmatter may: source, title, category, keywords,
                aliases, entities, access.
            into: Folder of the knowledge base; without one it lives until it is closed.
            embedder: Name, or a LangChain embeddings object.
            config: Its `passages` section is used.
        """
        problems = Problems()
        entries = entries_from_documents(documents, problems)
        model = Embedder(embedder)
        settings = (config or LookupConfig()).passages
        temporary = tempfile.TemporaryDirectory(prefix="lookup-tool-") if into is None else None
        root = Path(temporary.name if temporary else str(into))
        try:
            build_generation(
                entries, root, problems, model, settings=settings, progress=_no_progress
            )
            report = LoadReport(len(entries), tuple(problems.found))
            return cls(root, open_current(root), model, report, temporary)
        except BaseException:
            if temporary is not None:
                temporary.cleanup()
            raise

    @classmethod
    def open(cls, path: str | Path, *, embedder: str | Embeddings | None = None) -> Self:
        """Open a knowledge base.

        Args:
            path: Its folder.
            embedder: Needed when it was built with an embeddings object; by default the model
                whose name the knowledge base carries is loaded at the first search.

        Raises:
            KnowledgeNotFoundError: There is none.
            KnowledgeDamagedError: A file is missing or changed.
            EmbedderMismatchError: It was built with another embedder.
        """
        root = Path(path)
        snapshot = open_current(root)
        try:
            opened = cls(root, snapshot, _embedder_for(root, snapshot.manifest, embedder))
            if embedder is not None:
                opened._verify_embedder()
        except BaseException:
            snapshot.close()
            raise
        return opened

    def close(self) -> None:
        """Release the files; a knowledge base in memory is gone afterwards."""
        for release in self._at_close:
            release()
        self._snapshot.close()
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
        """What the opened generation holds."""
        return self._snapshot.manifest

    @property
    def version(self) -> str:
        """Hash of the content: the same documents give the same version."""
        return self._version(range(len(self.manifest.versions)))

    def version_for(self, groups: frozenset[str]) -> str:
        """Hash of what these groups may see; what they may not see does not change it."""
        return self._version(self._snapshot.permitted(groups))

    def _version(self, access_sets: Iterable[int]) -> str:
        seen = "".join(self.manifest.versions[number] for number in access_sets)
        return hashlib.sha256(seen.encode()).hexdigest()[:12]

    @property
    def embedder(self) -> str:
        """Name of the embedding model."""
        return self._embedder.name

    @property
    def thresholds(self) -> Thresholds:
        """Similarities that belong to this corpus with this embedder."""
        return self.manifest.thresholds

    def count(self, groups: frozenset[str] = frozenset()) -> int:
        """Return how many passages these groups may see."""
        return sum(part.stop - part.start for part in self._snapshot.vectors.slices(groups))

    def hints(self, query: str, groups: frozenset[str] = frozenset()) -> QueryHints:
        """Return what L0 recognizes in a query, among what these groups may see."""
        found = self._snapshot.store.hints(query, self._snapshot.permitted(groups))
        category, because = derive_category(found.matches, partial(self._share, groups))
        return replace(found, category=category, because=because)

    def _share(self, groups: frozenset[str], text: str, category: str) -> float | None:
        """Return how much of what these groups may see of a phrase lies in a category."""
        rows = self._snapshot.lexical.rows_with(text)
        everywhere = rows_in(rows, self._snapshot.vectors.slices(groups))
        there = rows_in(rows, self._snapshot.vectors.slices(groups, category))
        return there / everywhere if everywhere else None

    def read(self, source: str, groups: frozenset[str] = frozenset()) -> StoredEntry:
        """Return an entry, or the section with this source.

        Raises:
            SourceNotFoundError: There is none that these groups may read.
        """
        found = self._snapshot.store.entry(source, self._snapshot.permitted(groups))
        if found is None:
            raise SourceNotFoundError(self.path, f"no entry {source!r} that you may read")
        return found

    def sample(self, size: int, groups: frozenset[str] = frozenset()) -> list[StoredPassage]:
        """Return passages that these groups may see, evenly spread over categories and entries.

        Args:
            size: Most passages to return.
            groups: Access groups of the caller.
        """
        slices = self._snapshot.vectors.slices(groups)
        rows = np.concatenate([np.arange(s.start, s.stop) for s in slices] or [np.zeros(0, int)])
        places = np.linspace(0, len(rows), min(size, len(rows)), endpoint=False).astype(int)
        return list(self._snapshot.store.passages(rows[places].tolist()).values())

    def set_thresholds(self, thresholds: Thresholds) -> None:
        """Write other thresholds, measured on what is opened here, into the knowledge base.

        Lookups in this process use them at once; the version stays as it is.

        Raises:
            KnowledgeBusyError: Another process is writing.
            KnowledgeError: It was built again meanwhile, is damaged, or cannot be written.
        """
        self._snapshot.manifest = replace_thresholds(self.path, self.manifest, thresholds)

    def search(self, request: SearchRequest) -> SearchResult:
        """Find passages by vector and by BM25; each has its true similarity to the query.

        Raises:
            EmbeddingError: The query has no usable vector.
            EmbedderMismatchError: The model is not the one that the passages were embedded with.
        """
        if not self.count(request.groups):
            return SearchResult()
        self._verify_embedder()
        text = " ".join(visible(request.query).split())
        read = bound(text, self.manifest.embedder.max_characters or len(text))
        vector = self._embedder.embed_query(read or request.query)
        self._check_dimension(len(vector))
        return replace(search(self._snapshot, vector, request), query_cut=read != text)

    def _check_dimension(self, dimension: int) -> None:
        stored = self.manifest.embedder.dimension
        if dimension != stored:
            raise EmbedderMismatchError(
                self.path,
                f"{self._embedder.name} gives vectors of {dimension} dimensions, the knowledge "
                f"base has {stored} (built with {self.manifest.embedder.name}); open it with that "
                "embedder, or build it again",
            )

    def _verify_embedder(self) -> None:
        """Embed the first passage again and compare, once, when the model is first needed."""
        with self._verifying:
            first = self._snapshot.first_vector
            if self._verified or first is None:
                return
            text = self._snapshot.store.passages([0])[0].embedded_text
            vectors, usable = self._embedder.embed_documents([text])
            self._check_dimension(vectors.shape[1])
            if not usable[0] or float(vectors[0] @ first) < _SAME_VECTOR:
                raise EmbedderMismatchError(
                    self.path,
                    f"{self._embedder.name} gives other vectors than those stored (built with "
                    f"{self.manifest.embedder.name}); open it with that embedder, or build it "
                    "again",
                )
            self._verified = True


def _embedder_for(root: Path, manifest: Manifest, given: str | Embeddings | None) -> Embedder:
    """Return the given embedder, else the one that the knowledge base names."""
    record = manifest.embedder
    if given is None and not record.loads_by_name:
        raise EmbedderMismatchError(
            root, f"it was built with an object of {record.name}; pass it as `embedder`"
        )
    return Embedder(record.name if given is None else given)


def _no_progress(phase: str, done: int, total: int) -> None:
    """Report nothing."""
