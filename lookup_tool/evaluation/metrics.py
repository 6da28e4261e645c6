"""Metrics of rankings and of abstention, each with a bootstrap interval.

Ranking metrics come from `ir_measures`, which computes them as `trec_eval` does: the gain of nDCG
is the grade. A document that stands twice in a ranking counts where it stands first.
"""

import importlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lookup_tool.errors import MissingExtraError
from lookup_tool.evaluation.report import Estimate

RANKING_METRICS = {"ndcg@10": "nDCG@10", "recall@5": "R@5", "recall@10": "R@10", "mrr@10": "RR@10"}
"""Our names of the ranking metrics, and the library's."""

RESAMPLES = 1000
SEED = 7
_PERCENTILES = (2.5, 97.5)
DIGITS = 6

Grades = Mapping[str, int]
Values = NDArray[np.float64]


def require_metrics() -> None:
    """Check that the library is there.

    Raises:
        MissingExtraError: The extra `eval` is not installed.
    """
    try:
        importlib.import_module("ir_measures")
    except ImportError as error:
        raise MissingExtraError("evaluation", "eval") from error


def score_rankings(golds: Sequence[Grades], rankings: Sequence[Sequence[str]]) -> dict[str, Values]:
    """Compute the ranking metrics of each question.

    Args:
        golds: Grade of each relevant id, a mapping a question; at least one is above 0.
        rankings: Ids, best first, a sequence a question.

    Returns:
        For each metric the values, shape (questions,), in [0, 1].
    """
    if not golds:
        return {name: np.zeros(0) for name in RANKING_METRICS}
    library = importlib.import_module("ir_measures")
    measures = {library.parse_measure(theirs): ours for ours, theirs in RANKING_METRICS.items()}
    run = {
        str(question): {
            name: float(len(ranking) - place)  # the library orders by score: falling by rank
            for place, name in enumerate(dict.fromkeys(ranking))
        }
        for question, ranking in enumerate(rankings)
    }
    qrels = {str(question): dict(gold) for question, gold in enumerate(golds)}
    scores = {name: np.zeros(len(golds)) for name in RANKING_METRICS}
    for metric in library.iter_calc(list(measures), qrels, run):
        scores[measures[metric.measure]][int(metric.query_id)] = metric.value
    return scores


def estimate(values: Values) -> Estimate:
    """Return the mean of one value a question, with its interval."""
    resampled = _resamples(len(values)) @ values / len(values)
    return _estimate(float(values.mean()), resampled, len(values))


def estimate_auroc(answerable: Values, unanswerable: Values) -> Estimate:
    """Return the probability that an answerable question ranks above an unanswerable one.

    Equal values count half. Both kinds are resampled on their own.

    Args:
        answerable: What the rule says of each answerable question, shape (p,), p > 0.
        unanswerable: The same of each unanswerable one, shape (n,), n > 0.
    """
    values, place = np.unique(np.concatenate([answerable, unanswerable]), return_inverse=True)
    of_answerable, of_unanswerable = np.split(place, [len(answerable)])

    def counts(weights: NDArray[np.int64], places: NDArray[np.intp]) -> Values:
        """Count how often each value is drawn, shape (values, samples)."""
        drawn = np.zeros((len(values), len(weights)))
        np.add.at(drawn, places, weights.T)
        return drawn

    def auroc(positive: Values, negative: Values) -> Values:
        below = np.cumsum(negative, axis=0) - negative / 2
        return (positive * below).sum(axis=0) / (len(answerable) * len(unanswerable))

    once = auroc(
        counts(np.ones((1, len(answerable)), np.int64), of_answerable),
        counts(np.ones((1, len(unanswerable)), np.int64), of_unanswerable),
    )
    resampled = auroc(
        counts(_resamples(len(answerable)), of_answerable),
        counts(_resamples(len(unanswerable)), of_unanswerable),
    )
    return _estimate(float(once[0]), resampled, len(place))


@lru_cache(maxsize=16)
def _resamples(size: int) -> NDArray[np.int64]:
    """Return how often each of `size` questions is drawn, shape (RESAMPLES, size).

    The same for the same size, so that two systems are compared on the same draws.
    """
    chances = np.full(size, 1.0 / size)
    return np.random.default_rng(SEED).multinomial(size, chances, size=RESAMPLES)


def _estimate(value: float, resampled: Values, questions: int) -> Estimate:
    low, high = np.percentile(resampled, _PERCENTILES)
    return Estimate(
        value=round(value, DIGITS),
        low=round(float(low), DIGITS),
        high=round(float(high), DIGITS),
        questions=questions,
    )
