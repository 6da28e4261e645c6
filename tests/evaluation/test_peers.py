"""The other rankings: same passages, same embedder, same BM25."""

from conftest import Make
from embedders import TableEmbedder, at_similarity
from stages_builders import passage

from lookup_tool.evaluation.peers import FUSED, fuse, rank_passages


def test_fusion_adds_reciprocal_ranks_and_breaks_ties_by_row() -> None:
    a, b, c, d = (passage(f"{name}.md", row=row) for row, name in enumerate("abcd"))

    # a: 1/61; b: 1/62 + 1/62; c: 1/61; d: 1/63
    fused = fuse([c, b, d], [a, b])

    assert [found.source for found in fused] == ["b.md", "a.md", "c.md", "d.md"]


def test_fusion_takes_the_first_fifty_of_each_list() -> None:
    many = [passage(f"{row}.md", row=row) for row in range(FUSED + 1)]

    assert fuse(many) == many[:FUSED]


def test_each_peer_goes_by_its_own_signal(make: Make) -> None:
    files = {
        "near.md": "NEAR house",
        "word.md": "FAREST bike bike",
        "both.md": "MIDDLE bike and a few other words",
    }
    vectors = {
        "NEAR": at_similarity(0.9),
        "MIDDLE": at_similarity(0.8),
        "FAREST": at_similarity(0.1),
        "bike": [1.0, 0.0],
    }

    ranked = rank_passages(make(files, TableEmbedder(vectors)), "bike")

    assert {peer: [p.entry for p in passages] for peer, passages in ranked.items()} == {
        "bm25": ["word.md", "both.md"],
        "dense": ["near.md", "both.md", "word.md"],
        "rrf": ["word.md", "both.md", "near.md"],  # 1/61 + 1/63, 2/62, 1/61
    }
