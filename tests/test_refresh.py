"""One opened knowledge base serves many at once while it changes; a lookup mixes nothing."""

import asyncio
import gc
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
from embedders import HashEmbedder
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from searching import texts

from lookup_tool import KnowledgeBase, LookupConfig, TraceStore, create_lookup_tool
from lookup_tool.errors import (
    EmbedderMismatchError,
    KnowledgeChangedError,
    KnowledgeDamagedError,
)
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.schema import SearchRequest

THREADS = 8
IN_A_ROW = 100
EDITION = re.compile(r"Edition (\d+)")


def write(docs: Path, number: int) -> None:
    """Two entries of one edition; more editions make more passages before them."""
    docs.mkdir(exist_ok=True)
    for name, category in (("aa", "HR"), ("zz", "IT")):
        text = (
            f"---\ncategory: {category}\n---\n# {category} badge\n\nEdition {number} of {name}.\n"
        )
        (docs / f"{name}.md").write_text(text, encoding="utf-8")
    for extra in range(number):
        (docs / f"b{extra}.md").write_text(f"Filler {extra}, edition {number}.", encoding="utf-8")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write(tmp_path / "docs", 0)
    return tmp_path / "docs"


@pytest.fixture
def base(docs: Path, tmp_path: Path) -> Iterator[KnowledgeBase]:
    path = tmp_path / "kb"
    KnowledgeBase.build(docs, path, embedder=HashEmbedder()).close()
    with KnowledgeBase.open(path, embedder=HashEmbedder()) as opened:
        yield opened


def step(docs: Path, base: KnowledgeBase, number: int) -> None:
    write(docs, number)
    KnowledgeBase.sync(docs, base.path, embedder=HashEmbedder())


def editions(base: KnowledgeBase) -> set[str]:
    said = " ".join(texts(base, "badge edition"))
    return {word for word in said.split() if word.strip(".").isdigit()}


def generations(base: KnowledgeBase) -> list[str]:
    return sorted(path.name for path in base.path.glob("generation-*"))


def test_a_refresh_moves_on_and_says_whether_there_was_anything(
    docs: Path, base: KnowledgeBase
) -> None:
    version = base.version
    assert base.refresh() is False
    step(docs, base, 1)
    assert (base.version, editions(base)) == (version, {"0"})

    assert base.refresh() is True

    assert base.version != version
    assert "1" in editions(base)
    assert base.report.entries == base.manifest.entries == 3
    assert base.refresh() is False


def test_an_old_generation_is_closed_when_its_last_lookup_ends(
    docs: Path, base: KnowledgeBase
) -> None:
    view = base.view()
    step(docs, base, 1)
    base.refresh()

    assert view.search(SearchRequest("badge")).candidates
    step(docs, base, 2)
    assert generations(base) == ["generation-1", "generation-2", "generation-3"]
    base.refresh()
    del view
    gc.collect()
    KnowledgeBase.sync(docs, base.path, embedder=HashEmbedder())
    assert generations(base) == ["generation-3"]


@pytest.mark.parametrize(("every", "moved"), [(0.0, True), (3600.0, False), (None, False)])
def test_lookups_move_on_by_themselves_when_asked_and_not_too_often(
    docs: Path, base: KnowledgeBase, every: float | None, *, moved: bool
) -> None:
    with KnowledgeBase.open(base.path, embedder=HashEmbedder(), refresh_every=every) as opened:
        step(docs, base, 1)

        assert ("1" in editions(opened)) is moved
        assert opened.refresh() is not moved


def test_a_damaged_new_generation_leaves_the_old_one_in_use(
    docs: Path, base: KnowledgeBase
) -> None:
    with KnowledgeBase.open(base.path, embedder=HashEmbedder(), refresh_every=0.0) as opened:
        step(docs, base, 1)
        (base.path / "generation-2" / "vectors.npy").unlink()

        assert editions(opened) == {"0"}
        with pytest.raises(KnowledgeDamagedError, match=r"vectors\.npy: missing; build it again"):
            opened.refresh()
        assert editions(opened) == {"0"}


def test_a_generation_of_another_embedder_is_not_taken(docs: Path, base: KnowledgeBase) -> None:
    KnowledgeBase.build(docs, base.path, embedder=HashEmbedder(8)).close()

    with pytest.raises(EmbedderMismatchError, match="vectors of 256 dimensions"):
        base.refresh()
    assert editions(base) == {"0"}


def test_a_named_embedder_follows_what_the_new_generation_names(
    docs: Path, base: KnowledgeBase
) -> None:
    KnowledgeBase.build(docs, base.path).close()
    with KnowledgeBase.open(base.path) as opened:
        KnowledgeBase.build(docs, base.path, embedder=HashEmbedder()).close()
        with pytest.raises(EmbedderMismatchError, match="pass it as `embedder`"):
            opened.refresh()


class Refreshing(HashEmbedder):
    """Syncs and refreshes while a query is embedded: between the two searches of a lookup."""

    def __init__(self, docs: Path) -> None:
        super().__init__()
        self.docs = docs
        self.base: KnowledgeBase | None = None
        self.number = 0

    def embed_query(self, text: str) -> list[float]:
        if self.base is not None and text == "badge of HR?":
            base, self.base = self.base, None
            self.number += 1
            step(self.docs, base, self.number)
            base.refresh()
            self.base = base
        return super().embed_query(text)


def test_a_lookup_keeps_its_generation_between_its_two_searches(
    docs: Path, tmp_path: Path, traces: TraceStore
) -> None:
    embedder = Refreshing(docs)
    config = LookupConfig.model_validate({"retrieval": {"reference_threshold": 0.99}})
    with KnowledgeBase.build(docs, tmp_path / "kb", embedder=embedder) as base:
        embedder.base = base
        tool = create_lookup_tool(base, config=config, traces=traces)
        version = base.version_for(frozenset())
        result = tool.invoke(
            {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": "badge of HR?"}}
        ).artifact

        assert [a["strategy"] for a in result["retrievalTrace"]["attempts"]] == [
            "filtered",
            "unfiltered",
        ]
        assert embedder.number == 2
        assert result["retrievalTrace"]["knowledgeVersion"] == version
        texts = [block["content"] for block in result["evidenceBlocks"]]
        assert texts
        assert all("Edition 0" in text for text in texts)
        assert editions(base) >= {"2"}


def test_a_lookup_that_goes_on_from_a_checkpoint_does_not_mix_generations(
    docs: Path, base: KnowledgeBase
) -> None:
    graph = draw(LookupNodes(base, LookupConfig(), None, "lookup")).compile(
        checkpointer=InMemorySaver(), interrupt_before=["build_evidence"]
    )
    for thread, changed in (("same", False), ("changed", True)):
        options: RunnableConfig = {"configurable": {"thread_id": thread}}
        graph.invoke({"query": "badge edition"}, options)
        if changed:
            step(docs, base, 1)
            base.refresh()
            with pytest.raises(KnowledgeChangedError, match="ask again"):
                graph.invoke(None, options)
        else:
            assert graph.invoke(None, options)["result"].found


class Blinking(HashEmbedder):
    """Gives no usable vector for some texts, but only from time to time."""

    closed = False

    def embed_query(self, text: str) -> list[float]:
        blind = self.closed and "blinks" in text
        return [0.0] * self.dimension if blind else super().embed_query(text)


def test_a_lookup_does_not_go_on_with_rows_that_stand_elsewhere_now(tmp_path: Path) -> None:
    """The same documents, and one passage less: every row behind it has moved."""
    docs, embedder = tmp_path / "docs", Blinking()
    docs.mkdir()
    (docs / "a.md").write_text("It blinks.", encoding="utf-8")
    (docs / "b.md").write_text("The badge.", encoding="utf-8")
    (docs / "c.md").write_text("---\naccess: [hr]\n---\nThe secret.", encoding="utf-8")
    with KnowledgeBase.build(docs, tmp_path / "kb", embedder=embedder) as base:
        graph = draw(LookupNodes(base, LookupConfig(), None, "lookup")).compile(
            checkpointer=InMemorySaver(), interrupt_before=["build_evidence"]
        )
        options: RunnableConfig = {"configurable": {"thread_id": "1"}}
        graph.invoke({"query": "badge"}, options)
        version, embedder.closed = base.version, True
        KnowledgeBase.build(docs, tmp_path / "kb", embedder=embedder).close()
        base.refresh()

        assert (base.version, base.count()) == (version, 1)
        with pytest.raises(KnowledgeChangedError, match="ask again"):
            graph.invoke(None, options)


class Asking:
    """Asks one tool from many threads and an event loop, and notes the editions of each answer."""

    def __init__(self, tool: StructuredTool) -> None:
        self.seen: list[set[str]] = []
        self._tool = tool
        args = {"query": "badge edition"}
        self._call = {"type": "tool_call", "id": "1", "name": tool.name, "args": args}

    def in_a_row(self) -> None:
        for _ in range(IN_A_ROW):
            self._note(self._tool.invoke(self._call))

    def at_once(self) -> None:
        async def ask() -> None:
            calls = (self._tool.ainvoke(self._call) for _ in range(50))
            for message in await asyncio.gather(*calls):
                self._note(message)

        asyncio.run(ask())

    def _note(self, message: ToolMessage) -> None:
        contents = (block["content"] for block in message.artifact["evidenceBlocks"])
        self.seen.append({number for text in contents for number in EDITION.findall(text)})


def test_threads_and_an_event_loop_share_one_while_a_sync_runs_beside(
    docs: Path, base: KnowledgeBase
) -> None:
    """Every answer is of one edition, and no lookup is lost."""
    store = TraceStore(base.path / "traces.sqlite")
    opened = KnowledgeBase.open(base.path, embedder=HashEmbedder(), refresh_every=0.0)
    asking = Asking(create_lookup_tool(opened, traces=store))

    def change() -> None:
        for number in range(1, 6):
            step(docs, base, number)

    works = [*[asking.in_a_row] * THREADS, asking.at_once, change]
    start = Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        start.wait(timeout=30)
        work()

    with closing(store), opened, ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(run, work) for work in works]:
            done.result()
        assert store.count() == len(asking.seen) == THREADS * IN_A_ROW + 50
        assert "5" in editions(opened)

    assert {len(numbers) for numbers in asking.seen} == {1}
