import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from embedders import HashEmbedder, TableEmbedder
from langchain_core.documents import Document
from searching import search

from lookup_tool import KnowledgeBase, LookupConfig, build_lookup_graph
from lookup_tool.config import PassageConfig
from lookup_tool.errors import (
    EmbedderMismatchError,
    EmbeddingError,
    KnowledgeNotFoundError,
    SourceNotFoundError,
)
from lookup_tool.schema import LoadProblem, LoadReport, SearchRequest

LEAVE = """---
title: Annual leave
category: HR
keywords: [time off]
owner: people
---
# Annual leave

You get 25 days.

## Asking for it

Ask your manager.
"""
PAY = "---\naccess: [board]\ncategory: Pay\n---\n# Pay\n\nThe bonus is 10 %.\n"
SEALED = "---\naccess: []\n---\nNobody reads the vault.\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "hr").mkdir(parents=True)
    (folder / "hr" / "leave.md").write_text(LEAVE, encoding="utf-8")
    (folder / "pay.md").write_text(PAY, encoding="utf-8")
    (folder / "sealed.md").write_text(SEALED, encoding="utf-8")
    return folder


@pytest.fixture
def base(docs: Path, tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.build(docs, tmp_path / "kb", embedder=HashEmbedder()) as built:
        yield built


def sources(base: KnowledgeBase, query: str, *groups: str) -> list[str]:
    found = search(base, SearchRequest(query, groups=frozenset(groups)))
    return [passage.source for passage, _ in found]


def test_a_folder_is_built_searched_and_opened_again(base: KnowledgeBase) -> None:
    assert (base.report, base.in_memory) == (LoadReport(entries=3), False)
    with KnowledgeBase.open(base.path, embedder=HashEmbedder()) as opened:
        found = sources(opened, "25 days")
        assert opened.version == base.version

    assert found == sources(base, "25 days") == ["hr/leave.md", "hr/leave.md#asking-for-it"]


@pytest.mark.parametrize(
    ("groups", "count"),
    [((), 2), (("board",), 3), (("Board",), 2)],
    ids=["public", "board", "case"],
)
def test_only_permitted_passages_are_counted(
    base: KnowledgeBase, groups: tuple[str, ...], count: int
) -> None:
    assert base.count(frozenset(groups)) == count
    assert (base.manifest.entries, base.manifest.passages) == (3, 4)


def test_a_source_reads_as_its_entry_or_as_one_section(base: KnowledgeBase) -> None:
    entry = base.read("hr/leave.md")
    section = base.read("hr/leave.md#asking-for-it")

    assert (entry.source, entry.title, entry.category) == ("hr/leave.md", "Annual leave", "HR")
    assert entry.metadata == {"owner": "people"}
    assert [(p.text, p.start_line, p.end_line) for p in entry.passages] == [
        ("You get 25 days.", 9, 9),
        ("Ask your manager.", 13, 13),
    ]
    assert (section.source, section.passages) == ("hr/leave.md", entry.passages[1:])


@pytest.mark.parametrize(
    ("source", "groups"),
    [
        pytest.param("nothing.md", (), id="unknown"),
        pytest.param("pay.md", (), id="restricted"),
        pytest.param("pay.md", ("staff",), id="another-group"),
        pytest.param("sealed.md", ("board", "", "staff"), id="sealed"),
    ],
)
def test_what_may_not_be_read_looks_like_what_is_not_there(
    base: KnowledgeBase, source: str, groups: tuple[str, ...]
) -> None:
    with pytest.raises(SourceNotFoundError, match=rf"no entry '{source}' that you may read"):
        base.read(source, frozenset(groups))


def test_a_group_reads_its_own_entries(base: KnowledgeBase) -> None:
    assert base.read("pay.md", frozenset({"board"})).passages[0].text == "The bonus is 10 %."
    assert base.hints("pay").matches == ()
    assert base.hints("pay", frozenset({"board"})).category == "pay"


def test_passages_and_queries_are_embedded_each_in_their_own_way(
    docs: Path, tmp_path: Path
) -> None:
    embedder = TableEmbedder({"": [1.0, 0.0]})
    with KnowledgeBase.build(docs, tmp_path / "kb", embedder=embedder) as base:
        base.search(SearchRequest("How many days?"))

    assert embedder.queries == ["How many days?"]
    assert embedder.documents == [
        "Annual leave\n\nYou get 25 days.",
        "Annual leave > Asking for it\n\nAsk your manager.",
        "sealed\n\nNobody reads the vault.",
        "Pay\n\nThe bonus is 10 %.",
    ]


def test_progress_is_told_for_every_phase(docs: Path, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    into, embedder = tmp_path / "kb", HashEmbedder()
    with KnowledgeBase.build(docs, into, embedder=embedder, progress=lambda *s: steps.append(s)):
        last = {phase: (done, total) for phase, done, total in steps}

    assert last == {"read": (3, 3), "cut": (3, 3), "embed": (4, 4), "index": (3, 3)}


def test_an_empty_folder_is_a_knowledge_base_that_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    KnowledgeBase.build(tmp_path / "docs", tmp_path / "kb").close()

    with KnowledgeBase.open(tmp_path / "kb") as base:
        assert (base.count(), sources(base, "anything"), base.report) == (0, [], LoadReport())
        assert base.hints("anything").matches == ()


def test_a_missing_folder_of_documents_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeNotFoundError, match="no such folder"):
        KnowledgeBase.build(tmp_path / "docs", tmp_path / "kb")

    assert list(tmp_path.iterdir()) == []


def test_a_missing_knowledge_base_names_the_command_that_builds_one(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeNotFoundError, match="build one with `lookup-tool ingest"):
        KnowledgeBase.open(tmp_path)


class Shifted(HashEmbedder):
    """Gives other vectors of the same length."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(f"{text} shifted by many other words")


@pytest.mark.parametrize(
    ("embedder", "problem"),
    [
        pytest.param(
            HashEmbedder(8), "vectors of 8 dimensions, the knowledge base has 256", id="d"
        ),
        pytest.param(Shifted(), "gives other vectors than those stored", id="vectors"),
        pytest.param(None, "built with an object of embedders.HashEmbedder; pass it", id="missing"),
        pytest.param("wordllama", "wordllama gives other vectors than those stored", id="name"),
    ],
)
def test_another_embedder_is_refused_when_opening(
    base: KnowledgeBase, embedder: Any, problem: str
) -> None:
    with pytest.raises(EmbedderMismatchError, match=problem):
        KnowledgeBase.open(base.path, embedder=embedder)


def test_a_named_embedder_is_opened_again_by_its_name(docs: Path, tmp_path: Path) -> None:
    KnowledgeBase.build(docs, tmp_path / "kb").close()

    with KnowledgeBase.open(tmp_path / "kb") as base:
        assert (base.embedder, base.manifest.embedder.dimension) == ("wordllama", 256)
        assert sources(base, "How many days of annual leave?")[0] == "hr/leave.md"


def test_a_text_that_comes_twice_is_embedded_once_and_found_twice() -> None:
    embedder = TableEmbedder({"": [1.0, 0.0], "other": [0.0, 1.0]})
    documents = [
        Document(text, metadata={"source": f"{n}.md", "title": "Title"})
        for n, text in enumerate(["same", "other", "same"])
    ]

    with KnowledgeBase.from_documents(documents, embedder=embedder) as base:
        vectors = base.view().snapshot.unit_vectors.tolist()

    assert embedder.documents == ["Title\n\nsame", "Title\n\nother"]
    assert vectors == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param([float("nan"), 1.0], id="nan"),
        pytest.param([float("inf"), 1.0], id="inf"),
        pytest.param([float("-inf"), 1.0], id="minus-inf"),
        pytest.param([0.0, 0.0], id="zero"),
    ],
)
def test_an_unusable_vector_is_reported_with_file_and_line(
    docs: Path, tmp_path: Path, vector: list[float]
) -> None:
    embedder = TableEmbedder({"": [1.0, 0.0], "Ask your manager": vector})
    with KnowledgeBase.build(docs, tmp_path / "kb", embedder=embedder) as base:
        assert base.report == LoadReport(
            3,
            (
                LoadProblem(
                    "hr/leave.md",
                    13,
                    "error",
                    "embedders.TableEmbedder gave no usable vector (zero, NaN or infinite) for "
                    "this passage",
                    "it cannot be found; reword it or use another embedder",
                ),
            ),
        )
        assert sources(base, "manager") == ["hr/leave.md"]


def test_a_build_without_any_usable_vector_is_refused(docs: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="no usable vector for any of 4 passages"):
        KnowledgeBase.build(docs, tmp_path / "kb", embedder=TableEmbedder({"": [0.0, 0.0]}))


@pytest.mark.parametrize("vector", [[0.0, 0.0], [float("nan"), 1.0]], ids=["zero", "nan"])
def test_a_query_without_a_usable_vector_is_an_error(vector: list[float]) -> None:
    embedder = TableEmbedder({"": [1.0, 0.0], "odd query": vector})
    with (
        KnowledgeBase.from_documents([Document("Text.")], embedder=embedder) as base,
        pytest.raises(EmbeddingError, match="no usable vector for the query"),
    ):
        base.search(SearchRequest("odd query"))


def test_a_query_vector_of_another_length_is_an_error() -> None:
    embedder = TableEmbedder({"": [1.0, 0.0], "long query": [1.0, 0.0, 0.0]})
    with (
        KnowledgeBase.from_documents([Document("Text.")], embedder=embedder) as base,
        pytest.raises(EmbedderMismatchError, match="vectors of 3 dimensions"),
    ):
        base.search(SearchRequest("long query"))


def test_documents_are_a_knowledge_base_until_it_is_closed() -> None:
    documents = [
        Document("Leave.", metadata={"source": "a.md", "access": "staff"}),
        Document("Pay.", id="b"),
        Document("Rules."),
    ]
    with KnowledgeBase.from_documents(documents, embedder=HashEmbedder()) as base:
        assert (base.in_memory, base.path.is_dir(), base.report) == (True, True, LoadReport(3))
        named, unnamed = sources(base, "pay")
        assert (named, unnamed.partition("-")[0]) == ("b", "document")
        assert sources(base, "leave", "staff")[0] == "a.md"

    assert not base.path.exists()


def test_documents_can_be_kept_in_a_folder(tmp_path: Path) -> None:
    into = tmp_path / "kb"
    with KnowledgeBase.from_documents([Document("A.")], into=into, embedder=HashEmbedder()) as base:
        assert (base.in_memory, base.path) == (False, into)

    with KnowledgeBase.open(into, embedder=HashEmbedder()) as base:
        assert base.count() == 1


def test_documents_that_cannot_be_embedded_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with pytest.raises(EmbeddingError):
        KnowledgeBase.from_documents([Document("A.")], embedder=TableEmbedder({"": [0.0]}))

    assert list(tmp_path.iterdir()) == []


def version(*documents: Document, max_tokens: int = 270, dimension: int = 256) -> str:
    config = LookupConfig(passages=PassageConfig(max_tokens=max_tokens))
    embedder = HashEmbedder(dimension)
    with KnowledgeBase.from_documents(documents, embedder=embedder, config=config) as base:
        return base.version


DOCUMENT = Document("Leave.", metadata={"source": "a.md", "access": ["b", "a"]})


def test_the_same_content_gives_the_same_version_anywhere(docs: Path, tmp_path: Path) -> None:
    docs.rename(tmp_path / "moved")
    versions = []
    for into in ("first", "first", "second"):
        with KnowledgeBase.build(
            tmp_path / "moved", tmp_path / into, embedder=HashEmbedder()
        ) as base:
            versions.append(base.version)

    assert len(set(versions)) == 1
    again = Document("Leave.", metadata={"access": ["a", "b"], "source": "a.md"})
    assert version(DOCUMENT) == version(again)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Document("Pay.", metadata=DOCUMENT.metadata), id="text"),
        pytest.param(Document("Leave.", metadata={"source": "a.md"}), id="no-access"),
        pytest.param(Document("Leave.", metadata=DOCUMENT.metadata | {"access": "c"}), id="access"),
        pytest.param(
            Document("Leave.", metadata=DOCUMENT.metadata | {"owner": "x"}), id="metadata"
        ),
        pytest.param(Document("Leave.", metadata=DOCUMENT.metadata | {"source": "b"}), id="source"),
    ],
)
def test_other_content_gives_another_version(other: Document) -> None:
    assert version(DOCUMENT) != version(other)


def test_other_passages_give_another_version() -> None:
    assert version(DOCUMENT) != version(DOCUMENT, max_tokens=100)


def test_a_passage_without_a_vector_leaves_a_marked_gap() -> None:
    text = "\n\n".join(f"{name} " + "word " * 120 for name in ("FIRST", "SECOND", "THIRD"))
    table = {"FIRST": [1.0, 0.0], "SECOND": [0.0, 0.0], "THIRD": [1.0, 0.0], "query": [1.0, 0.0]}
    config = LookupConfig(passages=PassageConfig(max_tokens=160, min_tokens=0))

    with KnowledgeBase.from_documents(
        [Document(text, metadata={"source": "a.md", "title": "T"})],
        embedder=TableEmbedder(table),
        config=config,
    ) as knowledge:
        result = build_lookup_graph(knowledge, traces="sqlite://").invoke({"query": "query"})

    (block,) = result["result"].evidence_blocks
    assert "SECOND" not in block.content
    assert block.content.split("\n\n")[1] == "[...]"
