"""What thresholds follow from what was seen, without a search."""

from dataclasses import replace

import numpy as np
import pytest

from lookup_tool.calibration.fit import Seen, filter_rates, fit, rates, reaches
from lookup_tool.calibration.observations import Sighting
from lookup_tool.calibration.report import FilterRates, Rates
from lookup_tool.schema import Thresholds
from lookup_tool.stages.answerability import Signs, probability

BASE = Thresholds(0.45, 0.15)
PASSAGES = 3000
WORDS = (BASE.rule.coverage + BASE.rule.phrase) / BASE.rule.similarity
"""What all words of a question are worth, in similarity."""

NOTHING = Sighting(signs=(), top=0.0)


def signs(similarity: float, coverage: float = 0.0, *, named: bool = False) -> Signs:
    return Signs(similarity, coverage, heading=0.0, phrase=coverage, named=named)


def seen(similarity: float, coverage: float = 0.0, **nearest: float) -> Sighting:
    return Sighting((signs(similarity, coverage),), similarity, **nearest)


def spread_out(mean: float, deviation: float, coverage: float = 1.0) -> list[Sighting]:
    """Return sightings whose similarities have this mean and this standard deviation."""
    steps = np.linspace(-1, 1, 101)
    values = mean + deviation * steps / steps.std()
    return [seen(float(value), coverage) for value in values]


USUAL = Seen(spread_out(0.68, 0.148), spread_out(0.4, 0.1))
"""As sentences are with the embedders that the rule was fitted on."""


@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("coverage", [0.0, 0.7, 1.0])
def test_a_question_gets_evidence_up_to_the_midpoint_that_it_reaches(
    similarity: float, coverage: float
) -> None:
    found = seen(similarity, coverage)
    (reached,) = reaches([found], BASE.rule, PASSAGES)

    for midpoint, usable in ((reached - 1e-4, True), (reached + 1e-4, False)):
        rule = replace(BASE.rule, midpoint=float(midpoint))
        assert (probability(found.signs[0], rule, PASSAGES) >= 0.5) is usable
        assert rates(Seen([found], [found]), rule, PASSAGES) == Rates(
            kept=usable, false_evidence=usable
        )


def test_the_best_block_counts_a_named_one_always_and_none_never() -> None:
    far, near, named = signs(0.1), signs(0.6), signs(0.1, named=True)

    reached = reaches(
        [Sighting((far, near), 0.6), Sighting((far, named), 0.1), NOTHING], BASE.rule, PASSAGES
    )

    assert reached.tolist() == pytest.approx([0.6, np.inf, -np.inf], abs=1e-3)


def test_sentences_as_usual_leave_the_rule_as_it_is_shipped() -> None:
    assert fit(BASE, USUAL, None, None, PASSAGES).rule == BASE.rule


@pytest.mark.parametrize("narrow", [0.3, 0.5])
def test_an_embedder_with_a_narrow_scale_gets_the_same_rule_on_its_scale(narrow: float) -> None:
    def squeezed(those: list[Sighting]) -> list[Sighting]:
        return [seen(0.7 + narrow * s.top, s.signs[0].coverage) for s in those]

    sentences = Seen(squeezed(spread_out(0.68, 0.148)), [NOTHING])
    questions = Seen(squeezed(spread_out(0.6, 0.1, 0.6)), squeezed(spread_out(0.4, 0.1, 0.3)))

    rule = fit(BASE, sentences, None, None, PASSAGES).rule

    assert rates(questions, BASE.rule, PASSAGES).false_evidence > 0.5
    found = rates(questions, rule, PASSAGES)
    assert found.false_evidence < 0.15
    assert found.kept > 0.6
    assert rule.similarity == pytest.approx(BASE.rule.similarity / narrow, rel=0.01)


def test_questions_move_the_midpoint_the_more_the_more_they_are() -> None:
    def midpoint(questions: int) -> float:
        good, bad = seen(0.75, 1.0), seen(0.6, 1.0)
        asked = Seen([good] * questions, [bad] * questions)
        return fit(BASE, USUAL, asked, None, PASSAGES).rule.midpoint

    few, some, many = (midpoint(questions) for questions in (3, 30, 3000))
    best = (0.75 + 0.6) / 2 + WORDS

    assert BASE.rule.midpoint < few < some < many
    assert many == pytest.approx(best, abs=0.01)


def test_both_kinds_weigh_the_same_however_many_they_are() -> None:
    good, bad = seen(0.75, 1.0), seen(0.6, 1.0)

    asked = Seen([good] * 3000, [bad] * 100)

    expected = (0.75 + 0.6) / 2 + WORDS
    assert fit(BASE, USUAL, asked, None, PASSAGES).rule.midpoint == pytest.approx(
        expected, abs=0.01
    )


@pytest.mark.parametrize("keep", [0.5, 0.9, 1.0])
def test_a_share_to_keep_is_kept_and_no_more_than_it_takes(keep: float) -> None:
    asked = Seen(spread_out(0.6, 0.1, 0.5), spread_out(0.4, 0.1, 0.3))

    for labelled, judged in ((asked, asked), (None, USUAL)):
        rule = fit(BASE, USUAL, labelled, keep, PASSAGES).rule
        assert keep <= rates(judged, rule, PASSAGES).kept <= keep + 0.02


def test_the_reference_threshold_lets_the_right_category_pass_and_catches_others() -> None:
    near = [seen(0.5, right=0.3 + n / 1000, wrong=0.2 + n / 1000) for n in range(100)]

    thresholds = fit(BASE, Seen(near, [NOTHING]), None, None, PASSAGES)

    assert thresholds.reference_threshold == pytest.approx(0.312)
    assert filter_rates(Seen(near, []), 0.312) == FilterRates(caught=1.0, needless=0.12)
    assert filter_rates(Seen([NOTHING], []), 0.312) is None


@pytest.mark.parametrize(("questions", "threshold"), [(49, 0.3), (50, 0.6)])
def test_enough_questions_give_the_reference_threshold(questions: int, threshold: float) -> None:
    sentences = Seen([seen(0.5, right=0.3)] * 10, [NOTHING])
    asked = Seen([seen(0.5, right=0.6)] * questions, [seen(0.4)])

    assert fit(BASE, sentences, asked, None, PASSAGES).reference_threshold == threshold


def test_without_categories_or_anything_finite_what_is_shipped_stays() -> None:
    named = Sighting((signs(0.5, named=True),), 0.5)

    thresholds = fit(BASE, Seen([named] * 9, [named]), None, None, PASSAGES)

    assert (thresholds.reference_threshold, thresholds.rule.midpoint) == (0.45, 0.81)


@pytest.mark.parametrize(("answer", "floor"), [(0.1, 0.1), (0.2, 0.15)])
def test_the_evidence_floor_is_lowered_to_the_answers_and_never_raised(
    answer: float, floor: float
) -> None:
    sentences = Seen([seen(0.5, answer=answer), seen(0.6, answer=0.6)], [NOTHING])

    assert fit(BASE, sentences, None, None, PASSAGES).evidence_floor == floor
