"""From what was seen of each question to means over questions, and a report."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from lookup_tool.evaluation.ask import Asked, Ranking
from lookup_tool.evaluation.metrics import DIGITS, estimate, estimate_auroc, score_rankings
from lookup_tool.evaluation.questions import missing_ids
from lookup_tool.evaluation.report import (
    CategoryReport,
    Comparison,
    EvaluationReport,
    FilterGroup,
    FilterReport,
    Lost,
    Metrics,
    Peer,
    QuestionReport,
)
from lookup_tool.knowledge_base import KnowledgeBase

Scores = Mapping[str, Mapping[str, float]]
"""For each metric, its value for each question that it is measured on, by id."""


def summarize(
    knowledge: KnowledgeBase, asked: Sequence[Asked], compare: Sequence[Peer] = ()
) -> EvaluationReport:
    """Put the measurements together."""
    ranking = ranking_scores(asked, lambda each: each.ranking)
    without = ranking_scores(asked, lambda each: each.unfiltered)
    scores = {**ranking, **outcome_scores(asked)}
    names = dict.fromkeys(each.gold.category_name for each in asked)
    by_category = {
        name: [each for each in asked if each.gold.category_name == name]
        for name in sorted(names, key=lambda name: (name is None, name))
    }
    lost: Counter[Lost] = Counter(each.lost for each in asked)
    return EvaluationReport(
        knowledge_version=knowledge.version,
        embedder=knowledge.embedder,
        questions=len(asked),
        answerable=sum(each.question.answerable for each in asked),
        metrics={**means(scores, asked), **separation(asked)},
        comparisons=tuple(_comparison(name, asked, ranking) for name in dict.fromkeys(compare)),
        filters=tuple(_filters(asked, ranking, without)),
        categories=tuple(
            CategoryReport(
                category=name,
                questions=len(those),
                metrics={**means(scores, those), **separation(those)},
            )
            for name, those in by_category.items()
        ),
        lost=dict(lost.most_common()),
        missing=missing_ids(each.gold for each in asked if each.question.answerable),
        details=_details(asked, ranking),
    )


def ranking_scores(asked: Sequence[Asked], ranking: Callable[[Asked], Ranking]) -> Scores:
    """Compute the ranking metrics of the answerable questions, of entries and of sections."""
    answerable = [each for each in asked if each.question.answerable]
    documents = [each for each in answerable if any(each.gold.documents.values())]
    sections = [each for each in answerable if any(each.gold.sections.values())]
    scores: dict[str, Mapping[str, float]] = {}
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


def outcome_scores(asked: Sequence[Asked]) -> Scores:
    """Return what the shipped lookups got wrong, 1 or 0 a question, and how L0 filtered."""
    found = {each.question.id: each.shipped.result.found for each in asked}
    answerable = {each.question.id for each in asked if each.question.answerable}
    return {
        "falseEvidenceRate": {
            name: float(is_) for name, is_ in found.items() if name not in answerable
        },
        "missedRate": {name: float(not is_) for name, is_ in found.items() if name in answerable},
        "filterCoverage": {
            each.question.id: float(each.shipped.filter is not None) for each in asked
        },
        "filterPrecision": {
            each.question.id: float(each.filter_is_right)
            for each in asked
            if each.filter_is_right is not None
        },
    }


def means(scores: Scores, asked: Sequence[Asked]) -> Metrics:
    """Return the mean of each metric over those of these questions that it is measured on."""
    metrics: Metrics = {}
    for metric, values in scores.items():
        measured = [values[each.question.id] for each in asked if each.question.id in values]
        if measured:
            metrics[metric] = estimate(np.array(measured))
    return metrics


def separation(asked: Sequence[Asked]) -> Metrics:
    """Return AUROC of the rule, where both answerable and unanswerable questions are there."""
    answerable = [each.answerability for each in asked if each.question.answerable]
    others = [each.answerability for each in asked if not each.question.answerable]
    if not answerable or not others:
        return {}
    return {"auroc": estimate_auroc(np.array(answerable), np.array(others))}


def _by_id(asked: Sequence[Asked], values: Sequence[float]) -> dict[str, float]:
    return {each.question.id: value for each, value in zip(asked, values, strict=True)}


def _differences(scores: Scores, others: Scores) -> Scores:
    """Subtract other scores of the same questions."""
    return {
        metric: {name: value - others[metric][name] for name, value in values.items()}
        for metric, values in scores.items()
    }


def _comparison(peer: Peer, asked: Sequence[Asked], ranking: Scores) -> Comparison:
    theirs = ranking_scores(asked, lambda each: each.peers[peer])
    gain = means(_differences(ranking, theirs), asked)
    return Comparison(name=peer, metrics=means(theirs, asked), gain=gain)


def _filters(asked: Sequence[Asked], ranking: Scores, without: Scores) -> Iterator[FilterReport]:
    """Say what the filter brought to each group of the questions that it was derived for."""
    metric = "ndcg@10"
    gains = _differences(ranking, without)
    filtered = [each for each in asked if each.shipped.filter is not None]
    belongs: dict[FilterGroup, Callable[[Asked], bool]] = {
        "all": lambda each: True,
        "right": lambda each: each.filter_is_right is True,
        "wrong": lambda each: each.filter_is_right is False,
        "kept": lambda each: each.fallback_reason is None,
        "filtered_vector_low_quality": lambda each: (
            each.fallback_reason == "filtered_vector_low_quality"
        ),
        "filtered_vector_no_evidence": lambda each: (
            each.fallback_reason == "filtered_vector_no_evidence"
        ),
    }
    for group, belonging in belongs.items():
        those = [each for each in filtered if belonging(each)]
        yield FilterReport(
            group=group,
            fired=len(those),
            ndcg=means(ranking, those).get(metric),
            gain=means(gains, those).get(metric),
        )


def _details(asked: Sequence[Asked], scores: Scores) -> tuple[QuestionReport, ...]:
    """Report every question: those whose answer was lost first, each kind worst first."""
    details = [_detail(each, scores) for each in asked]

    def worth(detail: QuestionReport) -> tuple[bool, float]:
        fine = detail.lost in {"delivered", "abstained"}
        return fine, 1 - detail.answerability if detail.ndcg is None else detail.ndcg

    return tuple(sorted(details, key=worth))


def _detail(each: Asked, scores: Scores) -> QuestionReport:
    question, gold, result = each.question, each.gold, each.shipped.result
    ndcg = scores["section.ndcg@10" if gold.sections else "ndcg@10"].get(question.id)
    blocks = result.evidence_blocks
    return QuestionReport(
        id=question.id,
        query=question.query,
        category=gold.category_name,
        answerable=question.answerable,
        expected=tuple(sorted(gold.expected)) if question.answerable else (),
        ndcg=None if ndcg is None else round(ndcg, DIGITS),
        lost=each.lost,
        rank=each.rank,
        found=result.found,
        answerability=each.answerability,
        filter=each.shipped.filter,
        fallback_reason=each.fallback_reason,
        top=blocks[0].source if blocks else None,
    )
