"""The result contract: what goes out of a lookup.

Frozen models, snake_case in Python and camelCase in JSON. `result.model_dump(mode="json")` is made
of plain JSON types only and survives a checkpointer. A new field needs a docstring: it is the
field's description in the JSON schema.
"""

import re
from pathlib import PureWindowsPath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

EvidenceStatus = Literal["sufficient", "weak", "no_evidence", "unavailable"]
RelevanceLevel = Literal["high", "medium", "low", "none"]
FallbackReason = Literal["filtered_vector_no_evidence", "filtered_vector_low_quality"]
AttemptOutcome = Literal["accepted", "low_quality", "no_evidence", "error"]

_LOCAL_PATH = re.compile(r"(?:^|[:(])(?=(?:~|\.\.?|[A-Za-z]:)?[/\\])")
"""Where a path begins in an embedder's name: of a model on this machine, not of one on a hub."""


class Contract(BaseModel):
    """Base of the result contract."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
    )


class LineRange(Contract):
    """Lines of the entry's file, counted from 1, both ends included."""

    start: int = Field(ge=1)
    """First line."""

    end: int = Field(ge=1)
    """Last line."""


class EvidenceBlock(Contract):
    """One section that supports an answer, with the place it came from."""

    source: str
    """Identity of the section: the entry's path, with `#slug` from its second heading on."""

    title: str | None
    """Title of the entry."""

    breadcrumb: tuple[str, ...]
    """Title and headings that lead to the section, outermost first."""

    category: str | None
    """Category of the entry, as its author wrote it."""

    retrieval_layer: Literal["L1"] = "L1"
    """The layer that found it; hints (L0) never find evidence."""

    content: str
    """The text; `[...]` marks passages of the section that were left out."""

    similarity: float = Field(ge=0, le=1)
    """Normalized similarity of the best passage to the query; 1 is identical."""

    score: float
    """Rerank score: the sum of the contributions in the rerank trace."""

    rank: int = Field(ge=1)
    """Place after reranking; 1 is the best."""

    hit_reasons: tuple[str, ...]
    """What spoke for it: `vector`, `lexical`, `title:...`, `keyword:...`, `entity:...`,
    `category:...`, `content:...`."""

    lines: LineRange
    """Where the content stands in the entry."""

    duplicates: tuple[str, ...] = ()
    """Other sources with the same text."""


class IncludedSource(Contract):
    """A block whose content is in the packed context."""

    source: str
    """Identity of the block."""

    truncated: bool
    """Whether its content was cut to fit the budget."""


class OmittedSource(Contract):
    """A block that did not fit into the packed context."""

    source: str
    """Identity of the block."""

    reason: str
    """Why it was left out."""


class ContextPack(Contract):
    """The evidence as one text for the agent, within a budget."""

    text: str = ""
    """Blocks, best first, each with its header; empty when there is no evidence."""

    budget: int = Field(ge=0)
    """Most that `text` may take, in `unit`."""

    used: int = Field(default=0, ge=0)
    """What `text` takes, in `unit`."""

    unit: Literal["tokens", "characters"] = "tokens"
    """What is counted."""

    included: tuple[IncludedSource, ...] = ()
    """Blocks in `text`, in its order."""

    omitted: tuple[OmittedSource, ...] = ()
    """Blocks left out, best first."""

    summary: str = ""
    """What was included and left out, in one sentence."""


class HintSummary(Contract):
    """What L0 recognized in the query; it explains and filters, and is never evidence."""

    titles: tuple[str, ...] = ()
    """Titles of matched entries, at most 20."""

    keywords: tuple[str, ...] = ()
    """Matched keywords and aliases."""

    categories: tuple[str, ...] = ()
    """Categories of the matched entries, and those that the query names."""

    entities: tuple[str, ...] = ()
    """Matched entities."""

    entry_count: int = Field(default=0, ge=0)
    """How many entries were matched."""


class RetrievalAttempt(Contract):
    """One search."""

    strategy: Literal["filtered", "unfiltered"]
    """Whether the category filter that L0 derived was applied."""

    query: str
    """The text that was searched for."""

    filter: dict[str, str] | None
    """The derived filter, `{"category": ...}`; access is enforced beside it, always."""

    candidate_count: int = Field(default=0, ge=0)
    """Different texts that the search returned."""

    evidence_count: int | None = Field(default=None, ge=0)
    """Usable blocks built afterwards, before the best are chosen; null when it was left before."""

    top_similarity: float | None = Field(default=None, ge=0, le=1)
    """Similarity of the best candidate."""

    reference_threshold: float = Field(ge=0, le=1)
    """Similarity under which a filtered search is repeated without its filter."""

    unfiltered_top_similarity: float | None = Field(default=None, ge=0, le=1)
    """Best similarity without the filter; null unless the threshold is a ratio of it."""

    outcome: AttemptOutcome
    """How it ended."""

    reason: str
    """Why it was made: what the filter rests on, `no_filter`, or the fallback reason."""

    error: str | None = None
    """Class of the error that ended it, if one did."""

    duration_ms: float = Field(ge=0)
    """Wall time of the search, in milliseconds."""


class StageTiming(Contract):
    """Wall time of one stage."""

    stage: str
    """Node of the graph, or `framework` for what the stages do not account for."""

    duration_ms: float
    """Milliseconds."""


class RetrievalTrace(Contract):
    """How the evidence was looked for."""

    query: str
    """The query as given; its middle is cut out when it was over the limit."""

    query_length: int = Field(ge=0)
    """Characters of the query as given."""

    query_cut: bool
    """Whether its middle was cut out, for the limit or for what the embedder reads."""

    transformed_query: str
    """The query that was searched for first."""

    hints: HintSummary
    """What L0 recognized."""

    attempts: tuple[RetrievalAttempt, ...] = ()
    """Every search, in order."""

    fallback_reason: FallbackReason | None = None
    """Why the filter was dropped, if it was."""

    candidate_count: int = Field(default=0, ge=0)
    """Different texts that post-processing received."""

    evidence_block_count: int = Field(default=0, ge=0)
    """Blocks in the result."""

    answerability: float | None = Field(default=None, ge=0, le=1)
    """Estimated probability that the evidence answers the query; null when nothing was searched."""

    knowledge_version: str
    """Changes whenever what the caller may see of the knowledge base changes."""

    embedder: str
    """Name of the embedding model."""

    duration_ms: float = Field(default=0.0, ge=0)
    """Wall time of the whole lookup, in milliseconds."""

    timings: tuple[StageTiming, ...] = ()
    """Where the time went; adds up to `durationMs`."""

    invocation_id: str
    """Identifies the row in the trace store."""

    error: str | None = None
    """Class of the error that ended the lookup, if one did."""

    record_error: str | None = None
    """Why the trace row could not be written, if it could not: a class and a short text."""

    @field_validator("embedder")
    @classmethod
    def _without_folder(cls, name: str) -> str:
        """Leave out the folder of a model on this machine, which is nobody else's business."""
        path = _LOCAL_PATH.search(name)
        return (
            name if path is None else name[: path.end()] + PureWindowsPath(name[path.end() :]).name
        )


class ScoreContribution(Contract):
    """What one signal adds to a score."""

    signal: str
    """Name of the signal."""

    amount: float
    """Weight times signal."""

    detail: str
    """What it rests on."""


class RerankEntry(Contract):
    """How one block came to its rank."""

    rank: int = Field(ge=1)
    """Final rank."""

    rank_before: int = Field(ge=1)
    """Rank by similarity alone."""

    source: str
    """Identity of the block."""

    base_score: float = Field(ge=0, le=1)
    """Its similarity."""

    score: float
    """Sum of the contributions."""

    contributions: tuple[ScoreContribution, ...]
    """Every signal that fired."""


class RerankTrace(Contract):
    """Why the blocks stand in this order."""

    entries: tuple[RerankEntry, ...] = ()
    """One for each block, best first."""


class CompletenessHint(Contract):
    """What the packed evidence leaves open."""

    level: Literal["complete", "partial", "none"]
    """`complete`: every term is mentioned and nothing was cut or left out."""

    missing_terms: tuple[str, ...] = ()
    """Words of the question that no included evidence mentions."""

    note: str
    """The same in one sentence."""


def _absent(value: object) -> bool:
    return value is None


class LookupResult(Contract):
    """What one lookup found, and how."""

    found: bool
    """There is usable evidence."""

    evidence_status: EvidenceStatus
    """`sufficient`: usable and at or above the reference threshold; `weak`: usable, below it;
    `no_evidence`: nothing usable; `unavailable`: the search failed or is switched off."""

    message: str
    """One or two sentences for the agent."""

    relevance_level: RelevanceLevel
    """Band of the estimated probability that the evidence answers the question."""

    completeness_hint: CompletenessHint
    """How much of the question the packed evidence speaks about."""

    evidence_blocks: tuple[EvidenceBlock, ...] = ()
    """Evidence, best first; empty on a miss."""

    context_pack: ContextPack
    """The evidence as text for the agent."""

    retrieval_trace: RetrievalTrace
    """How it was looked for."""

    rerank_trace: RerankTrace = RerankTrace()
    """Why it stands in this order."""

    primary: EvidenceBlock | None = Field(default=None, exclude_if=_absent)
    """First block; present only with `legacy_fields=True`."""

    supplement: tuple[EvidenceBlock, ...] | None = Field(default=None, exclude_if=_absent)
    """The other blocks; present only with `legacy_fields=True`."""
