"""Vector store: what a score is.

Families: what a similarity is (cosine in [0, 1], whatever the length, the sign or the number type
of the vectors); what a threshold compares (similarities, equal is good enough, however many digits
it is written with); no padding where there are fewer passages than candidates; and numbers that
are plain Python numbers everywhere.
"""

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from case_builders import VECTORS_ALONE, Fixed, Vector, documents, look_up_vectors
from embedders import HashEmbedder, TableEmbedder, at_similarity
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from typing_extensions import TypedDict

from lookup_tool import (
    KnowledgeBase,
    TraceStore,
    create_lookup_tool,
)
from lookup_tool.config import RetrievalConfig


def similarities(
    table: dict[str, Any], traces: TraceStore, query: str = "q"
) -> list[tuple[str, float]]:
    """Ask a knowledge base that holds every text of the table but the query."""
    texts = [text for text in table if text != query]
    with KnowledgeBase.from_documents(documents(*texts), embedder=Fixed(table)) as knowledge:
        result = look_up_vectors(knowledge, query, traces)
    return [(block.source, block.similarity) for block in result.evidence_blocks]


A_03 = {
    "q": [1, 0],
    "same": [1, 0],
    "near": [math.cos(0.5), math.sin(0.5)],
    "orth": [0, 1],
    "opp": [-1, 0],
}
A_07 = {"q": [3, 4], "a": [30, 40], "b": [4, 3], "c": [0.3, 0.4]}
HALF = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param(
            A_03, [("same", 1.0), ("near", math.cos(0.5)), ("opp", 0.0), ("orth", 0.0)], id="A-03"
        ),
        pytest.param(A_07, [("a", 1.0), ("c", 1.0), ("b", 0.96)], id="A-07"),
        pytest.param({"q": [1e300, 0], "big": [1e308, 1e308]}, [("big", HALF)], id="huge"),
        pytest.param({"q": [1e-300, 0], "tiny": [5e-324, 5e-324]}, [("tiny", HALF)], id="denormal"),
        pytest.param({"q": [1e-200, 0], "a": [1e200, 0]}, [("a", 1.0)], id="tiny-and-huge"),
        pytest.param({"q": [-1, -1], "a": [-2, -2]}, [("a", 1.0)], id="negative-coordinates"),
        pytest.param({"q": [2], "a": [9], "b": [-9]}, [("a", 1.0), ("b", 0.0)], id="one-dimension"),
        pytest.param({"q": [1] * 4096, "a": [7] * 4096}, [("a", 1.0)], id="many-dimensions"),
        pytest.param({"q": [1, 1], "a": [1.000001, 1]}, [("a", 1.0)], id="all-but-equal"),
        pytest.param({"q": [1, 0], "a": [-1e-9, 1]}, [("a", 0.0)], id="all-but-orthogonal"),
        pytest.param({"q": [True, False], "a": [True, True]}, [("a", HALF)], id="booleans"),
        pytest.param({"q": np.array([1, 1]), "a": np.array([1, 0])}, [("a", HALF)], id="numpy-int"),
        pytest.param(
            {"q": np.array([1, 1], np.float16), "a": np.array([65504, 0], np.float16)},
            [("a", HALF)],
            id="numpy-half",
        ),
        pytest.param({"q": (1, 0), "a": [np.float32(3), 3]}, [("a", HALF)], id="mixed-numbers"),
    ],
)
def test_similarity_is_the_cosine_in_zero_to_one(
    table: dict[str, Any], expected: list[tuple[str, float]], traces: TraceStore
) -> None:
    found = similarities(table, traces)

    assert [source for source, _ in found] == [source for source, _ in expected]
    assert [value for _, value in found] == pytest.approx([v for _, v in expected], abs=1e-6)
    assert all(type(value) is float and 0 <= value <= 1 for _, value in found)


numbers = st.floats(allow_nan=False, allow_infinity=False)
vectors = st.lists(numbers, min_size=3, max_size=3).filter(any)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(vectors, min_size=2, max_size=6))
def test_any_finite_vectors_give_a_strict_json_result_in_order(drawn: list[Vector]) -> None:
    table = {f"text-{number}x": vector for number, vector in enumerate(drawn)}
    traces = TraceStore("sqlite://")
    found = similarities({"question": drawn[0], **table}, traces, "question")
    traces.close()

    values = [value for _, value in found]
    json.dumps(values, allow_nan=False)
    assert values == sorted(values, reverse=True)
    assert {source for source, _ in found} == set(table)
    assert all(0 <= value <= 1 for value in values)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 1_000_000))
def test_a_similarity_built_to_equal_the_threshold_is_good_enough(millionths: int) -> None:
    at, above = millionths / 1_000_000, (millionths + 1) / 1_000_000
    table = {"q law": [1.0, 0.0], "law-text": at_similarity(at)}
    law = [Document("law-text", metadata={"source": "law", "title": "x", "category": "law"})]
    outcomes = []
    with (
        KnowledgeBase.from_documents(law, embedder=TableEmbedder(table)) as knowledge,
    ):
        for threshold in (at, above):
            traces = TraceStore("sqlite://")
            retrieval = VECTORS_ALONE.model_copy(
                update={"reference_threshold": min(threshold, 1.0)}
            )
            result = look_up_vectors(knowledge, "q law", traces, retrieval=retrieval)
            traces.close()
            outcomes.append(result.retrieval_trace.attempts[0].outcome)

    assert outcomes == ["accepted", "accepted" if at == 1 else "low_quality"]


@pytest.mark.parametrize(
    "threshold",
    [1 / 3, 2 / 3, math.sqrt(0.5), 0.1 + 0.2, 0.7000000000000001, math.nextafter(1, 0), 0.12345678],
)
def test_a_threshold_with_more_digits_is_compared_like_any_other(
    threshold: float, traces: TraceStore
) -> None:
    table = {"q law": [1.0, 0.0], "law-text": at_similarity(threshold)}
    law = [Document("law-text", metadata={"source": "law", "title": "x", "category": "law"})]
    retrieval = VECTORS_ALONE.model_copy(
        update={"reference_threshold": threshold, "evidence_floor": threshold}
    )
    with KnowledgeBase.from_documents(law, embedder=TableEmbedder(table)) as knowledge:
        result = look_up_vectors(knowledge, "q law", traces, retrieval=retrieval)

    assert [attempt.outcome for attempt in result.retrieval_trace.attempts] == ["accepted"]
    assert (result.found, result.evidence_status) == (True, "sufficient")


@pytest.mark.parametrize("candidates", [1, 2, 20, 1000])
def test_a_10_more_candidates_than_passages_are_no_padding(
    candidates: int, traces: TraceStore
) -> None:
    text = Document("# Only\nOne short entry about door codes.", metadata={"source": "only.md"})
    retrieval = RetrievalConfig(candidates=candidates)
    with KnowledgeBase.from_documents([text], embedder=HashEmbedder()) as knowledge:
        result = look_up_vectors(knowledge, "door codes", traces, retrieval=retrieval)

    (block,) = result.evidence_blocks
    assert (block.source, result.retrieval_trace.candidate_count) == ("only.md", 1)
    assert 0 < block.similarity <= 1
    assert 0 < block.score < 10


def leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


class Parent(TypedDict):
    artifact: dict[str, Any]


@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64, np.longdouble, int])
@pytest.mark.parametrize(
    "query",
    [
        pytest.param("law question", id="A-23-retry"),
        pytest.param("question", id="A-23-hit"),
        pytest.param("far", id="miss"),
        pytest.param("bad", id="failure"),
        pytest.param("", id="blank"),
    ],
)
def test_every_number_is_a_plain_one_and_survives_a_checkpoint(
    kind: Any, query: str, traces: TraceStore
) -> None:
    plain = {"question": [4, 0], "far": [0, -1], "bad": [0, 0], "text": [1, 1], "law-book": [1, 9]}
    table = {key: [kind(x) for x in vector] for key, vector in plain.items()}
    texts = [
        Document("law-book", metadata={"source": "law", "title": "x", "category": "law"}),
        Document("text", metadata={"source": "text", "title": "y"}),
    ]
    with KnowledgeBase.from_documents(texts, embedder=Fixed(table)) as knowledge:
        tool = create_lookup_tool(knowledge, traces=traces)

        def ask(state: Parent) -> Parent:
            call: Any = {
                "name": tool.name,
                "args": {"query": query},
                "id": "1",
                "type": "tool_call",
            }
            return {"artifact": tool.invoke(call).artifact}

        parent = StateGraph(Parent)
        parent.add_node("ask", ask)
        parent.set_entry_point("ask")
        graph = parent.compile(checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": "1"}}
        artifact = graph.invoke({"artifact": {}}, thread)["artifact"]
        kept = graph.get_state(thread).values["artifact"]

    assert json.loads(json.dumps(artifact, allow_nan=False)) == artifact == kept
    assert {type(leaf) for leaf in leaves(artifact)} <= {str, int, float, bool, type(None)}
    (row,) = traces.rows()
    assert {type(leaf) for leaf in leaves(row.retrieval_details)} <= {
        str,
        int,
        float,
        bool,
        type(None),
    }
