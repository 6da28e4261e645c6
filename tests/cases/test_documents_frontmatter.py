"""Metadata blocks as people really write them.

Families: values that YAML would not keep as text (truth values, numbers, dates, nulls) or cannot
read at all (colons, marks, tabs, tags); lists written as one string; keys given twice or inside
other keys; a fence that is missing, wrong or looks like a rule; a block that is no mapping; another
style than YAML; blocks that grow without end. Whatever stands there, the body is found, no text is
lost, every value shown is text, and what could not be read is in the load report.
"""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from case_builders import BODY, HASH, Ask, Build, filters
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from lookup_tool import KnowledgeBase, LookupResult, TraceStore


def warned(knowledge: KnowledgeBase) -> list[str]:
    """Return the files that the load report names."""
    return [problem.path for problem in knowledge.report.problems]


def text_of(knowledge: KnowledgeBase, source: str = "a.md") -> str:
    """Return everything of an entry that can be found."""
    return "\n".join(passage.text for passage in knowledge.read(source).passages)


def shown(result: LookupResult) -> list[tuple[str, str | None, str | None]]:
    return [(block.source, block.title, block.category) for block in result.evidence_blocks]


def test_b_01_a_title_with_a_colon_costs_neither_title_nor_keywords(build: Build, ask: Ask) -> None:
    text = (
        "---\ntitle: Refunds: how long they take\ncategory: billing\nkeywords: [refund, payout]\n"
        "---\nMoney is back on the card within five working days.\n"
    )
    knowledge = build({"a.md": text})

    result = ask(knowledge, "how long do refunds take")

    assert shown(result) == [("a.md", "Refunds: how long they take", "billing")]
    assert [(problem.path, problem.line) for problem in knowledge.report.problems] == [("a.md", 2)]
    hints = ask(knowledge, "refund payout").retrieval_trace.hints
    assert (set(hints.keywords), hints.categories) == ({"refund", "payout"}, ("billing",))


TITLES = [
    "@handle", "`code`", "*stars*", "[link](x.html)", "[draft] plan", "{{title}}", "{brace",
    '"a" b', "'it's'", '"open', "'open", "- dash", "> quote", "| pipe", "& and", "!loud x",
    "%percent", ", comma", "? question", "a: b: c", 'say: "x": y', "ends with:",
    "https://x.example: guide", "a:\tb", "@a: `b`", "\x01control", ": first",
]  # fmt: skip


@pytest.mark.parametrize("title", TITLES)
def test_a_title_that_yaml_cannot_read_costs_the_title_at_most(
    build: Build, ask: Ask, title: str
) -> None:
    block = f"title: {title}\ncategory: billing\nkeywords: [refund, payout]"
    knowledge = build({"a.md": f"---\n{block}\n---\n# Cash\n{BODY}"}, HASH)

    result = ask(knowledge, BODY)

    ((source, name, category),) = shown(result)
    kept = {" ".join(title.split()), title.strip("'\""), title.lstrip("\x01"), "x", "Cash"}
    assert (source, category, name in kept) == ("a.md", "billing", True)
    hints = ask(knowledge, "refund payout").retrieval_trace.hints
    assert set(hints.keywords) == {"refund", "payout"}
    assert set(warned(knowledge)) == {"a.md"}


@pytest.mark.parametrize(
    "line",
    ["keywords: [a, b", "keywords: a: b", "category: @x", "x: {a: b", "x: *none", "? [k]\n: v"],
)
def test_any_other_value_that_yaml_cannot_read_leaves_the_title(build: Build, line: str) -> None:
    knowledge = build({"a.md": f"---\ntitle: Coffee\n{line}\n---\n{BODY}"}, HASH)

    assert (knowledge.read("a.md").title, text_of(knowledge)) == ("Coffee", BODY)
    assert set(warned(knowledge)) == {"a.md"}


def test_b_02_a_tab_as_indentation_costs_no_text(build: Build, ask: Ask) -> None:
    text = (
        "---\ntitle: Badge replacement\nkeywords:\n\t- badge\n\t- access card\n---\n"
        "Lost badges are replaced at the front desk.\n"
    )
    knowledge = build({"a.md": text, "ok.md": "# Paint\nPaint is in room five."})

    assert shown(ask(knowledge, "lost badge"))[0] == ("a.md", "Badge replacement", None)
    assert shown(ask(knowledge, "where is the paint"))[0][0] == "ok.md"
    assert warned(knowledge) == ["a.md"]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("\ttitle: Coffee", id="before a key"),
        pytest.param("title:\tCoffee", id="after a colon"),
        pytest.param("title: Coffee\t", id="at the end"),
        pytest.param("title: Coffee\nmeta:\n\towner: x", id="nested mapping"),
        pytest.param("title: Coffee\nsummary: |\n\ttext", id="block of text"),
        pytest.param("title: Coffee\n\t\nmore: x", id="blank line"),
        pytest.param("title: Coffee\nkeywords: [a,\n\tb]", id="list over two lines"),
    ],
)
def test_a_tab_anywhere_costs_no_text(build: Build, block: str) -> None:
    knowledge = build({"a.md": f"---\n{block}\n---\n# Coffee\n{BODY}"}, HASH)

    assert knowledge.read("a.md").title == "Coffee"
    assert BODY in text_of(knowledge)


def test_b_04_truth_values_are_text(build: Build, ask: Ask) -> None:
    text = (
        "---\ntitle: Yes\ncategory: no\nkeywords: [on, off, no]\n---\n"
        "How to answer the consent question.\n"
    )

    result = ask(build({"a.md": text}), "consent question")

    assert shown(result) == [("a.md", "Yes", "no")]


@pytest.mark.parametrize(
    "value",
    [
        "true", "FALSE", "Off", "y", "N", "1.10", "007", "0x1F", "0o17", "0b11", "1e3", "1_000",
        "-5", "+12", "12:30:45", ".inf", "-.INF", ".NaN", "2024-05-01", "2024-05-01 08:30:00",
        "2024-05-01T08:30:00Z", "1.2.3", "NULL and void", "=", "<<",
    ],
)  # fmt: skip
def test_every_scalar_is_shown_as_it_was_written(build: Build, ask: Ask, value: str) -> None:
    block = f"title: {value}\ncategory: {value}\nkeywords: [{value}]\nreviewed: {value}"
    knowledge = build({"a.md": f"---\n{block}\n---\n{BODY}"}, HASH)

    result = ask(knowledge, f"{BODY} {value}")

    assert shown(result) == [("a.md", value, value)]
    assert knowledge.read("a.md").metadata == {"reviewed": value}
    assert value in json.dumps(result.model_dump(mode="json"), allow_nan=False)


def test_b_06_a_bare_date_is_text_in_result_and_trace(
    build: Build, ask: Ask, traces: TraceStore
) -> None:
    text = (
        "---\ntitle: Office move\nupdated: 2024-05-01\nreview_at: 2024-05-01 08:30:00\n---\n"
        "The team moves to floor three.\n"
    )
    knowledge = build({"a.md": text})

    result = ask(knowledge, "office move")

    assert result.found
    assert json.loads(json.dumps(result.model_dump(mode="json")))["found"]
    (row,) = traces.rows()
    assert (row.found, json.loads(json.dumps(row.retrieval_details))) == (
        True,
        row.retrieval_details,
    )
    dates = {"updated": "2024-05-01", "review_at": "2024-05-01 08:30:00"}
    assert knowledge.read("a.md").metadata == dates


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (date(2024, 5, 1), "2024-05-01"),
        (datetime(2024, 5, 1, 8, 30, tzinfo=UTC), "2024-05-01T08:30:00+00:00"),
        (timedelta(days=1), "1 day, 0:00:00"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=7), str(UUID(int=7))),
        (PurePosixPath("a/b"), "a/b"),
        (float("nan"), "nan"),
        (b"\xff", "b'\\xff'"),
        (True, "True"),
        (2**70, str(2**70)),
        ({1: (2, {3})}, {"1": ["2", ["3"]]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_metadata_of_a_document_becomes_text(ask: Ask, value: Any, kept: Any) -> None:
    document = Document(BODY, metadata={"source": "a.md", "extra": value, "keywords": [value]})

    with KnowledgeBase.from_documents([document], embedder=HASH) as knowledge:
        result = ask(knowledge, BODY)
        metadata = knowledge.read("a.md").metadata

    assert metadata["extra"] == kept
    assert json.loads(json.dumps(result.model_dump(mode="json"), allow_nan=False))["found"]


class Unprintable:
    """A value that cannot be turned into text."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("kind", ["itself", "unprintable", "bomb"])
def test_a_document_with_hostile_metadata_stops_nothing(ask: Ask, kind: str) -> None:
    itself: dict[str, Any] = {}
    itself["deeper"] = itself
    bomb: list[Any] = ["x"]
    for _ in range(6):
        bomb = [bomb] * 9
    extra = {"itself": itself, "unprintable": Unprintable(), "bomb": bomb}[kind]
    hostile = Document("Shelf labels are blue.", metadata={"source": "a.md", "extra": extra})
    neighbour = Document(BODY, metadata={"source": "b.md"})

    with KnowledgeBase.from_documents([hostile, neighbour], embedder=HASH) as knowledge:
        assert shown(ask(knowledge, BODY))[0][0] == "b.md"
        assert text_of(knowledge) == "Shelf labels are blue."
        assert len(json.dumps(knowledge.read("a.md").metadata)) < 1_000_000


def test_b_08_a_comma_string_is_a_list_of_keywords(build: Build, ask: Ask) -> None:
    text = (
        "---\ntitle: Remote work\nkeywords: vpn, remote access ,  wifi\n---\n"
        "Connect before opening the file share.\n"
    )
    knowledge = build({"a.md": text})

    assert ask(knowledge, "remote access").retrieval_trace.hints.keywords == ("remote access",)
    assert ask(knowledge, "v p n r e m o t w i f").retrieval_trace.hints.keywords == ()


@pytest.mark.parametrize(
    "keywords",
    [
        pytest.param('"vpn, remote access"', id="quoted"),
        pytest.param("vpn,remote access,", id="no spaces, comma at the end"),
        pytest.param(",vpn,, remote access", id="empty parts"),
        pytest.param("[vpn, remote access]", id="flow list"),
        pytest.param("\n- vpn\n- remote access", id="block list"),
        pytest.param("\n  vpn,\n  remote access", id="over two lines"),
        pytest.param(">\n  vpn,\n  remote access", id="folded text"),
        pytest.param("|\n  vpn\n  remote access", id="a line each"),
        pytest.param("vpn; remote access", id="semicolon"),
        pytest.param("vpn\uff0cremote access", id="full-width comma"),
        pytest.param("vpn\u3001remote access", id="ideographic comma"),
        pytest.param("vpn\u060c remote access", id="Arabic comma"),
    ],
)
def test_keywords_may_be_listed_in_any_way(build: Build, ask: Ask, keywords: str) -> None:
    knowledge = build({"a.md": f"---\ntitle: T\nkeywords: {keywords}\n---\n{BODY}"}, HASH)

    hints = ask(knowledge, "remote access by vpn").retrieval_trace.hints

    assert set(hints.keywords) == {"vpn", "remote access"}


def test_b_10_keys_without_values_are_absent(build: Build, ask: Ask) -> None:
    text = "---\ntitle:\nkeywords:\ncategory: ~\n---\n# Parking rules\nPark in zone B.\n"
    knowledge = build({"a.md": text})

    result = ask(knowledge, "parking rules")

    assert shown(result) == [("a.md", "Parking rules", None)]
    assert (filters(result), knowledge.manifest.categories) == ([None], ())


@pytest.mark.parametrize(
    "value", ["null", "Null", "NULL", "~", "''", '" "', "[]", "{}", "[~]", "['', ' ']", "# note"]
)
def test_a_value_without_content_is_absent(build: Build, ask: Ask, value: str) -> None:
    block = "\n".join(f"{key}: {value}" for key in ("title", "category", "keywords", "entities"))
    knowledge = build({"a.md": f"---\n{block}\n---\n# Parking rules\n{BODY}"}, HASH)

    result = ask(knowledge, BODY)

    assert shown(result) == [("a.md", "Parking rules", None)]
    assert (filters(result), knowledge.manifest.categories) == ([None], ())


def test_b_12_of_a_key_given_twice_the_first_counts(build: Build, ask: Ask) -> None:
    text = (
        "---\ntitle: First name\ncategory: hr\ntitle: Second name\n---\n"
        "Probation lasts three months.\n"
    )
    knowledge = build({"a.md": text, "ok.md": "# Paint\nPaint is in room five."})

    assert shown(ask(knowledge, "probation")) == [("a.md", "First name", "hr")]
    assert shown(ask(knowledge, "where is the paint"))[0][0] == "ok.md"
    assert [(p.path, "title" in p.problem) for p in knowledge.report.problems] == [("a.md", True)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\ntitle: First\ntitle: First\n---\n", id="same value"),
        pytest.param("---\ntitle: First\nTITLE: Second\n---\n", id="two spellings"),
        pytest.param("---\ntitle: First\n'title': Second\n---\n", id="quoted"),
        pytest.param("---\ntitle: First\ntitle: 2\ntitle: 3\n---\n", id="three times"),
        pytest.param("---\n{title: First, title: Second}\n---\n", id="braces"),
        pytest.param("---\ntitle: First\nx: a: b\ntitle: Second\n---\n", id="broken block"),
        pytest.param('+++\ntitle = "First"\ntitle = "Second"\n+++\n', id="TOML"),
    ],
)
def test_a_repeated_key_never_wins_in_silence(build: Build, text: str) -> None:
    knowledge = build({"a.md": text + BODY}, HASH)

    assert (knowledge.read("a.md").title, text_of(knowledge)) == ("First", BODY)
    assert any("title" in problem.problem for problem in knowledge.report.problems)


KEYS = st.sampled_from(["title", "category", "keywords", "entities", "other"])
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=40)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(KEYS, VALUES)
def test_no_value_of_one_line_costs_the_body_or_leaves_no_title(key: str, value: str) -> None:
    document = Document(f"---\n{key}: {value}\n---\n{BODY}", metadata={"source": "a.md"})

    with KnowledgeBase.from_documents([document], embedder=HASH) as knowledge:
        entry = knowledge.read("a.md")

    assert [passage.text for passage in entry.passages] == [BODY]
    assert entry.title.strip()
