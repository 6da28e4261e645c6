"""Scores of each question from outcomes made by hand."""

from typing import Any

from stages_builders import block, result

from lookup_tool.contracts import EvidenceStatus
from lookup_tool.evaluation.ask import QuestionOutcome, Ranking
from lookup_tool.evaluation.delivery import PackedText
from lookup_tool.evaluation.lookups import LookupRun
from lookup_tool.evaluation.questions import Gold, Question
from lookup_tool.evaluation.scores import delivery_scores, means, outcome_scores, pack_scores

NOTHING = PackedText((), (), 0)


def outcome(
    name: str, status: EvidenceStatus, *, answerable: bool, **changes: Any
) -> QuestionOutcome:
    """Make the outcome of a question whose answer stands in `a.md#x`."""
    documents, sections = ({"a.md": 1}, {"a.md#x": 2, "a.md#y": 0}) if answerable else ({}, {})
    blocks = () if status == "no_evidence" else (block("a.md"),)
    values: dict[str, Any] = {
        "question": Question(id=name, query="?", answerable=answerable),
        "gold": Gold(documents, sections, (), frozenset(), None),
        "shipped": LookupRun(result(*blocks, evidence_status=status), {}, frozenset(), {}),
        "packed": NOTHING,
        "packed_rule_off": NOTHING,
        "ranking": Ranking((), ()),
        "unfiltered": Ranking((), ()),
        "peers": {},
        "lost": "delivered",
        "rank": None,
    }
    return QuestionOutcome(**{**values, **changes})


def test_each_kind_of_question_has_its_shares_of_every_status() -> None:
    statuses: list[tuple[EvidenceStatus, bool, int]] = [
        *(("sufficient", True, 5), ("weak", True, 2), ("no_evidence", True, 1)),
        *(("sufficient", False, 1), ("weak", False, 2), ("no_evidence", False, 5)),
    ]
    outcomes = [
        outcome(f"{status}-{answerable}-{number}", status, answerable=answerable)
        for status, answerable, count in statuses
        for number in range(count)
    ]

    shares = means(outcome_scores(outcomes), outcomes)

    assert {name: (share.value, share.questions) for name, share in shares.items()} == {
        "missedRate": (0.125, 8),
        "answerableSufficient": (0.625, 8),
        "answerableWeak": (0.25, 8),
        "falseEvidenceRate": (0.375, 8),
        "unanswerableSufficient": (0.125, 8),
        "unanswerableWeak": (0.25, 8),
        "filterCoverage": (0.0, 16),
    }


def packed(*sections: str) -> PackedText:
    return PackedText(
        sections=tuple(frozenset({source}) for source in sections),
        entries=tuple(frozenset({source.partition("#")[0]}) for source in sections),
        used=10 * len(sections),
    )


def test_delivered_is_counted_over_the_answerable_and_used_over_what_is_packed() -> None:
    outcomes = [
        outcome("second", "weak", answerable=True, packed=packed("b.md", "a.md#x")),
        outcome("other section", "weak", answerable=True, packed=packed("a.md#y")),
        outcome("other entry", "weak", answerable=True, packed=packed("b.md", "c.md", "d.md")),
        outcome("refused", "no_evidence", answerable=True),
        outcome("unanswerable", "weak", answerable=False, packed=packed("a.md#x")),
    ]

    assert delivery_scores(outcomes, lambda each: each.packed) == {
        "delivered": {"second": 1.0, "other section": 1.0, "other entry": 0.0, "refused": 0.0},
        "deliveredSection": {
            "second": 1.0,
            "other section": 0.0,
            "other entry": 0.0,
            "refused": 0.0,
        },
    }
    assert pack_scores(outcomes, lambda each: each.packed) == {
        "deliveredRank": {"second": 2, "other section": 1},
        "deliveredSectionRank": {"second": 2},
        "packUsed": {"second": 20, "other section": 10, "other entry": 30, "unanswerable": 10},
    }
