import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lookup_tool.config import PassageConfig
from lookup_tool.documents.entries import Problems, parse_entry
from lookup_tool.documents.passages import cut
from lookup_tool.schema import Entry, Passage, embedded_text
from lookup_tool.text import approximate_tokens

PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)
SMALL = PassageConfig(max_tokens=32, min_tokens=8)


def passages(text: str, config: PassageConfig | None = None, source: str = "a.md") -> list[Passage]:
    entry = parse_entry(text, source, Problems())
    return cut(entry, config or PassageConfig())[1]


def places(text: str) -> list[tuple[str, tuple[str, ...], str]]:
    return [(p.source, p.breadcrumb, p.text) for p in passages(text)]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        pytest.param("---\ntitle: Given\n---\n# Head", "Given", id="given"),
        pytest.param("Intro\n\n## First *head* ##\n\n# Second", "First head", id="first heading"),
        pytest.param("Head\n====\n\nText", "Head", id="underlined heading"),
        pytest.param("#\n\n# Second", "Second", id="empty heading is none"),
        pytest.param("```\n# code\n```\n\n> # quoted", "leave", id="no heading: file name"),
    ],
)
def test_the_title_is_given_or_the_first_heading_or_the_file_name(text: str, title: str) -> None:
    entry = parse_entry(text, "hr/leave.md", Problems())

    assert cut(entry, PassageConfig())[0] == title


@PROPERTY
@given(st.text(alphabet="aZ\u00e9\u5e74\u0661 .,;:?()'/-*_&", max_size=20))
def test_a_heading_without_marks_is_shown_as_one_with_marks_is(text: str) -> None:
    """A comment is a mark that nobody sees: such a heading is parsed, whatever it says."""
    shown, parsed = (
        cut(Entry("a.md", f"# x {text}{mark} x"), PassageConfig())[0] for mark in ("", "<!-- -->")
    )

    assert shown.split() == parsed.split()


def test_an_entry_is_cut_at_its_headings() -> None:
    body = (
        "Intro.\n\n# Leave\n\nOne.\n\n## Days\nTwo.\n\n### Part time\n\nThree.\n\n"
        "## Asking ##\n\nFour.\n\nOther\n===\nFive.\n\nSub\nhead\n---\nSix."
    )

    assert places(body) == [
        ("a.md", ("Leave",), "Intro."),
        ("a.md", ("Leave",), "One."),
        ("a.md#days", ("Leave", "Days"), "Two."),
        ("a.md#part-time", ("Leave", "Days", "Part time"), "Three."),
        ("a.md#asking", ("Leave", "Asking"), "Four."),
        ("a.md#other", ("Leave", "Other"), "Five."),
        ("a.md#sub-head", ("Leave", "Other", "Sub head"), "Six."),
    ]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("```sh\n# comment\n```", id="fence"),
        pytest.param("~~~\n```\n## x\n~~~", id="fence in a fence"),
        pytest.param("    # indented", id="indented code"),
        pytest.param("> # quoted", id="quotation"),
        pytest.param("- # in a list", id="list"),
        pytest.param("#no-space", id="no space"),
        pytest.param("<!--\n# comment\n-->", id="comment"),
    ],
)
def test_what_only_looks_like_a_heading_does_not_cut(block: str) -> None:
    assert places(f"# A\n\nText\n\n{block}\n\nMore") == [
        ("a.md", ("A",), f"Text\n\n{block}\n\nMore")
    ]


@pytest.mark.parametrize(
    ("headings", "slugs"),
    [
        pytest.param(["Same", "Same", "Same"], ["same", "same-1", "same-2"], id="repeats"),
        pytest.param(["A 1", "A", "A"], ["a-1", "a", "a-2"], id="repeat meets a slug"),
        pytest.param(["C++ & Go!"], ["c--go"], id="marks"),
        pytest.param(["snake_case Über"], ["snake_case-über"], id="letters"),
        pytest.param(["年假 申请"], ["年假-申请"], id="Chinese"),
        pytest.param(["`code` and *this* [link](x.md)"], ["code-and-this-link"], id="markdown"),
        pytest.param(["Anchor {#custom}"], ["anchor"], id="own id"),
        pytest.param(["!!!", "???"], ["section", "section-1"], id="only marks"),
    ],
)
def test_sections_are_named_by_slugs(headings: list[str], slugs: list[str]) -> None:
    body = "# Top\n\n" + "\n\n".join(f"## {heading}\n\nText" for heading in headings)

    assert [p.source for p in passages(body)] == [f"a.md#{slug}" for slug in slugs]


def test_the_first_heading_takes_its_slug_too() -> None:
    assert [p.source for p in passages("# A\nx\n# A\ny")] == ["a.md", "a.md#a-1"]


def test_a_part_of_a_source_gets_no_second_anchor() -> None:
    assert [p.source for p in passages("# A\nx\n# B\ny", source="f.pdf#part-2")] == [
        "f.pdf#part-2",
        "f.pdf#part-2-b",
    ]


def test_the_breadcrumb_starts_with_the_title_once() -> None:
    body = "# annual  LEAVE\nOne.\n## Days\nTwo."

    assert [crumbs for _, crumbs, _ in places(f"---\ntitle: Annual leave\n---\n{body}")] == [
        ("Annual leave",),
        ("Annual leave", "Days"),
    ]
    assert [crumbs for _, crumbs, _ in places(f"---\ntitle: Other\n---\n{body}")] == [
        ("Other", "annual LEAVE"),
        ("Other", "annual LEAVE", "Days"),
    ]


def test_lines_are_those_of_the_file() -> None:
    text = "---\ntitle: T\n---\n\nIntro\nmore\n\n\n# A\n\n\nOne\n\ntwo\n\n## B\nThree\n"
    lines = text.split("\n")

    found = passages(text)

    assert [(p.start_line, p.end_line) for p in found] == [(5, 6), (12, 14), (17, 17)]
    assert [p.text for p in found] == [
        "\n".join(lines[p.start_line - 1 : p.end_line]) for p in found
    ]


@pytest.mark.parametrize(
    "body",
    ["", "\n \n", "***\n\n---", "# A\n\n", "# A\n"],
    ids=["empty", "blank", "rules", "a", "b"],
)
def test_a_body_without_words_or_of_headings_alone_makes_no_passage(body: str) -> None:
    assert passages(body) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("# A\nx\n\n## B\n\n## C\ny", 4, id="between others"),
        pytest.param("---\nt: x\n---\n# A\nx\n\n## B", 7, id="last, after frontmatter"),
        pytest.param("# A\nx\n\n## B\n\n***\n\n## C\ny", 4, id="only a rule under it"),
        pytest.param("# A\nx\n\nB\n---\n\n## C\ny", 4, id="underlined"),
    ],
)
def test_a_heading_without_text_is_a_passage_itself(text: str, line: int) -> None:
    lines = text.split("\n")

    (found,) = [p for p in passages(text) if p.source == "a.md#b"]

    assert (found.breadcrumb, found.start_line) == (("A", "B"), line)
    assert found.text == "\n".join(lines[line - 1 : found.end_line])


def test_a_heading_that_only_opens_others_is_in_their_breadcrumbs() -> None:
    assert places("# A\n\n## B\n\n### C\n\nText") == [("a.md#c", ("A", "B", "C"), "Text")]


def test_a_long_heading_is_not_lost() -> None:
    paragraph = " ".join(f"word{n}" for n in range(100))  # a rule right under it makes it a heading
    found = passages(f"# A\n\n{paragraph}\n---\n\nMore.")

    shown = " ".join(" ".join([*p.breadcrumb, p.text]) for p in found)
    assert set(paragraph.split()) <= set(shown.split())


@pytest.mark.parametrize(
    ("tokens", "pieces"), [(31, 1), (32, 1), (33, 1), (40, 1), (41, 2)], ids=str
)
def test_a_section_is_cut_when_it_passes_the_longest_and_the_shortest(
    tokens: int, pieces: int
) -> None:
    found = passages("abc " * (tokens - 1) + "abcd", SMALL)

    assert len(found) == pieces
    assert " ".join(p.text for p in found) == "abc " * (tokens - 1) + "abcd"


def test_a_long_section_is_cut_between_blocks_first() -> None:
    blocks = [f"Block {n} has a first sentence. And it has a second one." for n in range(5)]

    found = passages("# A\n\n" + "\n\n".join(blocks), SMALL)

    assert [(p.text, p.start_line, p.end_line) for p in found] == [
        ("\n\n".join(blocks[0:2]), 3, 5),
        ("\n\n".join(blocks[2:4]), 7, 9),
        (blocks[4], 11, 11),
    ]


@pytest.mark.parametrize(
    ("sentence", "joint"),
    [
        pytest.param("This one has some words in it.", " ", id="full stop"),
        pytest.param('Did she say "no, never again?"', " ", id="question in quotes"),
        pytest.param("年假需要提前两周申请。", "", id="Chinese"),
        pytest.param("これは一つの文です\uff01", "", id="Japanese"),
    ],
)
def test_a_long_block_is_cut_between_sentences(sentence: str, joint: str) -> None:
    found = passages(joint.join([sentence] * 20), SMALL)

    assert len(found) > 2
    assert all(p.text.replace(sentence, "").strip() == "" for p in found)
    assert sum(p.text.count(sentence) for p in found) == 20


def test_code_and_lists_are_cut_between_lines() -> None:
    for line in ("run --the command. Now", "- item one. And more"):
        body = "\n".join([line] * 30)
        found = passages(f"```\n{body}\n```" if line[0] == "r" else body, SMALL)

        assert len(found) > 2
        assert {text for p in found for text in p.text.split("\n")} <= {line, "```"}


def test_a_table_goes_on_with_its_header() -> None:
    head = "| Band | Pay |\n|------|-----|\n"
    rows = [f"| B{n:02} | {n * 1000 + 10000} |" for n in range(20)]

    first, *rest = passages(f"# Pay\n\n{head}" + "\n".join(rows), SMALL)

    assert len(rest) > 1
    assert (first.lead, {p.lead for p in rest}) == ("", {head})
    assert "\n".join(p.text for p in [first, *rest]) == head + "\n".join(rows)
    assert rest[0].embedded_text == f"Pay\n\n{head}{rest[0].text}"


def test_text_after_a_table_has_no_lead() -> None:
    table = "| A | B |\n|---|---|\n" + "| one | two |\n" * 10

    found = passages(f"{table}\n" + "Words after the table come here. " * 8, SMALL)

    assert {p.lead for p in found if p.text.startswith("Words")} == {""}


@pytest.mark.parametrize(
    "text",
    ["x" * 2000, "年假" * 500, "word " * 400, "Plain words. " * 80 + "\n\n" + "年假申请。" * 100],
    ids=["no spaces", "Chinese without marks", "no sentences", "two scripts"],
)
def test_no_passage_is_longer_than_the_longest_and_a_joined_rest(text: str) -> None:
    found = passages(text, SMALL)

    assert max(approximate_tokens(p.text) for p in found) <= SMALL.max_tokens + SMALL.min_tokens
    assert "".join("".join(p.text.split()) for p in found) == "".join(text.split())


def test_embedded_text_has_the_headings_in_front() -> None:
    passage = Passage("a.md", ("Leave", "Days"), "Text", 1, 1)

    assert passage.embedded_text == embedded_text(("Leave", "Days"), "Text")
    assert passage.embedded_text == "Leave > Days\n\nText"


MARKS = ["# ", "## ", "### ", "- ", "> ", "1. ", "| ", "    ", "```", "~~~", "---", "===", "***"]
LINES = st.tuples(
    st.sampled_from(["", "", *MARKS]),
    st.lists(st.sampled_from(["alpha", "beta.", "年假", "x1", "| y", "😀"]), max_size=12).map(
        " ".join
    ),
)


def numbered(parts: list[tuple[str, str]]) -> list[str]:
    """Give each word its place, so that none can stand in for another."""
    return [
        mark + regex.sub(r"\w+", lambda word, n=n: f"{word[0]}w{n}p{word.start()}", words)
        for n, (mark, words) in enumerate(parts)
    ]


def without_headings(body: str) -> str:
    """Leave out the lines of headings, with signs in front or underlined."""
    lines = body.split("\n")
    for token in MarkdownIt("commonmark").parse(body):
        if token.type == "heading_open" and token.level == 0 and token.map:
            lines[slice(*token.map)] = [""] * (token.map[1] - token.map[0])
    return "\n".join(lines)


@PROPERTY
@example([("", "alpha"), ("- ", "")])
@given(st.lists(LINES, max_size=30))
def test_every_word_of_a_body_is_in_a_passage_or_a_breadcrumb(parts: list[tuple[str, str]]) -> None:
    body = "\n".join(numbered(parts))

    found = cut(Entry("a.md", body, title="Title"), SMALL)[1]

    shown = " ".join(" ".join([*p.breadcrumb, p.text]) for p in found)
    words = set(regex.findall(r"\w+p\d+", body))
    assert not found or words <= set(regex.findall(r"\w+p\d+", shown))
    assert found or not regex.search(
        r"\w", without_headings(body)
    )  # headings alone are no passages


@PROPERTY
@given(st.lists(LINES, max_size=30), st.integers(1, 9))
def test_the_text_of_a_passage_is_on_its_lines(parts: list[tuple[str, str]], first: int) -> None:
    lines = numbered(parts)

    for p in cut(Entry("a.md", "\n".join(lines), first, "Title"), SMALL)[1]:
        on_lines = lines[p.start_line - first : p.end_line - first + 1]
        assert p.text in "\n".join(on_lines)
        assert p.text.count("\n") == len(on_lines) - 1


@PROPERTY
@given(st.text(), st.integers(1, 9))
def test_lines_of_any_text_are_inside_the_file(body: str, first: int) -> None:
    last = first + body.count("\n")

    for p in cut(Entry("a.md", body, first, "Title"), SMALL)[1]:
        assert first <= p.start_line <= p.end_line <= last
