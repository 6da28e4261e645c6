import numpy as np
import pytest

from lookup_tool.documents.entries import Problems
from lookup_tool.engines.local.layout import Layout, only_usable
from lookup_tool.engines.local.segments import Segment
from lookup_tool.errors import EmbeddingError
from lookup_tool.schema import Access, LoadProblem, Passage, PreparedEntry

STAFF: Access = frozenset({"staff"})


def entry(
    source: str, *texts: str, category: str | None = None, access: Access = None
) -> PreparedEntry:
    """Prepare an entry of which each text is a section of its own."""
    passages = tuple(
        Passage(f"{source}#{n}" if n else source, (source,), text, 1 + n, 1 + n)
        for n, text in enumerate(texts)
    )
    return PreparedEntry(source, source, category, access, {}, (), passages, digest=source)


ENTRIES = [
    entry("a.md", "a0", "a1", category="Two"),
    entry("b.md", "b0", access=STAFF),
    entry("c.md", category="One"),
    entry("d.md", "d0", "d1", "d2", category="two"),
    entry("e.md", "e0"),
]


def test_rows_are_sorted_by_access_category_and_entry() -> None:
    layout = Layout(ENTRIES)

    assert [p.text for p in layout.passages()] == ["e0", "a0", "a1", "d0", "d1", "d2", "b0"]
    assert layout.row_entries().tolist() == [4, 0, 0, 3, 3, 3, 1]
    assert layout.segments == [
        Segment(None, None, 0, 1),
        Segment(None, "two", 1, 6),
        Segment(STAFF, None, 6, 7),
    ]
    assert (layout.rows, layout.public) == (7, 6)
    assert [len(range(7)[run]) for run in layout.runs] == [2, 1, 0, 3, 1]
    assert [(r.entry.source, r.first_row) for r in layout.records() if r.passages] == [
        ("a.md", 1),
        ("b.md", 6),
        ("d.md", 3),
        ("e.md", 0),
    ]


def test_sections_are_numbered_in_the_order_of_their_sources_public_ones_first() -> None:
    assert Layout(ENTRIES).row_sections().tolist() == [5, 0, 1, 2, 3, 4, 6]


def test_sections_of_equal_source_keep_apart_and_in_order_whatever_lies_between() -> None:
    seen = [entry("a", "0", "1", access=STAFF), entry("a", "2", "3"), entry("a#1", "4")]
    hidden = [entry("a", "5", "6", access=frozenset({"board"})), entry("a#2", access=frozenset())]

    alone = Layout(seen).row_sections().tolist()
    beside = Layout([hidden[0], *seen, hidden[1]]).row_sections().tolist()

    assert alone == [0, 1, 2, 3, 4]
    assert beside == [0, 1, 2, 3, 4, 5, 6]


def test_what_has_no_vector_is_left_out_named_and_marked_in_its_entry_only() -> None:
    problems = Problems()
    usable = np.array([True, True, False, True, False, True, True])

    layout = only_usable(Layout(ENTRIES), usable, problems, "model")

    assert [(p.text, p.joint) for p in layout.passages()] == [
        ("e0", ""),
        ("a0", ""),
        ("d0", ""),  # the passage that is missing before it is another entry's
        ("d2", "\n\n[...]\n\n"),
        ("b0", ""),
    ]
    assert [r.as_cut for r in layout.records()] == [False, True, True, False, True]
    fault = ("error", "model gave no usable vector (zero, NaN or infinite) for this passage")
    remedy = "it cannot be found; reword it or use another embedder"
    expected = [LoadProblem("a.md", 2, *fault, remedy), LoadProblem("d.md", 2, *fault, remedy)]
    assert problems.found == expected
    assert [each.problems for each in layout.entries] == [
        (expected[0],),
        (),
        (),
        (expected[1],),
        (),
    ]


def test_a_build_without_any_vector_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="no usable vector for any of 7 passages"):
        only_usable(Layout(ENTRIES), np.zeros(7, dtype=np.bool_), Problems(), "model")
