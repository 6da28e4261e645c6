"""Candidates become blocks, and one rule decides whether these are usable."""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages_builders import candidate, evidence, passage, query_terms, read

from lookup_tool.config import EvidenceConfig
from lookup_tool.schema import MAX_COPIES, AnswerabilityRule, Candidate, QueryTerm, StoredPassage
from lookup_tool.stages.answerability import USUAL, Asked, answerability
from lookup_tool.stages.evidence import (
    NOISE,
    Criteria,
    Evidence,
    EvidenceSet,
    read_evidence,
    usable_sections,
)
from lookup_tool.stages.sections import Section

TERMS = query_terms("annual", "leave")
USABLE = EvidenceConfig().minimum_answerability
LENIENT = AnswerabilityRule(midpoint=-1.0)


def build(
    candidates: Sequence[Candidate], terms: Sequence[QueryTerm], **criteria: Any
) -> EvidenceSet:
    """Build evidence, by default under the shipped minimum and among the usual passages."""
    usual = {"minimum_answerability": USABLE, "passages": USUAL}
    sections, best = usable_sections(candidates, terms, Criteria(**{**usual, **criteria}))
    return EvidenceSet(read_evidence(sections, read), best)


def everything(*candidates: Candidate) -> EvidenceSet:
    """Build with a floor and a midpoint that let everything pass."""
    return build(candidates, TERMS, evidence_floor=0.0, rule=LENIENT)


def worth(
    block: Evidence,
    rule: AnswerabilityRule,
    terms: Sequence[QueryTerm] = TERMS,
    passages: int = USUAL,
) -> float:
    return answerability(block.section, Asked.with_terms(terms), rule, passages)


def log_odds(probability: float) -> float:
    return log(probability / (1 - probability))


@pytest.mark.parametrize(
    ("similarity", "kept"),
    [
        pytest.param(0.299999, False, id="under"),
        pytest.param(0.3, True, id="at"),
        pytest.param(0.300001, True, id="over"),
    ],
)
def test_a_candidate_under_the_floor_is_no_evidence(similarity: float, kept: bool) -> None:
    found = build([candidate(passage(), similarity)], TERMS, evidence_floor=0.3, rule=LENIENT)

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

    assert (block.content, block.lines) == (content, (3, 7))


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
        in_text=frozenset({0}),
        in_heading=frozenset({1}),
        pairs=frozenset({0}),
        hints=("keyword:leave",),
    )
    two = candidate(
        passage("a.md#x", row=1, text="Two.", joint="\n\n", start_line=3, end_line=3),
        0.9,
        text_id=2,
        bm25=1.5,
        found_by=("lexical", "vector"),
        in_text=frozenset({1}),
        hints=("keyword:leave",),
    )

    (block,) = everything(two, one).blocks

    assert block.section == Section(
        found=(one, two),
        best=two,
        found_by=("vector", "lexical"),
        in_text=BOTH,
        in_heading=frozenset({1}),
        pairs=frozenset({0}),
        hints=("keyword:leave",),
        text_ids=(1, 2),
    )
    assert (block.similarity, block.bm25, block.lines) == (0.9, 4.0, (1, 3))
    assert block.content == "One.\n\nTwo."


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

    assert first.section == Section(
        found=(best,),
        best=best,
        found_by=("vector", "lexical"),
        in_text=frozenset(),
        in_heading=frozenset(),
        pairs=frozenset(),
        hints=("title:B", "keyword:a"),
        text_ids=(best.text_id,),
        copies=(other,),
    )
    assert (first.source, first.content, first.duplicates) == (
        "b.md",
        "The same  TEXT.",
        ("a.md",),
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
def test_without_a_word_the_midpoint_is_just_usable(similarity: float, usable: bool) -> None:
    rule = AnswerabilityRule(midpoint=0.4)

    found = build([candidate(passage(), similarity)], TERMS, evidence_floor=0.0, rule=rule)

    assert len(found.blocks) == usable
    assert (found.answerability >= USABLE) is usable
    assert 0.0 < found.answerability < 1.0


NOTHING = AnswerabilityRule(midpoint=0.5, similarity=0, coverage=0, heading=0, phrase=0)
BOTH = frozenset({0, 1})


@pytest.mark.parametrize(
    ("weights", "block", "value"),
    [
        pytest.param({}, evidence(in_text=BOTH, in_heading=BOTH), 0.0, id="no weight"),
        pytest.param({"similarity": 5}, evidence(similarity=0.7), 1.0, id="similarity"),
        pytest.param({"similarity": 5}, evidence(similarity=0.3), -1.0, id="little similarity"),
        pytest.param({"coverage": 2}, evidence(in_text=frozenset({0})), 1.0, id="half the words"),
        pytest.param(
            {"coverage": 2},
            evidence(in_text=frozenset({0}), in_heading=BOTH),
            2.0,
            id="words of the heading, once",
        ),
        pytest.param({"heading": 3}, evidence(in_text=BOTH), 0.0, id="no word in the heading"),
        pytest.param({"heading": 3}, evidence(in_heading=frozenset({1})), 1.5, id="heading"),
        pytest.param({"phrase": 2}, evidence(in_text=BOTH), 0.0, id="words apart"),
        pytest.param(
            {"phrase": 2}, evidence(in_text=BOTH, pairs=frozenset({0})), 2.0, id="words beside"
        ),
        pytest.param(
            {"phrase": 2},
            evidence(in_text=frozenset({0}), pairs=frozenset({0})),
            1.0,
            id="a phrase counts times the coverage",
        ),
        pytest.param(
            {"similarity": 5, "coverage": 2, "heading": 3, "phrase": 4},
            evidence(similarity=0.3, in_text=BOTH, in_heading=frozenset({0}), pairs=frozenset({0})),
            -1.0 + 2.0 + 1.5 + 4.0,
            id="all add up",
        ),
    ],
)
def test_each_weight_of_the_rule_moves_the_log_odds(
    weights: dict[str, float], block: Evidence, value: float
) -> None:
    assert log_odds(worth(block, replace(NOTHING, **weights))) == pytest.approx(value, abs=1e-2)


@pytest.mark.parametrize(
    ("weights", "beside", "strength"),
    [
        pytest.param((0, 0, 1, 1), {0, 1, 2}, 1.0, id="all"),
        pytest.param((0, 0, 1, 1), {1}, 0.5, id="beside a function word"),
        pytest.param((0, 0, 1, 1), {0}, 0.0, id="function words only"),
        pytest.param((1, 1, 1, 1), {0}, 1 / 3, id="one of three"),
    ],
)
def test_a_phrase_is_a_pair_of_neighbours_of_which_one_has_content(
    weights: tuple[float, ...], beside: set[int], strength: float
) -> None:
    terms = [QueryTerm(str(place), str(place), weight) for place, weight in enumerate(weights)]
    block = evidence(in_text=frozenset(range(4)), pairs=frozenset(beside))

    found = log_odds(worth(block, replace(NOTHING, phrase=3.0), terms))

    assert found == pytest.approx(3.0 * strength, abs=1e-2)


@pytest.mark.parametrize(
    ("passages", "value"),
    [
        pytest.param(0, -2.824, id="none counts as two"),
        pytest.param(1, -2.824, id="one counts as two"),
        pytest.param(2, -2.824, id="two"),
        pytest.param(300, -0.624, id="fewer"),
        pytest.param(3000, 0.0, id="the usual number"),
        pytest.param(3_000_000, 1.460, id="more"),
    ],
)
def test_the_more_passages_there_are_the_nearer_an_answer_must_be(
    passages: int, value: float
) -> None:
    rule = replace(NOTHING, similarity=10.0)

    found = log_odds(worth(evidence(similarity=0.5), rule, passages=passages))

    assert found == pytest.approx(-value, abs=2e-3)


@pytest.mark.parametrize("passages", [1, 100, USUAL, 100_000])
def test_similarity_alone_can_be_enough(passages: int) -> None:
    assert worth(evidence(similarity=0.95), AnswerabilityRule(), passages=passages) > USABLE


@pytest.mark.parametrize("passages", [1, 100, USUAL])
def test_words_need_little_similarity_beside_them(passages: int) -> None:
    said = evidence(similarity=0.05, in_text=BOTH, in_heading=BOTH, pairs=frozenset({0}))

    assert worth(said, AnswerabilityRule(), passages=passages) > USABLE


def test_among_few_passages_what_is_far_and_says_nothing_is_still_noise() -> None:
    near = candidate(passage("near.md", row=0, text="Near."), 0.6, in_text=BOTH)
    far = candidate(passage("far.md", row=1, text="Far."), 0.1)

    found = build([near, far], TERMS, evidence_floor=0.0, rule=AnswerabilityRule(), passages=2)

    assert [block.source for block in found.blocks] == ["near.md"]


@pytest.mark.parametrize("passages", [2, USUAL, 1_000_000])
@pytest.mark.parametrize("minimum", [0.0, 0.02, 0.1, USABLE, 0.9])
def test_what_reaches_the_minimum_is_evidence(minimum: float, passages: int) -> None:
    steps = [candidate(passage(f"{n}.md", row=n, text=f"{n}"), n / 10) for n in range(11)]
    rule = AnswerabilityRule()

    found = build(
        steps,
        TERMS,
        evidence_floor=0.0,
        rule=rule,
        passages=passages,
        minimum_answerability=minimum,
    )

    rated = [worth(evidence(similarity=n / 10), rule, passages=passages) for n in range(11)]
    reach = {f"{n}.md" for n in range(11) if rated[n] >= minimum}
    assert reach <= {block.source for block in found.blocks}
    assert bool(found.blocks) is bool(reach)


def test_the_best_block_decides_and_takes_only_blocks_that_are_no_noise_along() -> None:
    steps = [candidate(passage(f"{n:02}.md", row=n, text=f"{n}"), n / 50) for n in range(51)]
    rule = AnswerabilityRule(midpoint=0.7, similarity=10.0)
    rated = [worth(evidence(similarity=n / 50), rule) for n in range(51)]

    found = build(steps, TERMS, evidence_floor=0.0, rule=rule)

    kept = [f"{n:02}.md" for n in range(50, -1, -1) if rated[n] >= NOISE * max(rated)]
    assert 0 < len(kept) < 51
    assert [block.source for block in found.blocks] == kept
    assert found.answerability == max(rated)


def test_a_minimum_of_zero_turns_the_rule_off_and_keeps_every_block() -> None:
    far = [candidate(passage(f"{n}.md", row=n, text=f"{n}"), n / 10) for n in range(3)]

    found = build(
        far,
        TERMS,
        evidence_floor=0.1,
        rule=AnswerabilityRule(midpoint=0.9),
        minimum_answerability=0.0,
    )

    assert [block.source for block in found.blocks] == ["2.md", "1.md"]
    assert 0.0 < found.answerability < USABLE


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
        rule=AnswerabilityRule(midpoint=2.0),
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
    asked = Asked.with_terms([QueryTerm(term, term, weight) for term, weight in terms])

    assert asked.shares == shares
    assert asked.coverage(range(len(shares))) == sum(shares)


some_passages = st.builds(
    lambda source, row, text: passage(f"{source}.md", row=row, text=text),
    st.sampled_from("abc"),
    st.integers(0, 30),
    st.sampled_from(["One.", "Two.", "Three.", "one."]),
)


@settings(max_examples=100, deadline=None)
@given(
    passages=st.lists(some_passages, max_size=12, unique_by=lambda each: each.row),
    random=st.randoms(use_true_random=False),
)
def test_blocks_do_not_depend_on_the_order_of_the_candidates(
    passages: list[StoredPassage], random: Random
) -> None:
    found = [candidate(each, random.choice([0.2, 0.4, 0.6])) for each in passages]
    shuffled = list(found)
    random.shuffle(shuffled)

    built = everything(*found)

    assert everything(*shuffled) == built
    named = [source for block in built.blocks for source in (block.source, *block.duplicates)]
    assert sorted(named) == sorted({each.source for each in passages})
    shown = "".join(block.content for block in built.blocks).casefold()
    assert all(each.text.casefold() in shown for each in passages)


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

    found = worth(evidence(similarity=0.1, in_text=MENTIONS), AnswerabilityRule(), terms)

    assert (found >= USABLE) is usable


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

    found = worth(evidence(similarity=0.1, hints=hints), AnswerabilityRule(), terms)

    assert (found >= USABLE) is usable


@pytest.mark.parametrize(
    ("rest", "usable"),
    [
        pytest.param(3.99, True, id="over a fifth"),
        pytest.param(4.0, True, id="a fifth"),
        pytest.param(4.01, False, id="under a fifth"),
    ],
)
def test_an_identifier_speaks_for_a_section_only_if_it_is_much_of_the_question(
    rest: float, usable: bool
) -> None:
    terms = (QueryTerm("b7", "B7", 1.0, identifier=True), QueryTerm("rule", "rules", rest))

    found = worth(evidence(similarity=0.1, in_text=frozenset({0})), AnswerabilityRule(), terms)

    assert (found >= USABLE) is usable
