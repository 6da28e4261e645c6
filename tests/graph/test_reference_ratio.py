"""The reference threshold as a share of what a search without the filter would find."""

import pytest
from conftest import Make
from embedders import TableEmbedder, at_similarity

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupContext,
    LookupResult,
    TraceStore,
    build_lookup_graph,
)
from lookup_tool.config import EvidenceConfig, RetrievalConfig
from lookup_tool.contracts import RetrievalAttempt


@pytest.fixture
def guided(make: Make) -> KnowledgeBase:
    """Build entries of two categories and a restricted one; `compass` leads to the north."""
    files = {
        "north.md": "---\ncategory: north\nkeywords: [compass]\n---\n# One\nNEAR bread",
        "south.md": "---\ncategory: south\n---\n# Two\nNEARER bread",
        "secret.md": "---\ncategory: south\naccess: [staff]\n---\n# Three\nNEAREST bread",
    }
    vectors = {
        "NEAR": at_similarity(0.6),
        "NEARER": at_similarity(0.75),
        "NEAREST": at_similarity(1.0),
        "compass": [1.0, 0.0],
    }
    return make(files, TableEmbedder(vectors))


def look(knowledge: KnowledgeBase, *groups: str, **retrieval: float) -> LookupResult:
    config = LookupConfig(
        retrieval=RetrievalConfig.model_validate(retrieval),
        evidence=EvidenceConfig(minimum_answerability=0),
    )
    graph = build_lookup_graph(knowledge, config=config, traces=TraceStore("sqlite://"))
    context = LookupContext(groups=groups)
    result: LookupResult = graph.invoke({"query": "compass"}, context=context)["result"]
    return result


def attempts(result: LookupResult) -> tuple[RetrievalAttempt, ...]:
    return result.retrieval_trace.attempts


@pytest.mark.parametrize(
    ("ratio", "threshold", "outcomes"),
    [
        pytest.param(0.79, 0.5925, ["accepted"], id="under"),
        pytest.param(0.8, 0.6, ["accepted"], id="exactly at"),
        pytest.param(0.81, 0.6075, ["low_quality", "accepted"], id="over"),
    ],
)
def test_a_filtered_search_is_compared_with_a_share_of_the_best_without_the_filter(
    guided: KnowledgeBase, ratio: float, threshold: float, outcomes: list[str]
) -> None:
    first, *rest = attempts(look(guided, reference_ratio=ratio))

    assert [attempt.outcome for attempt in (first, *rest)] == outcomes
    assert (first.top_similarity, first.unfiltered_top_similarity) == (0.6, 0.75)
    assert first.reference_threshold == threshold
    own = guided.thresholds.reference_threshold
    assert [(a.reference_threshold, a.unfiltered_top_similarity) for a in rest] == [
        (own, None) for _ in rest
    ]


def test_the_probe_returns_no_candidates_and_is_no_attempt(guided: KnowledgeBase) -> None:
    result = look(guided, reference_ratio=0.5)

    (attempt,) = attempts(result)
    assert attempt.candidate_count == 1
    assert [block.source for block in result.evidence_blocks] == ["north.md"]


def test_the_probe_sees_what_the_caller_may_see(guided: KnowledgeBase) -> None:
    (public,) = attempts(look(guided, reference_ratio=0.8))
    staff = attempts(look(guided, "staff", reference_ratio=0.8))

    assert public.unfiltered_top_similarity == 0.75
    assert [attempt.outcome for attempt in staff] == ["low_quality", "accepted"]
    assert staff[0].unfiltered_top_similarity == 1.0


@pytest.mark.parametrize(
    "settings",
    [{}, {"reference_threshold": 0.5}, {"reference_threshold": 0.5, "reference_ratio": 1}],
)
def test_without_a_ratio_or_with_a_set_threshold_nothing_is_probed(
    guided: KnowledgeBase, settings: dict[str, float]
) -> None:
    (attempt,) = attempts(look(guided, **settings))

    assert attempt.unfiltered_top_similarity is None
    assert attempt.reference_threshold == settings.get("reference_threshold", 0.45)
