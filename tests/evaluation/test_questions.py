"""The file of questions, and what their answers are called in a knowledge base."""

from pathlib import Path

import pytest
from conftest import Make
from embedders import HashEmbedder

from lookup_tool import KnowledgeBase, LookupToolError, read_questions
from lookup_tool.evaluation.questions import Gold, GoldFinder, Question

BODY = """---
title: The guide
category: Cloud
---
# Getting started

Welcome.

## Best practices

Do it well.

## Best practices

Do it better.

# 第一条

法律。
"""


@pytest.fixture
def knowledge(make: Make) -> KnowledgeBase:
    files = {
        "aws/guide.md": BODY,
        "plain.mdx": "Plain text.",
        "closed.md": "---\naccess: [a]\n---\nSecret.\n",
    }
    return make(files, HashEmbedder())


def question(**fields: object) -> Question:
    return Question.model_validate({"id": "1", "query": "?", **fields})


def test_a_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(
        '\ufeff{"query": "Who?", "relevant": ["a.md"], "answer": "ignored"}\n'
        "\n"
        '{"id": 7, "query": " Why? "}\n'
        '{"id": "x", "query": "How?", "grades": {"b": 2}, "category": "c", "answerable": false}\n',
        encoding="utf-8",
    )

    assert read_questions(file) == (
        Question(id="1", query="Who?", relevant=("a.md",), answerable=True),
        Question(id="7", query="Why?", answerable=False),
        Question(id="x", query="How?", grades={"b": 2}, category="c", answerable=False),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("{}", ":1: query: Field required", id="no query"),
        pytest.param('\n{"query": " "}', ":2: query: String should have at least", id="blank"),
        pytest.param('{"query": "x", "relevant": "a"}', ":1: relevant: Input should", id="type"),
        pytest.param('{"query": "x", "grades": {"a": -1}}', ":1: grades.a: Input should", id="-1"),
        pytest.param("[1]", ":1: a question must be a JSON object", id="no object"),
        pytest.param("{", ":1: not valid JSON (Expecting property name", id="no JSON"),
        pytest.param(
            '{"query": "x"}\n{"id": 1, "query": "y"}', ":2: the id '1' occurs", id="twice"
        ),
        pytest.param(" \n", ": holds no questions; write one JSON object a line", id="empty"),
        pytest.param(b"\xff\xfe", ": cannot be read (not UTF-8 text)", id="bytes"),
        pytest.param(None, ": cannot be read (No such file or directory)", id="no file"),
    ],
)
def test_an_error_names_file_line_and_field(
    text: str | bytes | None, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "questions.jsonl"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(LookupToolError) as error:
        read_questions(file)

    assert str(error.value).startswith(f"{file}{problem}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("given", ["aws/guide", "aws/guide.md", "./aws/guide.md", "/aws/guide"])
def test_an_entry_is_found_with_and_without_its_suffix(
    knowledge: KnowledgeBase, given: str
) -> None:
    assert GoldFinder(knowledge).find(question(relevant=[given])) == Gold(
        documents={"aws/guide.md": 1},
        sections={},
        missing=(),
        categories=frozenset({"cloud"}),
        category_name="Cloud",
    )


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ("aws/guide#best-practices", "aws/guide.md#best-practices"),
        ("aws/guide.md#best-practices", "aws/guide.md#best-practices"),
        ("aws/guide#Best practices", "aws/guide.md#best-practices"),
        ("aws/guide#best-practices-1", "aws/guide.md#best-practices-1"),
        ("aws/guide#第一条", "aws/guide.md#第一条"),
        ("aws/guide#getting-started", "aws/guide.md"),
    ],
)
def test_a_section_is_found_by_the_anchor_of_its_heading(
    knowledge: KnowledgeBase, given: str, source: str
) -> None:
    gold = GoldFinder(knowledge).find(question(relevant_sections=[given]))

    assert (gold.documents, gold.sections, gold.missing) == ({"aws/guide.md": 1}, {source: 1}, ())


def test_grades_replace_the_one_of_relevant_ids(knowledge: KnowledgeBase) -> None:
    asked = question(
        relevant=["plain", "aws/guide"], grades={"plain": 3, "aws/guide#best-practices": 2}
    )

    gold = GoldFinder(knowledge).find(asked)

    assert gold.documents == {"plain.mdx": 3, "aws/guide.md": 2}
    assert gold.sections == {"aws/guide.md#best-practices": 2}
    assert gold.expected == {"aws/guide.md#best-practices"}


def test_what_is_missing_is_reported_and_stays_expected(knowledge: KnowledgeBase) -> None:
    asked = question(relevant=["gone", "closed"], relevant_sections=["plain#nothing", "no#where"])

    gold = GoldFinder(knowledge).find(asked)

    assert gold.missing == ("gone", "closed", "plain#nothing", "no#where")
    assert gold.documents == {"gone": 1, "closed": 1, "plain.mdx": 1, "no": 1}
    assert gold.sections == {"plain#nothing": 1, "no#where": 1}
    assert (
        GoldFinder(knowledge, frozenset({"a"})).find(asked).missing
        == gold.missing[:1] + (gold.missing[2:])
    )


def test_the_category_of_the_question_comes_first(knowledge: KnowledgeBase) -> None:
    gold = GoldFinder(knowledge).find(question(relevant=["aws/guide"], category="Ground"))

    assert (gold.categories, gold.category_name) == (frozenset({"ground"}), "Ground")
