from pathlib import Path

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from lookup_tool.knowledge.quantized import QuantizedRows
from lookup_tool.knowledge.segments import Segment, Segments, Where
from lookup_tool.knowledge.vectors import VectorIndex

PUBLIC = 12_000
A = frozenset({"a"})


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float32]:
    """Unit vectors in 60 clusters: 12,000 public ones, then 500 that group `a` may see."""
    rng = np.random.default_rng(1)
    centers = rng.standard_normal((60, 64), dtype=np.float32)
    found = centers[rng.integers(0, 60, PUBLIC + 500)]
    found += rng.standard_normal(found.shape, dtype=np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def quantized(vectors: NDArray[np.float32]) -> QuantizedRows:
    return QuantizedRows.build(vectors[:PUBLIC])


def segments(rows: int) -> Segments:
    parts = [
        Segment(None, "hr", 0, 2_000),
        Segment(None, "it", 2_000, PUBLIC),
        Segment(A, "hr", PUBLIC, rows),
    ]
    return Segments(parts, np.zeros(rows, dtype=np.int32))


@pytest.fixture(scope="module")
def pair(vectors: NDArray[np.float32], quantized: QuantizedRows) -> tuple[VectorIndex, VectorIndex]:
    """The same vectors, searched exactly and with codes."""
    parts = segments(len(vectors))
    return VectorIndex(vectors, parts), VectorIndex(vectors, parts, quantized)


@pytest.mark.parametrize("groups", [frozenset[str](), A])
def test_a_rough_first_pass_loses_next_to_nothing(
    pair: tuple[VectorIndex, VectorIndex],
    vectors: NDArray[np.float32],
    groups: frozenset[str],
) -> None:
    exact, rough = pair
    where = Where(groups)
    shares: list[float] = []
    for query in vectors[:: len(vectors) // 40]:
        expected, similarities = exact.search(query, 10, where)
        found, same = rough.search(query, 10, where)
        kept = np.isin(found, expected)
        shares.append(float(kept.mean()))

        assert found[0] == expected[0]
        assert same[kept] == pytest.approx(similarities[np.isin(expected, found)], abs=2e-6)

    assert np.mean(shares) >= 0.99


def test_restricted_rows_beside_the_codes_are_all_found(
    pair: tuple[VectorIndex, VectorIndex], vectors: NDArray[np.float32]
) -> None:
    exact, rough = pair
    query = vectors[PUBLIC + 7]
    restricted = [row for row in exact.search(query, 50, Where(A))[0] if row >= PUBLIC]

    found = rough.search(query, 50, Where(A))[0]

    assert [row for row in found if row >= PUBLIC] == restricted


@pytest.mark.parametrize(
    ("groups", "category", "k"),
    [
        pytest.param(frozenset[str](), "hr", 50, id="category"),
        pytest.param(A, "hr", 50, id="category-over-two-access-sets"),
        pytest.param(frozenset[str](), None, 2_000, id="so-many-that-all-are-compared"),
    ],
)
def test_what_is_narrow_or_wide_is_searched_exactly(
    pair: tuple[VectorIndex, VectorIndex],
    vectors: NDArray[np.float32],
    groups: frozenset[str],
    category: str | None,
    k: int,
) -> None:
    exact, rough = pair
    where = Where(groups, category)
    for query in vectors[::3_000]:
        expected, found = exact.search(query, k, where), rough.search(query, k, where)

        assert found[0].tolist() == expected[0].tolist()
        assert found[1].tolist() == expected[1].tolist()


def test_of_rows_that_are_nothing_like_the_query_the_first_are_found_with_codes_too(
    vectors: NDArray[np.float32],
) -> None:
    one_side = vectors[:PUBLIC].copy()
    one_side[:, 0] = np.abs(one_side[:, 0])
    query = np.zeros(one_side.shape[1], dtype=np.float32)
    query[0] = -1.0
    coded = QuantizedRows.build(one_side)
    parts = Segments([Segment(None, None, 0, PUBLIC)], np.zeros(PUBLIC, dtype=np.int32))

    rows, similarities = VectorIndex(one_side, parts, coded).search(query, 5, Where())

    assert coded.candidates(query, 5) is not None
    assert (rows.tolist(), similarities.tolist()) == ([0, 1, 2, 3, 4], [0.0] * 5)


def test_equal_vectors_give_equal_codes_and_equal_results(
    vectors: NDArray[np.float32], quantized: QuantizedRows, tmp_path: Path
) -> None:
    quantized.save(tmp_path / "one")
    QuantizedRows.build(vectors[:PUBLIC].copy()).save(tmp_path / "two")
    loaded = QuantizedRows.load(tmp_path / "two")
    results = [each.candidates(vectors[5], 50) for each in (quantized, loaded, loaded)]

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert len({None if rows is None else tuple(sorted(rows.tolist())) for rows in results}) == 1


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    noise, flat = tmp_path / "noise", tmp_path / "flat"
    noise.write_bytes(b"no index at all")
    faiss.write_index(faiss.IndexFlatIP(4), str(flat))

    for path in (noise, flat):
        with pytest.raises(ValueError, match=path.name):
            QuantizedRows.load(path)
