"""The thresholds of a knowledge base: its embedder's, or those that were measured on its documents.

Measured ones are kept by every later build and sync with the same embedder.
"""

import shutil
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from lookup_tool.embedders.embedder import Embedder
from lookup_tool.engines.local.generations import write_generation, writing
from lookup_tool.engines.local.snapshot import (
    Manifest,
    Snapshot,
    damaged_files,
    open_current,
    read_manifest,
)
from lookup_tool.errors import KnowledgeDamagedError, KnowledgeError
from lookup_tool.schema import Thresholds


def thresholds_for(root: Path, embedder: Embedder) -> tuple[Thresholds, str | None]:
    """Return the thresholds for a new generation, and when they were measured.

    Args:
        root: The knowledge base; it may not be there yet, or be damaged.
        embedder: What the new generation is embedded with.
    """
    try:
        manifest = read_manifest(root)
    except KnowledgeError:
        return embedder.thresholds, None
    if manifest.calibrated_at is None or manifest.embedder.name != embedder.name:
        return embedder.thresholds, None
    return manifest.thresholds, manifest.calibrated_at


def replace_thresholds(root: Path, measured: Manifest, thresholds: Thresholds) -> None:
    """Give the current generation other thresholds, by one atomic switch to a copy of it.

    The content, and so the version, stays as it is.

    Args:
        root: The knowledge base.
        measured: What the generation held that the thresholds were measured on.
        thresholds: The new ones.

    Raises:
        KnowledgeBusyError: Another process is writing.
        KnowledgeDamagedError: A file was changed since it was written.
        KnowledgeError: The knowledge base was built again meanwhile, or cannot be written.
    """
    with writing(root), closing(open_current(root)) as snapshot:
        if snapshot.manifest.version != measured.version:
            raise KnowledgeError(root, "was built again while it was measured; calibrate it again")
        if damaged := damaged_files(
            snapshot.folder, snapshot.manifest
        ):  # the copy would get checksums of its own
            problem = f"changed since written: {', '.join(damaged)}"
            raise KnowledgeDamagedError(snapshot.folder, problem)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = snapshot.manifest.model_copy(
            update={"thresholds": thresholds, "calibrated_at": now}
        )
        write_generation(root, manifest, lambda folder: _copy(snapshot, folder))


def _copy(snapshot: Snapshot, folder: Path) -> None:
    for name in snapshot.manifest.files:
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(snapshot.folder / name, target)
