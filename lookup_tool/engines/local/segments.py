"""Which rows a search may see.

Rows are sorted by access set and category, so what a search may see is a few contiguous slices. A
filter is the choice of slices, before the search; nothing is dropped after it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Where:
    """What a search may see, and on whose behalf."""

    groups: frozenset[str] = frozenset()
    """Access groups of the caller; public rows are seen by everybody."""

    category: str | None = None
    """Key of the only category; None is every one."""

    without_entry: int | None = None
    """Number of an entry that is left out as if it were not there."""


@dataclass(frozen=True)
class Segment:
    """A run of rows with one access set and one category."""

    access: frozenset[str] | None
    category: str | None
    start: int
    stop: int


class Segments:
    """The rows of a generation, as runs that are seen by the same callers."""

    def __init__(self, segments: Sequence[Segment], entries: NDArray[np.int32]) -> None:
        """Bind the segments, ascending, and the number of each row's entry, shape (n,)."""
        self._segments = tuple(segments)
        self._entries = entries

    def slices(self, where: Where) -> list[slice]:
        """Return the rows that a search may see, as few ascending slices as possible."""
        runs: list[slice] = []
        for segment in self._segments:
            if segment.access is not None and not segment.access & where.groups:
                continue
            if where.category is not None and segment.category != where.category:
                continue
            if runs and runs[-1].stop == segment.start:
                runs[-1] = slice(runs[-1].start, segment.stop)
            else:
                runs.append(slice(segment.start, segment.stop))
        if where.without_entry is None:
            return runs
        rows = np.flatnonzero(self._entries == where.without_entry)  # they stand together
        return outside(runs, [slice(int(rows[0]), int(rows[-1]) + 1)]) if len(rows) else runs

    def rows(self, numbers: Iterable[int], groups: frozenset[str]) -> NDArray[np.int64]:
        """Return the rows with these numbers among those that some groups may see.

        A number that leads to none is left out.
        """
        starts, before = self._runs(groups)
        given = np.fromiter(numbers, dtype=np.int64)
        given = given[(given >= 0) & (given < before[-1])]
        run = before.searchsorted(given, side="right") - 1
        return starts[run] + given - before[run]

    def numbers(self, rows: NDArray[np.int64], groups: frozenset[str]) -> NDArray[np.int64]:
        """Number rows that some groups may see as if no other row were there, from 0 on."""
        starts, before = self._runs(groups)
        run = starts.searchsorted(rows, side="right") - 1
        return before[run] + rows - starts[run]

    def _runs(self, groups: frozenset[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first row of each permitted run, and how many permitted ones are before it.

        The latter ends with the number of all of them.
        """
        slices = self.slices(Where(groups))
        starts = np.array([part.start for part in slices], dtype=np.int64)
        lengths = [part.stop - part.start for part in slices]
        return starts, np.cumsum([0, *lengths], dtype=np.int64)


def outside(slices: Iterable[slice], holes: Iterable[slice]) -> list[slice]:
    """Return what is left of ascending slices without some runs of rows."""
    left = list(slices)
    for hole in holes:
        left = [
            part
            for whole in left
            for part in (
                slice(whole.start, min(whole.stop, hole.start)),
                slice(max(whole.start, hole.stop), whole.stop),
            )
            if part.start < part.stop
        ]
    return left


def rows_in(rows: NDArray[np.int32], slices: Sequence[slice]) -> int:
    """Count the rows, in order, that lie in these slices."""
    return sum(stop - start for start, stop in places_of(slices, rows))


def places_of(slices: Sequence[slice], rows: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Return where each of these slices begins and ends in ordered rows."""
    # Needles of another type would have all the rows converted.
    bounds = np.array([(part.start, part.stop) for part in slices], dtype=rows.dtype)
    return [(start, stop) for start, stop in rows.searchsorted(bounds.reshape(-1, 2)).tolist()]
