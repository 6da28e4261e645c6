"""The trace row is compact, bounded and strict JSON, and a failure costs nothing."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages_builders import attempt, block, result, trace

from lookup_tool.config import RecordConfig
from lookup_tool.contracts import HintSummary, LookupResult, StageTiming
from lookup_tool.stages.record import record, trace_row
from lookup_tool.traces import IN_MEMORY, TraceRow, TraceStore

FILTERED = attempt(
    strategy="filtered",
    filter={"category": "hr"},
    outcome="low_quality",
    reason="category_filter: keyword:leave",
    candidate_count=4,
    top_similarity=0.3,
)
RETRY = attempt(candidate_count=9, evidence_count=1, reason="filtered_vector_low_quality")
FOUND = result(
    block(content="Staff get\n\n25  days of leave.", hit_reasons=("vector", "keyword:leave")),
    retrieval_trace=trace(
        query="How much Leave?",
        transformed_query="How much leave?",
        query_length=15,
        hints=HintSummary(keywords=("leave",), categories=("hr",), entry_count=1),
        attempts=(FILTERED, RETRY),
        fallback_reason="filtered_vector_low_quality",
        candidate_count=9,
        evidence_block_count=1,
        duration_ms=3.5,
        timings=(StageTiming(stage="framework", duration_ms=3.5),),
    ),
)


def details_of(found: LookupResult, config: RecordConfig) -> dict[str, Any]:
    return trace_row(found, "lookup_knowledge", config).retrieval_details


def size(details: dict[str, Any]) -> int:
    return len(json.dumps(details, ensure_ascii=False, separators=(",", ":")).encode())


def test_a_row_sums_the_lookup_up() -> None:
    row = trace_row(FOUND, "lookup_knowledge", RecordConfig(excerpt_chars=12))

    assert row == TraceRow(
        invocation_id="id-1",
        tool_name="lookup_knowledge",
        query="How much Leave?",
        found=True,
        evidence_status="sufficient",
        fallback_reason="filtered_vector_low_quality",
        candidate_count=9,
        evidence_block_count=1,
        duration_ms=3.5,
        knowledge_version="v1",
        retrieval_details={
            "transformedQuery": "How much leave?",
            "queryLength": 15,
            "queryCut": False,
            "hints": {
                "titles": [],
                "keywords": ["leave"],
                "categories": ["hr"],
                "entities": [],
                "entryCount": 1,
            },
            "attempts": [each.model_dump(mode="json") for each in (FILTERED, RETRY)],
            "fallbackReason": "filtered_vector_low_quality",
            "error": None,
            "candidateCount": 9,
            "evidenceBlockCount": 1,
            "answerability": 0.7,
            "relevanceLevel": "medium",
            "embedder": "table",
            "evidence": [
                {
                    "rank": 1,
                    "source": "a.md",
                    "title": "Title",
                    "retrievalLayer": "L1",
                    "similarity": 0.5,
                    "score": 0.5,
                    "hitReasons": ["vector", "keyword:leave"],
                    "excerpt": "Staff get 25",
                }
            ],
            "timings": [{"stage": "framework", "durationMs": 3.5}],
        },
    )


def test_an_excerpt_length_of_zero_keeps_no_content() -> None:
    (summary,) = details_of(FOUND, RecordConfig(excerpt_chars=0))["evidence"]

    assert "excerpt" not in summary
    assert "Staff" not in json.dumps(summary)


@pytest.mark.parametrize(("length", "kept"), [(119, 119), (120, 120), (121, 120), (500, 120)])
def test_long_texts_are_shortened(length: int, kept: int) -> None:
    text = "t" * length

    (summary,) = details_of(result(block(title=text)), RecordConfig())["evidence"]

    assert summary["title"] == (text if length == kept else f"{'t' * (kept - 3)}...")


def test_redaction_hides_every_form_of_the_query() -> None:
    asked = trace(
        query="My SECRET question",
        transformed_query="My SECRET question",
        attempts=(
            attempt(strategy="filtered", query="My SECRET question"),
            attempt(query="My SECRET question"),
        ),
    )
    config = RecordConfig(redact=lambda text: re.sub("SECRET", "***", text))

    row = trace_row(result(block(), retrieval_trace=asked), "lookup_knowledge", config)

    assert row.query == "My *** question"
    assert row.retrieval_details["transformedQuery"] == "My *** question"
    assert [a["query"] for a in row.retrieval_details["attempts"]] == ["My *** question"] * 2


def test_summaries_are_left_out_last_first_until_the_details_are_small_enough() -> None:
    many = [block(f"{n}.md", rank=n + 1, content="word " * 50) for n in range(30)]
    whole = size(details_of(result(*many), RecordConfig(max_bytes=100_000)))

    details = details_of(result(*many), RecordConfig(max_bytes=4096))

    kept = [summary["source"] for summary in details["evidence"]]
    assert whole > 4096 >= size(details)
    assert 0 < len(kept) < 30
    assert kept == [f"{n}.md" for n in range(len(kept))]
    assert (details["truncated"], details["evidenceBlockCount"]) == (True, 30)


greek = st.text("αβγδεζηθικλμνξοπρστυφχψω \n😀", max_size=300)
plain = st.text(st.characters(codec="utf-8", exclude_categories=("Lo", "Ll", "So")), max_size=200)
blocks_with_greek_content = st.builds(
    block,
    plain,
    title=st.one_of(st.none(), plain),
    content=greek,
    hit_reasons=st.lists(plain, max_size=30).map(tuple),
    rank=st.integers(1, 10),
    similarity=st.floats(0, 1),
    score=st.floats(-10, 10),
)
traces = st.builds(
    trace,
    query=plain,
    transformed_query=plain,
    hints=st.builds(HintSummary, keywords=st.lists(plain, max_size=40).map(tuple)),
    attempts=st.lists(
        st.builds(attempt, query=plain, reason=plain, filter=st.fixed_dictionaries({"c": plain})),
        max_size=2,
    ).map(tuple),
)


@settings(max_examples=100, deadline=None)
@given(
    blocks=st.lists(blocks_with_greek_content, max_size=6),
    asked=traces,
    excerpt=st.integers(0, 100),
    limit=st.integers(1024, 9000),
)
def test_details_are_strict_json_within_their_limits(
    blocks: list[Any], asked: Any, excerpt: int, limit: int
) -> None:
    config = RecordConfig(excerpt_chars=excerpt, max_bytes=limit)

    details = details_of(result(*blocks, retrieval_trace=asked), config)

    text = json.dumps(details, ensure_ascii=False, allow_nan=False)
    assert json.loads(text) == details
    assert len(text.encode()) <= limit
    summaries = details.get("evidence", [])
    assert len(re.findall("[\u03b1-\u03c9😀]", text)) <= excerpt * len(summaries)
    for summary, each in zip(summaries, blocks, strict=False):
        assert " ".join(each.content.split()).startswith(summary.get("excerpt", ""))


@pytest.fixture
def store() -> Any:
    opened = TraceStore(IN_MEMORY)
    yield opened
    opened.close()


def test_recording_writes_one_row(store: TraceStore) -> None:
    assert record(FOUND, store, "lookup_knowledge", RecordConfig()) is None
    assert [row.invocation_id for row in store.rows()] == ["id-1"]


def test_without_a_store_nothing_is_recorded() -> None:
    assert record(FOUND, None, "lookup_knowledge", RecordConfig()) is None


def test_a_redaction_that_fails_is_named_and_writes_nothing(store: TraceStore) -> None:
    def broken(text: str) -> str:
        raise KeyError(text)

    failure = record(FOUND, store, "lookup_knowledge", RecordConfig(redact=broken))

    assert failure == "KeyError"
    assert store.count() == 0


def test_a_store_that_cannot_write_is_told_in_a_few_words(tmp_path: Any) -> None:
    store = TraceStore(tmp_path / "traces.sqlite")
    store.close()
    (tmp_path / "traces.sqlite").write_bytes(b"no database at all" * 100)

    failure = record(FOUND, store, "lookup_knowledge", RecordConfig())

    store.close()
    assert failure == "TraceStoreError: the trace store is damaged, or no database"
