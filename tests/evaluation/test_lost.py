"""Where an answer was lost, stage by stage; through the compiled machine in `test_evaluate`."""

from collections.abc import Sequence

import pytest
from stages_builders import block, result

from lookup_tool.contracts import ContextPack, IncludedSource
from lookup_tool.evaluation.lookups import LookupRun, QuestionRuns
from lookup_tool.evaluation.lost import where_lost
from lookup_tool.evaluation.questions import Gold
from lookup_tool.stages.pack import CUT, element

ANSWER = "The spare key for the valve cabinet hangs behind the green fire blanket."
SECTIONS = ("a.md#other", "a.md#key", "b.md")
ENTRIES = {source: source.partition("#")[0] for source in SECTIONS}


def run(
    *blocks: str,
    candidates: Sequence[str] = SECTIONS,
    usable: Sequence[str] | None = None,
    packed: Sequence[tuple[str, str]] = (),
) -> LookupRun:
    """Make a run with these blocks, of which these are packed with these contents."""
    pack = ContextPack(
        text="\n\n".join(element(block(source), content) for source, content in packed),
        budget=100,
        included=tuple(IncludedSource(source=source, truncated=True) for source, _ in packed),
    )
    return LookupRun(
        result=result(*(block(s, rank=r) for r, s in enumerate(blocks, 1)), context_pack=pack),
        best_passages=dict.fromkeys(candidates, frozenset({ANSWER})),
        usable=frozenset(blocks if usable is None else usable),
        entries=ENTRIES,
    )


EVERY = run(*SECTIONS)


@pytest.mark.parametrize(
    ("shipped", "ranked", "lost", "rank"),
    [
        pytest.param(run(), run(candidates=["b.md"]), "not_retrieved", None, id="not retrieved"),
        pytest.param(run(), run("b.md"), "below_evidence_floor", None, id="below the floor"),
        pytest.param(run(), EVERY, "not_usable", 2, id="refused"),
        pytest.param(run("b.md"), EVERY, "not_usable", 2, id="not usable beside others"),
        pytest.param(run("b.md", usable=SECTIONS), EVERY, "ranked_low", 2, id="ranked low"),
        pytest.param(
            run(*SECTIONS, packed=[("a.md#other", ANSWER)]), EVERY, "left_out_of_pack", 2, id="left"
        ),
        pytest.param(
            run(*SECTIONS, packed=[("a.md#key", f"Before.{CUT}"), ("b.md", ANSWER)]),
            EVERY,
            "cut_away",
            2,
            id="cut away",
        ),
        pytest.param(
            run(*SECTIONS, packed=[("a.md#key", f"{ANSWER}{CUT}")]),
            EVERY,
            "delivered",
            2,
            id="delivered",
        ),
    ],
)
def test_the_first_stage_that_lost_a_section_is_named(
    shipped: LookupRun, ranked: LookupRun, lost: str, rank: int | None
) -> None:
    gold = Gold({"a.md": 1}, {"a.md#key": 1}, (), frozenset(), None)

    assert where_lost(gold, QuestionRuns(shipped, ranked, ranked, ranked)) == (lost, rank)


@pytest.mark.parametrize(
    ("content", "lost"),
    [(ANSWER, "delivered"), (f"Before.{CUT}", "cut_away")],
)
def test_an_entry_is_delivered_by_any_of_its_sections(content: str, lost: str) -> None:
    gold = Gold({"a.md": 1}, {}, (), frozenset(), None)
    shipped = run(*SECTIONS, packed=[("a.md#other", content), ("b.md", ANSWER)])

    assert where_lost(gold, QuestionRuns(shipped, EVERY, EVERY, EVERY)) == (lost, 1)
