"""The rows that wait for a database, and the one thread that writes them while there are any.

No thread runs while nothing waits. A process that ends waits for its rows, ten seconds at most.
"""

import atexit
import logging
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from time import monotonic

from lookup_tool.errors import TraceStoreError
from lookup_tool.traces.database import PATIENCE
from lookup_tool.traces.problems import StoreBusyError, StoreUnreachableError
from lookup_tool.traces.rows import Values

logger = logging.getLogger(__name__)

LIMIT = 10_000
"""Most rows that wait: about 30 MB."""

_BATCH = 100
"""Most rows in one transaction."""

_PAUSE = 0.25
"""Seconds between two attempts; a locked SQLite file is waited for within an attempt, too."""

_LOG_EVERY = 60.0
"""Seconds between two messages that give the same reason."""

_backlogs: "weakref.WeakSet[Backlog]" = weakref.WeakSet()


class Backlog:
    """Rows in the order in which they are written; safe to share between threads."""

    def __init__(self, insert: Callable[[Sequence[Values]], None], url: str) -> None:
        """Begin with no rows.

        Args:
            insert: Writes rows, all or none. After `StoreBusyError` or `StoreUnreachableError` it
                is called with them again.
            url: Names the store in messages.
        """
        self._insert = insert
        self._url = url
        self.start_over()
        _backlogs.add(self)

    def start_over(self) -> None:
        """Forget everything: after a fork, the rows are the parent's to write."""
        self.lost = 0
        self._rows: deque[Values] = deque()
        self._chore: Iterator[object] | None = None
        self._failure: TraceStoreError | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._deadline = math.inf
        self._unlogged = 0
        self._reason = ""
        self._next_log = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether no row waits."""
        return not self._rows

    def put(self, row: Values, wait: float = 0.0) -> None:
        """Hand a row over.

        Args:
            row: One row; it is kept as it is.
            wait: Seconds to wait until it is written, unless others wait already.

        Raises:
            StoreUnreachableError: It waits for a database that does not answer.
            TraceStoreError: It could not be written, or too many wait.
        """
        with self._changed:
            is_first = not self._rows
            if is_first:
                self._failure = None
            is_kept = len(self._rows) < LIMIT
            if is_kept:
                self._rows.append(row)
            self._work()
            if is_first:
                self._changed.wait_for(lambda: self._failure or not self._rows, wait)
            failure = self._failure
        if not is_kept:
            full = TraceStoreError(
                f"{self._url} is locked or slow, and {LIMIT:,} lookups wait for it already",
                f"the trace store is locked or slow, and {LIMIT:,} lookups wait for it already",
            )
            self.lose(1, full)
            raise full
        if failure and (is_first or isinstance(failure, StoreUnreachableError)):
            raise failure.with_traceback(None)

    def do(self, chore: Iterator[object]) -> None:
        """Take the steps of a chore whenever no row waits; it replaces an earlier one."""
        with self._changed:
            self._chore = chore
            self._work()

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Wait until no row waits; return whether that came about in time."""
        with self._changed:
            if not self._rows or self._work():
                return self._changed.wait_for(lambda: not self._rows, seconds)
            self._deadline = monotonic() + seconds
        self._run()  # no thread can be started any more, as at the end of a process
        self._deadline = math.inf
        return self.is_empty

    def close(self, seconds: float = PATIENCE) -> None:
        """Write what waits, in so many seconds at most; the rest is lost."""
        end = monotonic() + seconds
        self._chore = None
        if not self.flush(seconds):
            self._give_up()
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, max(0.0, end - monotonic()))
        self._log(now=True)

    def abandon(self) -> None:
        """Let the thread end in ten seconds, whatever waits; takes no lock."""
        self._chore = None
        self._deadline = monotonic() + PATIENCE

    def lose(self, count: int, why: object) -> None:
        """Count rows that will never be written, and tell the log once in a while."""
        with self._changed:
            self.lost += count
            self._unlogged += count
            is_new = str(why) != self._reason
            self._reason = str(why)
        self._log(now=is_new)

    def _log(self, *, now: bool) -> None:
        with self._changed:
            count, reason = self._unlogged, self._reason
            if not count or (not now and monotonic() < self._next_log):
                return
            self._unlogged = 0
            self._next_log = monotonic() + _LOG_EVERY
        logger.warning("lookups that could not be recorded: %d; %s", count, reason)

    def _work(self) -> bool:
        """See to it that a thread is running; return whether one is. The lock is held."""
        if self._thread is None:
            _wait_in_child()
            thread = threading.Thread(target=self._run, name="lookup-tool traces", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _run(self) -> None:
        """Write what waits, and do the chore in between, until there is nothing left to do."""
        size = 1
        while (batch := self._next(size)) is not None:
            size = self._write(batch) if batch else self._step()

    def _next(self, size: int) -> list[Values] | None:
        """Return the rows to write next; none is a step of the chore, and None the end."""
        if self._rows and monotonic() > self._deadline:
            self._give_up()
        with self._changed:
            if self._rows or self._chore is not None:
                return list(islice(self._rows, size))
            self._thread = None
            self._changed.notify_all()
            return None

    def _write(self, batch: list[Values]) -> int:
        """Write rows, or rest; return how many to take the next time: more while it goes fast."""
        started = monotonic()
        try:
            self._insert(batch)
        except (StoreBusyError, StoreUnreachableError) as error:
            self._rest(error)
            return len(batch)
        except TraceStoreError as error:
            failure = error
        except Exception as error:  # a driver may raise anything
            logger.warning("cannot write to %s", self._url, exc_info=error)
            failure = TraceStoreError(f"cannot write to {self._url}: {type(error).__name__}")
        else:
            failure = None
        if failure is not None and len(batch) > 1:
            return 1  # which of them is it?
        self._take_off(batch, failure)
        if failure is not None:
            self.lose(1, failure)
        return min(2 * len(batch), _BATCH) if monotonic() - started < _PAUSE else 1

    def _take_off(self, batch: list[Values], failure: TraceStoreError | None) -> None:
        """Remove rows that are done with; those that were given up meanwhile are not lost twice."""
        with self._changed:
            self._failure = failure
            for row in batch:
                if self._rows and self._rows[0] is row:
                    self._rows.popleft()
                else:
                    self.lost -= 1
            self._changed.notify_all()

    def _rest(self, error: TraceStoreError) -> None:
        """Wait before the next attempt; who asks is told of a database that does not answer."""
        with self._changed:
            is_new = self._failure is None
            self._failure = error if isinstance(error, StoreUnreachableError) else None
            self._changed.notify_all()
        if self._failure and is_new:
            logger.warning("lookups wait to be recorded: %s", error)
        with self._changed:
            self._changed.wait_for(lambda: not self._rows, _PAUSE)

    def _step(self) -> int:
        chore = self._chore
        try:
            if chore is not None:
                next(chore)
                return 1
        except StopIteration:
            pass
        except TraceStoreError as error:
            logger.warning("old lookups could not be deleted: %s", error)
        except Exception as error:  # as in a write
            logger.warning("old lookups could not be deleted", exc_info=error)
        with self._changed:
            if self._chore is chore:
                self._chore = None
        return 1

    def _give_up(self) -> None:
        with self._changed:
            count = len(self._rows)
            self._rows.clear()
            self._changed.notify_all()
        self.lose(count, f"{self._url} was locked, or did not answer, until the end")


_waiting_in: set[int] = set()


def _wait_in_child() -> None:
    """Let a child of `multiprocessing` wait at its end, too: it ends without `atexit`."""
    if parent_process() is not None and os.getpid() not in _waiting_in:
        _waiting_in.add(os.getpid())
        Finalize(None, _finish, exitpriority=0)


def _finish() -> None:
    end = monotonic() + PATIENCE
    for backlog in tuple(_backlogs):
        backlog.close(max(0.0, end - monotonic()))


def _leave_all_to_parent() -> None:
    for backlog in tuple(_backlogs):
        backlog.start_over()


atexit.register(_finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)
