"""Every scenario of the evidence blocks' requirements, through the compiled graph.

Where the later requirements meet these, the later ones win: `primary` and `supplement` are views
that one asks for, and details are kept under their later names.
"""

from typing import Any

from conftest import Make
from embedders import TableEmbedder, at_similarity

from lookup_tool import LookupConfig, LookupResult, TraceStore, build_lookup_graph
from lookup_tool.config import AssembleConfig, RetrievalConfig

QUERY = "parking"
SAME = "PARKING is free in zone B."
FILES = {
    "a/parking.md": (
        "---\ntitle: Parking rules\ncategory: site\nkeywords: [parking]\n---\n"
        f"# Parking rules\n{SAME}\n"
    ),
    "b/bicycles.md": "# Bicycles\nBICYCLES stand in the yard.\n",
}
TABLE = {"PARKING": at_similarity(0.9), "BICYCLES": at_similarity(0.8), "": [1.0, 0.0]}


def look_up(
    make: Make, traces: TraceStore, files: dict[str, str] = FILES, **sections: Any
) -> LookupResult:
    sections.setdefault("retrieval", RetrievalConfig(reference_threshold=0.95))
    knowledge = make(files, TableEmbedder(TABLE))
    graph = build_lookup_graph(knowledge, config=LookupConfig(**sections), traces=traces)
    return graph.invoke({"query": QUERY})["result"]


# Requirement: Knowledge retrieval SHALL return structured evidence blocks


def test_evidence_block_contains_source_metadata(make: Make, traces: TraceStore) -> None:
    block = look_up(make, traces).evidence_blocks[0]

    assert block.source == "a/parking.md"
    assert block.title == "Parking rules"
    assert block.breadcrumb == ("Parking rules",)
    assert block.retrieval_layer == "L1"
    assert block.content == SAME
    assert "vector" in block.hit_reasons


def test_compatibility_fields_remain_available(make: Make, traces: TraceStore) -> None:
    result = look_up(make, traces, assemble=AssembleConfig(legacy_fields=True))

    assert result.primary is not None
    assert result.primary.source == "a/parking.md"
    assert [block.source for block in result.supplement or ()] == ["b/bicycles.md"]


def test_compatibility_fields_are_absent_without_evidence(make: Make, traces: TraceStore) -> None:
    retrieval = RetrievalConfig(evidence_floor=0.95)

    result = look_up(make, traces, assemble=AssembleConfig(legacy_fields=True), retrieval=retrieval)

    assert not {"primary", "supplement"} & result.model_dump(mode="json").keys()


# Requirement: Knowledge retrieval SHALL deduplicate evidence blocks


def test_duplicate_source_deduplication(make: Make, traces: TraceStore) -> None:
    """Both attempts, both searches and L0 know the same source: one block, every reason."""
    result = look_up(make, traces)

    assert [attempt.strategy for attempt in result.retrieval_trace.attempts] == [
        "filtered",
        "unfiltered",
    ]
    assert [block.source for block in result.evidence_blocks] == ["a/parking.md", "b/bicycles.md"]
    assert result.evidence_blocks[0].hit_reasons == (
        "vector",
        "lexical",
        "keyword:parking",
        "content:parking",
    )


def test_equal_texts_become_one_block_that_names_the_others(make: Make, traces: TraceStore) -> None:
    files = {**FILES, "c/copy.md": f"# A copy\n{SAME}\n"}

    result = look_up(make, traces, files)

    assert [(block.source, block.duplicates) for block in result.evidence_blocks] == [
        ("a/parking.md", ("c/copy.md",)),
        ("b/bicycles.md", ()),
    ]


def test_postprocess_count_tracking(make: Make, traces: TraceStore) -> None:
    look_up(make, traces)

    (row,) = traces.rows()
    assert (row.candidate_count, row.evidence_block_count) == (2, 2)
    assert row.retrieval_details["candidateCount"] == 2
    assert row.retrieval_details["evidenceBlockCount"] == 2


# Requirement: Knowledge retrieval SHALL persist evidence block summaries


def test_evidence_summaries_are_persisted(make: Make, traces: TraceStore) -> None:
    result = look_up(make, traces)

    (row,) = traces.rows()
    best = result.evidence_blocks[0]
    assert row.retrieval_details["evidence"][0] == {
        "rank": 1,
        "source": "a/parking.md",
        "title": "Parking rules",
        "retrievalLayer": "L1",
        "similarity": 0.9,
        "score": best.score,
        "hitReasons": list(best.hit_reasons),
        "excerpt": SAME,
    }


def test_full_content_is_not_duplicated_into_retrieval_details(
    make: Make, traces: TraceStore
) -> None:
    files = {"long.md": "# Long\n" + "PARKING is free. " * 100 + "The marker zqx stands here.\n"}

    result = look_up(make, traces, files)

    (row,) = traces.rows()
    assert "zqx" in "".join(block.content for block in result.evidence_blocks)
    assert "zqx" not in str(row)
    assert len(row.retrieval_details["evidence"][0]["excerpt"]) == 80
