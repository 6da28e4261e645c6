from collections.abc import Iterator
from itertools import pairwise

import faiss
import numpy as np
import pytest
from embedders import at_similarity
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookup_tool.engines.local.segments import Segment, Segments, Where
from lookup_tool.engines.local.threads import one_thread
from lookup_tool.engines.local.vectors import VectorIndex, similarities, unit_means

X = np.array([1.0, 0.0], dtype=np.float32)
A = frozenset({"a"})
EVERYTHING = Where()


def index(*similarities: float) -> VectorIndex:
    """Hold vectors with these similarities to `X`, all of them public."""
    vectors = np.array([at_similarity(s) for s in similarities], dtype=np.float32)
    return over(vectors, Segment(None, None, 0, len(vectors)))


def over(vectors: NDArray[np.float32], *segments: Segment) -> VectorIndex:
    """Hold vectors of one entry in these segments."""
    return VectorIndex(vectors, Segments(segments, np.zeros(len(vectors), dtype=np.int32)))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    yield
    faiss.omp_set_num_threads(before)


Drawn = tuple[NDArray[np.float32], list[Segment], NDArray[np.float32], str | None, int]


@st.composite
def searches(draw: st.DrawFn) -> Drawn:
    """Draw unit vectors on a coarse grid (many ties), segments, a query, a category and a k."""
    coordinates = st.tuples(*[st.integers(-2, 2)] * 3).filter(any)
    points = np.array(draw(st.lists(coordinates, min_size=2, max_size=60)), dtype=np.float64)
    units = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    query, vectors = units[0], units[1:]
    cuts = sorted(draw(st.sets(st.integers(1, len(vectors)), max_size=5)) | {len(vectors)})
    segments = [
        Segment(
            draw(st.sampled_from([None, frozenset[str](), frozenset({"a"})])),
            draw(st.sampled_from([None, "hr", "it"])),
            start,
            stop,
        )
        for start, stop in pairwise([0, *cuts])
    ]
    return vectors, segments, query, draw(st.sampled_from([None, "hr"])), draw(st.integers(1, 60))


@settings(deadline=None)
@given(searches())
def test_a_filtered_search_equals_brute_force(drawn: Drawn) -> None:
    vectors, segments, query, category, k = drawn
    searched = over(vectors, *segments)
    permitted = [
        row
        for segment in segments
        if segment.access is None or "a" in segment.access
        if category is None or segment.category == category
        for row in range(segment.start, segment.stop)
    ]
    cosines = np.clip(vectors.astype(np.float64) @ query.astype(np.float64), 0, 1).round(6)

    rows, similarities = searched.search(query, k, Where(frozenset({"a"}), category))

    assert rows.tolist() == sorted(permitted, key=lambda row: (-cosines[row], row))[:k]
    assert similarities.tolist() == cosines[rows].tolist()


@pytest.mark.parametrize("k", [1, 5, 299, 300, 301])
@pytest.mark.parametrize(
    ("products", "similarity"),
    [
        pytest.param([0.6] * 300, 0.6, id="equal"),
        pytest.param([0.6 + n * 1e-9 for n in range(300)], 0.6, id="but for the last digits"),
        pytest.param([-0.9 + n / 400 for n in range(300)], 0.0, id="negative"),
        pytest.param([n * 1e-9 for n in range(300)], 0.0, id="next to zero"),
    ],
)
def test_of_rows_with_equal_similarity_the_first_are_found(
    products: list[float], similarity: float, k: int
) -> None:
    rows, similarities = index(*products).search(X, k, EVERYTHING)

    assert rows.tolist() == list(range(min(k, 300)))
    assert set(similarities.tolist()) == {similarity}


def test_a_few_good_rows_come_before_the_first_of_many_that_are_nothing_like_it() -> None:
    rows, similarities = index(*[-0.5] * 200, 0.3, *[-0.1] * 200, 0.4).search(X, 4, EVERYTHING)

    assert (rows.tolist(), similarities.tolist()) == ([401, 200, 0, 1], [0.4, 0.3, 0.0, 0.0])


@pytest.mark.parametrize("dimension", [3, 24, 255, 384])
def test_the_similarity_of_a_row_does_not_depend_on_the_rows_beside_it(dimension: int) -> None:
    vectors = np.random.default_rng(1).standard_normal((400, dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query = vectors[0]

    alone = [float(similarities(vectors[row : row + 1], query)[0]) for row in range(400)]

    for size in (2, 3, 5, 400):
        for start in range(0, 401 - size, 7):
            rows = slice(start, start + size)
            assert similarities(vectors[rows], query).tolist() == alone[rows]


@pytest.mark.parametrize("k", [1, 7, 40])
def test_rows_that_may_not_be_seen_change_nothing_wherever_they_lie(k: int) -> None:
    rng = np.random.default_rng(k)
    points = rng.integers(-2, 3, (240, 8)).astype(np.float64)
    points[:, 0] += 0.5  # no zero vector
    units = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    b = frozenset({"b"})
    parts = [
        Segment(access, None, start, start + 20)
        for start, access in zip(range(0, 240, 20), (None, A, b) * 4, strict=True)
    ]
    seen = [row for part in parts if part.access != A for row in range(part.start, part.stop)]
    beside, alone = over(units, *parts), over(units[seen], Segment(None, None, 0, len(seen)))
    for query in units:
        expected, found = alone.search(query, k, EVERYTHING), beside.search(query, k, Where(b))

        assert found[0].tolist() == [seen[row] for row in expected[0]]
        assert found[1].tolist() == expected[1].tolist()


def test_ties_across_slices_go_by_row() -> None:
    vectors = np.array([at_similarity(s) for s in (0.5, 0.9, 1.0, 0.5, 0.9)], dtype=np.float32)
    parts = (Segment(None, None, 0, 2), Segment(frozenset(), None, 2, 3), Segment(A, None, 3, 5))

    rows, similarities = over(vectors, *parts).search(X, 4, Where(A))

    assert (rows.tolist(), similarities.tolist()) == ([1, 4, 0, 3], [0.9, 0.9, 0.5, 0.5])


def test_rows_that_differ_in_the_seventh_digit_tie() -> None:
    close = index(0.5000001, 0.5000002, 0.5000004)

    rows, similarities = close.search(X, 3, EVERYTHING)

    assert (rows.tolist(), similarities.tolist()) == ([0, 1, 2], [0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("vector", "similarity"),
    [
        pytest.param([-1.0, 0.0], 0.0, id="opposite"),
        pytest.param([-0.0001, 1.0], 0.0, id="just-under-zero"),
        pytest.param([0.0, 1.0], 0.0, id="right-angle"),
        pytest.param([1.0, 0.0], 1.0, id="identical"),
        pytest.param([1.0000001, 0.0], 1.0, id="just-over-one"),
        pytest.param([0.1234564, 0.0], 0.123456, id="rounded-down"),
        pytest.param([0.1234566, 0.0], 0.123457, id="rounded-up"),
    ],
)
def test_similarity_is_clipped_and_rounded(vector: list[float], similarity: float) -> None:
    one = over(np.array([vector], dtype=np.float32), Segment(None, None, 0, 1))

    assert one.search(X, 1, EVERYTHING)[1].tolist() == [similarity]
    assert one.similarity(X, np.array([0])).tolist() == [similarity]


@pytest.mark.parametrize("hundredth", range(0, 101, 5))
def test_a_vector_built_to_lie_on_a_threshold_lies_on_it(hundredth: int) -> None:
    threshold = hundredth / 100

    assert index(threshold).search(X, 1, EVERYTHING)[1].tolist() == [threshold]


def test_any_rows_can_be_compared_in_any_order() -> None:
    assert index(0.1, 0.2, 0.3).similarity(X, np.array([2, 0])).tolist() == [0.3, 0.1]


@pytest.mark.parametrize(
    ("vectors", "similarity"),
    [
        pytest.param([[0.6, 0.8]], 0.6, id="one row"),
        pytest.param([[0.6, 0.8], [0.6, -0.8]], 1.0, id="two sides of the query"),
        pytest.param([[1.0, 0.0], [0.0, 1.0]], 0.707107, id="half way"),
        pytest.param([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], 0.447214, id="more of one"),
        pytest.param([[-0.6, 0.8], [-0.6, -0.8]], 0.0, id="opposite to the query"),
        pytest.param([[1.0, 0.0], [-1.0, 0.0]], 0.0, id="opposite to each other"),
    ],
)
def test_a_run_of_rows_has_the_similarity_of_its_mean(
    vectors: list[list[float]], similarity: float
) -> None:
    rows = np.array([[0.0, 1.0], *vectors, [0.0, -1.0]], dtype=np.float32)

    means = unit_means(rows, [slice(1, len(rows) - 1), slice(0, 1), slice(0, 0)])

    assert similarities(means, X).tolist() == [similarity, 0.0, 0.0]
    assert np.linalg.norm(means, axis=1) == pytest.approx([float(means[0].any()), 1.0, 0.0])


def test_a_search_among_nothing_finds_nothing() -> None:
    rows, similarities = index(0.5).search(X, 10, Where(category="none"))

    assert (rows.tolist(), similarities.tolist()) == ([], [])


@pytest.mark.usefixtures("two_threads")
def test_a_search_puts_the_openmp_setting_back() -> None:
    index(0.5).search(X, 1, EVERYTHING)

    assert faiss.omp_get_max_threads() == 2


def fail_in_one_thread() -> None:
    with one_thread():
        raise ZeroDivisionError(faiss.omp_get_max_threads())


@pytest.mark.usefixtures("two_threads")
def test_the_openmp_setting_is_put_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError, match="1"):
        fail_in_one_thread()

    assert faiss.omp_get_max_threads() == 2
