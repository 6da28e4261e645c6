"""Queries: which entries and which category they hint at.

Families: keywords inside other words; names with marks (`C++`, `C#`, `.NET`) beside their shorter
forms; text without spaces; widths and case; keywords that fit many categories; phrases of every
kind, and the longer of two that overlap. Single spellings are in `test_query_spellings.py`.
"""

# ruff: noqa: RUF001 - look-alikes and odd widths are what is tested

from collections.abc import Mapping, Sequence

import pytest
from embedders import HashEmbedder
from langchain_core.documents import Document

from lookup_tool import KnowledgeBase, LookupResult, TraceStore, build_lookup_graph

Entry = Mapping[str, object]


def look_up(entries: Mapping[str, Entry], *queries: str) -> list[LookupResult]:
    documents = [
        Document(str(entry.get("text", "Some text.")), metadata={**entry, "source": source})
        for source, entry in entries.items()
    ]
    store = TraceStore("sqlite://")
    try:
        with KnowledgeBase.from_documents(documents, embedder=HashEmbedder()) as knowledge:
            graph = build_lookup_graph(knowledge, traces=store)
            return [graph.invoke({"query": query})["result"] for query in queries]
    finally:
        store.close()


def test_c_05_a_keyword_inside_another_word_is_not_recognized() -> None:
    entries = {
        "art.md": {"title": "Art loans", "category": "facilities", "keywords": ["art", "host"]},
        "boot.md": {"title": "Boot problems", "category": "it", "keywords": ["boot"]},
    }

    (result,) = look_up(entries, "how to start the ghost server")

    assert result.retrieval_trace.hints.model_dump() == {
        "titles": (),
        "keywords": (),
        "categories": (),
        "entities": (),
        "entryCount": 0,
    }
    assert [attempt.filter for attempt in result.retrieval_trace.attempts] == [None]


LANGUAGES = {
    "cpp.md": {"title": "C++ style", "category": "cpp", "keywords": ["C++"]},
    "cs.md": {"title": "C# style", "category": "csharp", "keywords": ["C#"]},
    "net.md": {"title": ".NET builds", "category": "dotnet", "keywords": [".NET"]},
    "c.md": {"title": "C style", "category": "c", "keywords": ["C"]},
}


@pytest.mark.parametrize(
    ("query", "keyword", "category"),
    [
        pytest.param("Port it to C++.", "C++", "cpp", id="C-07-plus"),
        pytest.param("C# naming?", "C#", "csharp", id="C-07-sharp"),
        pytest.param("a .NET app", ".NET", "dotnet", id="C-07-dot"),
        pytest.param("plain C code", "C", "c", id="C-07-letter"),
        pytest.param("(C++)", "C++", "cpp", id="in parentheses"),
        pytest.param("c++17 modules", "C++", "cpp", id="number behind it"),
        pytest.param("Ｃ＋＋", "C++", "cpp", id="full width"),
        pytest.param("**C#**, or", "C#", "csharp", id="in stars"),
        pytest.param("Is .net8 out?", None, None, id="longer name with a dot"),
        pytest.param("net pay", None, None, id="without its dot"),
        pytest.param("F# and J#", None, None, id="other sharp names"),
        pytest.param("g++ flags", None, None, id="other plus names"),
    ],
)
def test_a_name_with_marks_is_one_name(
    query: str, keyword: str | None, category: str | None
) -> None:
    (result,) = look_up(LANGUAGES, query)

    hints = result.retrieval_trace.hints
    assert hints.categories == (() if category is None else (category,))
    assert hints.keywords == (() if keyword is None else (keyword,))
    filtered = None if category is None else {"category": category}
    assert result.retrieval_trace.attempts[0].filter == filtered


@pytest.mark.parametrize("query", ["我想申请退款怎么办", "用vpn连接公司"])
def test_c_09_chinese_without_spaces(query: str) -> None:
    entry = {"title": "退款政策", "category": "billing", "keywords": ["退款", "vpn"]}

    (result,) = look_up({"refund.md": entry}, query)

    hints = result.retrieval_trace.hints
    assert (hints.titles, hints.categories) == (("退款政策",), ("billing",))
    assert len(hints.keywords) == 1


@pytest.mark.parametrize(
    ("query", "plain", "title"),
    [
        pytest.param("ＶＰＮ接続", "VPN接続", "VPN access", id="C-11-letters"),
        pytest.param("２０２４", "2024", "Closing 2024", id="C-11-digits"),
    ],
)
def test_full_width_matches_as_plain_and_stays_in_the_trace(
    query: str, plain: str, title: str
) -> None:
    entries = {
        "vpn.md": {"title": "VPN access", "category": "network", "keywords": ["vpn"]},
        "y.md": {"title": "Closing 2024", "category": "finance", "keywords": ["2024"]},
    }

    wide, narrow = look_up(entries, query, plain)

    assert wide.retrieval_trace.hints == narrow.retrieval_trace.hints
    assert wide.retrieval_trace.hints.titles == (title,)
    assert wide.retrieval_trace.query == query


@pytest.mark.parametrize(
    ("query", "keywords"),
    [
        pytest.param("STRASSE sperren", (), id="C-13-sharp-s"),  # the longer title covers it
        pytest.param("STRASSE", ("Straße",), id="C-13-sharp-s-alone"),
        pytest.param("ﬁle", ("file",), id="C-13-ligature"),
    ],
)
def test_case_folding_finds_what_lower_case_does_not(query: str, keywords: tuple[str]) -> None:
    entry = {"title": "Straße sperren", "category": "site", "keywords": ["Straße", "file"]}

    (result,) = look_up({"s.md": entry}, query)

    hints = result.retrieval_trace.hints
    assert (hints.titles, hints.keywords) == (("Straße sperren",), keywords)


def reports() -> dict[str, Entry]:
    special = ("scrap", "audit", "travel", "safety", "energy", "payroll")
    return {
        f"{word}-{part}.md": {
            "title": f"{word} {part}",
            "category": f"dept-{number}",
            "keywords": ["report", f"{word}{part}" if part else word],
            "text": f"The {word} report number {part} is due.",
        }
        for number, word in enumerate(special)
        for part in range(2)
    }


def test_c_21_a_keyword_of_many_categories_gives_no_filter() -> None:
    common, special = look_up(reports(), "report", "scrap report")

    trace = common.retrieval_trace
    assert [attempt.filter for attempt in trace.attempts] == [None]
    assert trace.hints.entry_count == 12
    assert set(trace.hints.titles) == {str(entry["title"]) for entry in reports().values()}
    first = special.retrieval_trace.attempts[0]
    assert first.filter == {"category": "dept-0"}
    assert first.reason == "category_filter: keyword:scrap"


def test_an_ambiguous_hint_does_not_depend_on_the_order_of_the_entries() -> None:
    entries = reports()

    (forth,) = look_up(entries, "travel report")
    (back,) = look_up(dict(reversed(entries.items())), "travel report")

    assert forth.retrieval_trace.hints == back.retrieval_trace.hints
    assert [(a.filter, a.reason) for a in forth.retrieval_trace.attempts] == [
        (a.filter, a.reason) for a in back.retrieval_trace.attempts
    ]


@pytest.mark.parametrize(
    ("metadata", "hinted"),
    [
        pytest.param({"keywords": ["C++"]}, "keywords", id="keyword"),
        pytest.param({"aliases": ["C++"]}, "keywords", id="alias"),
        pytest.param({"entities": ["C++"]}, "entities", id="entity"),
        pytest.param({"title": "C++"}, "titles", id="title"),
        pytest.param({"category": "C++"}, "categories", id="category"),
    ],
)
def test_every_kind_of_phrase_is_recognized_the_same_way(metadata: Entry, hinted: str) -> None:
    found, none = look_up({"z.md": {"title": "Z", **metadata}}, "port it to c++!", "port it to c")

    assert getattr(found.retrieval_trace.hints, hinted) == ("C++",)
    assert getattr(none.retrieval_trace.hints, hinted) == ()


@pytest.mark.parametrize(
    ("phrases", "query", "keywords"),
    [
        pytest.param(
            ["refundable", "non-refundable"], "non-refundable fare", ("non-refundable",), id="non"
        ),
        pytest.param(["smoking", "no smoking"], "No smoking?", ("no smoking",), id="no"),
        pytest.param(["turn on", "turn off"], "turn off the heating", ("turn off",), id="on-off"),
        pytest.param(["1.2.3", "1.2.3-rc1"], "1.2.3-rc1", ("1.2.3-rc1",), id="candidate"),
        pytest.param(["C", "C++"], "C++ or C", ("C++", "C"), id="both names"),
        pytest.param(["X-200", "X-200 Pro"], "x-200 pro", ("X-200 Pro",), id="model"),
    ],
)
def test_the_longer_of_two_phrases_wins(
    phrases: Sequence[str], query: str, keywords: tuple[str, ...]
) -> None:
    entries = {f"{n}.md": {"title": f"T{n}", "keywords": [p]} for n, p in enumerate(phrases)}

    (result,) = look_up(entries, query)

    assert result.retrieval_trace.hints.keywords == keywords
