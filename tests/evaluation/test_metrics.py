"""Metrics and intervals against values worked out by hand."""

import sys
from math import log2

import numpy as np
import pytest

from lookup_tool.errors import MissingExtraError
from lookup_tool.evaluation.metrics import (
    estimate,
    estimate_auroc,
    require_metrics,
    score_rankings,
)
from lookup_tool.evaluation.report import Estimate


def test_ranking_metrics_use_grades_and_count_a_repetition_once() -> None:
    golds = [{"a": 3, "b": 1}, {"c": 1}, {"d": 1, "e": 0}]
    eleventh = [f"x{n}" for n in range(10)] + ["d"]
    rankings = [["x", "b", "x", "a"], [], eleventh]

    scores = score_rankings(golds, rankings)

    graded = (1 / log2(3) + 3 / log2(4)) / (3 / log2(2) + 1 / log2(3))
    assert {name: values.round(6).tolist() for name, values in scores.items()} == {
        "ndcg@10": [round(graded, 6), 0.0, 0.0],
        "recall@5": [1.0, 0.0, 0.0],
        "recall@10": [1.0, 0.0, 0.0],
        "mrr@10": [0.5, 0.0, 0.0],
    }


def test_five_and_ten_are_cut_where_they_say() -> None:
    ranking = [f"x{n}" for n in range(4)] + ["a"] + [f"y{n}" for n in range(4)] + ["b", "c"]

    scores = score_rankings([{"a": 1, "b": 1, "c": 1, "d": 1}], [ranking])

    assert scores["recall@5"].tolist() == [0.25]
    assert scores["recall@10"].tolist() == [0.5]
    assert scores["mrr@10"].tolist() == [0.2]


def test_without_questions_there_are_no_values() -> None:
    assert {name: len(values) for name, values in score_rankings([], []).items()} == {
        "ndcg@10": 0,
        "recall@5": 0,
        "recall@10": 0,
        "mrr@10": 0,
    }


def test_an_estimate_is_the_mean_within_its_interval() -> None:
    certain = estimate(np.array([0.25, 0.25]))
    wide, narrow = estimate(np.array([0.0, 1.0] * 8)), estimate(np.array([0.0, 1.0] * 200))

    assert certain == Estimate(value=0.25, low=0.25, high=0.25, questions=2)
    assert (wide.value, wide.questions) == (0.5, 16)
    # 95 % of a binomial mean: half of it +- 1.96 * sqrt(.25 / n), which is .245 and .049
    assert (wide.low, wide.high) == (pytest.approx(0.255, abs=0.07), pytest.approx(0.745, abs=0.07))
    assert (narrow.low, narrow.high) == (
        pytest.approx(0.451, abs=0.01),
        pytest.approx(0.549, abs=0.01),
    )
    assert estimate(np.array([0.0, 1.0] * 8)) == wide


@pytest.mark.parametrize(
    ("answerable", "unanswerable", "value"),
    [
        pytest.param([0.8, 0.9], [0.1, 0.2], 1.0, id="all above"),
        pytest.param([0.1], [0.8, 0.9, 0.95], 0.0, id="all below"),
        pytest.param([0.5, 0.5], [0.5], 0.5, id="all equal"),
        # pairs: .9 wins 2, .4 wins 1 and ties 0.5 with nothing; .2 ties .2: 3.5 of 6
        pytest.param([0.9, 0.4, 0.2], [0.5, 0.2], 3.5 / 6, id="mixed with a tie"),
    ],
)
def test_auroc_counts_pairs_and_half_of_ties(
    answerable: list[float], unanswerable: list[float], value: float
) -> None:
    auroc = estimate_auroc(np.array(answerable), np.array(unanswerable))

    assert auroc.value == round(value, 6)
    assert auroc.low <= auroc.value <= auroc.high
    assert auroc.questions == len(answerable) + len(unanswerable)


def test_auroc_equals_the_count_over_all_pairs() -> None:
    draw = np.random.default_rng(3)
    positive, negative = draw.integers(0, 9, 60) / 10, draw.integers(0, 9, 40) / 10

    pairs = positive[:, None] - negative[None, :]
    expected = ((pairs > 0) + (pairs == 0) / 2).mean()

    assert estimate_auroc(positive, negative).value == round(float(expected), 6)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'lookup-tool\[eval\]'"):
        require_metrics()
