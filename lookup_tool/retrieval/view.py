"""One generation as callers see it; a lookup uses the same one from beginning to end.

Everything that a caller may not see is left out here, in every method: `groups` decides which rows,
phrases and entries exist for that call.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings

from lookup_tool.config import EmbeddingConfig
from lookup_tool.embedders.embedder import Embedder
from lookup_tool.engines.local.damage import reading
from lookup_tool.engines.local.segments import Where, rows_in
from lookup_tool.engines.local.snapshot import Manifest, Snapshot
from lookup_tool.errors import EmbedderMismatchError, SourceNotFoundError
from lookup_tool.retrieval.hints import TELLING, derive_category
from lookup_tool.retrieval.search import search
from lookup_tool.schema import (
    QueryHints,
    SearchRequest,
    SearchResult,
    StoredEntry,
    StoredPassage,
    Thresholds,
)
from lookup_tool.text import bound, encodable, visible

SAME_VECTOR = 0.999
"""Least cosine between a stored vector and the same text embedded again by the same model."""


class View:
    """An opened generation with its embedder; safe to share between threads."""

    def __init__(
        self, path: Path, snapshot: Snapshot, embedder: Embedder, *, verified: bool
    ) -> None:
        """Bind a generation.

        Args:
            path: Folder of the knowledge base, for messages.
            snapshot: The generation.
            embedder: Embeds queries.
            verified: Whether the generation was just built with this very embedder.
        """
        self._path = path
        self._embedder = embedder
        self._verified = verified
        self.snapshot = snapshot

    @property
    def manifest(self) -> Manifest:
        """What the generation holds."""
        return self.snapshot.manifest

    @property
    def generation(self) -> str:
        """Hash of the manifest: two builds of the same documents need not have the same rows."""
        return self.snapshot.pointer.manifest

    @property
    def embedder(self) -> str:
        """Name of the embedding model, without folders of this machine."""
        return self._embedder.label

    @property
    def thresholds(self) -> Thresholds:
        """Similarities that belong to this corpus with this embedder."""
        return self.manifest.thresholds

    def version_for(self, groups: frozenset[str]) -> str:
        """Hash of what these groups may see; what they may not see does not change it."""
        return self.manifest.version_of(self.snapshot.permitted(groups))

    def count(self, groups: frozenset[str] = frozenset()) -> int:
        """Return how many passages these groups may see."""
        return sum(part.stop - part.start for part in self.snapshot.segments.slices(Where(groups)))

    def hints(self, query: str, groups: frozenset[str] = frozenset()) -> QueryHints:
        """Return what L0 recognizes in a query, among what these groups may see."""
        found = self.snapshot.store.hints(query, self.snapshot.permitted(groups))
        category, because = derive_category(found.matches, partial(self._share, groups))
        return replace(found, category=category, because=because)

    def _share(self, groups: frozenset[str], text: str, category: str) -> float | None:
        """Return how much of what these groups may see of a phrase lies in a category."""
        if self.count(groups) < TELLING:
            return None
        slices = self.snapshot.segments.slices
        everywhere = self.snapshot.lexical.rows_with(text, slices(Where(groups)))
        there = rows_in(everywhere, slices(Where(groups, category)))
        return there / len(everywhere) if len(everywhere) else None

    def titles(self, count: int, groups: frozenset[str] = frozenset()) -> list[str]:
        """Return titles of entries that these groups may see, from all over the knowledge base."""
        return self.snapshot.store.titles(count, self.snapshot.permitted(groups))

    def read(self, source: str, groups: frozenset[str] = frozenset()) -> StoredEntry:
        """Return an entry, or the section with this source.

        Raises:
            SourceNotFoundError: There is none that these groups may read.
        """
        found = self.snapshot.store.entry(encodable(source), self.snapshot.permitted(groups))
        if found is None:
            raise SourceNotFoundError(self._path, f"no entry {source!r} that you may read")
        return replace(found, passages=tuple(self._numbered(found.passages, groups)))

    def sample(self, size: int, groups: frozenset[str] = frozenset()) -> list[StoredPassage]:
        """Return passages that these groups may see, evenly spread over categories and entries.

        Args:
            size: Most passages to return.
            groups: Access groups of the caller.
        """
        count = self.count(groups)
        numbers = np.linspace(0, count, min(size, count), endpoint=False).astype(int)
        return list(self.passages(numbers.tolist(), groups).values())

    def passages(
        self, numbers: Sequence[int], groups: frozenset[str] = frozenset()
    ) -> dict[int, StoredPassage]:
        """Return passages by their numbers among those that these groups may see."""
        rows = self.snapshot.segments.rows(numbers, groups)
        found = self.snapshot.store.passages(rows.tolist(), self.snapshot.permitted(groups))
        return {each.row: each for each in self._numbered(found.values(), groups)}

    def _numbered(
        self, passages: Collection[StoredPassage], groups: frozenset[str]
    ) -> Iterator[StoredPassage]:
        """Give passages their numbers among those that these groups may see."""
        rows = np.fromiter((each.row for each in passages), dtype=np.int64, count=len(passages))
        numbers = self.snapshot.segments.numbers(rows, groups).tolist()
        return (replace(each, row=row) for each, row in zip(passages, numbers, strict=True))

    def search(self, request: SearchRequest) -> SearchResult:
        """Find passages by vector and by BM25; each has its true similarity to the query.

        Raises:
            EmbeddingError: The query has no usable vector, or none in time.
            EmbedderMismatchError: The model is not the one that the passages were embedded with.
        """
        if not self.count(request.groups):
            return SearchResult()
        self.verify_embedder()
        text = " ".join(visible(request.query).split())
        read = bound(text, self.manifest.embedder.max_characters or len(text))
        vector = self._embedder.embed_query(read or request.query)
        _check_dimension(self._path, self.manifest, self._embedder, len(vector))
        return replace(search(self.snapshot, vector, request), query_cut=read != text)

    def verify_embedder(self) -> None:
        """Embed the first passage again and compare, once, when the model is first needed.

        Threads that come together do it each: none waits for the embedder behind another.
        """
        if not self._verified and self.manifest.passages:
            check_embedder(self._path, self.snapshot, self._embedder)
        self._verified = True


def check_embedder(path: Path, snapshot: Snapshot, embedder: Embedder) -> None:
    """Embed the first passage of a generation again.

    Raises:
        EmbedderMismatchError: Its vector is not the one that is stored.
        KnowledgeDamagedError: The passage cannot be read.
    """
    with reading(snapshot.folder / "passages.sqlite"):
        text = snapshot.store.passages([0])[0].embedded_text
    vector = embedder.embed_passage(text)
    _check_dimension(path, snapshot.manifest, embedder, len(vector))
    if float(vector @ snapshot.unit_vectors[0]) < SAME_VECTOR:
        raise EmbedderMismatchError(
            path,
            f"{embedder.name} gives other vectors than those stored (built with "
            f"{snapshot.manifest.embedder.name}); open it with that embedder, or build it again",
        )


def _check_dimension(path: Path, manifest: Manifest, embedder: Embedder, dimension: int) -> None:
    if dimension != manifest.embedder.dimension:
        raise EmbedderMismatchError(
            path,
            f"{embedder.name} gives vectors of {dimension} dimensions, the knowledge base has "
            f"{manifest.embedder.dimension} (built with {manifest.embedder.name}); open it with "
            "that embedder, or build it again",
        )


def embedder_for(
    root: Path,
    manifest: Manifest,
    given: str | Embeddings | None,
    config: EmbeddingConfig | None = None,
) -> Embedder:
    """Return the given embedder, else the one that the knowledge base names.

    Raises:
        EmbedderMismatchError: It was built with an object, and none is given.
        KnowledgeDamagedError: It names none that there can be.
    """
    record = manifest.embedder
    if given is not None:
        return Embedder(given, config)
    if not record.loads_by_name:
        raise EmbedderMismatchError(
            root, f"it was built with an object of {record.name}; pass it as `embedder`"
        )
    with reading(root):
        return Embedder(record.name, config)
