"""Trace persistence: what a row may hold.

Families: values that JSON or a database cannot hold (NaN, infinities, lone surrogates, NUL, dates,
sets, bytes, objects) in queries, rewritten queries, frontmatter and metadata; and size: no content
beyond the excerpt, whatever is long.
"""

import datetime as dt
import decimal
import enum
import json
import math
import pathlib
import types
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_builders import BADGE_TEXT, CAFE, LAB, LAB_TABLE, Make, ask_artifact, stored, strictly
from embedders import HashEmbedder, TableEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from lookup_tool import KnowledgeBase, LookupConfig, TraceStore, create_lookup_tool
from lookup_tool.config import QueryConfig, RecordConfig

# Values that JSON cannot hold


@pytest.mark.parametrize(
    "scalar",
    [
        pytest.param(".nan", id="E-06"),
        ".inf",
        "-.INF",
        "-0.0",
        "1e999",
        "0x7fffffffffffffffffff",
        "!!float nan",
        "2024-02-30",
        "2024-01-01T10:00:00+02:00",
        "!!binary /w==",
        "!!set {a, b}",
        '"\\ud800"',
        '"\\0"',
    ],
)
@pytest.mark.parametrize("key", ["weight", "title", "category", "keywords", "entities"])
def test_no_scalar_of_frontmatter_breaks_a_row(
    make: Make, tmp_path: Path, scalar: str, key: str
) -> None:
    knowledge = make({"badges.md": f"---\n{key}: {scalar}\n---\n{BADGE_TEXT}\n"}, HashEmbedder())
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        artifact = ask_artifact(create_lookup_tool(knowledge, traces=store), "lost badges")

    json.dumps(artifact, allow_nan=False)
    assert (artifact["found"], len(stored(path))) == (True, 1)


@pytest.mark.parametrize(
    "bad", [[math.nan, 0.0], [math.inf, 0.0], [-math.inf, 1.0]], ids=["nan", "inf", "minus-inf"]
)
@pytest.mark.parametrize("place", ["hit", "CAFE"], ids=["query", "passage"])
def test_e_06_vectors_that_are_no_numbers_break_no_row(
    tmp_path: Path, bad: list[float], place: str
) -> None:
    path = tmp_path / "traces.sqlite"
    table = {**LAB_TABLE, place: bad}
    with (
        closing(TraceStore(path)) as store,
        KnowledgeBase.from_documents([LAB, CAFE], embedder=TableEmbedder(table)) as knowledge,
    ):
        ask_artifact(create_lookup_tool(knowledge, traces=store), "hit")

    assert len(stored(path)) == 1


ODD_TEXTS = [
    pytest.param("badges \ud83d desk", id="lone-surrogate"),
    pytest.param("badges \x00 desk", id="nul"),
    pytest.param("".join(map(chr, range(32))) + "\x7f\x85 badges", id="control-characters"),
    pytest.param("badges \u2028\u2029", id="line-separators"),
    pytest.param("badges \ufffe\uffff", id="noncharacters"),
    pytest.param("'); DROP TABLE tool_invocation; --", id="sql"),
    pytest.param('badges "}]},\\"', id="json"),
    pytest.param("%s %(x)s :name ? badges", id="placeholders"),
    pytest.param("🏳️‍🌈 badges \u202e", id="emoji-and-bidi"),
]


@pytest.mark.parametrize("odd", ODD_TEXTS)
@pytest.mark.parametrize("place", ["query", "transform", "redact"])
def test_no_text_breaks_a_row(badges: KnowledgeBase, tmp_path: Path, odd: str, place: str) -> None:
    config = LookupConfig(
        query=QueryConfig(transform=(lambda _: odd) if place == "transform" else None),
        record=RecordConfig(redact=(lambda _: odd) if place == "redact" else None),
    )
    path = tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        tool = create_lookup_tool(badges, traces=store, config=config)
        artifact = ask_artifact(tool, odd if place == "query" else "badges")
        (kept,) = store.rows()

    (row,) = stored(path)
    json.dumps(artifact, allow_nan=False).encode()
    assert artifact["retrievalTrace"]["recordError"] is None
    assert artifact["evidenceStatus"] != "unavailable"
    assert kept.query == row["query"]
    assert kept.retrieval_details == row["details"]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.text(st.characters(), max_size=300))
def test_any_query_leaves_one_row_that_reads_back(query: str) -> None:
    with (
        closing(TraceStore("sqlite://")) as store,
        KnowledgeBase.from_documents([], embedder=HashEmbedder()) as knowledge,
    ):
        artifact = ask_artifact(create_lookup_tool(knowledge, traces=store), query)
        (row,) = store.rows()

    strictly(json.dumps(row.retrieval_details))
    assert row.invocation_id == artifact["retrievalTrace"]["invocationId"]
    assert row.query == artifact["retrievalTrace"]["query"]


class Colour(enum.Enum):
    RED = 1


class Own:
    pass


class Silent:
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


class Dated:
    """Has a method of a date that takes arguments."""

    def isoformat(self, separator: str) -> str:
        return separator


def _endless() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


ODD_VALUES = [
    pytest.param(dt.date(2024, 5, 1), id="E-08-date"),
    pytest.param(dt.datetime(2024, 5, 1, 9, tzinfo=dt.UTC), id="E-08-datetime"),
    pytest.param(pathlib.PurePosixPath("/a/b"), id="E-08-path"),
    pytest.param({"b", "a"}, id="E-08-set"),
    pytest.param(b"\x00\xff", id="E-08-bytes"),
    pytest.param(decimal.Decimal("NaN"), id="E-08-decimal"),
    pytest.param(Colour.RED, id="E-08-enum"),
    pytest.param(Own(), id="E-08-object"),
    pytest.param(Silent(), id="object-that-cannot-be-shown"),
    pytest.param(Dated(), id="object-with-odd-isoformat"),
    pytest.param(dt.date, id="class"),
    pytest.param(dt.time(9, 30), id="time"),
    pytest.param(dt.timedelta(days=1), id="timedelta"),
    pytest.param(uuid.UUID(int=1), id="uuid"),
    pytest.param(math.nan, id="nan"),
    pytest.param(-math.inf, id="minus-inf"),
    pytest.param(np.float32("nan"), id="numpy-nan"),
    pytest.param(np.arange(10_000), id="numpy-array"),
    pytest.param(np.datetime64("NaT"), id="not-a-time"),
    pytest.param(10**5000, id="integer-too-long-to-print"),
    pytest.param(1j, id="complex"),
    pytest.param({1, "a", None, (2, 3)}, id="mixed-set"),
    pytest.param({1: {2.5: {None: [()]}}}, id="odd-keys"),
    pytest.param(types.MappingProxyType({"a": 1}), id="read-only-mapping"),
    pytest.param(_endless(), id="list-in-itself"),
    pytest.param((n for n in "ab"), id="generator"),
    pytest.param(lambda: None, id="function"),
    pytest.param(ValueError("x" * 10_000), id="error"),
    pytest.param("\ud800", id="lone-surrogate"),
    pytest.param(bytearray(b"x" * 10_000), id="long-bytes"),
    pytest.param(memoryview(b"x"), id="memoryview"),
]


@pytest.mark.parametrize("value", ODD_VALUES)
@pytest.mark.parametrize("key", ["note", "title", "keywords"])
def test_metadata_that_json_cannot_hold_costs_no_answer(
    tmp_path: Path, key: str, value: Any
) -> None:
    document = Document(BADGE_TEXT, metadata={"source": "badges.md"})
    document.metadata[key] = value
    path = tmp_path / "traces.sqlite"
    with (
        closing(TraceStore(path)) as store,
        KnowledgeBase.from_documents([document], embedder=HashEmbedder()) as knowledge,
    ):
        artifact = ask_artifact(create_lookup_tool(knowledge, traces=store), "lost badges")
        metadata = knowledge.read("badges.md").metadata

    (row,) = stored(path)
    assert artifact["found"] is True
    assert row["evidence_status"] != "unavailable"
    assert key != "note" or len(json.dumps(metadata["note"], allow_nan=False)) < 6000


# Size

MARKER = "zqx-marker-0815"


def summaries(row: dict[str, Any]) -> list[set[str]]:
    return [set(summary) for summary in row["details"]["evidence"]]


def size(row: dict[str, Any]) -> int:
    return sum(len(str(value).encode()) for key, value in row.items() if key != "details")


def test_e_12_a_row_holds_no_full_text(make: Make, tmp_path: Path) -> None:
    line = "The badge topic fills this entry with one more plain sentence. "
    half = line * 400
    files = {
        f"{n}.md": f"# Badge topic {n}\n\n{n} {half}\n{line} {line} {MARKER} {line}\n{half}"
        for n in range(20)
    }
    assert min(map(len, files.values())) > 50_000
    knowledge, path = make(files, HashEmbedder()), tmp_path / "traces.sqlite"
    with closing(TraceStore(path)) as store:
        artifact = ask_artifact(create_lookup_tool(knowledge, traces=store), "badge topic")

    (row,) = stored(path)
    keys = {"source", "title", "retrievalLayer", "similarity", "score", "hitReasons", "rank"}
    assert artifact["found"] is True
    assert MARKER not in str(row)
    assert size(row) < 20_000
    assert summaries(row) == [keys | {"excerpt"}] * 10
    assert (row["candidate_count"], row["evidence_block_count"]) == (
        row["details"]["candidateCount"],
        row["details"]["evidenceBlockCount"],
    )
    assert row["candidate_count"] >= row["evidence_block_count"] == 10


LONG = "long badges " * 5000


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"title": LONG}, id="title"),
        pytest.param({"category": LONG, "keywords": ["badges"]}, id="category"),
        pytest.param({"keywords": [f"badges {n}" for n in range(5000)]}, id="keywords"),
        pytest.param({"entities": [LONG]}, id="entity"),
        pytest.param({"source": f"{LONG}.md"}, id="source"),
        pytest.param({"note": LONG}, id="unknown-key"),
        pytest.param({"title": "\x01\u2028" * 3000}, id="escapes"),
        pytest.param({"title": "徽" * 9000}, id="wide-characters"),
    ],
)
@pytest.mark.parametrize(
    "query", ["lost badges", LONG, "徽章" * 3000], ids=["short", "long", "wide"]
)
def test_a_row_stays_small_whatever_is_long(
    tmp_path: Path, metadata: dict[str, Any], query: str
) -> None:
    texts = [
        Document(f"{BADGE_TEXT} {n}", metadata={"source": f"{n}.md", **metadata}) for n in range(12)
    ]
    path = tmp_path / "traces.sqlite"
    with (
        closing(TraceStore(path)) as store,
        KnowledgeBase.from_documents(texts, embedder=HashEmbedder()) as knowledge,
    ):
        ask_artifact(create_lookup_tool(knowledge, traces=store), query)

    (row,) = stored(path)
    assert len(row["retrieval_details"].encode()) <= 8192
    assert size(row) < 20_000
