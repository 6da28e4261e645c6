"""Write a generation from prepared entries: embed, sort, index, switch.

What an earlier generation has is taken from there; the result is the same, byte for byte.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookup_tool.config import PassageConfig
from lookup_tool.documents.entries import Problems
from lookup_tool.documents.prepared import made_by
from lookup_tool.embedders.embedder import Embedder
from lookup_tool.engines.local.arrays import save_array
from lookup_tool.engines.local.generations import write_generation
from lookup_tool.engines.local.layout import Layout, only_usable
from lookup_tool.engines.local.lexical import LexicalIndex
from lookup_tool.engines.local.passage_file import write_passages
from lookup_tool.engines.local.quantized import QUANTIZED_FROM, QuantizedRows
from lookup_tool.engines.local.snapshot import QUANTIZED, EmbedderRecord, Manifest
from lookup_tool.engines.local.vectors import unit_means
from lookup_tool.indexing.embed import Embedded, embed
from lookup_tool.indexing.pending import remove_pending
from lookup_tool.indexing.previous import Previous
from lookup_tool.indexing.thresholds import thresholds_for
from lookup_tool.schema import PreparedEntry
from lookup_tool.text import category_key, fold

Progress = Callable[[str, int, int], None]
"""Called with (phase, done, total); phases are `read`, `cut`, `embed` and `index`."""


def write(  # noqa: PLR0913 - the ingredients of one build
    entries: Sequence[PreparedEntry],
    root: Path,
    problems: Problems,
    embedder: Embedder,
    *,
    settings: PassageConfig,
    progress: Progress,
    previous: Previous | None = None,
) -> tuple[Manifest, int]:
    """Write entries as the new current generation of a knowledge base.

    Args:
        entries: In the order of their sources.
        root: The knowledge base; held by `writing`.
        problems: Where to note what cannot be searched.
        embedder: Embeds what the previous generation does not have.
        settings: How the entries were cut.
        progress: Told of every phase from `embed` on.
        previous: The generation to take from what is the same.

    Returns:
        What the generation holds, and how many texts were embedded for it.
    """
    layout = Layout(entries)
    embedded = embed(
        [passage.embedded_text for passage in layout.passages()],
        root,
        embedder,
        previous,
        lambda done, total: progress("embed", done, total),
    )
    usable = embedded.usable
    if not usable.all():
        layout = only_usable(layout, usable, problems, embedder.name)
        embedded.keep(usable)
    thresholds, calibrated_at = thresholds_for(root, embedder)
    manifest = Manifest(
        versions=layout.versions(f"{embedder.name} {_cutting(settings)}"),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        made_by=made_by(),
        entries=len(entries),
        passages=layout.rows,
        categories=_categories(entries),
        embedder=EmbedderRecord(
            name=embedder.name,
            dimension=embedded.vectors.shape[1],
            loads_by_name=embedder.loads_by_name,
            max_characters=_max_characters(embedder, embedded, previous) if len(usable) else None,
        ),
        thresholds=thresholds,
        calibrated_at=calibrated_at,
        passage_settings=settings,
        access_sets=tuple(layout.access_sets),
        segments=tuple(layout.segments),
        quantized_rows=layout.public if layout.public >= QUANTIZED_FROM else 0,
    )
    # Terms and folded texts are those of before only if they would be made in the same way.
    earlier = previous.snapshot if previous is not None and previous.same_making else None
    rows = [-1] * layout.rows if earlier is None else embedded.rows.tolist()

    def fill(folder: Path) -> None:
        progress("index", 0, 3)
        _save_vectors(folder, embedded.take_vectors(), layout, quantized=manifest.quantized_rows)
        known = None if earlier is None else earlier.text_ids
        save_array(folder / "text_ids.npy", _text_ids(layout.shown(), rows, known))
        save_array(folder / "sections.npy", layout.row_sections())
        save_array(folder / "entries.npy", layout.row_entries())
        progress("index", 1, 3)
        write_passages(folder / "passages.sqlite", layout.records())
        progress("index", 2, 3)
        lexical = None if earlier is None else earlier.lexical
        pairs = zip(layout.contexts(), layout.shown(), strict=True)
        LexicalIndex.build(pairs, layout.public, lexical, rows).save(folder / "lexical")
        progress("index", 3, 3)

    write_generation(root, manifest, fill)
    remove_pending(root)
    return manifest, embedded.computed


def _cutting(settings: PassageConfig) -> str:
    """Write how entries are cut; who may read one by default shows in the entries alone."""
    return settings.model_dump_json(exclude={"default_access"})


def _save_vectors(
    folder: Path, vectors: NDArray[np.float32], layout: Layout, *, quantized: int
) -> None:
    save_array(folder / "vectors.npy", vectors)
    # Half precision is plenty for one of several signs, and half of the memory.
    means = unit_means(vectors, layout.runs).astype(np.float16)
    save_array(folder / "entry_vectors.npy", means)
    if quantized:
        QuantizedRows.build(vectors[:quantized]).save(folder / QUANTIZED)


def _text_ids(
    texts: Iterable[str], rows: Sequence[int], known: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Give equal texts, but for spelling, equal numbers; shape (n,)."""
    ids = np.zeros(len(rows), dtype=np.int64)
    for place, (text, row) in enumerate(zip(texts, rows, strict=True)):
        ids[place] = _text_id(text) if row < 0 or known is None else known[row]
    return ids


def _text_id(text: str) -> int:
    digest = hashlib.blake2b(fold(text).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _max_characters(
    embedder: Embedder, embedded: Embedded, previous: Previous | None
) -> int | None:
    """Ask the embedder, or the generation whose embedder was not needed now."""
    if previous is not None and not embedded.computed:
        return previous.snapshot.manifest.embedder.max_characters
    return embedder.max_characters


def _categories(entries: Sequence[PreparedEntry]) -> tuple[str, ...]:
    """Return every category once, as its first entry spells it."""
    spelled = {category_key(e.category): e.category for e in reversed(entries) if e.category}
    return tuple(sorted(spelled.values()))
