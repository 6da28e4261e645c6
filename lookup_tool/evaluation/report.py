"""What an evaluation says: frozen models, camelCase in JSON like the result contract."""

from typing import Literal

from pydantic import Field

from lookup_tool.contracts import Contract, FallbackReason

Peer = Literal["bm25", "dense", "rrf"]

FilterGroup = Literal["all", "right", "wrong", "kept"] | FallbackReason

Lost = Literal[
    "not_in_knowledge_base",
    "hidden_by_filter",
    "not_retrieved",
    "below_evidence_floor",
    "not_usable",
    "ranked_low",
    "left_out_of_pack",
    "delivered",
    "false_evidence",
    "abstained",
]

METRICS = {
    "ndcg@10": "nDCG of the first ten entries, with grades where the questions have them",
    "recall@5": "share of the relevant entries among the first five",
    "recall@10": "the same among the first ten",
    "mrr@10": "one over the rank of the first relevant entry among ten",
    "section.ndcg@10": "nDCG of the first ten sections, over the questions that name sections",
    "section.recall@5": "share of the relevant sections among the first five",
    "section.recall@10": "the same among the first ten",
    "section.mrr@10": "one over the rank of the first relevant section among ten",
    "auroc": "chance that an answerable question has a higher answerability than another",
    "falseEvidenceRate": "share of the unanswerable questions that got evidence",
    "missedRate": "share of the answerable questions that got none",
    "filterCoverage": "share of the questions for which L0 derived a category filter",
    "filterPrecision": "share of these filters with the right category, where it is known",
}
"""Names of the metrics, and what they say."""

LESS_IS_BETTER = frozenset({"falseEvidenceRate", "missedRate"})


class Estimate(Contract):
    """A mean over questions, with its 95 % interval."""

    value: float
    """Mean over the questions."""

    low: float
    """Lower end: percentile 2.5 over resampled questions."""

    high: float
    """Upper end: percentile 97.5."""

    questions: int
    """Questions that it is measured on."""


Metrics = dict[str, Estimate]
"""By name; one that cannot be measured with these questions is absent."""


class Comparison(Contract):
    """Another ranking of the same passages with the same embedder."""

    name: Peer
    """What ranks."""

    metrics: Metrics
    """Its ranking metrics."""

    gain: Metrics
    """What `lookup_knowledge` has above it, question by question."""


class CategoryReport(Contract):
    """The questions of one category."""

    category: str | None
    """As the questions, else the entries, write it; null where neither names one."""

    questions: int
    """Questions of this category."""

    metrics: Metrics
    """Their metrics."""


class FilterReport(Contract):
    """What L0's filter brought to a group of answerable questions."""

    group: FilterGroup
    """All that were filtered; those with the right or a wrong category; those whose filter was
    kept; those for which it was dropped, by reason."""

    fired: int
    """Questions of this group, unanswerable ones too."""

    ndcg: Estimate | None = None
    """nDCG@10 of the answerable ones, with the filter and its retry."""

    gain: Estimate | None = None
    """The same, above a search without a filter."""


class QuestionReport(Contract):
    """How one question fared."""

    id: str
    """Its id."""

    query: str
    """What was asked."""

    category: str | None
    """Category of its answer."""

    answerable: bool
    """Whether the documents answer it."""

    expected: tuple[str, ...]
    """Sources that answer it: sections where the question names them, else entries."""

    ndcg: float | None
    """nDCG@10 at that level; null for what no ranking can answer."""

    lost: Lost
    """Where the answer was lost, or that it was delivered."""

    rank: int | None
    """Rank of the best expected source among the ranked blocks, with the rule off."""

    found: bool
    """Whether the lookup called its evidence usable."""

    answerability: float = Field(ge=0, le=1)
    """What the rule says, in [0, 1]."""

    filter: str | None
    """Category that L0 derived."""

    fallback_reason: FallbackReason | None
    """Why the filter was dropped."""

    top: str | None
    """Source of the best block."""


class EvaluationReport(Contract):
    """Everything that was measured."""

    knowledge_version: str
    """Version of the knowledge base."""

    embedder: str
    """Its embedding model."""

    questions: int
    """Questions asked."""

    answerable: int
    """Of these, answerable ones."""

    metrics: Metrics
    """Over all questions."""

    comparisons: tuple[Comparison, ...]
    """Other rankings, as asked for."""

    filters: tuple[FilterReport, ...]
    """What L0's filter brought."""

    categories: tuple[CategoryReport, ...]
    """The same metrics, category by category."""

    lost: dict[Lost, int]
    """How many questions ended where."""

    missing: tuple[str, ...]
    """Relevant ids that the knowledge base does not hold; they count as not found."""

    details: tuple[QuestionReport, ...]
    """Every question, worst first."""
