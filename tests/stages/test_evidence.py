"""Candidates become blocks, and one rule decides whether these are usable."""

from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages_builders import candidate, evidence, passage, query_terms

from lookup_tool.config import EvidenceConfig
from lookup_tool.knowledge.lexical import QueryTerm
from lookup_tool.knowledge.search import MAX_COPIES, Candidate
from lookup_tool.stages.evidence import (
    LEAST,
    EvidenceSet,
    answerability,
    build_evidence,
    coverage,
    term_shares,
)

TERMS = query_terms("annual", "leave")
USABLE = EvidenceConfig().minimum_answerability
build = partial(build_evidence, minimum_answerability=USABLE)


def everything(*candidates: Candidate) -> EvidenceSet:
    """Build with a floor and a midpoint that let everything pass."""
    return build(candidates, TERMS, evidence_floor=0.0, midpoint=-1.0)


@pytest.mark.parametrize(
    ("similarity", "kept"),
    [
        pytest.param(0.299999, False, id="under"),
        pytest.param(0.3, True, id="at"),
        pytest.param(0.300001, True, id="over"),
    ],
)
def test_a_candidate_under_the_floor_is_no_evidence(similarity: float, kept: bool) -> None:
    found = build([candidate(passage(), similarity)], TERMS, evidence_floor=0.3, midpoint=-1.0)

    assert [block.similarity for block in found.blocks] == [similarity] * kept


def test_no_candidates_give_no_evidence() -> None:
    assert everything() == EvidenceSet(blocks=(), answerability=0.0)


@pytest.mark.parametrize(
    ("row", "joint", "content"),
    [
        pytest.param(1, "", "One.Two.", id="in a word"),
        pytest.param(1, " ", "One. Two.", id="same line"),
        pytest.param(1, "\n", "One.\nTwo.", id="next line"),
        pytest.param(1, "\n\n", "One.\n\nTwo.", id="next paragraph"),
        pytest.param(2, "\n", "One.\n\n[...]\n\n| head |\nTwo.", id="a passage left out"),
    ],
)
def test_passages_of_one_section_are_joined_in_document_order(
    row: int, joint: str, content: str
) -> None:
    first = passage("a.md#x", row=0, text="One.", start_line=3, end_line=4)
    second = passage(
        "a.md#x",
        row=row,
        text="Two.",
        start_line=6,
        end_line=7,
        lead="| head |\n",
        joint=joint,
    )

    (block,) = everything(candidate(second, 0.9), candidate(first, 0.6)).blocks

    assert (block.content, block.start_line, block.end_line) == (content, 3, 7)


def test_the_lead_of_the_first_passage_is_shown() -> None:
    (block,) = everything(candidate(passage(text="| 1 |", lead="| head |\n"))).blocks

    assert block.content == "| head |\n| 1 |"


def test_a_block_has_the_best_similarity_and_everything_its_passages_mention() -> None:
    one = candidate(
        passage("a.md#x", row=0, text="One.", start_line=1, end_line=1),
        0.6,
        text_id=1,
        bm25=4.0,
        found_by=("vector",),
        in_text=(0,),
        in_heading=(1,),
        pairs=(0,),
        hints=("keyword:leave",),
    )
    two = candidate(
        passage("a.md#x", row=1, text="Two.", joint="\n\n", start_line=3, end_line=3),
        0.9,
        text_id=2,
        bm25=1.5,
        found_by=("lexical", "vector"),
        in_text=(1,),
        hints=("keyword:leave",),
    )

    assert everything(two, one).blocks == (
        evidence(
            "a.md#x",
            content="One.\n\nTwo.",
            start_line=1,
            end_line=3,
            similarity=0.9,
            bm25=4.0,
            found_by=("vector", "lexical"),
            in_text=frozenset({0, 1}),
            in_heading=frozenset({1}),
            pairs=frozenset({0}),
            hints=("keyword:leave",),
            text_ids=(1, 2),
        ),
    )


def test_blocks_come_best_similarity_first_then_by_source() -> None:
    found = everything(
        candidate(passage("c.md", row=2, text="C."), 0.5),
        candidate(passage("a.md", row=0, text="A."), 0.5),
        candidate(passage("b.md", row=1, text="B."), 0.7),
    )

    assert [block.source for block in found.blocks] == ["b.md", "a.md", "c.md"]


def test_equal_texts_become_one_block_that_names_the_others() -> None:
    best = candidate(passage("b.md", row=1, text="The same  TEXT."), 0.9, hints=("title:B",))
    other = candidate(
        passage("a.md", row=0, text="the same\ntext."),
        0.8,
        found_by=("lexical",),
        hints=("keyword:a",),
    )
    different = candidate(passage("c.md", row=2, text="Another text."), 0.7)

    first, second = everything(other, different, best).blocks

    assert first == evidence(
        "b.md",
        content="The same  TEXT.",
        similarity=0.9,
        found_by=("vector", "lexical"),
        hints=("title:B", "keyword:a"),
        text_ids=first.text_ids,
        duplicates=("a.md",),
    )
    assert (second.source, second.duplicates) == ("c.md", ())


@pytest.mark.parametrize("others", [MAX_COPIES - 1, MAX_COPIES, MAX_COPIES + 1])
def test_the_list_of_duplicates_is_bounded(others: int) -> None:
    copies = [candidate(passage(f"{row:03}.md", row=row)) for row in range(others + 1)]

    (block,) = everything(*copies).blocks

    expected = [f"{row:03}.md" for row in range(1, others + 1)]
    assert block.duplicates == tuple(expected[:MAX_COPIES])


@pytest.mark.parametrize(
    ("similarity", "usable"),
    [
        pytest.param(0.39, False, id="under the midpoint"),
        pytest.param(0.4, True, id="at the midpoint"),
        pytest.param(0.41, True, id="over the midpoint"),
    ],
)
def test_half_of_the_terms_at_the_midpoint_are_just_usable(similarity: float, usable: bool) -> None:
    half = candidate(passage(), similarity, in_text=(0,))

    found = build([half], TERMS, evidence_floor=0.0, midpoint=0.4)

    assert len(found.blocks) == usable
    assert (found.answerability >= USABLE) is usable
    assert 0.0 < found.answerability < 1.0


def test_answerability_grows_with_similarity_and_with_coverage() -> None:
    steps = [
        evidence(similarity=0.3),
        evidence(similarity=0.3, in_text=frozenset({0})),
        evidence(similarity=0.3, in_text=frozenset({0}), in_heading=frozenset({1})),
        evidence(similarity=0.4, in_text=frozenset({0, 1})),
    ]

    worth = [answerability(step, TERMS, term_shares(TERMS), 0.4) for step in steps]

    assert worth == sorted(set(worth))
    assert (
        answerability(
            evidence(similarity=0.4, in_heading=frozenset({0, 1})), TERMS, term_shares(TERMS), 0.4
        )
        == (worth[-1])
    )


def test_the_best_block_decides_and_takes_only_blocks_that_are_no_noise_along() -> None:
    steps = [candidate(passage(f"{n:02}.md", row=n, text=f"{n}"), n / 50) for n in range(51)]
    worth = [
        answerability(evidence(similarity=n / 50), TERMS, term_shares(TERMS), 0.5)
        for n in range(51)
    ]

    found = build(steps, TERMS, evidence_floor=0.0, midpoint=0.5)

    kept = [f"{n:02}.md" for n in range(50, -1, -1) if worth[n] >= LEAST]
    assert 0 < len(kept) < 51
    assert [block.source for block in found.blocks] == kept
    assert found.answerability == max(worth)


def test_a_minimum_of_zero_turns_the_rule_off_and_keeps_every_block() -> None:
    far = [candidate(passage(f"{n}.md", row=n, text=f"{n}"), n / 10) for n in range(3)]

    found = build_evidence(far, TERMS, evidence_floor=0.1, midpoint=0.9, minimum_answerability=0.0)

    assert [block.source for block in found.blocks] == ["2.md", "1.md"]
    assert 0.0 < found.answerability < LEAST


@pytest.mark.parametrize(
    ("similarity", "usable"),
    [
        pytest.param(0.299999, False, id="under"),
        pytest.param(0.3, True, id="at"),
        pytest.param(0.300001, True, id="over"),
    ],
)
def test_a_similarity_declared_good_enough_is_usable_whatever_the_rule_says(
    similarity: float, usable: bool
) -> None:
    found = build(
        [candidate(passage(), similarity)],
        TERMS,
        evidence_floor=0.0,
        midpoint=2.0,
        good_enough=0.3,
    )

    assert len(found.blocks) == usable
    assert (found.answerability >= USABLE) is usable


@pytest.mark.parametrize(
    ("terms", "shares"),
    [
        pytest.param((("a", 3.0), ("b", 1.0)), (0.75, 0.25), id="by rarity"),
        pytest.param((("a", 3.0), ("b", 1.0), ("a", 3.0)), (0.75, 0.25, 0.0), id="repeated"),
        pytest.param((("the", 0.0), ("b", 2.0)), (0.0, 1.0), id="function word"),
        pytest.param((("the", 0.0), ("of", 0.0)), (0.0, 0.0), id="function words only"),
        pytest.param((), (), id="none"),
    ],
)
def test_terms_share_what_the_question_is_worth(
    terms: tuple[tuple[str, float], ...], shares: tuple[float, ...]
) -> None:
    assert term_shares([QueryTerm(term, term, weight) for term, weight in terms]) == shares
    assert coverage(range(len(shares)), shares) == sum(shares)


sections = st.builds(
    lambda source, row, text, similarity: candidate(
        passage(f"{source}.md", row=row, text=text), similarity
    ),
    st.sampled_from("abc"),
    st.integers(0, 30),
    st.sampled_from(["One.", "Two.", "Three.", "one."]),
    st.sampled_from([0.2, 0.4, 0.6]),
)


@settings(max_examples=100, deadline=None)
@given(
    found=st.lists(sections, max_size=12, unique_by=lambda each: each.passage.row),
    random=st.randoms(use_true_random=False),
)
def test_blocks_do_not_depend_on_the_order_of_the_candidates(
    found: list[Candidate], random: Random
) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)

    built = everything(*found)

    assert everything(*shuffled) == built
    named = [source for block in built.blocks for source in (block.source, *block.duplicates)]
    assert sorted(named) == sorted({each.passage.source for each in found})
    shown = "".join(block.content for block in built.blocks).casefold()
    assert all(each.passage.text.casefold() in shown for each in found)


MENTIONS = frozenset({1})


@pytest.mark.parametrize(
    ("first", "usable"),
    [
        pytest.param(QueryTerm("nda", "nda", 2.0), False, id="a term that a text might mention"),
        pytest.param(QueryTerm("nda", "nda", 2.0, metadata_only=True), True, id="only metadata"),
        pytest.param(QueryTerm("nda", "nda", 0.0), True, id="a function word"),
    ],
)
def test_a_single_word_beside_what_no_text_can_mention_is_barely_usable(
    first: QueryTerm, usable: bool
) -> None:
    terms = (first, QueryTerm("sign", "sign", 0.5))

    worth = answerability(
        evidence(similarity=0.1, in_text=MENTIONS), terms, term_shares(terms), 0.5
    )

    assert (worth >= USABLE) is usable


@pytest.mark.parametrize(
    ("identifier", "hints", "usable"),
    [
        pytest.param(True, ("keyword:PTO",), True, id="a code of the entry"),
        pytest.param(True, ("keyword:leave",), False, id="another phrase"),
        pytest.param(False, ("keyword:PTO",), False, id="a word like others"),
    ],
)
def test_an_identifier_may_stand_in_the_metadata_of_an_entry(
    identifier: bool, hints: tuple[str, ...], usable: bool
) -> None:
    terms = (QueryTerm("pto", "pto", 1.0, identifier=identifier), QueryTerm("rule", "rules", 1.0))

    worth = answerability(evidence(similarity=0.1, hints=hints), terms, term_shares(terms), 0.5)

    assert (worth >= USABLE) is usable
