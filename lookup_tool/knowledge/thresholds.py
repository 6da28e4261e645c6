"""The thresholds of a knowledge base: its embedder's, or those that were measured on its documents.

Measured ones are kept by every later build with the same embedder.
"""

import shutil
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from lookup_tool.embeddings import Embedder, Thresholds
from lookup_tool.errors import KnowledgeDamagedError, KnowledgeError
from lookup_tool.knowledge.snapshot import (
    Manifest,
    Snapshot,
    file_record,
    open_current,
    write_generation,
    writing,
)


def thresholds_for(root: Path, embedder: Embedder) -> tuple[Thresholds, str | None]:
    """Return the thresholds for a new generation, and when they were measured.

    Args:
        root: The knowledge base; it may not be there yet, or be damaged.
        embedder: What the new generation is embedded with.
    """
    try:
        with closing(open_current(root)) as snapshot:
            manifest = snapshot.manifest
    except KnowledgeError:
        return embedder.thresholds, None
    if manifest.calibrated_at is None or manifest.embedder.name != embedder.name:
        return embedder.thresholds, None
    return manifest.thresholds, manifest.calibrated_at


def replace_thresholds(root: Path, measured: Manifest, thresholds: Thresholds) -> Manifest:
    """Give the current generation other thresholds, by one atomic switch to a copy of it.

    The content, and so the version, stays as it is.

    Args:
        root: The knowledge base.
        measured: What the generation held that the thresholds were measured on.
        thresholds: The new ones.

    Returns:
        What the new generation holds.

    Raises:
        KnowledgeBusyError: Another process is writing.
        KnowledgeDamagedError: A file was changed since it was written.
        KnowledgeError: The knowledge base was built again meanwhile, or cannot be written.
    """
    with writing(root):
        with closing(open_current(root)) as snapshot:
            if snapshot.manifest.versions != measured.versions:
                problem = "was built again while it was measured; calibrate it again"
                raise KnowledgeError(root, problem)
            _check(snapshot)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            manifest = snapshot.manifest.model_copy(
                update={"thresholds": thresholds, "calibrated_at": now}
            )
            write_generation(root, manifest, lambda folder: _copy(snapshot, folder))
    return manifest


def _check(snapshot: Snapshot) -> None:
    """Refuse to copy what is damaged: the copy would get checksums of its own."""
    for name, record in snapshot.manifest.files.items():
        if file_record(snapshot.folder / name) != record:
            raise KnowledgeDamagedError(snapshot.folder / name, "changed since it was written")


def _copy(snapshot: Snapshot, folder: Path) -> None:
    for name in snapshot.manifest.files:
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(snapshot.folder / name, target)
