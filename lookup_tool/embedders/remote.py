"""Call an embedder that may be slow, busy or gone: with retries and a timeout.

A call runs in a thread of its own, which can be left behind when it hangs. Calls that still hang
are counted, and there are never more than `MAX_CALLS`.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

import regex
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
    wait_random,
)

from lookup_tool.config import EmbeddingConfig
from lookup_tool.errors import EmbeddingTimeoutError
from lookup_tool.threads import DaemonThreads

logger = logging.getLogger(__name__)

MAX_CALLS = 64
"""Calls at once; those that hang are among them until they return."""

_LONGEST_WAIT = 30.0
"""Seconds between two attempts at most."""

# Too early, too many, and what a busy or restarting server says (RFC 9110, RFC 6585, RFC 8470).
_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_TRANSIENT_NAME = regex.compile(r"Connect|Timeout|RateLimit|Unavailable|Overloaded|Transport")

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")


class RemoteCalls:
    """Calls one embedder; safe to share between threads."""

    def __init__(self, name: str, config: EmbeddingConfig) -> None:
        self._name = name
        self._config = config
        self._threads = DaemonThreads(MAX_CALLS, f"embed with {name}")

    def query(self, function: Callable[[Argument], Answer], argument: Argument) -> Answer:
        """Call for somebody who waits: all attempts together take `query_timeout` at most.

        Raises:
            EmbeddingTimeoutError: There was no answer in time.
        """
        seconds = self._config.query_timeout
        late = EmbeddingTimeoutError(self._name, seconds)
        end = monotonic() + seconds
        stop = stop_after_attempt(self._config.attempts) | stop_before_delay(seconds)
        retrying = self._retrying().copy(stop=stop)
        return retrying(lambda: self._within(end - monotonic(), late, function, argument))

    def batch(self, function: Callable[[Argument], Answer], argument: Argument) -> Answer:
        """Call for a build: each attempt takes `batch_timeout` at most.

        Raises:
            EmbeddingTimeoutError: The last attempt had no answer in time.
        """
        seconds = self._config.batch_timeout
        late = EmbeddingTimeoutError(self._name, seconds)
        return self._retrying()(lambda: self._within(seconds, late, function, argument))

    def _retrying(self) -> Retrying:
        first = self._config.first_wait
        return Retrying(
            stop=stop_after_attempt(self._config.attempts),
            wait=wait_exponential(multiplier=first, max=_LONGEST_WAIT) + wait_random(0, first),
            retry=retry_if_exception(is_transient),
            before_sleep=self._tell,
            reraise=True,
        )

    def _within(
        self,
        seconds: float,
        late: EmbeddingTimeoutError,
        function: Callable[[Argument], Answer],
        argument: Argument,
    ) -> Answer:
        answer = self._threads.submit(function, argument)
        try:
            return answer.result(max(seconds, 0))
        except TimeoutError as error:
            if answer.cancel() or not answer.done():
                raise late from error
            return answer.result()  # just in time, or a timeout of the embedder's own

    def _tell(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        logger.warning(
            "%s failed (%s), attempt %d of %d",
            self._name,
            type(error).__name__,
            state.attempt_number,
            self._config.attempts,
        )


def is_transient(error: BaseException) -> bool:
    """Tell whether the same call may succeed a little later.

    Every client has errors of its own. What they share is an HTTP status, on the error or on its
    response, and classes that are named after what happened.
    """
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int):
            return status in _TRANSIENT_STATUS
    return any(_TRANSIENT_NAME.search(kind.__name__) for kind in type(error).__mro__)
