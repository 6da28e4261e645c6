"""Order evidence by a sum of weighted signals, and explain it.

A signal is a small function in `SIGNALS` that returns its strength in [0, 1] and what it rests on.
Add one there, with its weight in `RerankConfig`. Hints move the order; they add no block.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lookup_tool.config import RerankConfig
from lookup_tool.contracts import (
    EvidenceBlock,
    LineRange,
    RerankEntry,
    RerankTrace,
    ScoreContribution,
)
from lookup_tool.knowledge.hints import HintMatch
from lookup_tool.knowledge.lexical import QueryTerm
from lookup_tool.knowledge.tokens import terms as terms_of
from lookup_tool.knowledge.vectors import DIGITS
from lookup_tool.stages.evidence import Asked, Evidence


@dataclass(frozen=True)
class Question:
    """What every block is compared with."""

    asked: Asked
    phrases: tuple[tuple[str, tuple[int, ...]], ...]
    """Recognized phrases and the places of their terms in the query."""

    best_bm25: float
    """Best BM25 score among the blocks; 1 when none has any."""

    passages: Mapping[str, int]
    """How many passages of each entry are among the blocks."""


_MANY = 5
"""Other passages of an entry that are as good as more."""

Signal = Callable[[Evidence, Question], tuple[float, str]]
_Contribution = tuple[str, float, str]


@dataclass(frozen=True)
class _Scored:
    """A block with what its score is made of."""

    before: int
    """Rank by similarity alone."""

    block: Evidence
    contributions: tuple[_Contribution, ...]

    @property
    def score(self) -> float:
        return round(sum(amount for _, amount, _ in self.contributions), DIGITS)


def rerank(
    blocks: Sequence[Evidence],
    terms: tuple[QueryTerm, ...],
    hints: Sequence[HintMatch],
    config: RerankConfig,
    max_blocks: int,
) -> tuple[tuple[EvidenceBlock, ...], RerankTrace]:
    """Order blocks, best score first; ties by similarity, then by source.

    Args:
        blocks: Usable evidence, best similarity first.
        terms: The query's terms.
        hints: What L0 recognized.
        config: Weight of each signal.
        max_blocks: Most blocks to return.

    Returns:
        The best blocks, and for each how its score came about.
    """
    passages: Counter[str] = Counter()
    for block in blocks:
        passages[block.entry] += len(block.section.text_ids)
    question = Question(
        asked=Asked.with_terms(terms),
        phrases=tuple(_located(hints, terms)),
        best_bm25=max((block.bm25 for block in blocks), default=0.0) or 1.0,
        passages=passages,
    )
    scored = [
        _Scored(before, block, tuple(_contributions(block, question, config)))
        for before, block in enumerate(blocks, start=1)
    ]
    spread = sorted(_spread(sorted(scored, key=_best_first), config.crowding), key=_best_first)
    ranked = list(enumerate(spread[:max_blocks], start=1))
    entries = tuple(
        RerankEntry(
            rank=rank,
            rank_before=each.before,
            source=each.block.source,
            base_score=each.block.similarity,
            score=each.score,
            contributions=tuple(
                ScoreContribution(signal=signal, amount=amount, detail=detail)
                for signal, amount, detail in each.contributions
            ),
        )
        for rank, each in ranked
    )
    evidence = tuple(_ranked(each, rank, question) for rank, each in ranked)
    return evidence, RerankTrace(entries=entries)


def _best_first(each: _Scored) -> tuple[float, float, str]:
    return -each.score, -each.block.similarity, each.block.source


def _spread(best_first: Iterable[_Scored], weight: float) -> Iterable[_Scored]:
    """Take something off each block that follows better ones of its entry, so that others show."""
    better: Counter[str] = Counter()
    for each in best_first:
        ahead = better[each.block.entry]
        better[each.block.entry] += 1
        amount = round(weight * min(ahead, _MANY) / _MANY, DIGITS)
        if not amount:
            yield each
            continue
        crowding = ("crowding", -amount, f"{ahead} better of {each.block.entry}")
        yield replace(each, contributions=(*each.contributions, crowding))


def _similarity(block: Evidence, question: Question) -> tuple[float, str]:
    return block.similarity, "of the best passage"


def _bm25(block: Evidence, question: Question) -> tuple[float, str]:
    return block.bm25 / question.best_bm25, f"{block.bm25:g} of {question.best_bm25:g}"


def _coverage(block: Evidence, question: Question) -> tuple[float, str]:
    asked = question.asked
    return asked.coverage(block.section.in_text), _mentioned(block.section.in_text, asked.terms)


def _entry(block: Evidence, question: Question) -> tuple[float, str]:
    return block.section.best.entry_similarity, block.entry


def _siblings(block: Evidence, question: Question) -> tuple[float, str]:
    """Count the passages of the entry beside one, in this block and in others."""
    others = question.passages[block.entry] - 1
    return min(others, _MANY) / _MANY, f"{others} more of {block.entry}"


def _hint(kind: str) -> Signal:
    def signal(block: Evidence, question: Question) -> tuple[float, str]:
        matched = [hint for hint in block.section.hints if hint.startswith(f"{kind}:")]
        return float(bool(matched)), ", ".join(hint.partition(":")[2] for hint in matched[:5])

    return signal


def _content(block: Evidence, question: Question) -> tuple[float, str]:
    found = _phrases_in(block, question)
    return float(bool(found)), ", ".join(found[:5])


SIGNALS: tuple[tuple[str, Signal], ...] = (
    ("similarity", _similarity),
    ("bm25", _bm25),
    ("coverage", _coverage),
    ("entry", _entry),
    ("siblings", _siblings),
    ("title_hint", _hint("title")),
    ("keyword_hint", _hint("keyword")),
    ("entity_hint", _hint("entity")),
    ("category_hint", _hint("category")),
    ("content_hint", _content),
)


def _contributions(
    block: Evidence, question: Question, config: RerankConfig
) -> list[_Contribution]:
    contributions: list[_Contribution] = []
    for name, signal in SIGNALS:
        strength, detail = signal(block, question)
        amount = round(getattr(config, name) * strength, DIGITS)
        if amount:
            contributions.append((name, amount, detail))
    return contributions


def _located(
    hints: Sequence[HintMatch], terms: Sequence[QueryTerm]
) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Find where the query says each recognized phrase."""
    said = [term.term for term in terms]
    for text in {hint.key: hint.text for hint in hints}.values():
        wanted = terms_of(text)
        for start in range(len(said) - len(wanted) + 1):
            if wanted and said[start : start + len(wanted)] == wanted:
                yield text, tuple(range(start, start + len(wanted)))
                break


def _phrases_in(block: Evidence, question: Question) -> list[str]:
    """Return the recognized phrases that stand in the block's text."""
    return [
        text
        for text, places in question.phrases
        if block.section.in_text.issuperset(places) and block.section.pairs.issuperset(places[:-1])
    ]


def _mentioned(places: Iterable[int], terms: Sequence[QueryTerm]) -> str:
    counted = [terms[place].surface for place in sorted(places) if terms[place].weight]
    return ", ".join(dict.fromkeys(counted))


def _ranked(scored: _Scored, rank: int, question: Question) -> EvidenceBlock:
    block, passage = scored.block, scored.block.passages[0]
    content = tuple(f"content:{text}" for text in _phrases_in(block, question))
    start, end = block.lines
    return EvidenceBlock(
        source=block.source,
        title=passage.title,
        breadcrumb=passage.breadcrumb,
        category=passage.category,
        content=block.content,
        similarity=block.similarity,
        score=scored.score,
        rank=rank,
        hit_reasons=(*block.section.found_by, *block.section.hints, *content),
        lines=LineRange(start=start, end=end),
        duplicates=block.duplicates,
    )
