"""Shared by the cases: knowledge bases from files, and ways to ask them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from case_builders import (
    BADGES,
    DEFAULT,
    DESK,
    ENTRIES,
    HASH,
    Ask,
    AskFiles,
    Build,
    Folder,
    build_entries,
    write_files,
)
from embedders import HashEmbedder
from langchain_core.embeddings import Embeddings
from langchain_core.tools import StructuredTool

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupResult,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Build knowledge bases from texts, each from a folder of its own."""
    opened: list[KnowledgeBase] = []

    def from_texts(
        files: Mapping[str, str],
        embedder: str | Embeddings = DEFAULT,
        config: LookupConfig | None = None,
    ) -> KnowledgeBase:
        docs, into = tmp_path / f"docs-{len(opened)}", tmp_path / f"kb-{len(opened)}"
        docs.mkdir()
        write_files(docs, files)
        opened.append(KnowledgeBase.build(docs, into, embedder=embedder, config=config))
        return opened[-1]

    yield from_texts
    for knowledge in opened:
        knowledge.close()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Make the folder that `build_docs` builds."""
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def build_docs(tmp_path: Path, docs: Path) -> Iterator[Build]:
    """Add files to the folder `docs`, and build it with all that lies there."""
    opened: list[KnowledgeBase] = []

    def from_files(
        files: Mapping[str, str | bytes], embedder: str | Embeddings = HASH
    ) -> KnowledgeBase:
        write_files(docs, files)
        opened.append(KnowledgeBase.build(docs, tmp_path / f"kb-{len(opened)}", embedder=embedder))
        return opened[-1]

    yield from_files
    for knowledge in opened:
        knowledge.close()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Make a folder that is built again and again."""
    return Folder(tmp_path)


@pytest.fixture
def ask(traces: TraceStore) -> Ask:
    """Ask a knowledge base."""

    def look_up(
        knowledge: KnowledgeBase, query: str, config: LookupConfig | None = None
    ) -> LookupResult:
        graph = build_lookup_graph(knowledge, config=config, traces=traces)
        return graph.invoke({"query": query})["result"]

    return look_up


@pytest.fixture
def ask_files(tmp_path: Path, traces: TraceStore) -> AskFiles:
    """Build a knowledge base with the default embedder, and ask it."""

    def run(files: Mapping[str, str], *queries: str) -> list[LookupResult]:
        docs = tmp_path / "docs"
        docs.mkdir()
        write_files(docs, files)
        with KnowledgeBase.build(docs, tmp_path / "kb") as knowledge:
            graph = build_lookup_graph(knowledge, traces=traces)
            return [graph.invoke({"query": query})["result"] for query in queries]

    return run


@pytest.fixture(scope="module")
def front_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """Build the entries of the desk, with a keyword for the badge."""
    with build_entries(tmp_path_factory.mktemp("desk"), ENTRIES) as knowledge:
        yield knowledge


@pytest.fixture
def tool(front_desk: KnowledgeBase, traces: TraceStore) -> StructuredTool:
    """Make a tool that looks up at the front desk."""
    return create_lookup_tool(front_desk, traces=traces)


@pytest.fixture(scope="module")
def desk_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the entries of the desk, with a date for the badge, to be opened by each test."""
    folder = tmp_path_factory.mktemp("desk")
    build_entries(folder, DESK).close()
    return folder / "kb"


@pytest.fixture(scope="module")
def badges() -> Iterator[KnowledgeBase]:
    """Open one document about lost badges."""
    with KnowledgeBase.from_documents([BADGES], embedder=HashEmbedder()) as knowledge:
        yield knowledge
