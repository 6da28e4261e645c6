"""Settings: one frozen section for each stage, validated once.

Bounds stand here and nowhere else; a stage trusts what it is handed. `LookupConfig()` is what we
ship. Change a section by name:
`LookupConfig(retrieval=RetrievalConfig(reference_threshold=0.5))`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from lookup_tool.errors import ConfigurationError

PUBLIC = "public"
"""Stands for everybody where access groups are named; no group can be called so."""


class Section(BaseModel):
    """Base of the configuration sections."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


class PassageConfig(Section):
    """How entries are read and cut into passages; fixed when a knowledge base is built."""

    max_tokens: int = Field(default=270, ge=32, le=8192)
    """Longest passage, in approximate tokens; what small embedders read whole."""

    min_tokens: int = Field(default=40, ge=0)
    """A last piece under this joins the one before it."""

    default_access: tuple[str, ...] | None = None
    """Groups that may read an entry without `access`; `public` is everybody, an empty list nobody.
    By default a knowledge base keeps its own, and a new one is open to everybody."""

    @field_validator("default_access", mode="before")
    @classmethod
    def _one_name(cls, groups: object) -> object:
        return (groups,) if isinstance(groups, str) else groups

    @field_validator("default_access")
    @classmethod
    def _in_order(cls, groups: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if groups is None:
            return None
        names = {group.strip() for group in groups}
        if "" in names:
            raise ValueError("an access group needs a name")
        return tuple(sorted(names))

    def with_default_access(self, groups: str | Iterable[str] | None) -> Self:
        """Return the same settings with another default access; None leaves theirs."""
        if groups is None:
            return self
        given = groups if isinstance(groups, str) else tuple(groups)
        return self.model_validate({**self.model_dump(), "default_access": given})


class EmbeddingConfig(Section):
    """How an embedder is called that may be far away; one that runs in this process just is."""

    query_timeout: float = Field(default=30.0, gt=0)
    """Seconds until a lookup without a vector is `unavailable`, all attempts included."""

    batch_timeout: float = Field(default=300.0, gt=0)
    """Seconds until a batch of passages is given up or tried again."""

    attempts: int = Field(default=4, ge=1)
    """Calls until an embedder that is busy or not reachable is given up."""

    first_wait: float = Field(default=0.5, ge=0)
    """Seconds before the second attempt; doubled before each further one."""


class QueryConfig(Section):
    """How a query is prepared."""

    max_length: int = Field(default=2000, ge=16)
    """Characters that are kept: half from the start and half from the end."""

    transform: Callable[[str], str] | None = None
    """Rewrites the normalized query, with a model for instance."""


class HintsConfig(Section):
    """How L0 hints are used."""

    enabled: bool = True
    """Off: nothing is recognized, filtered or boosted."""

    filter: bool = True
    """Off: hints still boost and explain, and no search is filtered."""


class RetrievalConfig(Section):
    """How L1 searches."""

    enabled: bool = True
    """Off: no search is made and every lookup is `unavailable`."""

    candidates: int = Field(default=50, ge=1, le=1000)
    """Passages from the vector search."""

    lexical_candidates: int = Field(default=50, ge=0, le=1000)
    """Passages from BM25 beside them; 0 turns it off."""

    reference_threshold: float | None = Field(default=None, ge=0, le=1)
    """Similarity under which a filtered search is repeated without its filter; by default the
    knowledge base's own, which belongs to its embedder. One that is set here is final: evidence
    that reaches it is usable."""

    reference_ratio: float | None = Field(default=None, ge=0, le=1)
    """When set, a filtered search is compared with this share of the best similarity that is to be
    had without its filter, unless `reference_threshold` is set. It knows a wrong filter better than
    a fixed value does (measured on three document sets), but costs a scan of everything permitted,
    so it is off by default."""

    evidence_floor: float | None = Field(default=None, ge=0, le=1)
    """Similarity under which a candidate is not evidence; by default the knowledge base's own."""

    threads: int = Field(default=32, ge=1, le=1000)
    """Awaited lookups (`ainvoke`) of one tool at once, each in a thread that is not the
    application's. Half of the calls that an embedder gets at once, so that a slow one leaves room
    for other tools."""


class EvidenceConfig(Section):
    """What becomes evidence."""

    max_blocks: int = Field(default=10, ge=1, le=100)
    """Most blocks in a result."""

    minimum_answerability: float = Field(default=0.5, ge=0, le=1)
    """Answerability from which evidence is usable; 0 turns the rule off, and whatever is above the
    evidence floor is usable."""


class RerankConfig(Section):
    """Weight of each rerank signal; a signal lies in [0, 1].

    One set for every corpus and embedder, found on the development questions of five document
    sets. What each signal brings is measured by the quality benchmark.
    """

    similarity: float = Field(default=1.0, ge=0)
    """Similarity of the block's best passage."""

    bm25: float = Field(default=0.7, ge=0)
    """BM25 score over the best one among the usable blocks."""

    coverage: float = Field(default=0.55, ge=0)
    """Share of the query's terms in the text, weighted by their rarity."""

    entry: float = Field(default=0.5, ge=0)
    """Similarity of the whole entry: of the mean of its passages."""

    siblings: float = Field(default=0.1, ge=0)
    """How many other passages of the entry were found."""

    crowding: float = Field(default=0.1, ge=0)
    """Taken off where better blocks are of the same entry: a fifth for each, all for five. More
    shows more entries among the first blocks, and costs where one entry holds the answers: at 1, a
    quarter more entries among the first four, and .04 nDCG@10 of sections in a set of statutes."""

    title_hint: float = Field(default=0.4, ge=0)
    """L0 matched the entry's title."""

    keyword_hint: float = Field(default=0.15, ge=0)
    """L0 matched a keyword or an alias of the entry."""

    entity_hint: float = Field(default=0.15, ge=0)
    """L0 matched an entity of the entry."""

    category_hint: float = Field(default=0.1, ge=0)
    """The query names the entry's category."""

    content_hint: float = Field(default=0.05, ge=0)
    """A phrase that L0 recognized stands in the text."""


class PackConfig(Section):
    """How evidence is packed for the agent."""

    budget: int = Field(default=2000, ge=1)
    """Most that the packed text may take."""

    unit: Literal["tokens", "characters"] = "tokens"
    """What is counted."""

    count_tokens: Callable[[str], int] | None = None
    """Counts tokens exactly; by default four UTF-8 bytes are taken for one token."""


class AssembleConfig(Section):
    """How the result is put together."""

    legacy_fields: bool = False
    """Add `primary` and `supplement`, views of the evidence blocks."""

    high: float = Field(default=0.8, ge=0, le=1)
    """Answerability from which the relevance level is `high`."""

    medium: float = Field(default=0.6, ge=0, le=1)
    """Answerability from which the relevance level is `medium`."""


class RecordConfig(Section):
    """What the trace row keeps, and which rows the trace store keeps.

    All rows, by default: other programs may write to the same store, and what they recorded goes
    only where somebody says so.
    """

    excerpt_chars: int = Field(default=80, ge=0, le=500)
    """Longest excerpt of a block's content; 0 keeps none."""

    max_bytes: int = Field(default=8192, ge=1024)
    """Most that `retrieval_details` may take, as UTF-8 JSON."""

    redact: Callable[[str], str] | None = None
    """Applied to every query text before it is stored."""

    keep_rows: int | None = Field(default=None, ge=1)
    """Newest rows of the store that are kept, give or take a thousand; by default all. Older ones
    are deleted beside the lookups, at the first, and then once an hour or every thousand."""

    keep_days: float | None = Field(default=None, gt=0, le=36_500)
    """Days that a row of the store is kept; by default for ever."""


class LookupConfig(Section):
    """All settings of a lookup."""

    passages: PassageConfig = PassageConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    query: QueryConfig = QueryConfig()
    hints: HintsConfig = HintsConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    rerank: RerankConfig = RerankConfig()
    pack: PackConfig = PackConfig()
    assemble: AssembleConfig = AssembleConfig()
    record: RecordConfig = RecordConfig()


def as_groups(groups: object) -> frozenset[str]:
    """Read access groups from a list, a tuple or a set of names, one name, or None.

    White space around a name is no part of it.

    Raises:
        ConfigurationError: It is something else, or a name is empty; a caller whose groups cannot
            be read is not let in.
    """
    if groups is None:
        return frozenset()
    if isinstance(groups, str):
        groups = (groups,)
    if not isinstance(groups, (list, tuple, set, frozenset)):
        raise ConfigurationError(
            f"access groups must be a list, a tuple or a set of names, not {type(groups).__name__}"
        )
    names = cast("Iterable[object]", groups)
    return frozenset(_group(name) for name in names)


def _group(name: object) -> str:
    stripped = name.strip() if isinstance(name, str) else ""
    if not stripped:
        kind = "an empty one" if isinstance(name, str) else f"a {type(name).__name__}"
        raise ConfigurationError(f"an access group must be a name, not {kind}")
    return stripped


@dataclass(frozen=True)
class LookupContext:
    """Who asks; comes from the application, never from the model."""

    groups: tuple[str, ...] = ()
    """Access groups of the caller, in order; none means public entries only."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(sorted(as_groups(self.groups))))


def groups_of(context: object) -> frozenset[str]:
    """Read the caller's groups from a run's context, an object or a mapping; else none.

    Raises:
        ConfigurationError: It has `groups`, and they cannot be read.
    """
    if isinstance(context, Mapping):
        return as_groups(cast("Mapping[str, object]", context).get("groups"))
    # A property that fails is not a missing one: it raises here.
    has_groups = hasattr(context, "groups") or hasattr(type(context), "groups")
    return as_groups(cast("Any", context).groups) if has_groups else frozenset()


Groups = Collection[str] | Callable[[Any], Collection[str]]
"""Access groups, or a function of a run's runtime that returns them."""

WhoAsks = Callable[[Any], LookupContext]
"""Says from LangGraph's `Runtime` or `ToolRuntime` who asks; from None outside a run."""


def who_asks(groups: Groups | None = None) -> WhoAsks:
    """Return a function that says who asks, from what the application has given.

    Args:
        groups: The caller's, or a function of the runtime that returns them; by default those of
            the runtime's context.

    Raises:
        ConfigurationError: The groups cannot be read; from a function, when it is called.
    """
    if groups is None:
        return caller_of
    if callable(groups):
        return lambda runtime: LookupContext(groups=tuple(as_groups(groups(runtime))))
    caller = LookupContext(groups=tuple(as_groups(groups)))
    return lambda runtime: caller


def caller_of(runtime: Any) -> LookupContext:
    """Return who asks as the runtime's context says it, which the application has set."""
    context = getattr(runtime, "context", None)
    if isinstance(context, LookupContext):
        return context
    return LookupContext(groups=tuple(groups_of(context)))
