"""What a caller receives does not depend on what they may not see.

The same visible entries, with and without others that share their sources, keywords, titles, terms
and texts: everything that a caller gets must be equal, but for ids and times. And no lookup takes a
step more: what it may not see, it does not go through.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from embedders import HashEmbedder
from langchain_core.documents import Document
from wall import differences, random_base

from lookup_tool import (
    KnowledgeBase,
    LookupContext,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)
from lookup_tool.schema import SearchRequest

PUBLIC = [
    Document(
        "# Badges\n\nA lost badge costs 15 euros. The falcon door opens at nine.",
        metadata={"source": "badges.md", "category": "site", "keywords": ["badge"]},
    ),
    Document(
        "# Doors\n\nThe falcon door has a badge reader.\n\n## Night\n\nCall the guard at night.",
        metadata={"source": "doors.md", "category": "site", "entities": ["LatchPoint"]},
    ),
    Document("# Falcon\n\nFalcon is the name of a door.", metadata={"source": "falcon.md"}),
]
RESTRICTED = [
    Document(
        "# Badges\n\nA lost badge costs 15 euros. The falcon door opens at nine.",
        metadata={"source": "copy.md", "category": "board", "keywords": ["badge"], "access": ["b"]},
    ),
    Document(
        "# Falcon takeover\n\n" + "Project falcon buys the guard company. " * 20,
        metadata={
            "source": "doors.md",
            "category": "Takeover",
            "keywords": ["falcon", "takeover", "night guard badge"],
            "access": ["b"],
        },
    ),
    Document("Call nobody at night.", metadata={"source": "doors.md#night", "access": ["b"]}),
    *(
        Document(f"Falcon badge door night {n}.", metadata={"access": [], "keywords": ["falcon"]})
        for n in range(40)
    ),
]
QUERIES = [
    "badge",
    "What does a lost badge cost?",
    "falcon door",
    "the falcon takeover",
    "night guard badge",
    "takeover",
    "LatchPoint",
    "What is a zebra?",
]


def received(documents: Sequence[Document], query: str, *groups: str) -> dict[str, Any]:
    """Return all that one caller receives, without ids and times."""
    with (
        KnowledgeBase.from_documents(documents, embedder=HashEmbedder()) as knowledge,
    ):
        store = TraceStore("sqlite://")
        graph = build_lookup_graph(knowledge, traces=store)
        result = graph.invoke({"query": query}, context=LookupContext(groups=groups))["result"]
        dumped = result.model_dump(mode="json")
        (row,) = store.rows()
        store.close()
    for name in ("durationMs", "timings", "invocationId"):
        del dumped["retrievalTrace"][name]
    for attempt in dumped["retrievalTrace"]["attempts"]:
        del attempt["durationMs"]
    kept = {**vars(row)}
    for name in ("created_at", "duration_ms", "invocation_id"):
        del kept[name]
    del kept["retrieval_details"]["timings"]
    for attempt in kept["retrieval_details"]["attempts"]:
        del attempt["durationMs"]
    return {"result": dumped, "row": kept}


@pytest.mark.parametrize("query", QUERIES)
def test_restricted_entries_change_nothing_for_others(query: str) -> None:
    assert received([*RESTRICTED, *PUBLIC], query) == received(PUBLIC, query)


@pytest.mark.parametrize("query", QUERIES)
def test_who_may_see_nothing_receives_what_is_received_where_there_is_nothing(query: str) -> None:
    assert received(RESTRICTED, query) == received([], query)


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_that_any_caller_receives_tells_of_what_they_may_not_see(
    seed: int, tmp_path: Path
) -> None:
    through_the_command_line = seed % 10 == 0
    found = await differences(random_base(seed), tmp_path if through_the_command_line else None)

    assert found[:10] == []


def steps(knowledge: KnowledgeBase, query: str) -> int:
    """Count what the database does for a public caller, in instructions of its machine."""
    counted = itertools.count()
    connection = knowledge.view().snapshot.store._connection
    connection.set_progress_handler(lambda: next(counted) < 0, 1)
    hints = knowledge.hints(query)
    knowledge.search(SearchRequest(query, hints=hints.matches))
    knowledge.read("doors.md")
    knowledge.view().titles(3)
    connection.set_progress_handler(None, 1)
    return next(counted)


@pytest.mark.parametrize("query", QUERIES)
def test_no_lookup_goes_through_what_its_caller_may_not_see(query: str) -> None:
    secret = {"keywords": ["falcon", "badge", "latchpoint of the night guard"], "access": ["b"]}
    hidden = [
        Document(f"# Falcon\n\nDoor badge {n}.", metadata={"source": f"{n}.md", **secret})
        for n in range(300)
    ]
    with (
        KnowledgeBase.from_documents(PUBLIC, embedder=HashEmbedder()) as alone,
        KnowledgeBase.from_documents([*hidden, *PUBLIC], embedder=HashEmbedder()) as beside,
    ):
        assert 100 < steps(beside, query) < steps(alone, query) + len(hidden) / 30


PROBES = {
    "a word of an unspaced script": ("员工每年有二十天年假。", "收购计划", "收购计划 年假"),
    "an acronym": ("The printer stands in room 4.", "ACME buys the printer. " * 3, "ACME printer"),
    "a code": ("Error E47 means no paper.", "Project E47 is secret.", "What does E47 mean?"),
    "a word of metadata": ("Press the green key.", "ZX900 press.", "ZX900 key"),
}


@pytest.mark.parametrize("case", PROBES)
def test_no_word_of_a_restricted_text_can_be_probed(case: str) -> None:
    public, secret, query = PROBES[case]
    metadata = {"source": "public.md", "keywords": ["ACME", "ZX900"]}
    shown = [Document(public, metadata=metadata)]
    hidden = [Document(f"{secret} {n}", metadata={"access": ["b"]}) for n in range(9)]

    assert received([*shown, *hidden], query) == received(shown, query)


def test_a_member_of_the_group_sees_them() -> None:
    seen = received([*RESTRICTED, *PUBLIC], "the falcon takeover", "b")["result"]

    assert seen["evidenceBlocks"][0]["title"] == "Falcon takeover"


def test_a_model_cannot_name_a_group() -> None:
    with KnowledgeBase.from_documents(RESTRICTED, embedder=HashEmbedder()) as knowledge:
        tool = create_lookup_tool(knowledge, traces="sqlite://")
        said = tool.invoke({"query": "the falcon takeover", "groups": ["b"], "context": "b"})

    assert "holds no evidence on this (0 passages" in said
