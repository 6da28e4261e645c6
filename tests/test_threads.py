"""Awaited lookups have threads of their own: a slow embedder delays nobody else, nor the end."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from conftest import Make
from embedders import HashEmbedder
from langchain_core.tools import StructuredTool

from lookup_tool import KnowledgeBase, LookupConfig, LookupRetriever, TraceStore, create_lookup_tool
from lookup_tool.config import RetrievalConfig
from lookup_tool.embedders import remote
from lookup_tool.threads import DaemonThreads, threads_of

FILES = {"badges.md": "# Badges\nLost badges go to the desk.\n"}
SAFE = 60.0
"""Seconds after which a test that waits in vain fails; none takes them."""


class Slow(HashEmbedder):
    """Answers no query until it is let go, and counts those that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Semaphore(0)
        self.go = threading.Event()
        self.most = self.at_once = 0
        self.lock = threading.Lock()

    def embed_query(self, text: str) -> list[float]:
        if text == "slow":
            with self.lock:
                self.at_once += 1
                self.most = max(self.most, self.at_once)
            self.arrived.release()
            assert self.go.wait(SAFE)
            with self.lock:
                self.at_once -= 1
        return super().embed_query(text)

    def wait_for(self, number: int) -> None:
        for _ in range(number):
            assert self.arrived.acquire(timeout=SAFE)


@pytest.fixture
def slow() -> Iterator[Slow]:
    embedder = Slow()
    yield embedder
    embedder.go.set()


def awaiting(kind: str, knowledge: KnowledgeBase, traces: TraceStore, threads: int) -> Any:
    config = LookupConfig(retrieval=RetrievalConfig(threads=threads))
    if kind == "tool":
        return create_lookup_tool(knowledge, traces=traces, config=config, name="slow_tool")
    return LookupRetriever(knowledge=knowledge, traces=traces, config=config)


def named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


@pytest.mark.parametrize("kind", ["tool", "retriever"])
@pytest.mark.parametrize("same", [False, True], ids=["other knowledge base", "same one"])
async def test_slow_lookups_keep_neither_a_quick_one_nor_the_application_waiting(
    make: Make, traces: TraceStore, slow: Slow, kind: str, same: bool
) -> None:
    knowledge = make(FILES, slow)
    quick = create_lookup_tool(knowledge if same else make(FILES, HashEmbedder()), traces=traces)
    asking = awaiting(kind, knowledge, traces, threads=3)
    application = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(application)

    lookups = [asyncio.create_task(asking.ainvoke("slow")) for _ in range(10)]
    async with asyncio.timeout(SAFE):
        await asyncio.to_thread(slow.wait_for, 3)
        said = await quick.ainvoke("badges")
        assert await asyncio.to_thread(str.upper, "free") == "FREE"

    assert "badges.md" in said
    assert not any(task.done() for task in lookups)
    slow.go.set()
    async with asyncio.timeout(SAFE):
        answers = await asyncio.gather(*lookups)
    assert (len(answers), slow.most) == (10, 3)


def test_by_default_one_tool_leaves_half_of_the_embedders_calls_to_others() -> None:
    assert RetrievalConfig().threads * 2 == remote.MAX_CALLS


async def test_an_awaited_lookup_sees_the_callers_context(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    seen: list[str] = []

    def groups(_: Any) -> list[str]:
        seen.append(user.get())
        return []

    tool = create_lookup_tool(handbook, traces=traces, groups=groups)
    user.set("reader-1")
    await tool.ainvoke("badge")

    assert seen == ["reader-1"]


def test_tools_made_for_each_request_share_their_threads(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    async def ask(make: Callable[[], Any]) -> None:
        for _ in range(5):
            await make().ainvoke("badge")

    def tool() -> StructuredTool:
        return create_lookup_tool(handbook, traces=traces, name="for_a_request")

    def retriever() -> LookupRetriever:
        return LookupRetriever(knowledge=handbook, traces=traces)

    for make, name in ((tool, "await for_a_request"), (retriever, "await lookup_retriever")):
        before = {*named(name)}
        asyncio.run(ask(make))
        # An answer may come a moment before its thread is idle: then there is a second one.
        assert 1 <= len({*named(name)} - before) <= 2


# The threads themselves


def test_threads_are_few_and_daemons_and_end_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookup_tool.threads.IDLE", 0.0)
    threads, go = DaemonThreads(2, "few"), threading.Event()
    asked = [threads.submit(go.wait, SAFE) for _ in range(5)]
    running = named("few")

    go.set()

    assert [each.result(SAFE) for each in asked] == [True] * 5
    assert [thread.daemon for thread in running] == [True, True]
    for thread in running:
        thread.join(SAFE)
        assert not thread.is_alive()
    assert threads.submit(str.upper, "again").result(SAFE) == "AGAIN"


def test_an_idle_thread_is_used_again() -> None:
    threads = DaemonThreads(8, "reused")

    for _ in range(20):
        threads.submit(threading.get_ident).result(SAFE)

    assert 1 <= len(named("reused")) <= 2


def test_calls_come_in_their_order_and_a_cancelled_one_is_not_made() -> None:
    threads, go, made = DaemonThreads(1, "one"), threading.Event(), list[int]()
    first = threads.submit(go.wait, SAFE)
    rest: list[Future[None]] = [threads.submit(made.append, number) for number in range(4)]

    assert rest[1].cancel()
    go.set()

    assert first.result(SAFE)
    assert rest[3].result(SAFE) is None
    assert made == [0, 2, 3]


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3)], ids=repr)
def test_an_error_is_raised_where_the_call_is_waited_for(error: BaseException) -> None:
    def fail() -> None:
        raise error

    threads = DaemonThreads(1, "failing")

    with pytest.raises(type(error)):
        threads.submit(fail).result(SAFE)
    assert threads.submit(str.upper, "next").result(SAFE) == "NEXT"


def test_an_idle_thread_keeps_no_answer_alive() -> None:
    class Answer:
        pass

    threads = DaemonThreads(1, "forgetful")
    answer = weakref.ref(threads.submit(Answer).result(SAFE))
    threads.submit(str.upper, "the thread has gone on").result(SAFE)
    gc.collect()

    assert answer() is None


def test_one_owner_has_one_set_of_threads_of_a_name_and_number() -> None:
    class Owner:
        pass

    one, other = Owner(), Owner()

    assert threads_of(one, "a", 2) is threads_of(one, "a", 2)
    assert len({threads_of(one, "a", 2), threads_of(one, "b", 2), threads_of(one, "a", 3)}) == 3
    assert threads_of(one, "a", 2) is not threads_of(other, "a", 2)


# Processes

HANGS = """
import asyncio
import sys
import threading

from langchain_core.documents import Document

from embedders import HashEmbedder
from lookup_tool import KnowledgeBase, LookupConfig, LookupRetriever, create_lookup_tool
from lookup_tool.config import EmbeddingConfig

asked = threading.Semaphore(0)

class Hanging(HashEmbedder):
    hangs = False

    def embed_query(self, text):
        if self.hangs:
            asked.release()
            threading.Event().wait()
        return super().embed_query(text)

async def ask(ways):
    tasks = [asyncio.create_task(way.ainvoke("leave?")) for way in ways]
    for _ in tasks:
        await asyncio.to_thread(asked.acquire)

config = LookupConfig(embedding=EmbeddingConfig(query_timeout=3600))
documents = [Document("You get 25 days of leave.")]
with KnowledgeBase.from_documents(documents, embedder=Hanging(), config=config) as knowledge:
    tool = create_lookup_tool(knowledge, traces="sqlite://")
    Hanging.hangs = True
    asyncio.run(ask([tool, tool, LookupRetriever(knowledge=knowledge, traces="sqlite://")]))
print("done")
"""

FORKS = """
import os
import sys

from lookup_tool.threads import DaemonThreads

threads = DaemonThreads(1, "forked")
threads.submit(str.upper, "parent").result()
child = os.fork()
if child == 0:
    print(threads.submit(str.upper, "child").result(30), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def run(program: str) -> str:
    """Run a program that must end by itself."""
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": SAFE}
    path = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        check=False,
        env={**os.environ, **path},
        **options,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_a_process_ends_although_its_embedder_hangs() -> None:
    assert run(HANGS) == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    assert run(FORKS) == "CHILD\n"
