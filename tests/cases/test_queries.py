"""Queries: what a lookup makes of them, from the question to the result and its trace row.

Families: queries that say nothing (blank, invisible, marks, function words); long pastes with the
question at any place; negation and opposites. Exact names, misspellings and unknown languages are
in `test_query_names.py`, syntax and injections in `test_query_syntax.py`, the recognition of
keywords in `test_query_hints.py` and `test_query_spellings.py`.
"""

import pytest
from case_builders import AskFiles, ask_tool, best, entry, filters
from embedders import TableEmbedder

from lookup_tool import (
    KnowledgeBase,
    TraceStore,
    create_lookup_tool,
)

VPN = {
    "vpn.md": "---\ntitle: VPN access\ncategory: network\nkeywords: [vpn]\n---\n"
    "Start the client before opening shares.\n"
}


# Queries that say nothing


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("", id="C-01-empty"),
        pytest.param(" ", id="C-01-space"),
        pytest.param("\n\t \n", id="C-01-white-space"),
        pytest.param("\u3000\u00a0\u2028\x85", id="Unicode white space"),
        pytest.param("\u200b\ufeff\u00ad", id="zero width"),
        pytest.param("\u202e\u2067\u2069\u061c", id="marks of direction"),
        pytest.param("\u3164\u115f", id="Hangul fillers"),
        pytest.param("\ufe0f\U000e0041", id="selector and tag"),
    ],
)
def test_a_blank_query_is_a_result_without_a_search(traces: TraceStore, query: str) -> None:
    embedder = TableEmbedder({"": [1.0, 0.0]})
    with KnowledgeBase.from_documents([], embedder=embedder) as knowledge:
        tool = create_lookup_tool(knowledge, traces=traces)
        message = ask_tool(tool, query)

    artifact = message.artifact
    assert (artifact["found"], artifact["evidenceStatus"]) == (False, "no_evidence")
    assert "query is empty" in artifact["message"]
    assert message.content == artifact["message"]
    assert artifact["retrievalTrace"]["attempts"] == []
    assert embedder.queries == []
    assert [row.query for row in traces.rows()] == [query]


def test_c_01_a_blank_query_with_the_default_embedder(ask_files: AskFiles) -> None:
    results = ask_files(VPN, "", " ", "\n\t \n")

    assert [(r.found, r.retrieval_trace.attempts) for r in results] == [(False, ())] * 3
    assert all("query is empty" in result.message for result in results)


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("???", id="question marks"),
        pytest.param("---", id="hyphens"),
        pytest.param("\x00\x01\x1b", id="control characters"),
        pytest.param("😀", id="emoji"),
        pytest.param("👩🏽‍💻🇩🇪1️⃣", id="joined emoji"),
        pytest.param("\u0301", id="accent alone"),
        pytest.param("\u2800\ue000\ufffd\uffff", id="no characters of any script"),
        pytest.param("\ud83d", id="lone surrogate"),
        pytest.param("a", id="one letter"),
        pytest.param("x" * 5000, id="one endless word"),
    ],
)
def test_a_query_without_words_finds_nothing_and_fails_nothing(
    ask_files: AskFiles, query: str
) -> None:
    (result,) = ask_files(VPN, query)

    assert (result.found, result.evidence_status) == (False, "no_evidence")
    assert result.retrieval_trace.error is None
    assert result.retrieval_trace.record_error is None


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("how do I", id="C-23-title-words"),
        pytest.param("is it the", id="C-23-category-word"),
        pytest.param("How do I?", id="with a mark"),
        pytest.param("what is this about", id="question"),
        pytest.param("can you give me any of these", id="long"),
    ],
)
def test_function_words_alone_are_no_question(ask_files: AskFiles, query: str) -> None:
    files = {
        "a.md": entry("How do I print", "it", "print", "Use queue 2."),
        "b.md": entry("How do I park", "site", "park", "Use zone B."),
    }

    (result,) = ask_files(files, query)

    assert filters(result) == [None]
    assert result.relevance_level in {"none", "low"}
    assert result.retrieval_trace.error is None


# Long pastes

LINE = "line of harmless log output. "
QUESTION = "How do I reset the badge reader?"
BADGE = {
    "badge.md": entry("Badge reader", "site", "badge reader", "Reset the badge reader with a pin."),
    "menu.md": entry("Menu", "canteen", "menu", "Soup is served at noon."),
}


def test_c_03_a_query_far_longer_than_a_model_reads(
    ask_files: AskFiles, traces: TraceStore
) -> None:
    query = LINE * 400 + QUESTION

    (result,) = ask_files(BADGE, query)

    trace = result.retrieval_trace
    assert (trace.error, trace.record_error) == (None, None)
    assert (trace.query_cut, trace.query_length) == (True, len(query))
    (row,) = traces.rows()
    assert row.query == trace.query
    assert 1970 < len(trace.query) <= 2000
    assert row.query.endswith(QUESTION)
    assert row.retrieval_details["queryCut"] is True
    assert row.retrieval_details["queryLength"] == len(query)


@pytest.mark.parametrize(
    ("query", "hinted"),
    [
        pytest.param(QUESTION + LINE * 4000, True, id="at the start"),
        pytest.param(LINE * 4000 + QUESTION, True, id="at the end"),
        pytest.param(LINE * 200 + QUESTION + LINE * 200, False, id="in the middle"),
        pytest.param(LINE * 30 + QUESTION + LINE * 30, True, id="in the middle, under the limit"),
        pytest.param("\U0001f469\u200d" * 3000 + QUESTION, True, id="behind joined emoji"),
        pytest.param("\u0301" * 5000 + " " + QUESTION, True, id="behind accents"),
        pytest.param("\u200b" * 5000 + QUESTION + "\u200b" * 5000, True, id="invisible around it"),
        pytest.param(" \n" * 5000 + QUESTION + " \n" * 5000, True, id="white space around it"),
    ],
)
def test_a_question_at_an_end_of_a_long_paste_is_read(
    ask_files: AskFiles, query: str, hinted: bool
) -> None:
    (result,) = ask_files(BADGE, query)

    trace = result.retrieval_trace
    assert (trace.error, trace.record_error) == (None, None)
    assert trace.query_length == len(query)
    assert (QUESTION in trace.transformed_query) is hinted
    assert trace.hints.keywords == (("badge reader",) if hinted else ())


# Negation and opposites


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("I do not want to cancel my order", id="C-15"),
        pytest.param("never cancel an order", id="never"),
        pytest.param("orders without a receipt", id="without"),
        pytest.param("Don't cancel!", id="contraction"),
        pytest.param("no order at all", id="no"),
        pytest.param("neither nor, except none", id="other words"),
    ],
)
def test_a_negation_stays_in_the_query(ask_files: AskFiles, traces: TraceStore, query: str) -> None:
    files = {
        "cancel.md": "# How to cancel an order\nPress cancel within one hour.\n",
        "keep.md": "# Keeping an order active\nOrders stay active without any action.\n",
    }

    (result,) = ask_files(files, query)

    trace = result.retrieval_trace
    assert (trace.query, trace.transformed_query) == (query, query)
    assert [attempt.query for attempt in trace.attempts] == [query]
    assert [row.query for row in traces.rows()] == [query]


@pytest.mark.parametrize(
    ("first", "second", "thing"),
    [
        pytest.param("enable", "disable", "two-factor login", id="C-16"),
        pytest.param("turn on", "turn off", "the heating", id="on and off"),
        pytest.param("open", "close", "an account", id="open and close"),
        pytest.param("import", "export", "contacts", id="import and export"),
        pytest.param("check in", "check out", "a visitor", id="in and out"),
        pytest.param("with", "without", "a receipt", id="with and without"),
        pytest.param("lock", "unlock", "the door", id="un"),
        pytest.param("refundable", "non-refundable", "tickets", id="non"),
    ],
)
def test_opposites_are_told_apart(ask_files: AskFiles, first: str, second: str, thing: str) -> None:
    files = {
        f"{name}.md": entry(
            f"{word.capitalize()} {thing}",
            "guides",
            f"{word} {thing}",
            f"Go to Settings and choose {thing}: {word}.",
        )
        for name, word in (("first", first), ("second", second))
    }

    results = ask_files(files, f"{first} {thing}", f"{second} {thing}")

    assert [best(result) for result in results] == ["first.md", "second.md"]
    for result, word in zip(results, (first, second), strict=True):
        reason = f"{word} {thing}"
        assert f"keyword:{reason}" in result.evidence_blocks[0].hit_reasons
        contributions = result.rerank_trace.entries[0].contributions
        assert reason in {c.detail for c in contributions if c.signal == "keyword_hint"}
