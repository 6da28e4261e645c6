"""Where the answer of a question was lost on its way to the agent."""

from collections.abc import Iterable

from lookup_tool.evaluation.lookups import LookupRun, QuestionRuns
from lookup_tool.evaluation.questions import Gold
from lookup_tool.evaluation.report import Lost


def where_lost(gold: Gold, runs: QuestionRuns) -> tuple[Lost, int | None]:
    """Follow the answer of an answerable question through the stages.

    Args:
        gold: What is expected; at least one source.
        runs: How it was looked up.

    Returns:
        The first stage that lost it, and its rank among the ranked blocks.
    """
    shipped, ranked = runs.shipped, runs.ranked
    expected = gold.expected
    if expected <= set(gold.missing):
        return "not_in_knowledge_base", None

    def holds(run: LookupRun, sources: Iterable[str]) -> bool:
        return any((s if gold.sections else run.entries[s]) in expected for s in sources)

    hidden = ranked.filter_kept and holds(runs.unfiltered, runs.unfiltered.best_passages)
    shown = [source for block in shipped.packed.sections for source in block]
    stages: tuple[tuple[Lost, LookupRun, Iterable[str]], ...] = (
        ("hidden_by_filter" if hidden else "not_retrieved", ranked, ranked.best_passages),
        ("below_evidence_floor", ranked, ranked.usable),
        ("not_usable", shipped, shipped.usable),
        ("ranked_low", shipped, shipped.sections),
        ("left_out_of_pack", shipped, shipped.included),
        ("cut_away", shipped, shown),
    )
    blocks = ranked.result.evidence_blocks
    rank = next((b.rank for b in blocks if holds(ranked, (b.source, *b.duplicates))), None)
    for lost, run, sources in stages:
        if not holds(run, sources):
            return lost, rank
    return "delivered", rank
