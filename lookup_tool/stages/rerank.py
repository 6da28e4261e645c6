"""Order evidence by a sum of weighted signals, and explain it.

A signal in `SIGNALS` is two small functions: its strength in [0, 1], and what that rests on, which
is asked of the returned blocks only. Add one there, with its weight in `RerankConfig`. Hints move
the order; they add no block.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lookup_tool.config import RerankConfig
from lookup_tool.contracts import (
    EvidenceBlock,
    LineRange,
    RerankEntry,
    RerankTrace,
    ScoreContribution,
)
from lookup_tool.schema import DIGITS, HintMatch, QueryTerm
from lookup_tool.stages.answerability import Asked
from lookup_tool.stages.evidence import Evidence
from lookup_tool.text import terms as terms_of


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


@dataclass(frozen=True)
class Signal:
    """One reason for a block's rank."""

    name: str
    """That of its weight, too."""

    strength: Callable[[Evidence, Question], float]
    """In [0, 1]."""

    detail: Callable[[Evidence, Question], str]
    """What the strength rests on, for a reader."""


class _Scored(NamedTuple):
    """A block with what its score is made of."""

    before: int
    """Rank by similarity alone."""

    block: Evidence
    amounts: tuple[tuple[str, float], ...]
    """What each signal adds."""

    score: float
    ahead: int = 0
    """Better blocks of its entry."""


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
    weighted = [(signal, getattr(config, signal.name)) for signal in SIGNALS]
    weighted = [(signal, weight) for signal, weight in weighted if weight]
    scored = [
        _scored(before, block, question, weighted) for before, block in enumerate(blocks, start=1)
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
            contributions=_contributions(each, question),
        )
        for rank, each in ranked
    )
    evidence = tuple(_ranked(each, rank, question) for rank, each in ranked)
    return evidence, RerankTrace(entries=entries)


def _scored(
    before: int, block: Evidence, question: Question, weighted: Sequence[tuple[Signal, float]]
) -> _Scored:
    amounts = [
        (signal.name, round(weight * signal.strength(block, question), DIGITS))
        for signal, weight in weighted
    ]
    there = tuple((name, amount) for name, amount in amounts if amount)
    return _Scored(before, block, there, _sum(there))


def _sum(amounts: Iterable[tuple[str, float]]) -> float:
    return round(sum(amount for _, amount in amounts), DIGITS)


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
        amounts = (*each.amounts, ("crowding", -amount))
        yield each._replace(amounts=amounts, score=_sum(amounts), ahead=ahead)


def _contributions(each: _Scored, question: Question) -> tuple[ScoreContribution, ...]:
    """Say what each signal added, and why."""

    def detail(name: str) -> str:
        if name == "crowding":
            return f"{each.ahead} better of {each.block.entry}"
        return _DETAILS[name](each.block, question)

    return tuple(
        ScoreContribution(signal=name, amount=amount, detail=detail(name))
        for name, amount in each.amounts
    )


def _others(block: Evidence, question: Question) -> int:
    """Count the passages of the entry beside one, in this block and in others."""
    return question.passages[block.entry] - 1


def _hints(block: Evidence, kind: str) -> list[str]:
    return [hint for hint in block.section.hints if hint.startswith(f"{kind}:")]


def _hint(kind: str) -> Signal:
    return Signal(
        f"{kind}_hint",
        lambda block, question: float(bool(_hints(block, kind))),
        lambda block, question: ", ".join(h.partition(":")[2] for h in _hints(block, kind)[:5]),
    )


def _mentioned(block: Evidence, question: Question) -> str:
    terms = [question.asked.terms[place] for place in sorted(block.section.in_text)]
    return ", ".join(dict.fromkeys(term.surface for term in terms if term.weight))


SIGNALS = (
    Signal(
        "similarity",
        lambda block, question: block.similarity,
        lambda block, question: "of the best passage",
    ),
    Signal(
        "bm25",
        lambda block, question: block.bm25 / question.best_bm25,
        lambda block, question: f"{block.bm25:g} of {question.best_bm25:g}",
    ),
    Signal(
        "coverage",
        lambda block, question: question.asked.coverage(block.section.in_text),
        _mentioned,
    ),
    Signal(
        "entry",
        lambda block, question: block.section.best.entry_similarity,
        lambda block, question: block.entry,
    ),
    Signal(
        "siblings",
        lambda block, question: min(_others(block, question), _MANY) / _MANY,
        lambda block, question: f"{_others(block, question)} more of {block.entry}",
    ),
    _hint("title"),
    _hint("keyword"),
    _hint("entity"),
    _hint("category"),
    Signal(
        "content_hint",
        lambda block, question: float(bool(_phrases_in(block, question))),
        lambda block, question: ", ".join(_phrases_in(block, question)[:5]),
    ),
)


_DETAILS = {signal.name: signal.detail for signal in SIGNALS}


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
