"""The order is a sum of weighted signals, and the trace explains it."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages_builders import block as evidence_block
from stages_builders import evidence, query_terms

from lookup_tool.config import RerankConfig
from lookup_tool.contracts import LineRange, RerankEntry, RerankTrace, ScoreContribution
from lookup_tool.documents.phrases import phrase_key
from lookup_tool.schema import HintMatch, QueryTerm
from lookup_tool.stages.evidence import Evidence
from lookup_tool.stages.rerank import SIGNALS, rerank
from lookup_tool.text import surface_terms

NAMES = tuple(signal.name for signal in SIGNALS)
TERMS = (
    QueryTerm("how", "how", 0.0),
    QueryTerm("annual", "annual", 3.0),
    QueryTerm("leav", "leave", 1.0),
)
EVERYTHING = evidence(
    similarity=0.5,
    bm25=2.0,
    in_text=frozenset({0, 1}),
    entry_similarity=0.25,
    text_ids=(0, 1),
    hints=("title:Leave", "keyword:time off: paid", "entity:TimeTrail", "category:hr"),
)


def weights(**given: float) -> RerankConfig:
    """Return a configuration in which every other signal is off."""
    return RerankConfig(**{**dict.fromkeys((*NAMES, "crowding"), 0.0), **given})


def hint(text: str) -> HintMatch:
    return HintMatch("keyword", text, phrase_key(text) or "", ())


def order(blocks: Sequence[Evidence], config: RerankConfig, most: int = 10) -> list[str]:
    return [block.source for block in rerank(blocks, TERMS, (), config, most)[0]]


@pytest.mark.parametrize(
    ("signal", "amount", "detail"),
    [
        ("similarity", 0.25, "of the best passage"),
        ("bm25", 0.25, "2 of 4"),
        ("coverage", 0.375, "annual"),
        ("entry", 0.125, "a.md"),
        ("siblings", 0.1, "1 more of a.md"),
        ("title_hint", 0.5, "Leave"),
        ("keyword_hint", 0.5, "time off: paid"),
        ("entity_hint", 0.5, "TimeTrail"),
        ("category_hint", 0.5, "hr"),
    ],
)
def test_each_signal_contributes_its_weight_times_its_strength(
    signal: str, amount: float, detail: str
) -> None:
    other = evidence("b.md", similarity=0.1, bm25=4.0)

    _, trace = rerank((EVERYTHING, other), TERMS, (), weights(**{signal: 0.5}), 10)

    (entry,) = [entry for entry in trace.entries if entry.source == EVERYTHING.source]
    assert entry.score == amount
    assert entry.contributions == (ScoreContribution(signal=signal, amount=amount, detail=detail),)


def test_a_block_that_nothing_speaks_for_has_no_contributions() -> None:
    _, trace = rerank([evidence(similarity=0.4)], TERMS, (), weights(bm25=1.0, siblings=1.0), 10)

    assert trace == RerankTrace(
        entries=(
            RerankEntry(
                rank=1, rank_before=1, source="a.md", base_score=0.4, score=0.0, contributions=()
            ),
        )
    )


def test_a_title_hint_overtakes_a_slightly_closer_block() -> None:
    close = evidence("faq.md", similarity=0.62)
    titled = evidence(
        "refunds.md#how",
        title="Refunds",
        breadcrumb=("Refunds", "How"),
        text="Ask for it.",
        start_line=4,
        end_line=6,
        similarity=0.55,
        found_by=("vector", "lexical"),
        hints=("title:Refunds",),
        duplicates=("old.md",),
    )

    (first, second), trace = rerank(
        [close, titled], TERMS, (), weights(similarity=1.0, title_hint=0.1), 10
    )

    assert first == evidence_block(
        "refunds.md#how",
        title="Refunds",
        breadcrumb=("Refunds", "How"),
        content="Ask for it.",
        similarity=0.55,
        score=0.65,
        rank=1,
        hit_reasons=("vector", "lexical", "title:Refunds"),
        lines=LineRange(start=4, end=6),
        duplicates=("old.md",),
    )
    assert (second.source, second.rank, second.score) == ("faq.md", 2, 0.62)
    assert [(e.source, e.rank, e.rank_before) for e in trace.entries] == [
        ("refunds.md#how", 1, 2),
        ("faq.md", 2, 1),
    ]


def test_equal_scores_go_by_similarity_and_then_by_source() -> None:
    blocks = [
        evidence("d.md", similarity=0.3),
        evidence("b.md", similarity=0.4),
        evidence("c.md", similarity=0.3),
        evidence("a.md", similarity=0.2),
    ]

    assert order(blocks, weights()) == ["b.md", "c.md", "d.md", "a.md"]


@pytest.mark.parametrize(("most", "kept"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_only_the_best_blocks_are_returned(most: int, kept: int) -> None:
    blocks = [evidence(f"{n}.md", similarity=0.5 + n / 10) for n in range(3)]

    found, trace = rerank(blocks, TERMS, (), weights(similarity=1.0), most)

    assert [block.source for block in found] == ["2.md", "1.md", "0.md"][:kept]
    assert [entry.source for entry in trace.entries] == [block.source for block in found]


def test_no_blocks_stay_no_blocks_whatever_the_hints_say() -> None:
    assert rerank((), TERMS, [hint("annual leave")], RerankConfig(), 10) == ((), RerankTrace())


@pytest.mark.parametrize(("found", "strength"), [(1, 0.0), (2, 0.2), (5, 0.8), (6, 1.0), (7, 1.0)])
def test_the_other_passages_of_an_entry_speak_for_each_of_its_blocks(
    found: int, strength: float
) -> None:
    several = evidence("a.md#one", text_ids=tuple(range(1, found)) or (0,))
    last = [evidence("a.md#two", text_ids=(9,))] * (found > 1)
    alone = evidence("b.md", text_ids=(10,))

    ranked, _ = rerank([several, *last, alone], TERMS, (), weights(siblings=1.0), 10)

    assert {block.source: block.score for block in ranked} == {
        "a.md#one": strength,
        **{block.source: strength for block in last},
        "b.md": 0.0,
    }


def test_the_whole_entry_speaks_for_its_block() -> None:
    passing = evidence("a.md", similarity=0.6, entry_similarity=0.2)
    subject = evidence("b.md", similarity=0.5, entry_similarity=0.5)

    assert order([passing, subject], weights(similarity=1.0, entry=0.5)) == ["b.md", "a.md"]
    assert order([passing, subject], weights(similarity=1.0, entry=0.3)) == ["a.md", "b.md"]


def test_a_repeated_term_of_the_question_counts_once() -> None:
    terms = (*query_terms("leave", "days"), *query_terms("leave"))
    (block,), _ = rerank(
        [evidence(in_text=frozenset({0, 2}))], terms, (), weights(coverage=1.0), 10
    )

    assert block.score == 0.5


@pytest.mark.parametrize(
    ("phrase", "query", "in_text", "pairs", "found"),
    [
        pytest.param("Annual leave", "how annual leave", {1, 2}, {1}, True, id="side by side"),
        pytest.param("Annual leave", "how annual leave", {1, 2}, set(), False, id="apart"),
        pytest.param("Annual leave", "how annual leave", {1}, set(), False, id="half"),
        pytest.param("Leave", "how annual leave", {2}, set(), True, id="one word"),
        pytest.param("Sick leave", "how annual leave", {1, 2}, {1}, False, id="not in the query"),
        pytest.param("C++ guide", "a C++ guide", {1, 2}, {1}, True, id="with symbols"),
        pytest.param("年假", "年假", {0}, set(), True, id="unspaced, one pair"),
        pytest.param("带薪年假", "带薪年假", {0, 1, 2}, {0, 1}, True, id="unspaced, more pairs"),
    ],
)
def test_a_recognized_phrase_in_the_text_is_a_hit_reason(
    phrase: str, query: str, in_text: set[int], pairs: set[int], found: bool
) -> None:
    terms = tuple(QueryTerm(term, surface, 1.0) for surface, term in surface_terms(query))
    block = evidence(in_text=frozenset(in_text), pairs=frozenset(pairs))

    (ranked,), _ = rerank([block], terms, [hint(phrase)], weights(content_hint=0.5), 10)

    assert ranked.hit_reasons == (("vector", f"content:{phrase}") if found else ("vector",))
    assert ranked.score == (0.5 if found else 0.0)


places = st.frozensets(st.integers(0, 2))
strength = st.floats(0, 1).map(lambda value: round(value, 6))
blocks_of_evidence = st.builds(
    evidence,
    st.sampled_from([f"{letter}.md" for letter in "abcdefghij"]),
    similarity=st.one_of(st.sampled_from([0.25, 0.5]), strength),
    bm25=st.one_of(st.just(0.0), st.floats(0, 40).map(lambda value: round(value, 6))),
    in_text=places,
    entry_similarity=strength,
    pairs=st.frozensets(st.integers(0, 1)),
    hints=st.lists(st.sampled_from(EVERYTHING.section.hints), unique=True).map(tuple),
)
configs = st.builds(RerankConfig, **{name: st.floats(0, 5) for name in NAMES})


@settings(max_examples=100, deadline=None)
@given(
    blocks=st.lists(blocks_of_evidence, max_size=8, unique_by=lambda block: block.source),
    config=configs,
    random=st.randoms(use_true_random=False),
)
def test_contributions_add_up_and_the_order_does_not_depend_on_the_order_of_the_input(
    blocks: list[Evidence], config: RerankConfig, random: Random
) -> None:
    shuffled = random.sample(blocks, len(blocks))

    ranked, trace = rerank(blocks, TERMS, [hint("annual leave")], config, 5)
    again, _ = rerank(shuffled, TERMS, [hint("annual leave")], config, 5)

    assert again == ranked
    assert [block.rank for block in ranked] == list(range(1, min(5, len(blocks)) + 1))
    for block, entry in zip(ranked, trace.entries, strict=True):
        assert entry.score == pytest.approx(sum(c.amount for c in entry.contributions), abs=1e-6)
        assert (block.score, block.source, block.similarity) == (
            entry.score,
            entry.source,
            entry.base_score,
        )
    keys = [(-block.score, -block.similarity, block.source) for block in ranked]
    assert keys == sorted(keys)


def test_blocks_behind_better_ones_of_their_entry_make_room_for_others() -> None:
    """By similarity a, a, a, b; a fifth of the weight is taken off for each better block."""
    several = [
        evidence(f"a.md#{n}", similarity=round(0.9 - n / 100, 2), text_ids=(n,)) for n in range(3)
    ]
    other = evidence("b.md", similarity=0.8, text_ids=(9,))

    ranked, trace = rerank([*several, other], TERMS, (), weights(similarity=1.0, crowding=0.5), 10)

    assert [(block.source, block.score) for block in ranked] == [
        ("a.md#0", 0.9),
        ("b.md", 0.8),
        ("a.md#1", 0.79),
        ("a.md#2", 0.68),
    ]
    assert [(part.signal, part.amount, part.detail) for part in trace.entries[3].contributions] == [
        ("similarity", 0.88, "of the best passage"),
        ("crowding", -0.2, "2 better of a.md"),
    ]


def test_what_is_taken_off_ends_with_the_fifth_better_block() -> None:
    several = [
        evidence(f"a.md#{n}", similarity=round(0.9 - n / 100, 2), text_ids=(n,)) for n in range(8)
    ]

    ranked, _ = rerank(several, TERMS, (), weights(similarity=1.0, crowding=1.0), 10)

    assert [block.score for block in ranked] == [0.9, 0.69, 0.48, 0.27, 0.06, -0.15, -0.16, -0.17]
