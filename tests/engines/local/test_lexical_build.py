from pathlib import Path

import numpy as np
import pytest

from lookup_tool.engines.local import lexical_build
from lookup_tool.engines.local.lexical import LexicalIndex

PASSAGES = [
    ("Annual leave", "You get 25 days of paid leave."),
    ("VPN", "Use the VPN. The tunnel opens by itself."),
    ("Handbook > Parking", "Paid parking behind the house; leave the key."),
    ("年假", "员工有年假。"),
    ("", "..."),
]


def files(index: LexicalIndex, folder: Path) -> dict[str, bytes]:
    index.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([0, 1, 2, 3, 4], id="unchanged"),
        pytest.param([4, 3, 2, 1, 0], id="reordered"),
        pytest.param([2, -1, 0], id="some-gone-one-new"),
        pytest.param([-1, -1], id="all-new"),
        pytest.param([1, 1], id="twice"),
        pytest.param([], id="all-gone"),
    ],
)
def test_with_an_earlier_index_the_files_are_those_of_a_new_one(
    rows: list[int], tmp_path: Path
) -> None:
    earlier = LexicalIndex.build(PASSAGES, public=3)
    passages = [
        PASSAGES[row] if row >= 0 else (f"New {n}", "paid leave") for n, row in enumerate(rows)
    ]

    updated = LexicalIndex.build(passages, public=1, earlier=earlier, rows=rows)

    anew = LexicalIndex.build(passages, public=1)
    assert files(updated, tmp_path / "updated") == files(anew, tmp_path / "anew")


def test_terms_are_numbered_as_they_occur_context_first() -> None:
    terms = LexicalIndex.build([("Leave", "paid leave"), ("", "paid days")]).passage_terms

    assert terms.vocabulary == {"leav": 0, "paid": 1, "day": 2}
    assert terms.ids.tolist() == [0, 1, 0, 1, 2]
    assert (terms.starts.tolist(), terms.heads.tolist()) == ([0, 3, 5], [1, 0])


def test_statistics_are_those_of_the_public_passages() -> None:
    public = PASSAGES[:2]
    alone, with_others = (
        LexicalIndex.build(each, public=2) for each in (public, [*public, ("leave", "vpn leave")])
    )

    question = "leave of the vpn"

    assert with_others.query_terms(question) == alone.query_terms(question)
    scores = [i.matches(np.arange(2), i.query_terms(question)).bm25 for i in (alone, with_others)]
    assert scores[0].tolist() == scores[1].tolist()


@pytest.mark.parametrize("at_once", [1, 2, 7, 20])
def test_terms_that_are_counted_in_parts_give_the_same_files(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LexicalIndex.build(PASSAGES, public=3)

    monkeypatch.setattr(lexical_build, "_SORTED_AT_ONCE", at_once)

    parts = LexicalIndex.build(PASSAGES, public=3)
    assert files(parts, tmp_path / "parts") == files(whole, tmp_path / "whole")


def test_scores_are_added_up_in_an_order_that_hidden_passages_do_not_change() -> None:
    rng = np.random.default_rng(3)
    words = [f"w{n}" for n in range(30)]
    weights = 1 / np.arange(1, 31)

    def text() -> str:
        return " ".join(rng.choice(words, 12, p=weights / weights.sum()))

    public = [("", text()) for _ in range(200)]
    # Words that are rare in public are the most frequent ones of all.
    hidden = [("", " ".join(words[:-15:-1])) for _ in range(400)]
    alone = LexicalIndex.build(public)
    beside_others = LexicalIndex.build([*public, *hidden], public=len(public))
    for _ in range(50):
        question = " ".join(rng.choice(words, 8, replace=False))
        scores = [
            index.matches(np.arange(len(public)), index.query_terms(question)).bm25.tolist()
            for index in (alone, beside_others)
        ]

        assert scores[0] == scores[1]


def test_more_than_a_byte_counts_as_its_most() -> None:
    rows = np.arange(3)
    index = LexicalIndex.build([("", "leave " * times) for times in (255, 256, 1000)])
    terms = index.query_terms("leave")

    scores = index.matches(rows, terms).bm25

    assert scores[0] > scores[1] > scores[2] > 0  # the same count in ever longer passages
    assert index.search(terms, [slice(0, 3)], 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("size", [200, 255, 256, 300, 70_000])
def test_an_index_of_any_vocabulary_is_read_back_as_it_was(size: int, tmp_path: Path) -> None:
    index = LexicalIndex.build([("", " ".join(f"x{n}" for n in range(size)))])
    index.save(tmp_path / "lexical")
    loaded = LexicalIndex.load(tmp_path / "lexical", 1)

    for word in ("x0", f"x{size - 1}", f"x{size // 2} x{size // 2 + 1}"):
        pair = [each.matches(np.arange(1), each.query_terms(word)) for each in (index, loaded)]

        assert pair[1].text.all()
        assert pair[1].pairs.tolist() == pair[0].pairs.tolist()
        assert pair[1].bm25.tolist() == pair[0].bm25.tolist()
