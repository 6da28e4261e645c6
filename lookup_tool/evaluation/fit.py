"""Fit thresholds to what searches showed.

Three values are measured:

- The rule's weight of similarity, from how widely similarities spread: some embedders use a narrow
  band of the scale. The other weights count words, and stay. (Fitting all weights to given
  questions was tried on three document sets: on questions that were held out it gained nothing.)
- The rule's midpoint. Without labels, the one at which `FOUND` of the documents' own sentences get
  evidence. Given questions move it to where answerable and unanswerable ones are best told apart,
  both kinds weighing the same; few of them move it little.
- The reference threshold: what `NOT_NEEDLESS` of the searches in the right category reach.

The evidence floor is lowered where an answer lies under it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from lookup_tool.embeddings import AnswerabilityRule, Thresholds
from lookup_tool.evaluation.calibration import FilterRates, Rates
from lookup_tool.evaluation.sightings import Sighting, known
from lookup_tool.stages.evidence import reach

FOUND = 0.975
"""Measured: with wordllama, the shipped rule finds .976, .972 and .978 of the sentences of three
document sets. A sentence is easier to find than a question, so fewer questions are found."""

NOT_NEEDLESS = 0.87
LEAST_QUESTIONS = 50
"""Answerable questions from which they, and not the sentences, give the reference threshold."""

USUAL_SPREAD = 0.143
"""Standard deviation of the best similarity of a sentence, on the same sets."""

LEAST_SPREAD = 0.01
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
    spread = max(float(np.std([seen.top for seen in sentences.answerable])), LEAST_SPREAD)
    weight = round(base.rule.similarity * USUAL_SPREAD / spread, _DIGITS)
    rule = replace(base.rule, similarity=weight)
    own = reaches(sentences.answerable, rule, passages)
    midpoint = _kept_from(own, FOUND if keep is None or asked is not None else keep)
    if asked is not None:
        answerable = reaches(asked.answerable, rule, passages)
        unanswerable = reaches(asked.unanswerable, rule, passages)
        midpoint = (
            _told_apart(answerable, unanswerable, weight, midpoint)
            if keep is None
            else _kept_from(answerable, keep)
        )
    rights = [known(each.right for each in seen.answerable) for seen in (asked, sentences) if seen]
    right = next((those for those in rights if len(those) >= LEAST_QUESTIONS), rights[-1])
    answers = known(seen.answer for each in (asked, sentences) if each for seen in each.answerable)
    return Thresholds(
        reference_threshold=_kept_from(np.array(right), NOT_NEEDLESS)
        if right
        else base.reference_threshold,
        evidence_floor=min([base.evidence_floor, *answers]),
        rule=replace(rule, midpoint=midpoint),
    )


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
