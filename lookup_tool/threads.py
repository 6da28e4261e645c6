"""Threads of our own for calls that may hang: Python cannot stop them, so nothing waits for them.

The executors of the standard library are waited for when the interpreter ends, and asyncio's
default one belongs to the application.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakSet

IDLE = 10.0
"""Seconds until a thread without work ends."""

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Task = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads:
    """Makes calls in daemon threads, some at once; further ones wait, first come, first served.

    Threads are started when they are needed and end when they are idle: there is nothing to close.
    A forked process starts with none.
    """

    def __init__(self, size: int, name: str) -> None:
        """Start nothing yet.

        Args:
            size: Most threads; those whose call hangs are among them until it returns.
            name: Name of each.
        """
        self._size = size
        self._name = name
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Know of no thread and no call: a fork takes none of them over."""
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._threads = self._idle = 0

    def submit(
        self, function: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Answer]:
        """Make a call, in a copy of the context that it was submitted in."""
        future: Future[Answer] = Future()
        call = partial(copy_context().run, function, *args, **kwargs)
        with self._changed:
            if self._idle <= len(self._waiting) and self._threads < self._size:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
                self._threads += 1
            self._waiting.append((future, call))
            self._changed.notify()
        return future

    async def run(
        self, function: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        """Await a call, as `asyncio.to_thread` does; cancelled before its turn, it is not made."""
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    def _serve(self) -> None:
        while (task := self._next()) is not None:
            _make(*task)
            del task  # an idle thread keeps no answer alive

    def _next(self) -> Task | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting, timeout=IDLE)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None


def _make(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        answer = call()
    except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
        future.set_exception(error)
    else:
        future.set_result(answer)


_all: "WeakSet[DaemonThreads]" = WeakSet()
_owned: "WeakKeyDictionary[object, dict[tuple[str, int], DaemonThreads]]" = WeakKeyDictionary()
_owning = threading.Lock()


def threads_of(owner: object, name: str, size: int) -> DaemonThreads:
    """Return the threads of this name and number that all users of one owner share."""
    with _owning:
        owned = _owned.setdefault(owner, {})
        return owned.setdefault((name, size), DaemonThreads(size, name))


def _forked() -> None:
    for threads in _all:
        threads.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
