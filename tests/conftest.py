"""Shared by all tests: the handbook, built once, and knowledge bases from short texts."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from langchain_core.embeddings import Embeddings
from tenacity import Retrying

from lookup_tool import KnowledgeBase, TraceStore

ROOT = Path(__file__).parents[1]
Make = Callable[[Mapping[str, str], Embeddings], KnowledgeBase]


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an embedder be tried again at once; how long to wait is still worked out."""
    at_once = partial(Retrying, sleep=lambda seconds: None)
    monkeypatch.setattr("lookup_tool.embedders.remote.Retrying", at_once)


@pytest.fixture(scope="session")
def handbook_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the example handbook with the default embedder."""
    path = tmp_path_factory.mktemp("handbook") / "kb"
    KnowledgeBase.build(ROOT / "examples" / "handbook", path).close()
    return path


@pytest.fixture
def handbook(handbook_path: Path) -> Iterator[KnowledgeBase]:
    """Open the example handbook."""
    with KnowledgeBase.open(handbook_path) as knowledge:
        yield knowledge


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Build knowledge bases from file names and texts."""
    opened: list[KnowledgeBase] = []

    def build(files: Mapping[str, str], embedder: Embeddings) -> KnowledgeBase:
        docs = tmp_path / f"docs-{len(opened)}"
        docs.mkdir()
        for name, text in files.items():
            path = docs / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        opened.append(KnowledgeBase.build(docs, tmp_path / f"kb-{len(opened)}", embedder=embedder))
        return opened[-1]

    yield build
    for knowledge in opened:
        knowledge.close()


@pytest.fixture
def traces() -> Iterator[TraceStore]:
    """Open a trace store in memory."""
    store = TraceStore("sqlite://")
    yield store
    store.close()
