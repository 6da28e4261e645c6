"""Scores of each question, and their means over questions."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lookup_tool.evaluation.ask import QuestionOutcome, Ranking
from lookup_tool.evaluation.delivery import PackedText, rank_of
from lookup_tool.evaluation.metrics import estimate, estimate_auroc, score_rankings
from lookup_tool.evaluation.report import Metrics

Scores = dict[str, Mapping[str, float]]
"""For each metric, its value for each question that it is measured on, by id."""


def ranking_scores(
    outcomes: Sequence[QuestionOutcome], ranking: Callable[[QuestionOutcome], Ranking]
) -> Scores:
    """Compute the ranking metrics of the answerable questions, of entries and of sections."""
    answerable = [each for each in outcomes if each.question.answerable]
    documents = [each for each in answerable if each.gold.relevant_documents]
    sections = [each for each in answerable if each.gold.relevant_sections]
    scores: Scores = {}
    for metric, values in score_rankings(
        [each.gold.documents for each in documents],
        [ranking(each).documents for each in documents],
    ).items():
        scores[metric] = _by_id(documents, values.tolist())
    for metric, values in score_rankings(
        [each.gold.sections for each in sections], [ranking(each).sections for each in sections]
    ).items():
        scores[f"section.{metric}"] = _by_id(sections, values.tolist())
    return scores


def delivery_scores(
    outcomes: Sequence[QuestionOutcome], packed: Callable[[QuestionOutcome], PackedText]
) -> Scores:
    """Say of each answerable question, 1 or 0, whether a packed text delivers its answer."""
    return {
        metric: {name: float(rank is not None) for name, rank in ranks.items()}
        for metric, ranks in _packed_ranks(outcomes, packed).items()
    }


def pack_scores(
    outcomes: Sequence[QuestionOutcome], packed: Callable[[QuestionOutcome], PackedText]
) -> Scores:
    """Return the rank of each answer that a packed text delivers, and what each text takes."""
    used = {each.question.id: packed(each).used for each in outcomes}
    return {
        **{
            f"{metric}Rank": {name: rank for name, rank in ranks.items() if rank is not None}
            for metric, ranks in _packed_ranks(outcomes, packed).items()
        },
        "packUsed": {name: size for name, size in used.items() if size},
    }


def outcome_scores(outcomes: Sequence[QuestionOutcome]) -> Scores:
    """Say, 1 or 0 a question, what the shipped lookup called its evidence, and how L0 filtered."""
    statuses = {
        answerable: {
            each.question.id: each.shipped.result.evidence_status
            for each in outcomes
            if each.question.answerable is answerable
        }
        for answerable in (True, False)
    }

    def share(answerable: bool, *wanted: str) -> Mapping[str, float]:
        return {name: float(status in wanted) for name, status in statuses[answerable].items()}

    return {
        "missedRate": share(True, "no_evidence"),
        "answerableSufficient": share(True, "sufficient"),
        "answerableWeak": share(True, "weak"),
        "falseEvidenceRate": share(False, "sufficient", "weak"),
        "unanswerableSufficient": share(False, "sufficient"),
        "unanswerableWeak": share(False, "weak"),
        "filterCoverage": {
            each.question.id: float(each.shipped.filter is not None) for each in outcomes
        },
        "filterPrecision": {
            each.question.id: float(each.filter_is_right)
            for each in outcomes
            if each.filter_is_right is not None
        },
    }


def means(scores: Scores, outcomes: Sequence[QuestionOutcome]) -> Metrics:
    """Return the mean of each metric over those of these questions that it is measured on."""
    metrics: Metrics = {}
    for metric, values in scores.items():
        measured = [values[each.question.id] for each in outcomes if each.question.id in values]
        if measured:
            metrics[metric] = estimate(np.array(measured))
    return metrics


def separation(outcomes: Sequence[QuestionOutcome]) -> Metrics:
    """Return AUROC of the rule, where both answerable and unanswerable questions are there."""
    answerable = [each.answerability for each in outcomes if each.question.answerable]
    others = [each.answerability for each in outcomes if not each.question.answerable]
    if not answerable or not others:
        return {}
    return {"auroc": estimate_auroc(np.array(answerable), np.array(others))}


def differences(scores: Scores, others: Scores) -> Scores:
    """Subtract other scores of the same questions."""
    return {
        metric: {name: value - others[metric][name] for name, value in values.items()}
        for metric, values in scores.items()
    }


def _packed_ranks(
    outcomes: Sequence[QuestionOutcome], packed: Callable[[QuestionOutcome], PackedText]
) -> Mapping[str, Mapping[str, int | None]]:
    """Return the rank of the first relevant entry and section among packed blocks, by question."""
    answerable = [each for each in outcomes if each.question.answerable]
    return {
        "delivered": {
            each.question.id: rank_of(each.gold.relevant_documents, packed(each).entries)
            for each in answerable
            if each.gold.relevant_documents
        },
        "deliveredSection": {
            each.question.id: rank_of(each.gold.relevant_sections, packed(each).sections)
            for each in answerable
            if each.gold.relevant_sections
        },
    }


def _by_id(outcomes: Sequence[QuestionOutcome], values: Sequence[float]) -> dict[str, float]:
    return {each.question.id: value for each, value in zip(outcomes, values, strict=True)}
