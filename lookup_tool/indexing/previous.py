"""The current generation as a source of what a new one need not compute again.

Everything is found by content: an entry by the hash of its file, a vector by the text that was
embedded. Dates are no proof of anything.
"""

from collections.abc import Iterator
from itertools import chain

from lookup_tool.config import PassageConfig
from lookup_tool.documents.prepared import made_by
from lookup_tool.engines.local.damage import reading
from lookup_tool.engines.local.passage_file import read_passages
from lookup_tool.engines.local.snapshot import Snapshot
from lookup_tool.schema import LoadProblem, PreparedEntry


class Previous:
    """What an undamaged generation has."""

    def __init__(self, snapshot: Snapshot, settings: PassageConfig) -> None:
        """Read it.

        Args:
            snapshot: The generation.
            settings: How the new one cuts passages.

        Raises:
            KnowledgeDamagedError: Its content is damaged, whatever its checksums say.
        """
        self.snapshot = snapshot
        self.same_making = snapshot.manifest.made_by == made_by()
        """Whether files would become the same entries and terms now, as far as it knows how."""

        snapshot.check()
        file = snapshot.folder / "passages.sqlite"
        with reading(file):
            records = list(read_passages(file, snapshot.manifest.access_sets))
        self.records = {record.entry.source: record for record in records}
        self.cut_alike = self.same_making and snapshot.manifest.passage_settings == settings
        """Whether an unchanged file would give the same passages now."""

        with reading(file):
            self.rows = {
                passage.embedded_text: row
                for record in records
                for row, passage in zip(record.rows, record.entry.passages, strict=True)
            }
        """Row of each embedded text."""

    @property
    def sha256s(self) -> dict[str, str | None]:
        """Hash of the file of each entry, by source; None for one that comes from no file."""
        return {source: record.entry.sha256 for source, record in self.records.items()}

    @property
    def problems(self) -> Iterator[LoadProblem]:
        """What was wrong with its files when they were loaded, and with their vectors."""
        return chain.from_iterable(record.entry.problems for record in self.records.values())

    def entry(self, source: str, sha256: str) -> PreparedEntry | None:
        """Return an entry whose file is unchanged, if its passages are as they were cut."""
        record = self.records.get(source)
        if record is None or not self.cut_alike or not record.as_cut:
            return None
        return record.entry if record.entry.sha256 == sha256 else None
