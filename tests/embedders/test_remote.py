"""An embedder that is slow, busy or gone: tried again, given up in time, never waited for alone."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from embedders import HashEmbedder
from langchain_core.documents import Document

from lookup_tool import KnowledgeBase, LookupConfig, TraceStore, create_lookup_tool
from lookup_tool.config import EmbeddingConfig
from lookup_tool.embedders.embedder import Embedder
from lookup_tool.embedders.remote import MAX_CALLS, RemoteCalls, is_transient
from lookup_tool.errors import EmbeddingTimeoutError

AT_ONCE = EmbeddingConfig(first_wait=0.0)


class Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class StatusError(Exception):
    """As clients raise it: with a status of its own, or with a response."""

    def __init__(self, status: int | None = None, response: Response | None = None) -> None:
        super().__init__()
        if status is not None:
            self.status_code = status
        self.response = response


class APIConnectionError(Exception):
    """Named after what happened."""


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (APIConnectionError(), True),
        (StatusError(429), True),
        (StatusError(503), True),
        (StatusError(response=Response(500)), True),
        (StatusError(401), False),
        (StatusError(response=Response(400)), False),
        (ValueError("a text is too long"), False),
        (RuntimeError("out of memory"), False),
        (FileNotFoundError(), False),
    ],
    ids=repr,
)
def test_what_may_go_better_the_next_time_is_told_by_status_and_name(
    error: Exception, *, transient: bool
) -> None:
    assert is_transient(error) is transient


class Failing(HashEmbedder):
    """Fails some times, then works."""

    def __init__(self, error: Exception, times: int) -> None:
        super().__init__()
        self.error = error
        self.times = times
        self.calls = 0

    def embed_query(self, text: str) -> list[float]:
        self.calls += 1
        if self.calls <= self.times:
            raise self.error
        return super().embed_query(text)


@pytest.mark.parametrize("method", ["query", "documents"])
def test_a_busy_embedder_is_tried_again(method: str) -> None:
    failing = Failing(StatusError(429), times=3)
    embedder = Embedder(failing, AT_ONCE)

    if method == "query":
        vector = embedder.embed_query("text")
    else:
        vector = embedder.embed_documents(["text"])[0][0]

    assert failing.calls == 4
    assert vector.tolist() == Embedder(HashEmbedder()).embed_query("text").tolist()


@pytest.mark.parametrize(
    ("error", "calls"),
    [(StatusError(429), 4), (StatusError(401), 1), (ValueError("too long"), 1)],
    ids=["busy", "forbidden", "wrong"],
)
def test_an_embedder_that_keeps_failing_is_given_up_with_its_own_error(
    error: Exception, calls: int
) -> None:
    failing = Failing(error, times=99)

    with pytest.raises(type(error)):
        Embedder(failing, AT_ONCE).embed_query("text")

    assert failing.calls == calls


class Hanging(HashEmbedder):
    """Never answers a query until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.hangs = True

    def embed_query(self, text: str) -> list[float]:
        if self.hangs:
            self.go.wait(timeout=60)
        return super().embed_query(text)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    embedder = Hanging()
    yield embedder
    embedder.go.set()


IMPATIENT = EmbeddingConfig(query_timeout=0.05, batch_timeout=0.05, attempts=2, first_wait=0.0)


def test_a_lookup_over_an_embedder_that_hangs_is_unavailable(
    hanging: Hanging, traces: TraceStore
) -> None:
    hanging.hangs = False
    config = LookupConfig(embedding=IMPATIENT)
    documents = [Document("You get 25 days of leave.")]
    with KnowledgeBase.from_documents(documents, embedder=hanging, config=config) as base:
        hanging.hangs = True
        tool = create_lookup_tool(base, traces=traces)
        call = {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": "leave?"}}
        result = tool.invoke(call).artifact
        hanging.hangs = False
        again = tool.invoke(call).artifact

    assert result["evidenceStatus"] == "unavailable"
    assert result["retrievalTrace"]["error"] == "EmbeddingTimeoutError"
    assert again["evidenceStatus"] != "unavailable"
    assert traces.count() == 2


def test_a_batch_that_hangs_is_tried_again_and_given_up(hanging: Hanging) -> None:
    with pytest.raises(EmbeddingTimeoutError, match=r"did not answer within 0\.05 s"):
        Embedder(hanging, IMPATIENT).embed_documents(["text"])


def test_calls_that_hang_are_limited_and_come_back(hanging: Hanging) -> None:
    calls = RemoteCalls("slow", EmbeddingConfig(query_timeout=0.01, attempts=1))

    def hang(_: Any) -> None:
        hanging.go.wait(timeout=60)

    for _ in range(MAX_CALLS + 3):
        with pytest.raises(EmbeddingTimeoutError):
            calls.query(hang, "text")
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("embed with slow") == MAX_CALLS

    hanging.go.set()
    assert RemoteCalls("slow", AT_ONCE).query(str.upper, "text") == "TEXT"


def test_the_default_embedder_is_called_in_the_callers_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a thread was started")

    embedder = Embedder()
    monkeypatch.setattr(threading.Thread, "start", refused)

    assert embedder.embed_query("leave").shape == (256,)
    assert embedder.embed_documents(["leave"])[0].shape == (1, 256)
