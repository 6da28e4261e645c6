import tracemalloc
from math import log
from pathlib import Path

import numpy as np
import pytest

from lookup_tool.engines.local.lexical import LexicalIndex
from lookup_tool.schema import QueryTerm

PASSAGES = (
    ("Annual leave", "You get 25 days of paid leave."),
    ("VPN", "Use the VPN. The tunnel opens by itself."),
    ("Handbook > Parking", "Paid parking behind the house; leave the key."),
    ("年假", "员工有年假。"),
)

EVERYTHING = slice(0, len(PASSAGES))
ROWS = np.arange(len(PASSAGES))


@pytest.fixture(params=["built", "loaded"])
def lexical(request: pytest.FixtureRequest, tmp_path: Path) -> LexicalIndex:
    built = LexicalIndex.build(PASSAGES)
    if request.param == "built":
        return built
    built.save(tmp_path / "lexical")
    return LexicalIndex.load(tmp_path / "lexical", len(PASSAGES))


def best(lexical: LexicalIndex, query: str, *slices: slice, k: int = 10) -> list[int]:
    return lexical.search(lexical.query_terms(query), slices or (EVERYTHING,), k).tolist()


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
        lexical.matches(ROWS, lexical.query_terms(query)).bm25
        for query in ("leave", "leave leaves leaving")
    )

    assert thrice.tolist() == once.tolist()


def test_function_words_beside_a_term_add_nothing(lexical: LexicalIndex) -> None:
    bare, wordy = (
        lexical.matches(ROWS, lexical.query_terms(q)).bm25 for q in ("vpn", "use the vpn")
    )

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

    scores = lexical.matches(np.arange(2), lexical.query_terms("leave")).bm25

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
    assert lexical.rows_with(text, [EVERYTHING]).tolist() == rows


@pytest.mark.parametrize(
    ("slices", "rows"),
    [
        pytest.param([slice(0, 1), slice(2, 4)], [0, 2], id="all of them"),
        pytest.param([slice(1, 3)], [2], id="one of them"),
        pytest.param([slice(1, 2), slice(3, 4)], [], id="none of them"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_rows_with_a_phrase_are_those_that_may_be_seen(
    lexical: LexicalIndex, slices: list[slice], rows: list[int]
) -> None:
    assert lexical.rows_with("paid leave", slices).tolist() == rows


def test_rows_that_may_not_be_seen_are_not_gone_through() -> None:
    lexical = LexicalIndex.build([("", "paid leave")] * 20_000)
    places = [slice(5, 8), slice(19_000, 19_001)]

    tracemalloc.start()
    rows = lexical.rows_with("leave, paid", places)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert rows.tolist() == [5, 6, 7, 19_000]
    assert most < 20_000  # a byte for every row would be more


WORDS = ("the", "often", "often", "often", "often", "some", "some", "rare", "once")


def random_index(seed: int, size: int) -> LexicalIndex:
    """Index short texts of few words: rows share terms, and many of them tie."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(0, 6))) for _ in range(size)]
    return LexicalIndex.build([("", text) for text in texts], public=size // 2)


@pytest.mark.parametrize("k", [1, 3, 20, 500])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("slices", [(slice(0, 300),), (slice(10, 60), slice(200, 230)), ()])
def test_a_search_returns_what_scoring_every_row_returns(
    slices: tuple[slice, ...], seed: int, k: int
) -> None:
    lexical = random_index(seed, 300)
    for query in ("often some rare", "often", "once rare", "some often once rare zebra", "the"):
        terms = lexical.query_terms(query)
        rows = np.array([row for part in slices for row in range(300)[part]], dtype=np.int64)
        scores = lexical.matches(rows, terms).bm25
        best_first = [row for _, row in sorted(zip(-scores, rows.tolist(), strict=True))]
        expected = best_first[: min(k, int((scores > 0).sum()))]

        assert lexical.search(terms, slices, k).tolist() == expected


def test_switched_off_a_search_returns_nothing(lexical: LexicalIndex) -> None:
    assert best(lexical, "leave", k=0) == []


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
    loaded = LexicalIndex.load(tmp_path / "lexical", len(passages))

    terms = loaded.query_terms("leave")

    assert loaded.search(terms, [slice(0, len(passages))], 5).tolist() == []
    assert loaded.matches(np.arange(len(passages)), terms).bm25.tolist() == [0.0] * len(passages)
