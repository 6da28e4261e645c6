from math import log
from pathlib import Path

import numpy as np
import pytest

from lookup_tool.knowledge.lexical import LexicalIndex, QueryTerm

PASSAGES = (
    ("Annual leave", "You get 25 days of paid leave."),
    ("VPN", "Use the VPN. The tunnel opens by itself."),
    ("Handbook > Parking", "Paid parking behind the house; leave the key."),
    ("年假", "员工有年假。"),
)


@pytest.fixture(params=["built", "loaded"])
def lexical(request: pytest.FixtureRequest, tmp_path: Path) -> LexicalIndex:
    built = LexicalIndex.build(PASSAGES)
    if request.param == "built":
        return built
    built.save(tmp_path / "lexical")
    return LexicalIndex.load(tmp_path / "lexical")


def best(lexical: LexicalIndex, query: str, *slices: slice, k: int = 10) -> list[int]:
    scores = lexical.scores(lexical.query_terms(query))
    return lexical.best(scores, slices or [slice(0, len(scores))], k).tolist()


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        pytest.param("leave", [0, 2], id="more-often-first"),
        pytest.param("PARKED", [2], id="stem-and-case"),
        pytest.param("handbook", [2], id="heading-counts"),
        pytest.param("年假有几天", [3], id="cjk-pairs"),
        pytest.param("use the itself", [], id="function-words-only"),
        pytest.param("zebra", [], id="unknown-word"),
        pytest.param("", [], id="empty"),
    ],
)
def test_bm25_finds_rows_that_share_content_words(
    lexical: LexicalIndex, query: str, rows: list[int]
) -> None:
    assert best(lexical, query) == rows


def test_a_term_that_is_repeated_in_the_query_counts_once(lexical: LexicalIndex) -> None:
    once, thrice = (
        lexical.scores(lexical.query_terms(query)) for query in ("leave", "leave leaves leaving")
    )

    assert thrice.tolist() == once.tolist()


def test_function_words_beside_a_term_add_nothing(lexical: LexicalIndex) -> None:
    bare, wordy = (lexical.scores(lexical.query_terms(q)) for q in ("vpn", "use the vpn"))

    assert bare.tolist() == wordy.tolist()


def test_query_terms_are_weighed_by_rarity_and_function_words_are_zero(
    lexical: LexicalIndex,
) -> None:
    assert lexical.query_terms("The leave of Zebras") == (
        QueryTerm("the", "the", 0.0),
        QueryTerm("leav", "leave", round(log(1 + 2.5 / 2.5), 6)),
        QueryTerm("of", "of", 0.0),
        QueryTerm("zebra", "zebras", round(log(1 + 4.5 / 0.5), 6)),
    )


def test_a_term_in_the_heading_counts_twice() -> None:
    """By hand: lengths are 2 + 2 and 4, as a heading counts twice, so the mean is 4."""
    lexical = LexicalIndex.build([("leave", "paid days"), ("", "leave paid days off")])

    scores = lexical.scores(lexical.query_terms("leave"))

    rarity = log(1 + 0.5 / 2.5)
    assert scores.tolist() == pytest.approx([rarity * 2 * 2.5 / 3.5, rarity * 2.5 / 2.5])


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param("leave", [0, 2], id="in text or heading"),
        pytest.param("Annual Leaves", [0], id="every term, heading and text together"),
        pytest.param("leave paid", [0, 2], id="any order"),
        pytest.param("leave leave", [0, 2], id="repeated"),
        pytest.param("vpn parking", [], id="never together"),
        pytest.param("vpn zebra", [], id="one unknown"),
        pytest.param("年假", [3], id="unspaced"),
        pytest.param("?", [], id="no terms"),
    ],
)
def test_rows_with_a_phrase_have_all_of_its_terms(
    lexical: LexicalIndex, text: str, rows: list[int]
) -> None:
    assert lexical.rows_with(text).tolist() == rows


SCORES = np.array([0, 2, 3, 0, 2, 2, 1], dtype=np.float32)


@pytest.mark.parametrize(
    ("slices", "k", "rows"),
    [
        pytest.param([slice(0, 7)], 10, [2, 1, 4, 5, 6], id="zero-is-not-found"),
        pytest.param([slice(0, 7)], 5, [2, 1, 4, 5, 6], id="exactly-all"),
        pytest.param([slice(0, 7)], 2, [2, 1], id="tie-at-the-last-place-goes-by-row"),
        pytest.param([slice(0, 7)], 3, [2, 1, 4], id="tie-inside"),
        pytest.param([slice(0, 2), slice(4, 7)], 2, [1, 4], id="slices-only"),
        pytest.param([slice(3, 4)], 2, [], id="nothing-in-the-slice"),
        pytest.param([slice(0, 7)], 0, [], id="switched-off"),
        pytest.param([], 5, [], id="no-slices"),
    ],
)
def test_the_best_rows_are_the_best_of_their_slices(
    slices: list[slice], k: int, rows: list[int]
) -> None:
    assert LexicalIndex.best(SCORES, slices, k).tolist() == rows


def test_matches_tell_text_from_heading(lexical: LexicalIndex) -> None:
    query = lexical.query_terms("annual leave parking zebra")

    found = lexical.matches(np.array([2, 0]), query)

    assert found.text.tolist() == [[False, True, True, False], [False, True, False, False]]
    assert found.heading.tolist() == [[False, False, True, False], [True, True, False, False]]


@pytest.mark.parametrize(
    ("query", "pairs"),
    [
        pytest.param("paid leave", [[True, False], [False, False]], id="beside"),
        pytest.param("leave paid", [[False, False], [False, False]], id="wrong-order"),
        pytest.param("annual leave", [[False, False], [False, False]], id="heading-only"),
        pytest.param("leave you", [[False, False], [False, False]], id="heading-into-text"),
        pytest.param("leave use", [[False, False], [False, False]], id="over-the-end-of-a-row"),
        pytest.param("tunnel opens", [[False, False], [True, False]], id="second-row"),
        pytest.param("leave zebra", [[False, False], [False, False]], id="next-unknown"),
    ],
)
def test_pairs_are_neighbours_in_the_text_of_one_row(
    lexical: LexicalIndex, query: str, pairs: list[list[bool]]
) -> None:
    found = lexical.matches(np.array([0, 1]), lexical.query_terms(query))

    assert found.pairs.tolist() == pairs


def test_rows_end_where_the_next_one_begins() -> None:
    lexical = LexicalIndex.build([("", "paid leave"), ("", "policy leave"), ("", "leave policy")])

    found = lexical.matches(np.arange(3), lexical.query_terms("leave policy"))

    assert found.pairs.tolist() == [[False, False], [False, False], [True, False]]


@pytest.mark.parametrize(
    ("rows", "query", "shape"),
    [
        pytest.param([], "leave policy", (0, 2), id="no-rows"),
        pytest.param([0, 1], "", (2, 0), id="no-terms"),
    ],
)
def test_matches_of_nothing_are_empty(
    lexical: LexicalIndex, rows: list[int], query: str, shape: tuple[int, int]
) -> None:
    found = lexical.matches(np.array(rows, dtype=np.int64), lexical.query_terms(query))

    assert (found.text.shape, found.heading.shape, found.pairs.shape) == (shape, shape, shape)


@pytest.mark.parametrize(
    "passages", [pytest.param([], id="no-passages"), pytest.param([("", "...")], id="no-terms")]
)
def test_an_index_without_terms_finds_nothing(
    passages: list[tuple[str, str]], tmp_path: Path
) -> None:
    LexicalIndex.build(passages).save(tmp_path / "lexical")
    loaded = LexicalIndex.load(tmp_path / "lexical")

    assert loaded.scores(loaded.query_terms("leave")).tolist() == [0.0] * len(passages)
