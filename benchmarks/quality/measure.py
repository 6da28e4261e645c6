"""Measure one set: what is delivered, the ranking, each rerank signal, and the best possible order.

The signals are measured on the same searches, without category filters and with the answerability
rule off: only the order of the blocks differs.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookup_tool import KnowledgeBase, LookupConfig, evaluate, read_questions
from lookup_tool.config import RerankConfig
from lookup_tool.evaluation.lookups import RANKED_BLOCKS, ranking_config, unfiltered
from lookup_tool.evaluation.metrics import score_rankings
from lookup_tool.evaluation.questions import GoldFinder, Question
from lookup_tool.evaluation.report import EvaluationReport, Peer
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.schema import HintMatch, QueryTerm
from lookup_tool.stages.evidence import Evidence
from lookup_tool.stages.rerank import rerank

PEERS: tuple[Peer, ...] = ("bm25", "dense", "rrf")
METRIC = "ndcg@10"
QUESTIONS = "queries.dev.jsonl"
ANCHORS = "anchors.dev.json"
"""Other names of relevant sections: a heading may have an anchor of its own beside the one that is
made of its words. Either name is accepted; which one a knowledge base uses is not measured."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Measured:
    """The figures of one set."""

    report: EvaluationReport
    ablation: dict[str, float]
    """nDCG@10 that each signal brings: with all of them, less that without it."""

    oracle: float
    """nDCG@10 of the best order of the candidates."""


@dataclass(frozen=True)
class _Ranked:
    """The evidence of one question, to be ranked in several ways, and its answers."""

    grades: dict[str, int]
    """Of sections where the question names them, else of entries."""

    by_section: bool
    blocks: Sequence[Evidence]
    terms: tuple[QueryTerm, ...]
    matches: tuple[HintMatch, ...]

    def ids(self, sources: Sequence[str]) -> list[str]:
        """Return the sections, or their entries, in order."""
        return [s if self.by_section else s.partition("#")[0] for s in sources]


def is_set(folder: Path) -> bool:
    """Tell whether a folder holds documents and questions."""
    return (folder / "docs").is_dir() and (folder / QUESTIONS).is_file()


def measure(folder: Path, knowledge: KnowledgeBase, progress: Progress) -> Measured:
    """Measure one set.

    Args:
        folder: Documents and questions.
        knowledge: Built from the documents.
        progress: Called with (done, total) after each question.
    """
    questions = _read(folder, knowledge)
    by = "kind" if any(question.kind for question in questions) else "category"
    report = evaluate(knowledge, questions, compare=PEERS, by=by, progress=progress)
    found = _search(knowledge, [question for question in questions if question.answerable])
    shipped = RerankConfig()
    whole = _ndcg(found, shipped)
    ablation = {
        signal: whole - _ndcg(found, shipped.model_copy(update={signal: 0.0}))
        for signal in RerankConfig.model_fields
    }
    return Measured(report, ablation, _oracle(found))


def _read(folder: Path, knowledge: KnowledgeBase) -> list[Question]:
    """Read the questions of a set, with the names that the knowledge base gives to sections."""
    questions = read_questions(folder / QUESTIONS)
    anchors = folder / ANCHORS
    others: Mapping[str, str] = json.loads(anchors.read_text("utf-8")) if anchors.exists() else {}
    finder = GoldFinder(knowledge)
    return [_with_known_sections(question, finder, others) for question in questions]


def _with_known_sections(
    question: Question, finder: GoldFinder, others: Mapping[str, str]
) -> Question:
    missing = finder.find(question).missing
    sections = (others.get(s, s) if s in missing else s for s in question.relevant_sections)
    return question.model_copy(update={"relevant_sections": tuple(sections)})


def _search(knowledge: KnowledgeBase, questions: Sequence[Question]) -> list[_Ranked]:
    config = unfiltered(ranking_config(LookupConfig()))
    graph = draw(LookupNodes(knowledge, config, None, "benchmark")).compile(checkpointer=False)
    finder = GoldFinder(knowledge)
    found: list[_Ranked] = []
    for question in questions:
        gold = finder.find(question)
        keys = ["evidence", "terms", "hints"]
        state: dict[str, Any] = graph.invoke({"query": question.query}, output_keys=keys)
        found.append(
            _Ranked(
                grades=dict(gold.sections or gold.documents),
                by_section=bool(gold.sections),
                blocks=state["evidence"].blocks,
                terms=tuple(state["terms"]),
                matches=tuple(state["hints"].matches),
            )
        )
    return [each for each in found if any(each.grades.values())]


def _ndcg(found: Sequence[_Ranked], config: RerankConfig) -> float:
    rankings: list[list[str]] = []
    for each in found:
        ranked, _ = rerank(each.blocks, each.terms, each.matches, config, RANKED_BLOCKS)
        rankings.append(each.ids([s for b in ranked for s in (b.source, *b.duplicates)]))
    return _mean(found, rankings)


def _oracle(found: Sequence[_Ranked]) -> float:
    rankings: list[list[str]] = []
    for each in found:
        ids = each.ids([s for b in each.blocks for s in (b.source, *b.duplicates)])
        rankings.append(sorted(dict.fromkeys(ids), key=lambda name: -each.grades.get(name, 0)))
    return _mean(found, rankings)


def _mean(found: Sequence[_Ranked], rankings: Sequence[Sequence[str]]) -> float:
    return float(score_rankings([each.grades for each in found], rankings)[METRIC].mean())
