"""The vectors of a new generation: taken from where they are, else embedded.

In this order: the generation before, an unfinished build, the embedder. Vectors that come from
elsewhere are used only if the embedder gives the same ones today.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookup_tool.embeddings import Embedder
from lookup_tool.knowledge.pending import PendingVectors
from lookup_tool.knowledge.previous import Previous
from lookup_tool.knowledge.view import SAME_VECTOR, check_embedder

Vectors = dict[str, NDArray[np.float32]]
"""Unit vectors, shape (d,), of texts; zeros for one that has no usable vector."""


@dataclass(frozen=True)
class Embedded:
    """The vectors of n texts, those of the generation before where they lie."""

    texts: Sequence[str]
    rows: NDArray[np.int64]
    """Row in the generation before, shape (n,); -1 for what it does not have."""

    stored: NDArray[np.float32] | None
    """Vectors of the generation before."""

    new: Vectors
    """The others."""

    computed: int
    """Texts that were embedded now, each once."""

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which texts can be searched, shape (n,)."""
        flags = self.rows >= 0
        for place in np.flatnonzero(~flags).tolist():
            flags[place] = self.new[self.texts[place]].any()
        return flags

    def table(self, places: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors of some texts, shape (len(places), d); d is 0 where there are none."""
        rows = self.rows[places]
        if self.stored is not None and (rows >= 0).any():
            table = np.take(self.stored, np.maximum(rows, 0), axis=0)
        else:
            width = len(next(iter(self.new.values()), ()))
            table = np.zeros((len(places), width), dtype=np.float32)
        for at in np.flatnonzero(rows < 0).tolist():
            table[at] = self.new[self.texts[places[at]]]
        return table


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
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    if previous is not None and missing and (rows >= 0).any():
        check_embedder(root, previous.snapshot, embedder)
    if embedder.is_cheap or not missing:
        new, computed = _compute(missing, {}, embedder, None, progress), len(missing)
    else:
        with closing(PendingVectors(root, embedder.name)) as pending:
            kept = pending.find(missing)
            if not _is_of(kept, embedder):
                pending.clear()
                kept = {}
            computed = len(missing) - len(kept)
            new = _compute(missing, kept, embedder, pending, progress)
    stored = None if previous is None else previous.snapshot.unit_vectors
    return Embedded(texts, rows, stored, new, computed)


def _is_of(kept: Vectors, embedder: Embedder) -> bool:
    """Tell whether the embedder gives the first of these vectors again."""
    for text, vector in kept.items():
        again = embedder.embed_passage(text)
        return again.shape == vector.shape and float(again @ vector) >= SAME_VECTOR
    return True


def _compute(
    texts: Sequence[str],
    kept: Vectors,
    embedder: Embedder,
    pending: PendingVectors | None,
    progress: Callable[[int, int], None],
) -> Vectors:
    """Embed the texts that have no vector yet, and keep each batch."""
    vectors = dict(kept)
    missing = [text for text in texts if text not in kept]
    start = 0
    for batch, usable in embedder.embed_batches(missing):
        those = missing[start : start + len(batch)]
        start += len(batch)
        if pending is not None:
            fine = [text for text, is_usable in zip(those, usable, strict=True) if is_usable]
            pending.keep(fine, batch[usable])
        vectors.update(zip(those, batch, strict=True))
        progress(len(vectors), len(texts))
    return vectors
