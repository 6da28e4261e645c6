import numpy as np
import pytest

from lookup_tool.engines.local.segments import Segment, Segments, Where, outside, rows_in

SEGMENTS = (
    Segment(None, None, 0, 2),
    Segment(None, "hr", 2, 5),
    Segment(None, "it", 5, 6),
    Segment(frozenset(), "hr", 6, 7),
    Segment(frozenset({"a"}), "hr", 7, 9),
    Segment(frozenset({"a", "b"}), "it", 9, 10),
)
ENTRIES = np.array([0, 0, 0, 1, 1, 2, 3, 4, 4, 5], dtype=np.int32)


@pytest.mark.parametrize(
    ("groups", "category", "expected"),
    [
        pytest.param((), None, [slice(0, 6)], id="public-is-one-slice"),
        pytest.param((), "hr", [slice(2, 5)], id="public-category"),
        pytest.param(("a",), None, [slice(0, 6), slice(7, 10)], id="group-sees-its-own-too"),
        pytest.param(("b",), None, [slice(0, 6), slice(9, 10)], id="one-group-of-two"),
        pytest.param(("a",), "hr", [slice(2, 5), slice(7, 9)], id="group-and-category"),
        pytest.param(("A", ""), None, [slice(0, 6)], id="another-name-is-no-group"),
        pytest.param(("a",), "law", [], id="unknown-category"),
    ],
)
def test_slices_hold_exactly_what_is_permitted(
    groups: tuple[str, ...], category: str | None, expected: list[slice]
) -> None:
    segments = Segments(SEGMENTS, ENTRIES)

    assert segments.slices(Where(frozenset(groups), category)) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param(0, [slice(3, 6), slice(7, 10)], id="at-the-start"),
        pytest.param(1, [slice(0, 3), slice(5, 6), slice(7, 10)], id="inside"),
        pytest.param(3, [slice(0, 6), slice(7, 10)], id="one-that-is-not-permitted"),
        pytest.param(9, [slice(0, 6), slice(7, 10)], id="one-that-is-not-there"),
    ],
)
def test_an_entry_can_be_left_out(entry: int, expected: list[slice]) -> None:
    where = Where(frozenset({"a"}), without_entry=entry)

    assert Segments(SEGMENTS, ENTRIES).slices(where) == expected


@pytest.mark.parametrize(
    ("rows", "slices", "count"),
    [
        pytest.param([2, 3, 5, 8], [slice(0, 10)], 4, id="all"),
        pytest.param([2, 3, 5, 8], [slice(2, 5)], 2, id="start counts and stop does not"),
        pytest.param([2, 3, 5, 8], [slice(0, 3), slice(8, 9)], 2, id="two slices"),
        pytest.param([2, 3, 5, 8], [slice(6, 8)], 0, id="between"),
        pytest.param([2, 3, 5, 8], [], 0, id="no slices"),
        pytest.param([], [slice(0, 10)], 0, id="no rows"),
    ],
)
def test_rows_are_counted_in_slices(rows: list[int], slices: list[slice], count: int) -> None:
    assert rows_in(np.array(rows, dtype=np.int32), slices) == count


@pytest.mark.parametrize(
    "holes",
    [[], [slice(0, 2)], [slice(3, 5)], [slice(4, 9)], [slice(9, 12)], [slice(0, 20)]],
    ids=["none", "at the start", "inside", "up to the end", "between", "all"],
)
def test_rows_outside_of_holes_are_all_others(holes: list[slice]) -> None:
    slices = [slice(0, 9), slice(12, 15)]

    left = outside(slices, holes)

    def rows(those: list[slice]) -> set[int]:
        return {row for part in those for row in range(part.start, part.stop)}

    assert rows(left) == rows(slices) - rows(holes)
    assert all(part.start < part.stop for part in left)
