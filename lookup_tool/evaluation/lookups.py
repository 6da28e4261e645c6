"""Run a question through the compiled machine, as it is shipped and in the ways it is measured.

The searches are those of the shipped lookup: where it dropped its filter because nothing usable was
left, the other lookups search without the filter too.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from lookup_tool.config import LookupConfig, LookupContext, PackConfig
from lookup_tool.contracts import LookupResult
from lookup_tool.errors import LookupToolError
from lookup_tool.evaluation.delivery import PackedText, read_pack
from lookup_tool.graph.app import TOOL_NAME
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import Candidate, StoredPassage

RANKED_BLOCKS = 100
"""Blocks that are ranked for measuring: sections of enough entries that ten can be told apart."""


@dataclass(frozen=True)
class LookupRun:
    """One lookup: its result, and what the result leaves out."""

    result: LookupResult

    best_passages: Mapping[str, frozenset[str]]
    """For each section among the candidates, the texts of the nearest passage and of the one with
    the best BM25 score."""

    usable: frozenset[str]
    """Sections that were usable, among the returned blocks or not."""

    entries: Mapping[str, str]
    """Entry of each section."""

    @property
    def sections(self) -> tuple[str, ...]:
        """Sections of the blocks, best first; those with the same text follow their block."""
        return tuple(
            source
            for block in self.result.evidence_blocks
            for source in (block.source, *block.duplicates)
        )

    @property
    def documents(self) -> tuple[str, ...]:
        """Entries of the blocks, best first."""
        return tuple(dict.fromkeys(self.entries[source] for source in self.sections))

    @property
    def included(self) -> tuple[str, ...]:
        """Sections of the blocks in the packed text, whatever part of them is there."""
        included = {part.source for part in self.result.context_pack.included}
        blocks = [block for block in self.result.evidence_blocks if block.source in included]
        return tuple(source for block in blocks for source in (block.source, *block.duplicates))

    @property
    def packed(self) -> PackedText:
        """What the packed text delivers."""
        return read_pack(self.result, self.best_passages, self.entries)

    @property
    def filter(self) -> str | None:
        """Category of the first search."""
        attempts = self.result.retrieval_trace.attempts
        return attempts[0].filter["category"] if attempts and attempts[0].filter else None

    @property
    def filter_kept(self) -> bool:
        """Whether the evidence comes from a filtered search."""
        return self.filter is not None and self.result.retrieval_trace.fallback_reason is None


@dataclass(frozen=True)
class QuestionRuns:
    """The lookups of one question."""

    shipped: LookupRun
    """As the product answers."""

    rule_off: LookupRun
    """With the answerability rule off."""

    ranked: LookupRun
    """With the rule off and up to `RANKED_BLOCKS` blocks."""

    unfiltered: LookupRun
    """The same as `ranked`, without L0's filter."""


class QuestionRunner:
    """Looks questions up in every way that is measured, for one caller."""

    def __init__(
        self, knowledge: KnowledgeBase, config: LookupConfig, groups: frozenset[str]
    ) -> None:
        cached = cast("KnowledgeBase", _CachedKnowledge(knowledge))
        ways = (rule_off(config), ranking_config(config))
        self._shipped = lookup_with(cached, config, groups)
        self._once = [lookup_with(cached, way, groups) for way in ways]
        self._retried = [lookup_with(cached, always_retried(way), groups) for way in ways]
        self._unfiltered = lookup_with(cached, unfiltered(ranking_config(config)), groups)

    def run(self, query: str) -> QuestionRuns:
        """Look one question up.

        Raises:
            LookupToolError: A lookup is `unavailable`.
        """
        shipped = self._shipped(query)
        dropped = shipped.result.retrieval_trace.fallback_reason == "filtered_vector_no_evidence"
        without_rule, ranked = (
            lookup(query) for lookup in (self._retried if dropped else self._once)
        )
        without_filter = ranked if shipped.filter is None else self._unfiltered(query)
        return QuestionRuns(shipped, without_rule, ranked, without_filter)


class _CachedKnowledge:
    """A knowledge base that stays as it is and makes the latest searches only once."""

    def __init__(self, knowledge: KnowledgeBase) -> None:
        self._view = knowledge.view()
        self.search = lru_cache(maxsize=4)(self._view.search)

    def view(self) -> "_CachedKnowledge":
        """Stand for the generation that every lookup uses."""
        return self

    def __getattr__(self, name: str) -> object:
        return getattr(self._view, name)


def lookup_with(
    knowledge: KnowledgeBase, config: LookupConfig, groups: frozenset[str] = frozenset()
) -> Callable[[str], LookupRun]:
    """Return a function that looks a query up in the compiled machine; nothing is recorded.

    Raises:
        LookupToolError: By that function, when a lookup is `unavailable`.
    """
    graph = draw(LookupNodes(knowledge, config, None, TOOL_NAME)).compile(checkpointer=False)
    context = LookupContext(groups=tuple(sorted(groups)))

    def look_up(query: str) -> LookupRun:
        state: dict[str, Any] = graph.invoke(
            {"query": query}, context=context, output_keys=["result", "found", "evidence"]
        )
        result: LookupResult = state["result"]
        if result.evidence_status == "unavailable":
            error = result.retrieval_trace.error or "retrieval is switched off"
            raise LookupToolError(f"the lookup of {query!r} failed ({error}); nothing was measured")
        candidates: Sequence[Candidate] = state["found"].candidates
        passages = knowledge.view().passages([each.row for each in candidates], groups)
        blocks = state["evidence"].blocks
        return LookupRun(
            result=result,
            best_passages=_best_passages(candidates, passages),
            usable=frozenset(s for block in blocks for s in (block.source, *block.duplicates)),
            entries={passage.source: passage.entry for passage in passages.values()},
        )

    return look_up


def rule_off(config: LookupConfig) -> LookupConfig:
    """Return settings under which everything above the evidence floor is usable."""
    evidence = config.evidence.model_copy(update={"minimum_answerability": 0.0})
    return config.model_copy(update={"evidence": evidence})


def ranking_config(config: LookupConfig) -> LookupConfig:
    """Return settings under which everything above the evidence floor is ranked, and not packed."""
    without_rule = rule_off(config)
    evidence = without_rule.evidence.model_copy(update={"max_blocks": RANKED_BLOCKS})
    nothing = PackConfig(budget=1, unit="characters")
    return without_rule.model_copy(update={"evidence": evidence, "pack": nothing})


def unfiltered(config: LookupConfig) -> LookupConfig:
    """Return settings under which no search is filtered."""
    return config.model_copy(update={"hints": config.hints.model_copy(update={"filter": False})})


def always_retried(config: LookupConfig) -> LookupConfig:
    """Return settings under which a filtered search is always followed by an unfiltered one."""
    retrieval = config.retrieval.model_copy(update={"reference_threshold": 1.0})
    return config.model_copy(update={"retrieval": retrieval})


def _best_passages(
    candidates: Sequence[Candidate], passages: Mapping[int, StoredPassage]
) -> dict[str, frozenset[str]]:
    """Return, by section, the texts of the nearest candidate and of the best by BM25."""
    by_section: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_section[passages[candidate.row].source].append(candidate)
    return {
        source: frozenset(
            passages[best.row].text
            for best in (
                max(found, key=lambda each: each.similarity),
                max(found, key=lambda each: each.bm25),
            )
        )
        for source, found in by_section.items()
    }
