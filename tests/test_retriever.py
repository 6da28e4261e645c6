"""The retriever: documents with their metadata, `k`, groups, and a miss that is no outage."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from access import UNREADABLE
from embedders import HashEmbedder
from langchain_core.runnables import ConfigurableField, RunnableLambda
from pydantic import ValidationError

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupRetriever,
    LookupUnavailableError,
    TraceStore,
)
from lookup_tool.config import QueryConfig, RetrievalConfig
from lookup_tool.errors import ConfigurationError

LEAVE = "How many days of annual leave do I get?"
MISS = "May I bring my dog to the office?"
SALARY = "What does band B3 pay?"


@pytest.fixture
def retriever(handbook: KnowledgeBase, traces: TraceStore) -> LookupRetriever:
    return LookupRetriever(knowledge=handbook, traces=traces)


def sources(documents: Any) -> list[str]:
    return [document.metadata["source"] for document in documents]


def test_a_document_is_an_evidence_block(retriever: LookupRetriever, traces: TraceStore) -> None:
    first = retriever.invoke(LEAVE)[0]

    assert first.page_content.startswith("Full-time employees get 28 days of annual leave")
    assert first.id == "hr/annual-leave.md#how-many-days-you-get"
    similarity, score = first.metadata.pop("similarity"), first.metadata.pop("score")
    assert 0 < similarity <= 1 < score
    assert first.metadata == {
        "source": "hr/annual-leave.md#how-many-days-you-get",
        "title": "Annual leave",
        "breadcrumb": ["Annual leave", "How many days you get"],
        "category": "hr",
        "retrieval_layer": "L1",
        "rank": 1,
        "hit_reasons": [
            *("vector", "lexical"),
            *("keyword:annual leave", "title:Annual leave", "content:Annual leave"),
        ],
        "lines": {"start": 17, "end": 19},
        "duplicates": [],
        "evidence_status": "sufficient",
        "invocation_id": traces.rows()[0].invocation_id,
    }


def test_k_is_the_constructors_or_the_calls(
    handbook: KnowledgeBase, traces: TraceStore, retriever: LookupRetriever
) -> None:
    two = LookupRetriever(knowledge=handbook, traces=traces, k=2)

    found = [retriever.invoke(LEAVE), two.invoke(LEAVE), two.invoke(LEAVE, k=6), two.invoke(LEAVE)]

    assert [len(documents) for documents in found] == [4, 2, 6, 2]
    assert sources(found[2])[:4] == sources(found[0])
    assert [row.evidence_block_count for row in traces.rows()] == [2, 6, 2, 4]


@pytest.mark.parametrize("k", [0, -1, 101, "many", 1.5])
def test_a_k_out_of_range_is_told(retriever: LookupRetriever, k: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"k={k!r}: Input should be"):
        retriever.invoke(LEAVE, k=k)
    with pytest.raises(ValidationError, match="Input should be"):
        LookupRetriever(knowledge=retriever.knowledge, k=k)


def test_async_calls_and_batches_give_the_same(retriever: LookupRetriever) -> None:
    one = sources(retriever.invoke(LEAVE, k=3))

    assert sources(asyncio.run(retriever.ainvoke(LEAVE, k=3))) == one
    assert [sources(found) for found in retriever.batch([LEAVE, MISS], k=3)] == [one, []]


def test_a_miss_and_a_blank_query_are_empty_and_leave_a_row(
    retriever: LookupRetriever, traces: TraceStore
) -> None:
    assert [retriever.invoke(query) for query in (MISS, "  ")] == [[], []]
    assert [(row.tool_name, row.query) for row in traces.rows()] == [
        ("lookup_retriever", "  "),
        ("lookup_retriever", MISS),
    ]


GROUPS: dict[str, tuple[Any, Any, bool]] = {
    "nobody": (None, None, False),
    "constructor": (["people-team"], None, True),
    "one name": ("people-team", None, True),
    "call": (None, ["people-team"], True),
    "call narrows": ({"people-team"}, [], False),
    "another team": (("sales",), None, False),
}


@pytest.mark.parametrize(("own", "called", "found"), GROUPS.values(), ids=GROUPS)
def test_groups_come_from_the_application(
    handbook: KnowledgeBase, traces: TraceStore, own: Any, called: Any, found: bool
) -> None:
    retriever = LookupRetriever(knowledge=handbook, traces=traces, groups=own)

    documents = retriever.invoke(SALARY, groups=called)

    assert ("hr/salary-bands.md" in str(documents)) is found


@pytest.mark.parametrize("given", UNREADABLE.values(), ids=UNREADABLE)
def test_groups_that_cannot_be_read_are_told(
    handbook: KnowledgeBase, traces: TraceStore, retriever: LookupRetriever, given: Any
) -> None:
    for ask in (
        lambda: LookupRetriever(knowledge=handbook, traces=traces, groups=given),
        lambda: retriever.invoke(SALARY, groups=given),
        lambda: asyncio.run(retriever.ainvoke(SALARY, groups=given)),
    ):
        with pytest.raises(ConfigurationError, match=r"access groups? must be"):
            ask()


def test_groups_may_be_a_configurable_field_of_a_chain(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    retriever = LookupRetriever(knowledge=handbook, traces=traces).configurable_fields(
        groups=ConfigurableField(id="groups")
    )
    chain = retriever | RunnableLambda(sources)

    public = chain.invoke(SALARY)
    permitted = chain.invoke(SALARY, {"configurable": {"groups": ["people-team"]}})

    assert ("hr/salary-bands.md" in str(public), "hr/salary-bands.md" in str(permitted)) == (
        False,
        True,
    )


class Failing(HashEmbedder):
    def embed_query(self, text: str) -> list[float]:
        if text == "badge":
            raise ConnectionError("https://internal.example/secret")
        return super().embed_query(text)


def fail(_: str) -> str:
    raise RuntimeError("secret")


BROKEN: dict[str, tuple[LookupConfig, str]] = {
    "search": (LookupConfig(), "ConnectionError"),
    "elsewhere": (LookupConfig(query=QueryConfig(transform=fail)), "RuntimeError"),
    "switched off": (LookupConfig(retrieval=RetrievalConfig(enabled=False)), "switched off"),
}


@pytest.mark.parametrize(("config", "says"), BROKEN.values(), ids=BROKEN)
def test_an_outage_is_an_error_and_not_an_empty_list(
    tmp_path: Path, traces: TraceStore, config: LookupConfig, says: str
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Badges\nLost badges go to the desk.\n")
    with KnowledgeBase.build(tmp_path / "docs", tmp_path / "kb", embedder=Failing()) as knowledge:
        retriever = LookupRetriever(knowledge=knowledge, traces=traces, config=config)

        for ask in (retriever.invoke, lambda query: asyncio.run(retriever.ainvoke(query))):
            with pytest.raises(LookupUnavailableError, match=says) as raised:
                ask("badge")

            assert "secret" not in str(raised.value)
            row = traces.rows()[0]
            assert (row.invocation_id, row.evidence_status) == (
                raised.value.invocation_id,
                "unavailable",
            )


def test_what_is_no_query_is_told(retriever: LookupRetriever) -> None:
    question: Any = {"question": LEAVE}

    with pytest.raises(ConfigurationError, match="a string; it got dict"):
        retriever.invoke(question)


def test_traces_go_to_the_knowledge_bases_own_store(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    with KnowledgeBase.build(tmp_path / "docs", tmp_path / "kb", embedder=HashEmbedder()) as base:
        LookupRetriever(knowledge=base).invoke("badge")

    store = TraceStore(tmp_path / "kb" / "traces.sqlite")
    assert [row.query for row in store.rows()] == ["badge"]
    store.close()
