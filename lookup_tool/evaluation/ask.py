"""Ask questions, and note the outcome of each in every way that is measured.

Every question goes through the compiled machine: as it is shipped, which measures abstention and
delivery; with the answerability rule off, which measures what ranking and packing can deliver; with
the rule off and many blocks, which measures the ranking before packing; and where L0 filtered, once
more without the filter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lookup_tool.config import LookupConfig, PackConfig
from lookup_tool.contracts import FallbackReason
from lookup_tool.evaluation.delivery import PackedText, rank_of
from lookup_tool.evaluation.lookups import LookupRun, QuestionRunner, QuestionRuns
from lookup_tool.evaluation.lost import where_lost
from lookup_tool.evaluation.peers import fill_budget, rank_passages
from lookup_tool.evaluation.questions import Gold, GoldFinder, Question
from lookup_tool.evaluation.report import Lost, Peer
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import StoredPassage
from lookup_tool.text import category_key

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Ranking:
    """Entries and sections, each best first."""

    documents: tuple[str, ...]
    sections: tuple[str, ...]


@dataclass(frozen=True)
class PeerOutcome:
    """What another ranking makes of a question."""

    ranking: Ranking
    packed: PackedText


@dataclass(frozen=True)
class QuestionOutcome:
    """A question, and what was measured of its lookups."""

    question: Question
    gold: Gold
    shipped: LookupRun
    packed: PackedText
    """What the shipped lookup delivers."""

    packed_rule_off: PackedText
    """What it would with the answerability rule off."""

    ranking: Ranking
    unfiltered: Ranking
    peers: Mapping[Peer, PeerOutcome]
    lost: Lost
    rank: int | None
    """Rank of the first expected source in `ranking`, by blocks."""

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

    def packed_rank(self, packed: PackedText) -> int | None:
        """Return the rank of the first packed block that delivers an expected source, or None."""
        if not self.question.answerable:
            return None
        blocks = packed.sections if self.gold.sections else packed.entries
        return rank_of(self.gold.expected, blocks)


def ask(  # noqa: PLR0913, PLR0917 - `evaluate` without its defaults
    knowledge: KnowledgeBase,
    questions: Sequence[Question],
    config: LookupConfig,
    compare: Sequence[Peer],
    groups: frozenset[str],
    progress: Progress | None = None,
) -> list[QuestionOutcome]:
    """Look every question up in every way that is measured."""
    finder = GoldFinder(knowledge, groups)
    runner = QuestionRunner(knowledge, config, groups)
    outcomes: list[QuestionOutcome] = []
    for question in questions:
        passages = rank_passages(knowledge, question.query, groups) if compare else {}
        peers: dict[Peer, PeerOutcome] = {
            name: _peer(name, passages[name], config.pack) for name in compare
        }
        outcomes.append(
            _outcome(question, finder.find(question), runner.run(question.query), peers)
        )
        if progress is not None:
            progress(len(outcomes), len(questions))
    return outcomes


def _outcome(
    question: Question, gold: Gold, runs: QuestionRuns, peers: Mapping[Peer, PeerOutcome]
) -> QuestionOutcome:
    lost, rank = _lost(question, gold, runs)
    return QuestionOutcome(
        question=question,
        gold=gold,
        shipped=runs.shipped,
        packed=runs.shipped.packed,
        packed_rule_off=runs.rule_off.packed,
        ranking=Ranking(runs.ranked.documents, runs.ranked.sections),
        unfiltered=Ranking(runs.unfiltered.documents, runs.unfiltered.sections),
        peers=peers,
        lost=lost,
        rank=rank,
    )


def _peer(name: Peer, passages: Sequence[StoredPassage], config: PackConfig) -> PeerOutcome:
    ranking = Ranking(tuple(p.entry for p in passages), tuple(p.source for p in passages))
    return PeerOutcome(ranking, fill_budget(name, passages, config))


def _lost(question: Question, gold: Gold, runs: QuestionRuns) -> tuple[Lost, int | None]:
    found = runs.shipped.result.found
    if not question.answerable:
        return ("false_evidence" if found else "abstained"), None
    if not gold.expected:
        return ("delivered" if found else "not_usable"), None
    return where_lost(gold, runs)
