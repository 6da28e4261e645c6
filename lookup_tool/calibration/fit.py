"""Fit thresholds to what searches showed.

Three values are measured:

- The rule's weight of similarity, from how widely similarities spread: some embedders use a narrow
  band of the scale. The other weights count words, and stay. (Fitting all weights to given
  questions was tried on three document sets: on questions that were held out it gained nothing.)
- The rule's midpoint. Without labels, it stays, unless it lies oddly far from what the documents'
  own sentences reach. Given questions move it to where answerable and unanswerable ones are best
  told apart, both kinds weighing the same; few of them move it little.
- The reference threshold: what `NOT_NEEDLESS` of the searches in the right category reach.

The evidence floor is lowered where an answer lies under it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from lookup_tool.calibration.observations import Sighting, known
from lookup_tool.calibration.report import FilterRates, Rates
from lookup_tool.schema import AnswerabilityRule, Thresholds
from lookup_tool.stages.answerability import reach

USUALLY_BELOW = (1.8, 3.2)
BELOW = 2.5
"""How many standard deviations under the mean of what sentences reach the shipped midpoint lies: on
four document sets, measured as 2.0 to 3.0, without a relation to which midpoint would be best. So
one within these bounds stays, and one outside, where similarities mean something else, is moved
into the middle."""

USUAL_SPREAD = 0.148
"""Standard deviation of the best similarity of a sentence: .14 to .16 on these sets. One that is up
to `ALIKE` times as wide or as narrow says nothing about the embedder."""

ALIKE = 1.25
LEAST_SPREAD = 0.01

NOT_NEEDLESS = 0.87
"""The shipped threshold lets .90, .82 and .87 of the sentences of three of these sets pass."""

LEAST_QUESTIONS = 50
"""Answerable questions from which they, and not the sentences, give the reference threshold."""

PRIOR = 10.0
"""Precision, in logits, of the midpoint that the sentences give: what about sixty questions know.
Measured with halves of the questions: less loses where there are few, more gains less elsewhere."""

_STEPS = 60
_FURTHEST = 20.0
_DIGITS = 4

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """What was seen of answerable and of unanswerable questions."""

    answerable: Sequence[Sighting]
    unanswerable: Sequence[Sighting]


def fit(
    base: Thresholds, sentences: Seen, asked: Seen | None, keep: float | None, passages: int
) -> Thresholds:
    """Fit thresholds.

    Args:
        base: What is shipped for the embedder.
        sentences: Sentences of the documents.
        asked: Questions with labels.
        keep: Share of the answerable questions, else of the sentences, that must get evidence.
        passages: How many passages were searched.
    """
    rule = _on_scale(base.rule, sentences)
    answerable = reaches((asked or sentences).answerable, rule, passages)
    if keep is not None:
        midpoint = _kept_from(answerable, keep)
    else:
        midpoint = _plausible(base.rule.midpoint, reaches(sentences.answerable, rule, passages))
        if asked is not None:
            unanswerable = reaches(asked.unanswerable, rule, passages)
            midpoint = _told_apart(answerable, unanswerable, rule.similarity, midpoint)
    both = [seen for seen in (asked, sentences) if seen is not None]
    answers = known(each.answer for seen in both for each in seen.answerable)
    return Thresholds(
        reference_threshold=_reference_threshold(base, both),
        evidence_floor=min([base.evidence_floor, *answers]),
        rule=replace(rule, midpoint=midpoint),
    )


def _on_scale(rule: AnswerabilityRule, sentences: Seen) -> AnswerabilityRule:
    """Return a rule whose weight of similarity fits the width of the embedder's scale."""
    spread = max(float(np.std([seen.top for seen in sentences.answerable])), LEAST_SPREAD)
    narrower = USUAL_SPREAD / spread
    if 1 / ALIKE <= narrower <= ALIKE:
        return rule
    return replace(rule, similarity=round(rule.similarity * narrower, _DIGITS))


def reaches(seen: Iterable[Sighting], rule: AnswerabilityRule, passages: int) -> Values:
    """Return the midpoint up to which each question gets evidence.

    Infinite for one that gets evidence by what it names; minus infinite where nothing was found.
    """
    return np.array(
        [
            max((inf if s.named else reach(s, rule, passages) for s in each.signs), default=-inf)
            for each in seen
        ]
    )


def rates(seen: Seen, rule: AnswerabilityRule, passages: int) -> Rates:
    """Return what a rule lets through."""
    kept, false = (
        float((reaches(those, rule, passages) >= rule.midpoint).mean())
        for those in (seen.answerable, seen.unanswerable)
    )
    return Rates(kept=kept, false_evidence=false)


def filter_rates(seen: Seen, reference_threshold: float) -> FilterRates | None:
    """Return what a reference threshold does to filtered searches; None if none can be told."""
    right = known(each.right for each in seen.answerable)
    wrong = known(each.wrong for each in seen.answerable)
    if not right or not wrong:
        return None
    return FilterRates(
        caught=float((np.array(wrong) < reference_threshold).mean()),
        needless=float((np.array(right) < reference_threshold).mean()),
    )


def _reference_threshold(base: Thresholds, both: Sequence[Seen]) -> float:
    """Take the questions where there are enough, else the sentences."""
    rights = [known(each.right for each in seen.answerable) for seen in both]
    right = next((those for those in rights if len(those) >= LEAST_QUESTIONS), rights[-1])
    return _kept_from(np.array(right), NOT_NEEDLESS) if right else base.reference_threshold


def _plausible(shipped: float, values: Values) -> float:
    """Return the shipped midpoint, or another where what sentences reach speaks against it."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return shipped
    mean, deviation = float(finite.mean()), float(finite.std())
    least, most = USUALLY_BELOW
    if least * deviation <= mean - shipped <= most * deviation:
        return shipped
    return round(mean - BELOW * deviation, _DIGITS)


def _kept_from(values: Values, share: float) -> float:
    """Return the highest bound that this share of the values reaches, rounded down."""
    bound = float(np.quantile(values, 1 - share, method="lower"))
    finite = values[np.isfinite(values)]
    if len(finite):
        bound = float(np.clip(bound, finite.min(), finite.max()))
    return float(np.floor(bound * 10**_DIGITS) / 10**_DIGITS)


def _told_apart(answerable: Values, unanswerable: Values, weight: float, prior: float) -> float:
    """Return the midpoint of a logistic over two kinds of questions, drawn towards a prior.

    Args:
        answerable: What each answerable question reaches, shape (p,).
        unanswerable: The same of the others, shape (n,).
        weight: Logits for one unit of what they reach.
        prior: Midpoint that is expected.
    """
    kinds = [those[np.isfinite(those)] for those in (answerable, unanswerable)]
    half = (len(kinds[0]) + len(kinds[1])) / 2

    def slope(shift: float) -> float:
        """Return the derivative of the loss by a shift of the midpoint, in logits; it rises."""
        chances = [1 / (1 + np.exp(shift - weight * (those - prior))) for those in kinds]
        wrong = [1 - chances[0], -chances[1]]
        return half * sum(float(each.mean()) for each in wrong if len(each)) + PRIOR * shift

    low, high = -_FURTHEST, _FURTHEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return round(prior + low / weight, _DIGITS)
