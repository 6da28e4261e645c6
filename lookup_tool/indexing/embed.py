"""The vectors of a new generation: taken from where they are, else embedded.

In this order: the generation before, an unfinished build, the embedder. Vectors that come from
elsewhere are used only if the embedder gives the same ones today.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookup_tool.embedders.embedder import Embedder
from lookup_tool.indexing.pending import PendingVectors
from lookup_tool.indexing.previous import Previous
from lookup_tool.retrieval.view import SAME_VECTOR, check_embedder

Placed = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Places, shape (m,), and the vectors that belong there, shape (m, d)."""

_TAKEN_AT_ONCE = 4096


@dataclass
class Embedded:
    """The vectors of n texts."""

    vectors: NDArray[np.float32]
    """Unit vectors, shape (n, d), zeros for one that is not usable; d is 0 where there are none."""

    rows: NDArray[np.int64]
    """Row in the generation before, shape (n,); -1 for what it does not have."""

    computed: int
    """Texts that were embedded now, each once."""

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which texts can be searched, shape (n,)."""
        return np.asarray(self.vectors.any(axis=1))

    def keep(self, places: NDArray[np.bool_]) -> None:
        """Forget the texts at all other places."""
        self.vectors, self.rows = self.vectors[places], self.rows[places]

    def take_vectors(self) -> NDArray[np.float32]:
        """Hand the vectors over: they are most of what a build holds in memory."""
        vectors, self.vectors = self.vectors, self.vectors[:0].copy()
        return vectors


def embed(
    texts: Sequence[str],
    root: Path,
    embedder: Embedder,
    previous: Previous | None,
    progress: Callable[[int, int], None],
) -> Embedded:
    """Return the vectors of texts.

    Raises:
        EmbedderMismatchError: The generation before was built with another embedder.
        EmbeddingError: The embedder failed, or gave vectors of a wrong shape.
        KnowledgeError: What was embedded cannot be kept at `root`.
    """
    known = {} if previous is None else previous.rows
    rows = np.array([known.get(text, -1) for text in texts], dtype=np.int64)
    first: dict[str, int] = {}  # place of each text that is not known
    missing = np.flatnonzero(rows < 0)
    same = np.array([first.setdefault(texts[at], at) for at in missing.tolist()], dtype=np.int64)
    new = _New(first, embedder, progress)
    if previous is not None and first and len(missing) < len(texts):
        check_embedder(root, previous.snapshot, embedder)
    stored = () if previous is None else _stored(previous.snapshot.unit_vectors, rows)
    if embedder.is_cheap or not first:
        vectors = _table(len(texts), chain(stored, new.computed(None)))
    else:
        with closing(PendingVectors(root, embedder.name)) as pending:
            vectors = _table(len(texts), chain(stored, new.kept(pending), new.computed(pending)))
    again = same != missing
    vectors[missing[again]] = vectors[same[again]]
    return Embedded(vectors, rows, new.count)


def _table(count: int, parts: Iterable[Placed]) -> NDArray[np.float32]:
    """Put vectors into one array; the first ones tell how long they are."""
    table = np.zeros((count, 0), dtype=np.float32)
    for places, vectors in parts:
        if not table.shape[1]:
            table = np.zeros((count, vectors.shape[1]), dtype=np.float32)
        table[places] = vectors
    return table


def _stored(vectors: NDArray[np.float32], rows: NDArray[np.int64]) -> Iterator[Placed]:
    """Yield what the generation before has."""
    known = np.flatnonzero(rows >= 0)
    for start in range(0, len(known), _TAKEN_AT_ONCE):
        places = known[start : start + _TAKEN_AT_ONCE]
        yield places, vectors[rows[places]]


class _New:
    """The texts that the generation before does not have, and where they stand."""

    def __init__(
        self,
        places: Mapping[str, int],
        embedder: Embedder,
        progress: Callable[[int, int], None],
    ) -> None:
        self._texts = list(places)
        self._places = np.fromiter(places.values(), np.int64, len(places))
        self._is_left = np.ones(len(places), dtype=np.bool_)
        self._embedder = embedder
        self._progress = progress

    @property
    def count(self) -> int:
        """How many have no vector yet, and are embedded."""
        return int(self._is_left.sum())

    def kept(self, pending: PendingVectors) -> Iterator[Placed]:
        """Yield what an unfinished build has, unless the embedder gives other vectors now."""
        for found, (number, vector) in enumerate(pending.find(self._texts)):
            if not found and not self._gives(self._texts[number], vector):
                pending.clear()
                return
            self._is_left[number] = False
            yield self._places[number : number + 1], vector[None, :]

    def _gives(self, text: str, vector: NDArray[np.float32]) -> bool:
        again = self._embedder.embed_passage(text)
        return again.shape == vector.shape and float(again @ vector) >= SAME_VECTOR

    def computed(self, pending: PendingVectors | None) -> Iterator[Placed]:
        """Embed what is left, and keep each batch."""
        left = np.flatnonzero(self._is_left)
        done = len(self._texts) - len(left)
        texts = [self._texts[number] for number in left.tolist()]
        start = 0
        for batch, usable in self._embedder.embed_batches(texts):
            stop = start + len(batch)
            if pending is not None:
                those = zip(texts[start:stop], usable, strict=True)
                pending.keep([text for text, is_usable in those if is_usable], batch[usable])
            yield self._places[left[start:stop]], batch
            start = stop
            self._progress(done + start, len(self._texts))
