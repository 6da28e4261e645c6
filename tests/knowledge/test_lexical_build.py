from pathlib import Path

import numpy as np
import pytest

from lookup_tool.knowledge import lexical_build
from lookup_tool.knowledge.lexical import LexicalIndex

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
