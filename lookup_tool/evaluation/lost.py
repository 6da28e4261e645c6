"""Where the answer of a question was lost on its way to the agent."""

from collections.abc import Iterable
from dataclasses import dataclass

from lookup_tool.evaluation.lookups import Lookup
from lookup_tool.evaluation.questions import Gold
from lookup_tool.evaluation.report import Lost


@dataclass(frozen=True)
class Lookups:
    """The lookups of one question."""

    shipped: Lookup
    """As the product answers."""

    ranked: Lookup
    """With the answerability rule off, after the same searches."""

    unfiltered: Lookup
    """The same without L0's filter."""


def where_lost(gold: Gold, lookups: Lookups) -> tuple[Lost, int | None]:
    """Follow the answer of an answerable question through the stages.

    Args:
        gold: What is expected; at least one source.
        lookups: How it was looked up.

    Returns:
        The first stage that lost it, and its rank among the ranked blocks.
    """
    shipped, ranked = lookups.shipped, lookups.ranked
    expected = gold.expected
    if expected <= set(gold.missing):
        return "not_in_knowledge_base", None

    def holds(lookup: Lookup, sources: Iterable[str]) -> bool:
        return any((s if gold.sections else lookup.entries[s]) in expected for s in sources)

    hidden = ranked.filter_kept and holds(lookups.unfiltered, lookups.unfiltered.candidates)
    stages: tuple[tuple[Lost, Lookup, Iterable[str]], ...] = (
        ("hidden_by_filter" if hidden else "not_retrieved", ranked, ranked.candidates),
        ("below_evidence_floor", ranked, ranked.usable),
        ("not_usable", shipped, shipped.usable),
        ("ranked_low", shipped, shipped.sections),
        ("left_out_of_pack", shipped, shipped.packed),
    )
    blocks = ranked.result.evidence_blocks
    rank = next((b.rank for b in blocks if holds(ranked, (b.source, *b.duplicates))), None)
    for lost, lookup, sources in stages:
        if not holds(lookup, sources):
            return lost, rank
    return "delivered", rank
