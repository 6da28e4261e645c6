"""Status, level, completeness and message follow from what the stages before found."""

from typing import Any

import pytest
from stages_builders import attempt, block, evidence, query_terms, trace

from lookup_tool.config import AssembleConfig, PackConfig
from lookup_tool.contracts import (
    CompletenessHint,
    ContextPack,
    EvidenceBlock,
    IncludedSource,
    LookupResult,
    RerankTrace,
)
from lookup_tool.stages.assemble import MAX_MISSING, Findings, assemble, summary
from lookup_tool.stages.evidence import Evidence
from lookup_tool.stages.pack import pack

CONFIG = AssembleConfig(high=0.8, medium=0.6)
TERMS = query_terms("the", weight=0.0) + query_terms("annual", "leave")


def findings(*blocks: EvidenceBlock, **changes: Any) -> Findings:
    """Return findings in which each block mentions every term and is packed whole."""
    values: dict[str, Any] = {
        "trace": trace(evidence_block_count=len(blocks)),
        "terms": TERMS,
        "evidence": tuple(mentioning(each.source, 0, 1, 2) for each in blocks),
        "blocks": blocks,
        "pack": pack(blocks, PackConfig()),
    }
    return Findings(**{**values, **changes})


def mentioning(source: str, *places: int) -> Evidence:
    return evidence(source, in_text=frozenset(places))


def cut_to(room: int, *blocks: EvidenceBlock) -> ContextPack:
    return pack(blocks, PackConfig(budget=room, unit="characters"))


def test_a_hit_is_put_together_whole() -> None:
    first, second = block("a.md#x", similarity=0.6), block("a.md#y", rank=2)
    found = findings(first, second, rerank_trace=RerankTrace())

    assert assemble(found, CONFIG) == LookupResult(
        found=True,
        evidence_status="sufficient",
        message="Found evidence in 2 sections of 1 entry.",
        relevance_level="medium",
        completeness_hint=CompletenessHint(
            level="complete", note="every term of the question is mentioned"
        ),
        evidence_blocks=(first, second),
        context_pack=found.pack,
        retrieval_trace=found.trace,
        rerank_trace=found.rerank_trace,
    )


@pytest.mark.parametrize(
    ("best", "status"),
    [
        pytest.param(0.449999, "weak", id="under"),
        pytest.param(0.45, "sufficient", id="at"),
        pytest.param(0.450001, "sufficient", id="over"),
    ],
)
def test_evidence_under_the_reference_threshold_is_weak(best: float, status: str) -> None:
    blocks = block("a.md", similarity=0.2), block("b.md", similarity=best, rank=2)

    result = assemble(findings(*blocks), CONFIG)

    assert (result.found, result.evidence_status) == (True, status)
    assert ("weak match" in result.message) is (status == "weak")


def test_the_threshold_is_that_of_the_last_attempt() -> None:
    attempts = (attempt(reference_threshold=0.9), attempt(reference_threshold=0.5))

    result = assemble(findings(block(similarity=0.5), trace=trace(attempts=attempts)), CONFIG)

    assert result.evidence_status == "sufficient"


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        pytest.param(findings(searched=12), "no_evidence", "12 passages", id="nothing usable"),
        pytest.param(
            findings(trace=trace(transformed_query="", attempts=(), answerability=None)),
            "no_evidence",
            "query is empty",
            id="blank query",
        ),
        pytest.param(
            findings(
                trace=trace(transformed_query="", attempts=(), answerability=None),
                retrieval_enabled=False,
            ),
            "no_evidence",
            "query is empty",
            id="blank query, switched off",
        ),
        pytest.param(
            findings(trace=trace(attempts=(), answerability=None), retrieval_enabled=False),
            "unavailable",
            "switched off",
            id="switched off",
        ),
        pytest.param(
            findings(trace=trace(error="EmbeddingError", answerability=None)),
            "unavailable",
            "does not mean that there is nothing",
            id="failed",
        ),
    ],
)
def test_a_miss_says_which_kind_it_is(found: Findings, status: str, said: str) -> None:
    result = assemble(found, CONFIG)

    assert (result.found, result.evidence_status) == (False, status)
    assert said in result.message
    assert result.relevance_level == "none"
    assert result.evidence_blocks == ()
    assert result.completeness_hint.level == "none"
    assert (result.context_pack.text, result.rerank_trace) == ("", RerankTrace())


@pytest.mark.parametrize(
    ("answerability", "level"),
    [
        (0.5, "low"),
        (0.599999, "low"),
        (0.6, "medium"),
        (0.799999, "medium"),
        (0.8, "high"),
        (1.0, "high"),
    ],
)
def test_the_level_is_a_band_of_answerability(answerability: float, level: str) -> None:
    found = findings(block(), trace=trace(answerability=answerability))

    assert assemble(found, CONFIG).relevance_level == level


def test_nothing_found_has_no_level_however_likely_it_seemed() -> None:
    assert assemble(findings(trace=trace(answerability=0.9)), CONFIG).relevance_level == "none"


@pytest.mark.parametrize(
    ("places", "missing"),
    [
        pytest.param((0, 1, 2), (), id="all"),
        pytest.param((1, 2), (), id="all but a function word"),
        pytest.param((0, 1), ("leave",), id="one is missing"),
        pytest.param((), ("annual", "leave"), id="none"),
    ],
)
def test_terms_that_no_evidence_mentions_are_listed(
    places: tuple[int, ...], missing: tuple[str, ...]
) -> None:
    hint = assemble(findings(block(), evidence=(mentioning("a.md", *places),)), CONFIG)

    assert hint.completeness_hint == CompletenessHint(
        level="partial" if missing else "complete",
        missing_terms=missing,
        note=f"not mentioned: {', '.join(missing)}"
        if missing
        else "every term of the question is mentioned",
    )


def test_blocks_and_headings_together_mention_the_terms() -> None:
    found = findings(
        block("a.md"),
        block("b.md", rank=2),
        evidence=(mentioning("a.md", 1), evidence("b.md", in_heading=frozenset({2}))),
    )

    assert assemble(found, CONFIG).completeness_hint.level == "complete"


def test_evidence_that_was_left_out_mentions_nothing() -> None:
    first, second = block("a.md"), block("b.md", rank=2)
    found = findings(
        first,
        second,
        evidence=(mentioning("a.md", 1), mentioning("b.md", 2)),
        pack=cut_to(100, first, second),
    )

    assert assemble(found, CONFIG).completeness_hint == CompletenessHint(
        level="partial",
        missing_terms=("leave",),
        note="not mentioned: leave; left out: b.md",
    )


@pytest.mark.parametrize(
    ("word", "title", "missing"),
    [
        pytest.param("kept", "Title", False, id="in what is left"),
        pytest.param("gone", "Title", True, id="in what was cut off"),
        pytest.param("holiday", "Holiday", False, id="in the title"),
        pytest.param("source", "Title", True, id="only in the markup of the header"),
        pytest.param("hits", "Title", True, id="only in the name of an attribute"),
        pytest.param("vector", "Title", True, id="only in the hit reasons"),
        pytest.param("cut", "Title", True, id="only in the mark of the cut"),
    ],
)
def test_a_cut_block_mentions_only_what_it_still_shows(
    word: str, title: str, missing: bool
) -> None:
    heading = frozenset({0} if word == "holiday" else ())
    shown = block(content=f"This is kept. {'More text. ' * 9}gone", title=title)
    found = findings(
        shown,
        terms=query_terms(word),
        evidence=(evidence(in_text=frozenset({0}) - heading, in_heading=heading),),
        pack=cut_to(130, shown),
    )

    hint = assemble(found, CONFIG).completeness_hint

    assert found.pack.included[0].truncated
    assert (hint.level, hint.missing_terms) == ("partial", (word,) * missing)
    assert hint.note.endswith("cut to fit: a.md")


def test_a_pack_without_room_leaves_no_completeness() -> None:
    hint = assemble(findings(block(), pack=cut_to(10, block())), CONFIG).completeness_hint

    assert hint == CompletenessHint(
        level="none", missing_terms=("annual", "leave"), note="no evidence is included"
    )


@pytest.mark.parametrize("count", [MAX_MISSING - 1, MAX_MISSING, MAX_MISSING + 1])
def test_the_list_of_missing_terms_is_bounded_and_names_each_once(count: int) -> None:
    terms = query_terms(*(f"w{n}" for n in range(count)), "w0")

    hint = assemble(findings(terms=terms), CONFIG).completeness_hint

    assert hint.missing_terms == tuple(f"w{n}" for n in range(count))[:MAX_MISSING]


@pytest.mark.parametrize(
    ("blocks", "legacy", "primary", "supplement"),
    [
        pytest.param(3, False, None, None, id="off"),
        pytest.param(3, True, 0, slice(1, 3), id="several"),
        pytest.param(1, True, 0, slice(1, 1), id="one"),
        pytest.param(0, True, None, None, id="a miss"),
    ],
)
def test_legacy_fields_are_views_of_the_blocks(
    blocks: int, legacy: bool, primary: int | None, supplement: slice | None
) -> None:
    all_blocks = tuple(block(f"{n}.md", rank=n + 1) for n in range(blocks))

    result = assemble(findings(*all_blocks), AssembleConfig(legacy_fields=legacy))

    assert result.primary == (None if primary is None else all_blocks[primary])
    assert result.supplement == (None if supplement is None else all_blocks[supplement])


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (["a.md"], "Found evidence in 1 section of 1 entry."),
        (["a.md", "a.md#x"], "Found evidence in 2 sections of 1 entry."),
        (["a.md#y", "a.md#x", "b.md"], "Found evidence in 3 sections of 2 entries."),
    ],
)
def test_the_summary_counts_sections_and_entries(sources: list[str], said: str) -> None:
    included = tuple(IncludedSource(source=source, truncated=False) for source in sources)

    assert summary(ContextPack(budget=9, included=included)) == said
