"""Run questions through the compiled machine, as it is shipped and with its ranking laid bare."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lookup_tool.config import LookupConfig, LookupContext, PackConfig
from lookup_tool.contracts import LookupResult
from lookup_tool.errors import LookupToolError
from lookup_tool.graph.app import TOOL_NAME
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import StoredPassage

RANKED_BLOCKS = 100
"""Blocks that are ranked for measuring: sections of enough entries that ten can be told apart."""


@dataclass(frozen=True)
class Lookup:
    """One lookup, with what its result leaves out."""

    result: LookupResult

    candidates: Mapping[str, float]
    """Best similarity of each section among the candidates."""

    usable: frozenset[str]
    """Sections that were usable, ranked among the returned ones or not."""

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
    def packed(self) -> tuple[str, ...]:
        """Sections whose text is in the context pack."""
        included = {part.source for part in self.result.context_pack.included}
        blocks = [block for block in self.result.evidence_blocks if block.source in included]
        return tuple(source for block in blocks for source in (block.source, *block.duplicates))

    @property
    def filter(self) -> str | None:
        """Category of the first search."""
        attempts = self.result.retrieval_trace.attempts
        return attempts[0].filter["category"] if attempts and attempts[0].filter else None

    @property
    def filter_kept(self) -> bool:
        """Whether the evidence comes from a filtered search."""
        return self.filter is not None and self.result.retrieval_trace.fallback_reason is None


Look = Callable[[str], Lookup]


class Remembering:
    """A knowledge base that stays as it is and makes the latest searches only once."""

    def __init__(self, knowledge: KnowledgeBase) -> None:
        self._view = knowledge.view()
        self.search = lru_cache(maxsize=4)(self._view.search)

    def view(self) -> "Remembering":
        """Stand for the generation that every lookup uses."""
        return self

    def __getattr__(self, name: str) -> object:
        return getattr(self._view, name)


def lookups(
    knowledge: KnowledgeBase, config: LookupConfig, groups: frozenset[str] = frozenset()
) -> Look:
    """Return a function that looks a query up in the compiled machine; nothing is recorded.

    Raises:
        LookupToolError: By that function, when a lookup is `unavailable`.
    """
    graph = draw(LookupNodes(knowledge, config, None, TOOL_NAME)).compile(checkpointer=False)
    context = LookupContext(groups=tuple(sorted(groups)))

    def look(query: str) -> Lookup:
        state: dict[str, Any] = graph.invoke(
            {"query": query}, context=context, output_keys=["result", "found", "evidence"]
        )
        result: LookupResult = state["result"]
        if result.evidence_status == "unavailable":
            error = result.retrieval_trace.error or "retrieval is switched off"
            raise LookupToolError(f"the lookup of {query!r} failed ({error}); nothing was measured")
        rows = [found.row for found in state["found"].candidates]
        return _lookup(state, knowledge.view().passages(rows, groups))

    return look


def ranking_config(config: LookupConfig) -> LookupConfig:
    """Return settings under which everything above the evidence floor is ranked, and not packed."""
    evidence = {"minimum_answerability": 0.0, "max_blocks": RANKED_BLOCKS}
    return config.model_copy(
        update={
            "evidence": config.evidence.model_copy(update=evidence),
            "pack": PackConfig(budget=1, unit="characters"),
        }
    )


def unfiltered(config: LookupConfig) -> LookupConfig:
    """Return settings under which no search is filtered."""
    return config.model_copy(update={"hints": config.hints.model_copy(update={"filter": False})})


def always_retried(config: LookupConfig) -> LookupConfig:
    """Return settings under which a filtered search is always followed by an unfiltered one."""
    retrieval = config.retrieval.model_copy(update={"reference_threshold": 1.0})
    return config.model_copy(update={"retrieval": retrieval})


def _lookup(state: Mapping[str, Any], passages: Mapping[int, StoredPassage]) -> Lookup:
    candidates: dict[str, float] = {}
    entries: dict[str, str] = {}
    for found in state["found"].candidates:  # best similarity first
        passage = passages[found.row]
        candidates.setdefault(passage.source, found.similarity)
        entries[passage.source] = passage.entry
    blocks = state["evidence"].blocks
    usable = frozenset(source for block in blocks for source in (block.source, *block.duplicates))
    return Lookup(state["result"], candidates, usable, entries)
