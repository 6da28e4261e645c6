from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from embedders import TableEmbedder, at_similarity
from langchain_core.documents import Document
from searching import search

from lookup_tool import KnowledgeBase
from lookup_tool.engines.local.snapshot import open_current
from lookup_tool.schema import (
    MAX_COPIES,
    Candidate,
    HintMatch,
    QueryTerm,
    SearchRequest,
    SearchResult,
)

QUERY = "badge price"
TABLE = {
    QUERY: [1.0, 0.0],
    "near": at_similarity(0.9),
    "middle": at_similarity(0.6),
    "far": at_similarity(0.2),
    "against": [-1.0, 0.0],
}


def knowledge(documents: Iterable[Document]) -> KnowledgeBase:
    return KnowledgeBase.from_documents(documents, embedder=TableEmbedder(TABLE))


def document(source: str, text: str, **metadata: object) -> Document:
    return Document(text, metadata={"source": source, "title": source, **metadata})


DOCUMENTS = (
    document("near.md", "Lunch is at noon.", category="Food"),
    document("middle.md", "A badge opens the door.", category="Site"),
    document("far.md", "The badge, price five.", category="Site"),
    document("against.md", "Parking."),
)


def found(base: KnowledgeBase, request: SearchRequest) -> list[tuple[str, float, tuple[str, ...]]]:
    return [(p.source, c.similarity, c.found_by) for p, c in search(base, request)]


def test_candidates_of_both_searches_carry_their_true_similarity() -> None:
    with knowledge(DOCUMENTS) as base:
        result = found(base, SearchRequest(QUERY, candidates=1, lexical_candidates=2))

    assert result == [
        ("near.md", 0.9, ("vector",)),
        ("middle.md", 0.6, ("lexical",)),
        ("far.md", 0.2, ("lexical",)),
    ]


def test_a_row_that_both_searches_find_is_one_candidate() -> None:
    with knowledge(DOCUMENTS) as base:
        result = found(base, SearchRequest(QUERY, candidates=4, lexical_candidates=1))

    assert result == [
        ("near.md", 0.9, ("vector",)),
        ("middle.md", 0.6, ("vector",)),
        ("far.md", 0.2, ("vector", "lexical")),
        ("against.md", 0.0, ("vector",)),
    ]


def test_no_lexical_candidates_turns_bm25_off_but_its_scores_are_still_told() -> None:
    with knowledge(DOCUMENTS) as base:
        (near_passage, near), (middle_passage, middle) = search(
            base, SearchRequest(QUERY, candidates=2, lexical_candidates=0)
        )

    assert (near_passage.source, near.found_by) == ("near.md", ("vector",))
    assert (middle_passage.source, middle.found_by) == ("middle.md", ("vector",))
    assert near.bm25 == 0
    assert middle.bm25 > 0


def test_a_candidate_tells_which_terms_stand_where() -> None:
    one = document("far.md", "# Badge\n\nThe badge, price five.", category="Site")
    hints = (
        HintMatch("category", "Site", "site", ("site",)),
        HintMatch("title", "far.md", "far md", ("site",)),
        HintMatch("keyword", "Door", "door", ("site",)),
    )
    with knowledge([one]) as base:
        terms = base.search(SearchRequest(QUERY, hints=hints)).terms
        ((passage, candidate),) = search(base, SearchRequest(QUERY, hints=hints))

    assert candidate == Candidate(
        row=0,
        section=0,
        text_id=candidate.text_id,
        similarity=0.2,
        bm25=candidate.bm25,
        entry_similarity=round(float(np.float16(0.2)), 6),
        found_by=("vector", "lexical"),
        in_text=frozenset({0, 1}),
        in_heading=frozenset({0}),
        pairs=frozenset({0}),
        hints=("title:far.md", "category:Site"),
    )
    assert (passage.breadcrumb, passage.text) == (
        ("far.md", "Badge"),
        "The badge, price five.",
    )
    assert [(term.term, term.surface) for term in terms] == [
        ("badg", "badge"),
        ("price", "price"),
    ]
    assert all(isinstance(term, QueryTerm) and term.weight > 0 for term in terms)


@pytest.mark.parametrize(
    ("category", "sources"),
    [
        pytest.param("site", ["middle.md", "far.md"], id="one-category"),
        pytest.param("food", ["near.md"], id="another"),
        pytest.param("law", [], id="unknown"),
        pytest.param(None, ["near.md", "middle.md", "far.md", "against.md"], id="no-filter"),
    ],
)
def test_a_category_restricts_both_searches(category: str | None, sources: list[str]) -> None:
    with knowledge(DOCUMENTS) as base:
        result = found(base, SearchRequest(QUERY, category=category))

    assert [source for source, _, _ in result] == sources


def test_nearer_rows_of_other_categories_do_not_starve_a_filtered_search() -> None:
    nearer = "\n".join(f"## Near {n}\n{QUERY} of the badge." for n in range(5000))
    documents = [
        document("near.md", nearer, category="Noise"),
        document("far.md", "A badge.", category="Site"),
        document("against.md", "Parking.", category="Site"),
    ]
    with knowledge(documents) as base:
        assert base.count() == 5002
        filtered = found(
            base, SearchRequest(QUERY, category="site", candidates=2, lexical_candidates=1)
        )

    assert filtered == [
        ("far.md", 0.2, ("vector", "lexical")),
        ("against.md", 0.0, ("vector",)),
    ]


GUARDED = (
    document("near.md", "A badge.", access=["board"]),
    document("middle.md", "A badge.", access=[]),
    document("far.md", "A badge.", access=["board", "staff"]),
    document("against.md", "A badge."),
)


@pytest.mark.parametrize(
    ("groups", "sources"),
    [
        pytest.param((), ["against.md"], id="public"),
        pytest.param(("staff",), ["far.md", "against.md"], id="staff"),
        pytest.param(("board",), ["near.md", "far.md", "against.md"], id="board"),
        pytest.param(("guests", "Board", ""), ["against.md"], id="no-such-group"),
    ],
)
def test_groups_decide_which_rows_exist(groups: tuple[str, ...], sources: list[str]) -> None:
    with knowledge(GUARDED) as base:
        result = found(base, SearchRequest(QUERY, groups=frozenset(groups)))

    assert [source for source, _, _ in result] == sources


def test_rows_of_an_earlier_attempt_are_scored_for_this_query() -> None:
    with knowledge(DOCUMENTS) as base:
        earlier = base.search(SearchRequest(QUERY, category="site", candidates=2))
        rows = tuple(candidate.row for candidate in earlier.candidates)
        result = found(base, SearchRequest("near", candidates=1, lexical_candidates=0, also=rows))

    assert result == [
        ("near.md", 1.0, ("vector",)),
        ("middle.md", pytest.approx(0.888712), ()),
        ("far.md", pytest.approx(0.607083), ()),
    ]


def test_equal_similarities_come_in_row_order() -> None:
    documents = [document(f"near-{n}.md", "Lunch.") for n in range(5)]
    with knowledge(documents) as base:
        result = search(base, SearchRequest(QUERY))

    assert [passage.source for passage, _ in result] == [f"near-{n}.md" for n in range(5)]
    assert [candidate.row for _, candidate in result] == [0, 1, 2, 3, 4]


def test_a_search_among_nothing_permitted_does_not_embed_the_query() -> None:
    embedder = TableEmbedder(TABLE)
    with KnowledgeBase.from_documents(GUARDED[:3], embedder=embedder) as base:
        result = base.search(SearchRequest(QUERY))

    assert (result, embedder.queries) == (SearchResult(), [])


def test_copies_of_one_text_do_not_crowd_out_others() -> None:
    copies = [document(f"copy-{n:02}.md", f"# Copy {n}\n\nNear text.") for n in range(30)]
    others = [document(f"other-{n}.md", f"# Other\n\nFar text {n}.") for n in range(3)]
    table = {"Near": at_similarity(0.9), "Far": at_similarity(0.5), "": [1.0, 0.0]}

    with KnowledgeBase.from_documents([*copies, *others], embedder=TableEmbedder(table)) as base:
        found = search(base, SearchRequest("x", candidates=3, lexical_candidates=0))

    assert len({candidate.text_id for _, candidate in found}) == 3
    assert [passage.entry for passage, _ in found[-2:]] == ["other-0.md", "other-1.md"]
    assert len(found) == MAX_COPIES + 2


def test_every_candidate_carries_the_similarity_of_its_whole_entry() -> None:
    table = {**TABLE, "above": [0.6, 0.8], "below": [0.6, -0.8]}
    documents = [
        document("a.md", "# A\n\nabove\n\n# B\n\nbelow"),
        document("b.md", "# A\n\nnear\n", access=["staff"]),
        document("c.md", "# C\n\nabove all\n"),
    ]
    with KnowledgeBase.from_documents(documents, embedder=TableEmbedder(table)) as base:
        result = search(base, SearchRequest(QUERY))

    assert [(p.source, c.similarity, c.entry_similarity) for p, c in result] == [
        ("a.md", 0.6, 1.0),
        ("a.md#b", 0.6, 1.0),
        ("c.md", 0.6, pytest.approx(0.6, abs=2e-4)),  # in half precision
    ]


def test_rows_know_their_section_and_their_entry(tmp_path: Path) -> None:
    documents = [
        document("secret.md", "Far.", access=["staff"]),
        document("two.md", "# A\n\nnear\n\n# B\n\nfar"),
        document("one.md", "middle", category="Site"),
    ]
    embedder = TableEmbedder({**TABLE, "Far": [0.0, 1.0]})
    KnowledgeBase.from_documents(documents, into=tmp_path, embedder=embedder).close()

    with closing(open_current(tmp_path)) as snapshot:
        passages = snapshot.store.passages(range(4))
        access = [0, 1]
        numbers = [
            snapshot.store.number(source, access) for source in ("two.md", "one.md", "secret.md")
        ]
        nobody = [
            snapshot.store.number(*asked) for asked in (("none.md", access), ("secret.md", [0]))
        ]
        sections, entries = snapshot.sections.tolist(), snapshot.entries.tolist()

    sources = ["one.md", "two.md", "two.md#b", "secret.md"]  # public ones first
    assert sections == [sources.index(passages[row].source) for row in range(4)]
    assert entries == [numbers[0], numbers[0], numbers[1], numbers[2]]
    assert nobody == [None, None]


def test_a_search_shows_nothing_of_what_is_not_permitted() -> None:
    """Not even in a number or in the last digit of a score."""
    hidden = [document(f"a{n}.md", "The badge, middle.", access=["staff"]) for n in range(9)]
    request = SearchRequest(QUERY, also=(0, 3, 5))
    with knowledge(DOCUMENTS) as alone, knowledge([*hidden, *DOCUMENTS]) as beside_others:
        expected, found = search(alone, request), search(beside_others, request)

    assert found == expected


def test_rows_that_are_not_permitted_are_neither_scored_nor_read() -> None:
    with knowledge(GUARDED) as base:
        everyone = SearchRequest(QUERY, groups=frozenset({"board", "staff", "b"}))
        rows = [candidate.row for candidate in base.search(everyone).candidates]
        seen = {candidate.row for candidate in base.search(SearchRequest(QUERY)).candidates}
        asked = base.search(SearchRequest(QUERY, also=tuple(rows)))
        read = base.view().passages(rows)

    assert len(seen) < len(rows)
    assert {candidate.row for candidate in asked.candidates} == set(read) == seen
