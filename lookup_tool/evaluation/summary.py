"""From the outcome of each question to a report."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from lookup_tool.evaluation.ask import QuestionOutcome
from lookup_tool.evaluation.metrics import DIGITS
from lookup_tool.evaluation.questions import missing_ids
from lookup_tool.evaluation.report import (
    Comparison,
    EvaluationReport,
    FilterGroup,
    FilterReport,
    Grouping,
    Lost,
    Peer,
    QuestionReport,
    SliceReport,
)
from lookup_tool.evaluation.scores import (
    Scores,
    delivery_scores,
    differences,
    means,
    outcome_scores,
    pack_scores,
    ranking_scores,
    separation,
)
from lookup_tool.knowledge_base import KnowledgeBase


def summarize(
    knowledge: KnowledgeBase,
    outcomes: Sequence[QuestionOutcome],
    compare: Sequence[Peer] = (),
    by: Grouping = "category",
) -> EvaluationReport:
    """Put the measurements together."""
    ranking = ranking_scores(outcomes, lambda each: each.ranking)
    unfiltered = ranking_scores(outcomes, lambda each: each.unfiltered)
    delivery = delivery_scores(outcomes, lambda each: each.packed)
    rule_off = delivery_scores(outcomes, lambda each: each.packed_rule_off)
    delivery |= {f"{metric}RuleOff": values for metric, values in rule_off.items()}
    packs = pack_scores(outcomes, lambda each: each.packed)
    scores = {**delivery, **packs, **ranking, **outcome_scores(outcomes)}
    peers: dict[Peer, Scores] = {name: _peer_scores(outcomes, name) for name in compare}
    lost: Counter[Lost] = Counter(each.lost for each in outcomes)
    return EvaluationReport(
        knowledge_version=knowledge.version,
        embedder=knowledge.embedder,
        questions=len(outcomes),
        answerable=sum(each.question.answerable for each in outcomes),
        metrics={**means(scores, outcomes), **separation(outcomes)},
        comparisons=tuple(
            Comparison(
                name=name,
                metrics=means(theirs, outcomes),
                gain=means(_gain({**delivery, **ranking}, theirs), outcomes),
            )
            for name, theirs in peers.items()
        ),
        filters=tuple(_filters(outcomes, ranking, unfiltered)),
        by=by,
        slices=tuple(_slices(outcomes, by, scores, peers)),
        lost=dict(lost.most_common()),
        missing=missing_ids(each.gold for each in outcomes if each.question.answerable),
        details=_details(outcomes, ranking),
    )


def _peer_scores(outcomes: Sequence[QuestionOutcome], peer: Peer) -> Scores:
    return {
        **delivery_scores(outcomes, lambda each: each.peers[peer].packed),
        **pack_scores(outcomes, lambda each: each.peers[peer].packed),
        **ranking_scores(outcomes, lambda each: each.peers[peer].ranking),
    }


def _gain(ours: Scores, theirs: Scores) -> Scores:
    """Subtract a peer's scores: what it delivers, with the rule off from what we deliver too."""
    return differences(ours, {metric: theirs[metric.removesuffix("RuleOff")] for metric in ours})


def _slices(
    outcomes: Sequence[QuestionOutcome],
    by: Grouping,
    scores: Scores,
    peers: Mapping[Peer, Scores],
) -> Iterator[SliceReport]:
    """Report the questions of each category, kind or language; those without one last."""

    def name_of(each: QuestionOutcome) -> str | None:
        return each.gold.category_name if by == "category" else getattr(each.question, by)

    names = dict.fromkeys(map(name_of, outcomes))
    for name in sorted(names, key=lambda name: (name is None, name)):
        those = [each for each in outcomes if name_of(each) == name]
        yield SliceReport(
            name=name,
            questions=len(those),
            metrics={**means(scores, those), **separation(those)},
            comparisons={peer: means(theirs, those) for peer, theirs in peers.items()},
        )


def _filters(
    outcomes: Sequence[QuestionOutcome], ranking: Scores, unfiltered: Scores
) -> Iterator[FilterReport]:
    """Say what the filter brought to each group of the questions that it was derived for."""
    metric = "ndcg@10"
    gains = differences(ranking, unfiltered)
    filtered = [each for each in outcomes if each.shipped.filter is not None]
    belongs: dict[FilterGroup, Callable[[QuestionOutcome], bool]] = {
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


def _details(outcomes: Sequence[QuestionOutcome], scores: Scores) -> tuple[QuestionReport, ...]:
    """Report every question: those whose answer was lost first, each kind worst first."""
    details = [_detail(each, scores) for each in outcomes]

    def worth(detail: QuestionReport) -> tuple[bool, float]:
        fine = detail.lost in {"delivered", "abstained"}
        return fine, 1 - detail.answerability if detail.ndcg is None else detail.ndcg

    return tuple(sorted(details, key=worth))


def _detail(each: QuestionOutcome, scores: Scores) -> QuestionReport:
    question, gold, result = each.question, each.gold, each.shipped.result
    ndcg = scores["section.ndcg@10" if gold.sections else "ndcg@10"].get(question.id)
    blocks = result.evidence_blocks
    return QuestionReport(
        id=question.id,
        query=question.query,
        category=gold.category_name,
        kind=question.kind,
        language=question.language,
        answerable=question.answerable,
        expected=tuple(sorted(gold.expected)) if question.answerable else (),
        ndcg=None if ndcg is None else round(ndcg, DIGITS),
        lost=each.lost,
        rank=each.rank,
        evidence_status=result.evidence_status,
        packed_rank=each.packed_rank(each.packed),
        packed_rank_rule_off=each.packed_rank(each.packed_rule_off),
        packed_rank_of_peers={
            name: each.packed_rank(peer.packed) for name, peer in each.peers.items()
        },
        used=each.packed.used,
        answerability=each.answerability,
        filter=each.shipped.filter,
        fallback_reason=each.fallback_reason,
        top=blocks[0].source if blocks else None,
    )
