"""Evaluation through the compiled machine: what is measured, and where answers are lost."""

from collections.abc import Mapping, Sequence

import pytest
from conftest import ROOT, Make
from embedders import TableEmbedder, at_similarity

from lookup_tool import KnowledgeBase, LookupConfig, LookupToolError, evaluate, read_questions
from lookup_tool.config import EvidenceConfig, PackConfig, RetrievalConfig
from lookup_tool.evaluation.questions import Question
from lookup_tool.evaluation.report import Estimate, EvaluationReport, Metrics, QuestionReport

HANDBOOK = ROOT / "examples" / "handbook.queries.jsonl"


def asked(query: str, *relevant: str, name: str = "q", **fields: object) -> Question:
    return Question.model_validate({"id": name, "query": query, "relevant": relevant, **fields})


@pytest.fixture
def two(make: Make) -> KnowledgeBase:
    """Build an entry near the question and one far from it, in two categories."""
    files = {
        "near.md": "---\ncategory: north\nkeywords: [compass]\n---\n# One\nNEAREST bread",
        "far.md": "---\ncategory: south\n---\n# Two\nFARTHEST bread",
    }
    vectors = {
        "NEAREST": at_similarity(0.9),
        "FARTHEST": at_similarity(0.3),
        "bread": [1.0, 0.0],
        "compass": [1.0, 0.0],
    }
    return make(files, TableEmbedder(vectors))


def only(report: EvaluationReport) -> QuestionReport:
    (detail,) = report.details
    return detail


PLAIN = LookupConfig()
NOTHING_USABLE = LookupConfig(evidence=EvidenceConfig(minimum_answerability=1.0))


@pytest.mark.parametrize(
    ("question", "config", "lost", "rank"),
    [
        pytest.param(asked("bread", "near"), PLAIN, "delivered", 1, id="delivered"),
        pytest.param(asked("bread", "far"), PLAIN, "delivered", 2, id="delivered, not first"),
        pytest.param(asked("bread", "gone"), PLAIN, "not_in_knowledge_base", None, id="gone"),
        pytest.param(asked("compass bread", "far"), PLAIN, "hidden_by_filter", None, id="hidden"),
        pytest.param(
            asked("bread", "far"),
            LookupConfig(retrieval=RetrievalConfig(candidates=1, lexical_candidates=0)),
            "not_retrieved",
            None,
            id="not retrieved",
        ),
        pytest.param(
            asked("bread", "far"),
            LookupConfig(retrieval=RetrievalConfig(evidence_floor=0.31)),
            "below_evidence_floor",
            None,
            id="below the floor",
        ),
        pytest.param(asked("bread", "near"), NOTHING_USABLE, "not_usable", 1, id="not usable"),
        pytest.param(
            asked("bread", "far"),
            LookupConfig(evidence=EvidenceConfig(max_blocks=1)),
            "ranked_low",
            2,
            id="ranked low",
        ),
        pytest.param(
            asked("bread", "far"),
            LookupConfig(pack=PackConfig(budget=100, unit="characters")),
            "left_out_of_pack",
            2,
            id="left out",
        ),
        pytest.param(asked("bread"), PLAIN, "false_evidence", None, id="false evidence"),
        pytest.param(asked("bread"), NOTHING_USABLE, "abstained", None, id="abstained"),
        pytest.param(
            asked("bread", answerable=True), PLAIN, "delivered", None, id="an unnamed answer"
        ),
        pytest.param(
            asked("bread", answerable=True), NOTHING_USABLE, "not_usable", None, id="and missed"
        ),
    ],
)
def test_every_answer_is_followed_to_where_it_was_lost(
    two: KnowledgeBase, question: Question, config: LookupConfig, lost: str, rank: int | None
) -> None:
    detail = only(evaluate(two, [question], config=config))

    assert (detail.lost, detail.rank) == (lost, rank)


def test_one_question_is_reported_whole(two: KnowledgeBase) -> None:
    report = evaluate(two, [asked("compass bread", "far", "gone")], compare=("dense", "rrf"))

    status = only(report).evidence_status
    assert (status in {"sufficient", "weak"}, only(report).used > 0) == (True, True)
    assert only(report) == QuestionReport(
        id="q",
        query="compass bread",
        category="south",
        kind=None,
        language=None,
        answerable=True,
        expected=("far.md", "gone"),
        ndcg=0.0,
        lost="hidden_by_filter",
        rank=None,
        evidence_status=only(report).evidence_status,
        packed_rank=None,
        packed_rank_rule_off=None,
        packed_rank_of_peers={"dense": 2, "rrf": 2},
        used=only(report).used,
        answerability=only(report).answerability,
        filter="north",
        fallback_reason=None,
        top="near.md",
    )
    assert values(report) == {
        "delivered": 0.0,
        "deliveredRuleOff": 0.0,
        "packUsed": only(report).used,
        "ndcg@10": 0.0,
        "recall@5": 0.0,
        "recall@10": 0.0,
        "mrr@10": 0.0,
        "missedRate": 0.0,
        "answerableSufficient": float(status == "sufficient"),
        "answerableWeak": float(status == "weak"),
        "filterCoverage": 1.0,
        "filterPrecision": 0.0,
    }
    assert report.missing == ("gone",)
    theirs = {"delivered": 1.0, "deliveredRank": 2.0, "mrr@10": 0.5}
    for each in report.comparisons:
        assert {name: each.metrics[name].value for name in theirs} == theirs
        assert {name: gain.value for name, gain in each.gain.items() if "@" not in name} == {
            "delivered": -1.0,
            "deliveredRuleOff": -1.0,
        }
        assert each.gain["mrr@10"].value == -0.5


def values(report: EvaluationReport) -> dict[str, float]:
    return {name: estimate.value for name, estimate in report.metrics.items()}


def gains(report: EvaluationReport) -> Mapping[str, tuple[int, float | None]]:
    """Return how often each group of filters fired, and what the filter gained."""
    return {
        each.group: (each.fired, None if each.gain is None else round(each.gain.value, 3))
        for each in report.filters
    }


def test_filters_are_judged_against_a_search_without_them(two: KnowledgeBase) -> None:
    questions = [
        asked("compass bread", "far", name="wrong"),  # unfiltered it stands at 2: nDCG .631
        asked("compass bread", "near", name="right"),
        asked("compass bread", name="unanswerable"),
        asked("bread", "near", name="unfiltered"),
    ]

    report = evaluate(two, questions)

    assert gains(report) == {
        "all": (3, -0.315),
        "right": (1, 0.0),
        "wrong": (1, -0.631),
        "kept": (3, -0.315),
        "filtered_vector_low_quality": (0, None),
        "filtered_vector_no_evidence": (0, None),
    }
    assert values(report)["filterCoverage"] == 0.75
    assert values(report)["filterPrecision"] == 0.5


@pytest.mark.parametrize(
    ("similarity", "reason"),
    [
        pytest.param(0.44, "filtered_vector_low_quality", id="low quality"),
        pytest.param(0.46, "filtered_vector_no_evidence", id="no evidence"),
    ],
)
def test_a_dropped_filter_is_ranked_after_the_retry(
    make: Make, similarity: float, reason: str
) -> None:
    files = {
        "a.md": "---\ncategory: north\nkeywords: [compass]\n---\n# One\nNEARNESS",
        "b.md": "---\ncategory: south\n---\n# Two\nFARTHEST compass bread oven",
    }
    vectors = {
        "NEARNESS": at_similarity(similarity),
        "FARTHEST": at_similarity(0.9),
        "compass": [1.0, 0.0],
    }
    knowledge = make(files, TableEmbedder(vectors))

    report = evaluate(knowledge, [asked("compass bread oven", "b")])

    assert gains(report)[reason] == (1, 0.0)
    assert (only(report).fallback_reason, only(report).lost, only(report).rank) == (
        reason,
        "delivered",
        1,
    )


def test_a_text_that_stands_elsewhere_too_counts_as_found(make: Make) -> None:
    text = "# Title\nThe same bread."
    files = {"a.md": text, "b.md": text}
    knowledge = make(files, TableEmbedder({"bread": [1.0, 0.0]}))

    assert only(evaluate(knowledge, [asked("bread", "b")])).lost == "delivered"


def test_another_section_of_the_entry_does_not_deliver_the_section(make: Make) -> None:
    files = {"guide.md": "# Guide\n## Bread\nNEAREST bread\n## Salt\nFARTHEST bread"}
    vectors = {
        "NEAREST": at_similarity(0.9),
        "FARTHEST": at_similarity(0.3),
        "bread": [1.0, 0.0],
    }
    knowledge = make(files, TableEmbedder(vectors))
    one_block = LookupConfig(pack=PackConfig(budget=150, unit="characters"))
    question = asked("bread", relevant_sections=("guide#salt",))

    report = evaluate(knowledge, [question], config=one_block, compare=("dense",))

    assert delivery(report.metrics) == {
        "delivered": 1.0,
        "deliveredRank": 1.0,
        "deliveredRuleOff": 1.0,
        "deliveredSection": 0.0,
        "deliveredSectionRuleOff": 0.0,
    }
    assert delivery(report.comparisons[0].metrics) == {
        "delivered": 1.0,
        "deliveredRank": 1.0,
        "deliveredSection": 0.0,
    }
    assert (only(report).lost, only(report).packed_rank) == ("left_out_of_pack", None)


def delivery(metrics: Metrics) -> dict[str, float]:
    return {name: share.value for name, share in metrics.items() if name.startswith("delivered")}


def test_what_the_rule_refuses_is_delivered_with_the_rule_off(two: KnowledgeBase) -> None:
    questions = [asked("bread", "far", name="a"), asked("bread", name="unanswerable")]

    report = evaluate(two, questions, config=NOTHING_USABLE, compare=("bm25", "dense"))

    assert delivery(report.metrics) == {"delivered": 0.0, "deliveredRuleOff": 1.0}
    assert [delivery(each.gain) for each in report.comparisons] == [
        {"delivered": -1.0, "deliveredRuleOff": 0.0},
        {"delivered": -1.0, "deliveredRuleOff": 0.0},
    ]
    assert values(report)["missedRate"] == 1.0
    assert values(report)["falseEvidenceRate"] == 0.0
    assert "packUsed" not in report.metrics
    detail = report.details[0]
    assert (detail.packed_rank, detail.packed_rank_rule_off, detail.used) == (None, 2, 0)
    assert detail.packed_rank_of_peers == {"bm25": 2, "dense": 2}


def test_every_ranking_fills_the_same_budget(two: KnowledgeBase) -> None:
    small = LookupConfig(pack=PackConfig(budget=40))

    report = evaluate(two, [asked("bread", "near")], config=small, compare=("bm25", "dense", "rrf"))

    sizes = [values(report)["packUsed"]]
    sizes += [each.metrics["packUsed"].value for each in report.comparisons]
    assert all(20 < size <= 40 for size in sizes)


def test_categories_kinds_and_languages_are_told_apart(two: KnowledgeBase) -> None:
    questions: Sequence[Question] = [
        asked("bread", "near", name="a", kind="heading", language="en"),
        asked("bread", "far", name="b", relevant_sections=("far#two",), kind="table"),
        asked("bread", name="c", kind="heading", language="de"),
    ]

    report = evaluate(two, questions, compare=("dense",))

    assert [(each.name, each.questions) for each in report.slices] == [
        ("north", 1),
        ("south", 1),
        (None, 1),
    ]
    shares = {"delivered", "deliveredSection", "ndcg@10", "falseEvidenceRate", "missedRate"}
    assert {each.name: shares & each.metrics.keys() for each in report.slices} == {
        "north": {"delivered", "ndcg@10", "missedRate"},
        "south": {"delivered", "deliveredSection", "ndcg@10", "missedRate"},
        None: {"falseEvidenceRate"},
    }
    assert [each.comparisons["dense"].get("deliveredRank") for each in report.slices] == [
        Estimate(value=1.0, low=1.0, high=1.0, questions=1),
        Estimate(value=2.0, low=2.0, high=2.0, questions=1),
        None,
    ]
    assert (report.questions, report.answerable) == (3, 2)
    assert values(report)["auroc"] == 0.5
    assert report.metrics["section.ndcg@10"].questions == 1
    assert report.lost == {"delivered": 2, "false_evidence": 1}
    assert [detail.id for detail in report.details] == ["c", "b", "a"]
    assert slices(evaluate(two, questions, by="kind")) == ("kind", {"heading": 2, "table": 1})
    by_language = slices(evaluate(two, questions, by="language"))
    assert by_language == ("language", {"de": 1, "en": 1, None: 1})


def slices(report: EvaluationReport) -> tuple[str, dict[str | None, int]]:
    return report.by, {each.name: each.questions for each in report.slices}


def test_groups_open_what_is_restricted(make: Make) -> None:
    files = {"open.md": "bread", "closed.md": "---\naccess: [bakers]\n---\nbread and salt"}
    knowledge = make(files, TableEmbedder({"bread": [1.0, 0.0]}))
    question = asked("bread salt", "closed")

    assert only(evaluate(knowledge, [question])).lost == "not_in_knowledge_base"
    assert only(evaluate(knowledge, [question], groups=["bakers"])).lost == "delivered"


def test_a_failed_lookup_ends_the_evaluation(two: KnowledgeBase) -> None:
    off = LookupConfig(retrieval=RetrievalConfig(enabled=False))

    with pytest.raises(LookupToolError, match=r"the lookup of 'bread' failed \(retrieval is swit"):
        evaluate(two, [asked("bread", "near")], config=off)


def test_progress_counts_every_question_and_nothing_is_recorded(two: KnowledgeBase) -> None:
    steps: list[tuple[int, int]] = []

    evaluate(
        two,
        [asked("bread", name="a"), asked("bread", name="b")],
        progress=lambda done, total: steps.append((done, total)),
    )

    assert steps == [(1, 2), (2, 2)]
    assert not (two.path / "traces.sqlite").exists()


def test_the_handbooks_questions_find_their_answers(handbook: KnowledgeBase) -> None:
    questions = read_questions(HANDBOOK)

    report = evaluate(handbook, questions, compare=("bm25",))

    assert report.missing == ()
    assert (report.questions, report.answerable) == (48, 37)
    assert report.metrics["ndcg@10"].value > 0.85
    assert report.metrics["section.ndcg@10"].value > 0.7
    assert report.metrics["deliveredRuleOff"].value > 0.9
    assert report.metrics["auroc"].value > 0.8
    again = evaluate(handbook, questions, compare=("bm25",))
    assert again == report
    assert EvaluationReport.model_validate_json(report.model_dump_json()) == report
