from pathlib import Path

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from lookup_tool.engines.local.quantized import QuantizedRows
from lookup_tool.engines.local.segments import Segment, Segments, Where
from lookup_tool.engines.local.vectors import VectorIndex
from lookup_tool.errors import KnowledgeDamagedError

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


def likely(quantized: QuantizedRows, query: NDArray[np.float32], k: int) -> set[int]:
    """Return the rows that are compared exactly; all are different."""
    rows = quantized.candidates(query, k)
    assert rows is not None
    assert len(set(rows.tolist())) == len(rows)
    return set(rows.tolist())


@pytest.mark.parametrize(
    ("k", "several"),
    [(1, 500), (50, 500), (51, 510), (PUBLIC // 100, PUBLIC // 10)],
)
def test_many_more_rows_than_wanted_are_compared_exactly(
    vectors: NDArray[np.float32], quantized: QuantizedRows, k: int, several: int
) -> None:
    assert len(likely(quantized, vectors[5], k)) == several


def test_all_rows_are_compared_where_that_would_be_more_than_a_tenth(
    vectors: NDArray[np.float32], quantized: QuantizedRows
) -> None:
    assert quantized.candidates(vectors[5], PUBLIC // 100 + 1) is None


@pytest.mark.parametrize("groups", [frozenset[str](), A])
def test_all_public_rows_at_once_are_ranked_by_their_codes(
    vectors: NDArray[np.float32], groups: frozenset[str]
) -> None:
    opposite = VectorIndex(vectors, segments(len(vectors)), QuantizedRows.build(-vectors[:PUBLIC]))

    wide = opposite.search(vectors[1_500], 10, Where(groups))[0]
    narrow = opposite.search(vectors[1_500], 10, Where(groups, "hr"))[0]

    assert 1_500 not in wide  # codes that tell the opposite leave the nearest rows out
    assert narrow[0] == 1_500


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
    loaded = QuantizedRows.load(tmp_path / "two", PUBLIC, vectors.shape[1])
    one, two, again = (likely(each, vectors[5], 50) for each in (quantized, loaded, loaded))

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert one == two == again


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    noise, flat = tmp_path / "noise", tmp_path / "flat"
    noise.write_bytes(b"no index at all")
    faiss.write_index(faiss.IndexFlatIP(4), str(flat))

    for path in (noise, flat):
        with pytest.raises(KnowledgeDamagedError, match=f"{path.name}: holds no RaBitQ codes"):
            QuantizedRows.load(path, 4, 4)
