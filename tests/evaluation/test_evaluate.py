"""Evaluation through the compiled machine: what is measured, and where answers are lost."""

from collections.abc import Mapping, Sequence

import pytest
from conftest import ROOT, Make
from embedders import TableEmbedder, at_similarity

from lookup_tool import KnowledgeBase, LookupConfig, LookupToolError, evaluate, read_questions
from lookup_tool.config import EvidenceConfig, PackConfig, RetrievalConfig
from lookup_tool.evaluation.questions import Question
from lookup_tool.evaluation.report import EvaluationReport, QuestionReport

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

    assert only(report) == QuestionReport(
        id="q",
        query="compass bread",
        category="south",
        answerable=True,
        expected=("far.md", "gone"),
        ndcg=0.0,
        lost="hidden_by_filter",
        rank=None,
        found=True,
        answerability=only(report).answerability,
        filter="north",
        fallback_reason=None,
        top="near.md",
    )
    assert values(report) == {
        "ndcg@10": 0.0,
        "recall@5": 0.0,
        "recall@10": 0.0,
        "mrr@10": 0.0,
        "missedRate": 0.0,
        "filterCoverage": 1.0,
        "filterPrecision": 0.0,
    }
    assert report.missing == ("gone",)
    assert {each.name: each.metrics["mrr@10"].value for each in report.comparisons} == {
        "dense": 0.5,
        "rrf": 0.5,
    }
    assert {each.name: each.gain["mrr@10"].value for each in report.comparisons} == {
        "dense": -0.5,
        "rrf": -0.5,
    }


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
        "b.md": "---\ncategory: south\n---\n# Two\nFARTHEST bread oven",
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


def test_categories_and_kinds_of_questions_are_told_apart(two: KnowledgeBase) -> None:
    questions: Sequence[Question] = [
        asked("bread", "near", name="a"),
        asked("bread", "far", name="b", relevant_sections=("far#two",)),
        asked("bread", name="c"),
    ]

    report = evaluate(two, questions)

    assert [(each.category, each.questions) for each in report.categories] == [
        ("north", 1),
        ("south", 1),
        (None, 1),
    ]
    measured = {
        each.category: sorted(m for m in each.metrics if not m.startswith(("r", "m", "section.r")))
        for each in report.categories
    }
    assert measured == {
        "north": ["filterCoverage", "ndcg@10"],
        "south": ["filterCoverage", "ndcg@10", "section.mrr@10", "section.ndcg@10"],
        None: ["falseEvidenceRate", "filterCoverage"],
    }
    assert (report.questions, report.answerable) == (3, 2)
    assert values(report)["auroc"] == 0.5
    assert report.metrics["section.ndcg@10"].questions == 1
    assert report.lost == {"delivered": 2, "false_evidence": 1}
    assert [detail.id for detail in report.details] == ["c", "b", "a"]


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
    assert report.metrics["auroc"].value > 0.8
    again = evaluate(handbook, questions, compare=("bm25",))
    assert again == report
    assert EvaluationReport.model_validate_json(report.model_dump_json()) == report
