"""Vector store: embedders that misbehave.

Families: what becomes of vectors without a direction, or of replies that are no vectors (named at
the build, `unavailable` at a query, never "nothing found"); an embedder that is not the one of the
build; queries embedded as queries and passages as passages; and whatever an embedder may raise.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_builders import Fixed, Vector, documents, look_up_vectors
from embedders import HashEmbedder, TableEmbedder, at_similarity
from langchain_core.documents import Document

from lookup_tool import (
    KnowledgeBase,
    LookupToolError,
    TraceStore,
)
from lookup_tool.config import QueryConfig, RetrievalConfig
from lookup_tool.errors import EmbedderMismatchError, EmbeddingError

BAD_VECTORS = [
    pytest.param([math.nan, 1.0], id="nan"),
    pytest.param([math.inf, 0.0], id="inf"),
    pytest.param([-math.inf, 0.0], id="minus-inf"),
    pytest.param([0.0, 0.0], id="zero"),
    pytest.param([-0.0, 0.0], id="minus-zero"),
    pytest.param([None, 1.0], id="none"),
    pytest.param([math.nan, math.inf], id="nan-and-inf"),
]


def test_a_12_vectors_without_direction_are_named_or_an_error(traces: TraceStore) -> None:
    table = {
        "good": [1.0, 0.0],
        "AAA": [1.0, 0.1],
        "BBB": [math.nan, 1.0],
        "CCC": [math.inf, 0.0],
        "bad": [math.nan, math.nan],
    }
    texts = documents("AAA", "BBB", "CCC")
    with KnowledgeBase.from_documents(texts, embedder=TableEmbedder(table)) as knowledge:
        named = [(problem.path, problem.level) for problem in knowledge.report.problems]
        good = look_up_vectors(knowledge, "good query", traces)
        bad = look_up_vectors(knowledge, "bad query", traces)

    assert named == [("BBB", "error"), ("CCC", "error")]
    assert [block.source for block in good.evidence_blocks] == ["AAA"]
    assert (bad.found, bad.evidence_status) == (False, "unavailable")
    assert bad.retrieval_trace.error == "EmbeddingError"


@pytest.mark.parametrize("vector", BAD_VECTORS)
def test_a_text_without_a_usable_vector_is_named_and_the_others_are_found(
    vector: Vector, traces: TraceStore
) -> None:
    table = {"q": [1.0, 0.0], "odd": vector, "sound": [1.0, 0.1]}
    # The odd one comes first: it is also what a build looks at first.
    texts = documents("odd", "sound")
    with KnowledgeBase.from_documents(texts, embedder=Fixed(table)) as knowledge:
        result = look_up_vectors(knowledge, "q", traces)
        assert [(p.path, p.level) for p in knowledge.report.problems] == [("odd", "error")]

    assert [block.source for block in result.evidence_blocks] == ["sound"]


@pytest.mark.parametrize(
    "vector",
    [
        *BAD_VECTORS,
        pytest.param(None, id="nothing"),
        pytest.param([], id="empty"),
        pytest.param([1.0], id="too-short"),
        pytest.param([1.0, 0.0, 0.0], id="too-long"),
        pytest.param([[1.0, 0.0]], id="nested"),
        pytest.param(["a", "b"], id="texts"),
        pytest.param("10", id="one-text"),
        pytest.param(1.0, id="a-number"),
        pytest.param({"data": [1.0, 0.0]}, id="a-mapping"),
        pytest.param([1j, 0.0], id="complex"),
        pytest.param([10**400, 1], id="integer-too-large"),
    ],
)
def test_a_query_without_a_usable_vector_is_unavailable_not_a_miss(
    vector: Any, traces: TraceStore
) -> None:
    table = {"odd query": vector, "text": [1.0, 0.0]}
    with KnowledgeBase.from_documents(documents("text"), embedder=Fixed(table)) as knowledge:
        result = look_up_vectors(knowledge, "odd query", traces)

    assert (result.found, result.evidence_status) == (False, "unavailable")
    assert [attempt.outcome for attempt in result.retrieval_trace.attempts] == ["error"]
    assert "does not mean that there is nothing" in result.message
    assert [row.evidence_status for row in traces.rows()] == ["unavailable"]


def test_a_retry_without_a_usable_vector_is_unavailable_too(traces: TraceStore) -> None:
    table = {"clean law": [1.0, 0.0], "raw": [math.nan, 0.0], "text": at_similarity(0.3)}
    law = [Document("text", metadata={"source": "law", "title": "x", "category": "law"})]
    with KnowledgeBase.from_documents(law, embedder=TableEmbedder(table)) as knowledge:
        result = look_up_vectors(
            knowledge,
            "raw question",
            traces,
            query=QueryConfig(transform=lambda _: "clean law"),
            retrieval=RetrievalConfig(reference_threshold=0.6),
        )

    attempts = result.retrieval_trace.attempts
    assert [attempt.outcome for attempt in attempts] == ["low_quality", "error"]
    assert (result.found, result.evidence_status) == (False, "unavailable")


class Odd(HashEmbedder):
    """Embeds documents in a way of its own."""

    def __init__(self, reply: Any) -> None:
        super().__init__()
        self.reply = reply

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.reply


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param([], id="none-at-all"),
        pytest.param([[1.0, 0.0]], id="too-few"),
        pytest.param([[1.0, 0.0]] * 3, id="too-many"),
        pytest.param([[1.0, 0.0], [1.0]], id="ragged"),
        pytest.param([[], []], id="empty"),
        pytest.param([[math.nan, 0.0], [0.0, 0.0]], id="none-usable"),
        pytest.param([None, None], id="nothing"),
        pytest.param([["a"], ["b"]], id="texts"),
        pytest.param(np.zeros((2, 2, 2)), id="cube"),
        pytest.param([[10**400, 1], [1, 1]], id="integer-too-large"),
    ],
)
def test_an_embedder_that_replies_nonsense_is_refused_in_one_line(reply: Any) -> None:
    with pytest.raises(EmbeddingError, match=r"^[^\n]+$"):
        KnowledgeBase.from_documents(documents("a", "b"), embedder=Odd(reply))


@pytest.mark.parametrize(
    ("built", "opened"),
    [
        pytest.param(384, 3, id="A-13"),
        *(pytest.param(*pair) for pair in [(3, 4), (4, 3), (1, 768)]),
    ],
)
def test_another_dimension_is_refused_when_opening(built: int, opened: int, tmp_path: Path) -> None:
    texts = documents("door codes", "parking")
    KnowledgeBase.from_documents(texts, into=tmp_path, embedder=HashEmbedder(built)).close()

    with pytest.raises(EmbedderMismatchError, match="build it again") as refused:
        KnowledgeBase.open(tmp_path, embedder=HashEmbedder(opened))

    assert f"{opened} dimensions" in str(refused.value)
    assert f"has {built} " in str(refused.value)


def test_an_empty_knowledge_base_opens_with_any_embedder(
    tmp_path: Path, traces: TraceStore
) -> None:
    KnowledgeBase.from_documents([], into=tmp_path, embedder=HashEmbedder(8)).close()

    with KnowledgeBase.open(tmp_path, embedder=HashEmbedder(3)) as knowledge:
        result = look_up_vectors(knowledge, "anything", traces)

    assert result.evidence_status == "no_evidence"


def test_an_embedder_that_changes_after_the_opening_is_unavailable(
    tmp_path: Path, traces: TraceStore
) -> None:
    KnowledgeBase.from_documents(
        documents("door codes"), into=tmp_path, embedder=HashEmbedder(64)
    ).close()
    embedder = HashEmbedder(64)
    with KnowledgeBase.open(tmp_path, embedder=embedder) as knowledge:
        embedder.dimension = 32
        result = look_up_vectors(knowledge, "door codes", traces)

    assert result.evidence_status == "unavailable"
    assert result.retrieval_trace.error == "EmbedderMismatchError"


class Asymmetric(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.passages: list[str] = []
        self.queries: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.passages += texts
        return [HashEmbedder.embed_query(self, f"passage: {text}") for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return HashEmbedder.embed_query(self, f"query: {text}")


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("reset password", id="A-22"),
        pytest.param("Reset your password on the account page.", id="equal-to-a-passage"),
        pytest.param("account", id="only-a-keyword"),
        pytest.param("passage: reset", id="looks-like-a-passage"),
        pytest.param("密码", id="no-latin"),
    ],
)
@pytest.mark.parametrize("reopened", [False, True], ids=["built", "reopened"])
def test_queries_are_embedded_as_queries_and_passages_as_passages(
    query: str, reopened: bool, tmp_path: Path, traces: TraceStore
) -> None:
    embedder = Asymmetric()
    text = "Reset your password on the account page."
    metadata = {"source": "a.md", "title": "Accounts", "keywords": ["account"], "category": "it"}
    knowledge = KnowledgeBase.from_documents(
        [Document(text, metadata=metadata)], into=tmp_path, embedder=embedder
    )
    if reopened:
        knowledge.close()
        knowledge = KnowledgeBase.open(tmp_path, embedder=embedder)
    with knowledge:
        look_up_vectors(knowledge, query, traces)

    assert set(embedder.queries) == {query}
    assert set(embedder.passages) == {f"Accounts\n\n{text}"}


class Raising(HashEmbedder):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def embed_query(self, text: str) -> list[float]:
        if text == "question":
            raise self.error
        return super().embed_query(text)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("down"),
        TimeoutError(),
        KeyError("token"),
        AssertionError(),
        StopIteration(),
        MemoryError(),
        RecursionError(),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"),
        LookupToolError("own"),
        ExceptionGroup("several", [ValueError("one")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_an_embedder_raises_is_unavailable(error: Exception, traces: TraceStore) -> None:
    with KnowledgeBase.from_documents(documents("text"), embedder=Raising(error)) as knowledge:
        result = look_up_vectors(knowledge, "question", traces)

    assert (result.evidence_status, result.retrieval_trace.error) == (
        "unavailable",
        type(error).__name__,
    )
