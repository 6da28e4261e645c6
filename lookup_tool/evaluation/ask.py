"""Ask questions in every way that is measured.

Every question goes through the compiled machine: once as it is shipped, which measures abstention,
and once with the answerability rule off, which measures the ranking of the blocks before packing;
where L0 filtered, once more without the filter. The ranking is that of the same searches: where
the shipped lookup dropped its filter because nothing usable was left, it is taken after the retry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from lookup_tool.config import LookupConfig
from lookup_tool.contracts import FallbackReason
from lookup_tool.evaluation.lookups import (
    Look,
    Lookup,
    Remembering,
    always_retried,
    lookups,
    ranking_config,
    unfiltered,
)
from lookup_tool.evaluation.lost import Lookups, where_lost
from lookup_tool.evaluation.peers import rank_passages
from lookup_tool.evaluation.questions import Gold, GoldFinder, Question
from lookup_tool.evaluation.report import Lost, Peer
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.text import category_key

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Ranking:
    """What came first."""

    documents: tuple[str, ...]
    sections: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """A question, and what was seen of its lookups."""

    question: Question
    gold: Gold
    shipped: Lookup
    ranking: Ranking
    unfiltered: Ranking
    peers: Mapping[Peer, Ranking]
    lost: Lost
    rank: int | None

    @property
    def answerability(self) -> float:
        """What the rule says; 0 where nothing was searched."""
        return self.shipped.result.retrieval_trace.answerability or 0.0

    @property
    def fallback_reason(self) -> FallbackReason | None:
        """Why the filter was dropped."""
        return self.shipped.result.retrieval_trace.fallback_reason

    @property
    def filter_is_right(self) -> bool | None:
        """Whether L0 chose the right category; None where there is no filter, or no right one."""
        known = self.question.answerable and self.gold.categories
        if self.shipped.filter is None or not known:
            return None
        return category_key(self.shipped.filter) in self.gold.categories


def ask(  # noqa: PLR0913, PLR0917 - `evaluate` without its defaults
    knowledge: KnowledgeBase,
    questions: Sequence[Question],
    config: LookupConfig,
    compare: Sequence[Peer],
    groups: frozenset[str],
    progress: Progress | None = None,
) -> list[Asked]:
    """Look every question up in every way that is measured."""
    finder = GoldFinder(knowledge, groups)
    remembering = cast("KnowledgeBase", Remembering(knowledge))
    ranking = ranking_config(config)
    shipped, ranked, retried, plain = (
        lookups(remembering, settings, groups)
        for settings in (config, ranking, always_retried(ranking), unfiltered(ranking))
    )
    asked: list[Asked] = []
    for question in questions:
        gold = finder.find(question)
        seen = _look(question.query, shipped, ranked, retried, plain)
        lost, rank = _lost(question, gold, seen)
        passages = rank_passages(knowledge, question.query, groups) if compare else {}
        asked.append(
            Asked(
                question=question,
                gold=gold,
                shipped=seen.shipped,
                ranking=Ranking(seen.ranked.documents, seen.ranked.sections),
                unfiltered=Ranking(seen.unfiltered.documents, seen.unfiltered.sections),
                peers={
                    name: Ranking(tuple(p.entry for p in ranks), tuple(p.source for p in ranks))
                    for name, ranks in passages.items()
                },
                lost=lost,
                rank=rank,
            )
        )
        if progress is not None:
            progress(len(asked), len(questions))
    return asked


def _look(query: str, shipped: Look, ranked: Look, retried: Look, plain: Look) -> Lookups:
    answer = shipped(query)
    dropped = answer.result.retrieval_trace.fallback_reason == "filtered_vector_no_evidence"
    laid_bare = (retried if dropped else ranked)(query)
    without = laid_bare if answer.filter is None else plain(query)
    return Lookups(answer, laid_bare, without)


def _lost(question: Question, gold: Gold, seen: Lookups) -> tuple[Lost, int | None]:
    found = seen.shipped.result.found
    if not question.answerable:
        return ("false_evidence" if found else "abstained"), None
    if not gold.expected:
        return ("delivered" if found else "not_usable"), None
    return where_lost(gold, seen)
