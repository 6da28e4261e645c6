"""What an evaluation says: frozen models, camelCase in JSON like the result contract."""

from typing import Literal

from pydantic import Field

from lookup_tool.contracts import Contract, EvidenceStatus, FallbackReason

Peer = Literal["bm25", "dense", "rrf"]

Grouping = Literal["category", "kind", "language"]

FilterGroup = Literal["all", "right", "wrong", "kept"] | FallbackReason

Lost = Literal[
    "not_in_knowledge_base",
    "hidden_by_filter",
    "not_retrieved",
    "below_evidence_floor",
    "not_usable",
    "ranked_low",
    "left_out_of_pack",
    "cut_away",
    "delivered",
    "false_evidence",
    "abstained",
]

METRICS = {
    "delivered": "share of the answerable questions with a relevant entry in the packed text, any "
    "passage of it",
    "deliveredSection": "share with a relevant section in the packed text, over the questions that "
    "name sections: other passages of its entry do not count",
    "deliveredRuleOff": "`delivered` with the answerability rule off: what ranking and packing do",
    "deliveredSectionRuleOff": "`deliveredSection` with the rule off",
    "deliveredRank": "mean rank among the packed blocks of the first relevant entry that was "
    "delivered",
    "deliveredSectionRank": "the same of the first relevant section",
    "packUsed": "mean size of the packed text over the questions with evidence, in the unit of its "
    "budget (tokens)",
    "missedRate": "share of the answerable questions that were refused: they got no evidence",
    "answerableSufficient": "share of the answerable questions whose evidence is `sufficient`",
    "answerableWeak": "share of them whose evidence is `weak`",
    "falseEvidenceRate": "share of the unanswerable questions that got any evidence",
    "unanswerableSufficient": "share of the unanswerable questions whose evidence is `sufficient`",
    "unanswerableWeak": "share of them whose evidence is `weak`",
    "auroc": "chance that an answerable question has a higher answerability than another",
    "ndcg@10": "nDCG of the first ten entries, with grades where the questions have them",
    "recall@5": "share of the relevant entries among the first five",
    "recall@10": "the same among the first ten",
    "mrr@10": "one over the rank of the first relevant entry among ten",
    "section.ndcg@10": "nDCG of the first ten sections, over the questions that name sections",
    "section.recall@5": "share of the relevant sections among the first five",
    "section.recall@10": "the same among the first ten",
    "section.mrr@10": "one over the rank of the first relevant section among ten",
    "filterCoverage": "share of the questions for which L0 derived a category filter",
    "filterPrecision": "share of these filters with the right category, where it is known",
}
"""Names of the metrics, and what they say."""

LESS_IS_BETTER = frozenset(
    {
        *("deliveredRank", "deliveredSectionRank", "packUsed", "missedRate", "answerableWeak"),
        *("falseEvidenceRate", "unanswerableSufficient", "unanswerableWeak"),
    }
)


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
    """Another ranking of the same passages with the same embedder, in the same budget."""

    name: Peer
    """What ranks."""

    metrics: Metrics
    """Its ranking metrics, and what its passages deliver in the budget of the packed text."""

    gain: Metrics
    """What `lookup_knowledge` has above it, question by question; `deliveredRuleOff` is its
    `delivered` with the rule off above the other's `delivered`."""


class SliceReport(Contract):
    """The questions of one category, kind or language."""

    name: str | None
    """A category as the questions, else the entries, write it, or a kind or language as the
    questions do; null where none is named."""

    questions: int
    """How many they are."""

    metrics: Metrics
    """Their metrics."""

    comparisons: dict[Peer, Metrics]
    """Those of the other rankings, as asked for."""


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

    kind: str | None
    """Kind of question."""

    language: str | None
    """Its language."""

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

    evidence_status: EvidenceStatus
    """What the lookup called its evidence."""

    packed_rank: int | None
    """Rank of the best expected source among the packed blocks; null when it was not delivered."""

    packed_rank_rule_off: int | None
    """The same with the rule off."""

    packed_rank_of_peers: dict[Peer, int | None]
    """The same in the passages of other rankings, as asked for."""

    used: int
    """What the packed text takes, in the unit of its budget."""

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

    by: Grouping
    """What `slices` tells apart."""

    slices: tuple[SliceReport, ...]
    """The same metrics of the questions of each category, kind or language."""

    lost: dict[Lost, int]
    """How many questions ended where."""

    missing: tuple[str, ...]
    """Relevant ids that the knowledge base does not hold; they count as not found."""

    details: tuple[QuestionReport, ...]
    """Every question, worst first."""
