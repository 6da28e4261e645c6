"""Vector store: the filter and the retry.

Families: a filter never starves, however many foreign passages are nearer; it is dropped once, and
only for a low best similarity or for nothing usable, never because results are few; and a hinted
category that has nothing to show (no text, no vector, no permission) does not hide the rest.
"""

from math import cos, sin
from pathlib import Path
from typing import Any

import pytest
from case_builders import LOW, NONE, Make, look_up_with, path, sources
from embedders import TableEmbedder, at_similarity
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from lookup_tool import KnowledgeBase, TraceStore, build_lookup_graph
from lookup_tool.config import EvidenceConfig


class Angles(Embeddings):
    """A text that ends in `@angle` gets the unit vector at that angle; others lie at 0."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        angle = float(text.rpartition("@")[2]) if "@" in text else 0.0
        return [cos(angle), sin(angle)]


def entry(source: str, angle: float, **metadata: Any) -> Document:
    return Document(f"{source} @{angle}", metadata={"source": source, "title": source, **metadata})


# The filter


@pytest.mark.parametrize(
    ("foreign", "category"),
    [
        pytest.param(50, "billing", id="A-01"),
        pytest.param(5000, "billing", id="A-01-five-thousand"),
        pytest.param(1500, None, id="foreign-without-category"),
        pytest.param(1500, "security-archive", id="category-that-begins-alike"),
    ],
)
def test_nearer_passages_of_other_categories_do_not_starve_the_filter(
    foreign: int, category: str | None
) -> None:
    texts = [
        entry(f"near-{n}", 0.01 + 0.49 * n / foreign, category=category) for n in range(foreign)
    ]
    texts += [
        entry(f"wall-{n}", 0.60 + n / 100, category="security", keywords=["firewall"])
        for n in range(10)
    ]
    with KnowledgeBase.from_documents(texts, embedder=Angles()) as knowledge:
        result = look_up_with(knowledge, "firewall rule review", candidates=4, lexical_candidates=0)

    (attempt,) = result.retrieval_trace.attempts
    assert attempt.filter == {"category": "security"}
    assert (attempt.strategy, attempt.candidate_count, attempt.outcome) == (
        "filtered",
        4,
        "accepted",
    )
    assert result.retrieval_trace.fallback_reason is None
    assert sources(result) == ["wall-0", "wall-1", "wall-2", "wall-3"]


def test_nearer_passages_that_may_not_be_read_do_not_starve_a_search() -> None:
    texts = [entry(f"secret-{n}", 0.01, access=["board"]) for n in range(300)]
    texts += [entry(f"open-{n}", 0.6 + n / 100) for n in range(5)]
    with KnowledgeBase.from_documents(texts, embedder=Angles()) as knowledge:
        result = look_up_with(
            knowledge, "anything", candidates=4, lexical_candidates=0, reference_threshold=0.5
        )

    assert result.retrieval_trace.candidate_count == 4
    assert sources(result) == ["open-0", "open-1", "open-2", "open-3"]


# The threshold and the retry

LAB = "---\ntitle: Lab rules\ncategory: lab\nkeywords: [lab]\n---\nLAB text.\n"
CAFE = "---\ntitle: Cafe\ncategory: cafe\n---\nCAFE text.\n"


def two_categories(make: Make, lab: float, cafe: float) -> tuple[KnowledgeBase, TableEmbedder]:
    table = {"": [1.0, 0.0], "LAB": at_similarity(lab), "CAFE": at_similarity(cafe)}
    embedder = TableEmbedder(table)
    return make({"lab.md": LAB, "cafe.md": CAFE}, embedder), embedder


@pytest.mark.parametrize(
    ("similarities", "threshold", "outcomes", "first"),
    [
        pytest.param((0.40, 0.95), 0.6, ["low_quality", "accepted"], "cafe.md", id="A-05-weak"),
        pytest.param((0.90, 0.95), 0.6, ["accepted"], "lab.md", id="A-05-strong"),
        pytest.param((0.60, 0.95), 0.6, ["accepted"], "lab.md", id="A-05-equal"),
        pytest.param((0.599999, 0.95), 0.6, ["low_quality", "accepted"], "cafe.md", id="under"),
        pytest.param((0.600001, 0.95), 0.6, ["accepted"], "lab.md", id="above"),
        pytest.param((1.0, 1.0), 1.0, ["accepted"], "lab.md", id="threshold-one"),
        pytest.param((0.999, 1.0), 1.0, ["low_quality", "accepted"], "cafe.md", id="below-one"),
        pytest.param((0.0, 1.0), 0.0, ["no_evidence", "accepted"], "cafe.md", id="threshold-zero"),
    ],
)
def test_a_filter_is_dropped_below_the_threshold_only(
    make: Make,
    similarities: tuple[float, float],
    threshold: float,
    outcomes: list[str],
    first: str,
) -> None:
    knowledge, embedder = two_categories(make, *similarities)

    result = look_up_with(knowledge, "the lab  question", reference_threshold=threshold)

    attempts = result.retrieval_trace.attempts
    assert [attempt.outcome for attempt in attempts] == outcomes
    assert [attempt.reference_threshold for attempt in attempts] == [threshold] * len(attempts)
    assert max(result.evidence_blocks, key=lambda block: block.similarity).source == first
    assert (
        result.retrieval_trace.fallback_reason
        == {
            "accepted": None,
            "low_quality": LOW,
            "no_evidence": NONE,
        }[outcomes[0]]
    )
    searched = ["the lab question", "the lab  question"][: len(attempts)]
    assert [attempt.query for attempt in attempts] == searched
    assert len(embedder.queries) == len(attempts)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(lab=st.integers(0, 1000), cafe=st.integers(0, 1000), threshold=st.integers(0, 1000))
def test_there_are_never_more_than_two_searches_and_the_reason_fits(
    lab: int, cafe: int, threshold: int
) -> None:
    table = {
        "": [1.0, 0.0],
        "LAB": at_similarity(lab / 1000),
        "CAFE": at_similarity(cafe / 1000),
    }
    texts = [
        Document("LAB", metadata={"source": "lab", "keywords": ["lab"], "category": "lab"}),
        Document("CAFE", metadata={"source": "cafe", "title": "x", "category": "cafe"}),
    ]
    with KnowledgeBase.from_documents(texts, embedder=TableEmbedder(table)) as knowledge:
        result = look_up_with(knowledge, "lab?", reference_threshold=threshold / 1000)

    trace, strategies = result.retrieval_trace, [strategy for strategy, _ in path(result)]
    low = lab < threshold
    assert strategies in (["filtered"], ["filtered", "unfiltered"])
    assert (trace.fallback_reason == LOW) is low
    assert (trace.fallback_reason is None) is (len(strategies) == 1)
    assert trace.attempts[0].top_similarity == lab / 1000
    assert result.found is bool(result.evidence_blocks)


@pytest.mark.parametrize(
    ("own", "candidates", "blocks"),
    [
        pytest.param(1, 5, 5, id="A-33"),
        pytest.param(2, 5, 5, id="two-of-five"),
        pytest.param(1, 1000, 100, id="one-of-a-thousand"),
        pytest.param(3, 50, 1, id="fewer-blocks-than-found"),
        pytest.param(1, 1, 1, id="exactly-one"),
    ],
)
def test_few_results_are_no_reason_to_search_again(own: int, candidates: int, blocks: int) -> None:
    table = {"": [1.0, 0.0], "LAB": at_similarity(0.9), "OTHER": at_similarity(0.95)}
    texts = [
        Document(f"LAB {n}", metadata={"source": f"l{n}", "keywords": ["lab"], "category": "lab"})
        for n in range(own)
    ]
    texts += [
        Document(f"OTHER {n}", metadata={"source": f"o{n}", "title": "o", "category": f"c{n % 4}"})
        for n in range(40)
    ]
    embedder = TableEmbedder(table)
    with KnowledgeBase.from_documents(texts, embedder=embedder) as knowledge:
        result = look_up_with(
            knowledge,
            "lab query",
            evidence=EvidenceConfig(max_blocks=blocks),
            candidates=candidates,
            lexical_candidates=0,
            reference_threshold=0.6,
        )

    assert path(result) == [("filtered", "accepted")]
    assert result.retrieval_trace.fallback_reason is None
    assert sources(result) == [f"l{n}" for n in range(own)][:blocks]
    assert embedder.queries == ["lab query"]


# A hinted category with nothing to show

NDA = "---\ntitle: NDA\ncategory: legal\nkeywords: [nda]\n{}---\n{}"
DAY_ONE = (
    "---\ntitle: Confidential work\ncategory: hr\n---\n"
    "New colleagues sign a confidentiality agreement on their first day."
)


@pytest.mark.parametrize(
    ("more", "body"),
    [
        pytest.param("", "", id="A-29"),
        pytest.param("", " \n\t\n\u3000\n", id="white-space"),
        pytest.param("", "\u200b\ufeff", id="invisible"),
        pytest.param("", "# NDA\n", id="heading-only"),
        pytest.param("", "UNUSABLE", id="no-usable-vector"),
        pytest.param("", "FAR away", id="below-the-floor"),
    ],
)
def test_a_hinted_category_with_nothing_to_show_does_not_hide_the_rest(
    make: Make, more: str, body: str
) -> None:
    table = {
        "": at_similarity(0.1),
        "nda": [1.0, 0.0],
        "colleagues": at_similarity(0.8),
        "UNUSABLE": [0.0, 0.0],
        "FAR": at_similarity(0.01),
    }
    files = {"legal/nda.md": NDA.format(more, body), "hr/secrets.md": DAY_ONE}
    query = "where do  I sign the \uff4e\uff44\uff41 or nda"

    result = look_up_with(make(files, TableEmbedder(table)), query, reference_threshold=0.0)

    first, second = result.retrieval_trace.attempts
    assert (first.strategy, first.filter, first.outcome) == (
        "filtered",
        {"category": "legal"},
        "no_evidence",
    )
    assert (second.strategy, second.filter, second.query) == ("unfiltered", None, query)
    assert result.retrieval_trace.fallback_reason == NONE
    assert sources(result) == ["hr/secrets.md"]


@pytest.mark.parametrize(
    "access", ["access: [board]\n", "access: []\n", "access: {a: b}\n", "acess: x\naccess:\n"]
)
def test_a_category_that_only_others_may_see_gives_no_filter(make: Make, access: str) -> None:
    table = {"": [1.0, 0.0], "colleagues": at_similarity(0.8)}
    files = {"legal/nda.md": NDA.format(access, "Secret."), "hr/secrets.md": DAY_ONE}

    result = look_up_with(make(files, TableEmbedder(table)), "where do I sign the nda")

    assert path(result) == [("unfiltered", "accepted")]
    assert sources(result) == ["hr/secrets.md"]


def test_nothing_usable_anywhere_is_a_miss_with_both_attempts(make: Make) -> None:
    table = {"": [1.0, 0.0], "colleagues": at_similarity(0.1)}
    files = {"legal/nda.md": NDA.format("", ""), "hr/secrets.md": DAY_ONE}

    result = look_up_with(make(files, TableEmbedder(table)), "nda")

    assert path(result) == [("filtered", "no_evidence"), ("unfiltered", "no_evidence")]
    assert (result.found, result.evidence_status) == (False, "no_evidence")
    assert result.retrieval_trace.fallback_reason == NONE


def test_a_29_the_default_embedder_finds_what_the_hinted_category_does_not_have(
    tmp_path: Path, traces: TraceStore
) -> None:
    docs = tmp_path / "docs"
    for name, text in {
        "legal/nda.md": "---\ntitle: NDA\ncategory: legal\nkeywords: [nda]\n---\n",
        "hr/secrets.md": "---\ntitle: Silence\ncategory: hr\n---\nStaff sign a promise of silence.",
    }.items():
        (docs / name).parent.mkdir(parents=True)
        (docs / name).write_text(text, encoding="utf-8")

    with KnowledgeBase.build(docs, tmp_path / "kb") as knowledge:
        graph = build_lookup_graph(knowledge, traces=traces)
        result = graph.invoke({"query": "where do I sign the nda"})["result"]

    assert result.retrieval_trace.fallback_reason == "filtered_vector_no_evidence"
    assert [block.source for block in result.evidence_blocks] == ["hr/secrets.md"]
