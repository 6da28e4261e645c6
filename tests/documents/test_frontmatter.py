import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookup_tool.documents import frontmatter
from lookup_tool.documents.block_formats import (
    MAX_BLOCK_CHARS,
    MAX_DEPTH,
    MAX_EXPANSION,
    MAX_NODES,
    Written,
)
from lookup_tool.documents.frontmatter import BlockProblem, Frontmatter, read_frontmatter

PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)
# fmt: off
LINES = [
    "---", "+++", "...", "title: x", "a: b: c", "access: [hr]", "- item", "# Head", "text", "",
    "k: &a [x]", "k: *a", "k = 1", "<!--", "```yaml", "\ttab: x", "'", "[", "\u00e9\u2028",
]
# fmt: on
FRAGMENTS = st.lists(st.sampled_from(LINES)).map("\n".join)


def test_a_block_becomes_folded_fields_and_the_rest_the_body() -> None:
    text = (
        "---\nTitle: Annual leave\nKEYWORDS: [a, b]\nempty:\nnested: {Deep: x}\n---\n# Head\n\nText"
    )

    assert read_frontmatter(text) == Frontmatter(
        fields={
            "title": "Annual leave",
            "keywords": ["a", "b"],
            "empty": None,
            "nested": {"deep": "x"},
        },
        body="# Head\n\nText",
        body_line=7,
    )


@pytest.mark.parametrize(
    ("written", "value"),
    [
        pytest.param("1.10", Written("1.10"), id="number"),
        pytest.param("12:30", Written("12:30"), id="time"),
        pytest.param("no", Written("no"), id="truth value"),
        pytest.param("2024-01-02", Written("2024-01-02"), id="date"),
        pytest.param("0777", Written("0777"), id="octal"),
        pytest.param("'1.10'", "1.10", id="quoted number"),
        pytest.param("~", None, id="null"),
        pytest.param("''", "", id="empty string"),
        pytest.param("a#b", "a#b", id="hash inside"),
        pytest.param("=", "=", id="equals sign"),
    ],
)
def test_yaml_values_stay_as_they_were_written(written: str, value: str | None) -> None:
    field = read_frontmatter(f"---\nkey: {written}\n---\n").fields["key"]

    assert (field, type(field)) == (value, type(value))


def test_toml_is_read_between_plus_signs() -> None:
    text = '+++\nTitle = "A"\nn = 1.5\nlive = true\nday = 2024-01-02\ntags = ["x"]\n+++\nBody'

    assert read_frontmatter(text) == Frontmatter(
        fields={"title": "A", "n": "1.5", "live": "true", "day": "2024-01-02", "tags": ["x"]},
        body="Body",
        body_line=8,
    )


@pytest.mark.parametrize(
    ("text", "body", "body_line"),
    [
        pytest.param("---\ntitle: T\n---\nB", "B", 4, id="hyphens"),
        pytest.param("---\ntitle: T\n...\nB", "B", 4, id="closed by dots"),
        pytest.param("---  \ntitle: T\n---\t\nB", "B", 4, id="space after the fences"),
        pytest.param("--- yaml\ntitle: T\n---\nB", "B", 4, id="named YAML"),
        pytest.param('---toml\ntitle = "T"\n---\nB', "B", 4, id="named TOML"),
        pytest.param("\n \n---\ntitle: T\n---\nB", "B", 6, id="blank lines above"),
        pytest.param("\ufeff---\ntitle: T\n---\nB", "B", 4, id="byte-order mark"),
        pytest.param("---\ntitle: T\n---", "", 4, id="no body"),
        pytest.param("---\n\n# note\ntitle: T\n\n---\n\nB", "\nB", 7, id="comment, blank lines"),
        pytest.param("---\ntitle: T\n---\n---\nB", "---\nB", 4, id="rule after the block"),
    ],
)
def test_a_fence_may_be_written_in_several_ways(text: str, body: str, body_line: int) -> None:
    expected = Frontmatter(fields={"title": "T"}, body=body, body_line=body_line)

    assert read_frontmatter(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", Frontmatter(), id="empty file"),
        pytest.param(" \n\n", Frontmatter(), id="blank file"),
        pytest.param("# A\n\nText", Frontmatter(body="# A\n\nText"), id="no block"),
        pytest.param("\n\nText", Frontmatter(body="\n\nText"), id="blank lines, no block"),
        pytest.param("---\n---\nB", Frontmatter(body="B", body_line=3), id="empty block"),
        pytest.param("---\n\nText", Frontmatter(body="---\n\nText"), id="rule"),
        pytest.param("\n---", Frontmatter(body="---", body_line=2), id="rule alone"),
    ],
)
def test_a_file_without_metadata_is_all_body(text: str, expected: Frontmatter) -> None:
    assert read_frontmatter(text) == expected


def test_prose_between_two_rules_is_body() -> None:
    text = "---\n\nSome words.\n\n---\n\nMore words."

    block = read_frontmatter(text)

    assert (block.fields, block.body, block.body_line, block.seals) == ({}, text, 1, False)


OUTSIDE = BlockProblem(
    1,
    "`access` stands outside a readable block",
    "put the metadata between two lines of three hyphens, at the top of the file",
)


@pytest.mark.parametrize(
    "line",
    [
        "access: people-team",
        "access: hr",
        "Access: people_team, hr",
        "access: a b c",
        "access:hr",
        "access = hr",
        "access:",
        "ACCESS\uff1a hr",
        "**access**: people-team",
        "access: *team",
    ],
)
@pytest.mark.parametrize("rest", ["\n\nText", "\n", "\n\n# Title\n\nText"])
def test_one_line_at_the_top_that_names_access_seals_and_stays_in_the_text(
    line: str, rest: str
) -> None:
    text = f"{line}{rest}"

    assert read_frontmatter(text) == Frontmatter(body=text, problems=(OUTSIDE,), seals=True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# Title\n\naccess: hr\n\nText", id="below a heading"),
        pytest.param("# Title\naccess: hr\n\nText", id="right below a heading"),
        pytest.param("Title\n=====\n\naccess: hr\n\nText", id="below an underlined heading"),
        pytest.param("Some words.\n\naccess: hr\n\nText", id="below prose"),
        pytest.param("access: by the side door, then left.\n\nText", id="a sentence"),
        pytest.param("access: one two three four\n\nText", id="four words"),
        pytest.param("access is by badge\n\nText", id="no colon"),
        pytest.param("remote access: hr\n\nText", id="another word before it"),
    ],
)
def test_one_line_that_may_be_a_sentence_is_text(text: str) -> None:
    assert read_frontmatter(text) == Frontmatter(body=text)


@pytest.mark.parametrize("value", ["[hr]", "'hr'", '"people-team"', "{hr: x}"])
def test_a_list_or_a_quoted_name_below_a_heading_seals(value: str) -> None:
    text = f"# Title\n\naccess: {value}\n\nText"

    assert read_frontmatter(text) == Frontmatter(body=text, problems=(OUTSIDE,), seals=True)


@pytest.mark.parametrize(
    "text",
    [
        "Annual leave\n---\n\nText",
        "Annual leave\n============\n\nText",
        "Annual leave, and\nsick leave\n---\nText: more",
        "Annual leave\n---\n\nAnother one\n---\n\nText",
        "Access\n---\n\nText",
        "2024\n---\n\nText",
    ],
)
def test_an_underlined_heading_is_no_broken_metadata(text: str) -> None:
    assert read_frontmatter(text) == Frontmatter(body=text)


@pytest.mark.parametrize(
    "text",
    [f"access{':' * 100_000}\x01a", f"access: {'a' * 100_000}%a", f"---\n- access{'x' * 100_000}"],
)
def test_what_takes_too_long_to_understand_seals(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not read_frontmatter(text).seals

    monkeypatch.setattr(frontmatter, "_PATIENCE", 1e-9)
    block = read_frontmatter(text)

    assert (block.body, block.body_line, block.seals) == (text, 1, True)
    assert [problem.problem for problem in block.problems] == [
        "what stands at the top takes too long to understand"
    ]


def test_an_unterminated_block_is_kept_as_text() -> None:
    assert read_frontmatter("---\ntitle: T\n\nText") == Frontmatter(
        body="title: T\n\nText",
        body_line=2,
        problems=(
            BlockProblem(
                1,
                "the metadata block that opens with --- is never closed; it was kept as text",
                "add a line --- after the metadata",
            ),
        ),
    )


def test_a_value_with_a_colon_costs_nothing_but_a_warning() -> None:
    text = "\n---\ncategory: hr\ntitle: Leave: how to\nkeywords: [a, b]\n---\nBody"

    block = read_frontmatter(text)

    assert block.fields == {"category": "hr", "title": "Leave: how to", "keywords": ["a", "b"]}
    assert (block.body, block.body_line, block.seals) == ("Body", 7, False)
    assert [(problem.line, problem.remedy) for problem in block.problems] == [
        (4, "quote values that contain a colon, and indent with spaces")
    ]


@pytest.mark.parametrize(
    ("text", "line", "fields"),
    [
        pytest.param("---\na: x\na: y\n---\n", 3, {"a": "x"}, id="key twice"),
        pytest.param("---\nA: x\nb: z\na: y\n---\n", 4, {"a": "x", "b": "z"}, id="two spellings"),
        pytest.param("---\na: !x y\n---\n", 2, {"a": "y"}, id="tag"),
        pytest.param("---\na: x\n? [k]\n: v\n---\n", 3, {"a": "x"}, id="key is a list"),
        pytest.param("---\na: x\nb: *none\n---\n", 3, {"a": "x"}, id="unknown alias"),
        pytest.param('---\na: x\nb: "open\n---\n', 3, {"a": "x", "b": "open"}, id="open quote"),
        pytest.param("+++\na = 'x'\nb = oops\n+++\n", 3, {"a": "x", "b": "oops"}, id="TOML"),
    ],
)
def test_a_fault_names_its_line_and_keeps_the_other_keys(
    text: str, line: int, fields: dict[str, str]
) -> None:
    block = read_frontmatter(text)

    assert ([problem.line for problem in block.problems], block.fields) == ([line], fields)


@pytest.mark.parametrize(("chars", "faults"), [(MAX_BLOCK_CHARS, 0), (MAX_BLOCK_CHARS + 1, 1)])
@pytest.mark.parametrize(("fence", "key"), [("---", "a: '"), ("+++", "a = '")])
def test_a_block_has_a_longest_length(fence: str, key: str, chars: int, faults: int) -> None:
    block = read_frontmatter(f"{fence}\n{key}{'x' * (chars - len(key) - 1)}'\n{fence}\nBody")

    assert (len(block.problems), block.body) == (faults, "Body")


@pytest.mark.parametrize(("items", "faults"), [(MAX_NODES - 2, 0), (MAX_NODES - 1, 1)])
def test_a_block_has_a_largest_number_of_values(items: int, faults: int) -> None:
    # The list itself and the title are values too.
    block = read_frontmatter(f"---\nkey: [{'x,' * items}]\ntitle: T\n---\nBody")

    assert (len(block.problems), block.fields["title"], block.body) == (faults, "T", "Body")


@pytest.mark.parametrize(("depth", "faults"), [(MAX_DEPTH - 1, 0), (MAX_DEPTH, 1)])
def test_a_block_has_a_greatest_depth(depth: int, faults: int) -> None:
    block = read_frontmatter(f"---\nkey: {'[' * depth}x{']' * depth}\ntitle: T\n---\nBody")

    assert (len(block.problems), block.fields["title"], block.body) == (faults, "T", "Body")


DEEP = [
    pytest.param("---\na: {}\n---", "[", "]", id="lists"),
    pytest.param("---\na: {}\n---", "{{a: ", "}}", id="mappings"),
    pytest.param("---\na: {}\n---", "[{{a: ", "}}]", id="both"),
    pytest.param("---\na:\n{}\n---", "- ", "", id="list items in a line"),
    pytest.param("---\n{}\n---", "? ", "", id="keys in a line"),
    pytest.param("---\na:\n{}\n---", "? - ", "", id="both in a line"),
    pytest.param("+++\na = {}\n+++", "[", "]", id="TOML lists"),
    pytest.param("+++\na = {}\n+++", "{{a = ", "}}", id="TOML tables"),
    pytest.param("+++\n{} = 1\n+++", "a.", "a", id="TOML keys"),
    pytest.param("+++\n  {} = 1\n+++", "a . ", "a", id="TOML keys with spaces"),
    pytest.param("+++\n{} = 1\n+++", '"a\\".b".', "a", id="quoted TOML keys"),
    pytest.param("+++\n[{}]\nx = 1\n+++", "a.", "a", id="TOML headers"),
]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 70, 1_000, 15_000])
@pytest.mark.parametrize(("around", "opening", "closing"), DEEP)
def test_nesting_is_refused_before_anything_recursive_reads_it(
    around: str, opening: str, closing: str, depth: int
) -> None:
    nested = f"{opening.format() * depth}{closing.format() * depth}"
    block = read_frontmatter(f"{around.format(nested)}\nBody")

    assert {problem.problem for problem in block.problems} <= {
        "the metadata nests too deep",
        "the metadata block is too long",
        "a key is a list or a mapping",
        "not valid YAML (exceeded maximum nesting depth)",  # read ahead, without a stack
    }
    assert (len(block.problems) > 0, block.body.endswith("Body")) == (True, True)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 70, 250])
def test_nesting_by_indentation_is_refused(depth: int) -> None:
    levels = "\n".join(f"{' ' * level}a:" for level in range(depth))
    lists = "\n".join(
        f"{' ' * level}- a:\n{' ' * level}  -" for level in range(0, min(4 * depth, 400), 4)
    )
    for nested in (levels, f"a:\n{lists}"):
        block = read_frontmatter(f"---\n{nested}\n---\nBody")

        assert [p.problem for p in block.problems] == ["the metadata nests too deep"]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(f"a: [{'[b], ' * 2_000}]", id="brackets side by side"),
        pytest.param("a:" + "\n- [b, {c: d}]" * 500, id="a list of lists"),
        pytest.param(f"a: b\n# {'-' * 500}\nc: '{'[' * 500}'", id="brackets in text"),
        pytest.param(f"a: |\n  {'- ' * 500}", id="dashes in text"),
    ],
)
def test_what_only_looks_deep_is_read(block: str) -> None:
    assert read_frontmatter(f"---\n{block}\n---\nBody").problems == ()


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(f"a = [{'1.5, ' * 2_000}]", id="numbers"),
        pytest.param(f"a = '{'1.2.' * 500}'", id="dots in text"),
        pytest.param(f'a = """\n{"[ a.b." * 500} " \\" ""\n"""', id="text of many lines"),
        pytest.param(f"# {'[' * 500}\na = 1 # {'a.' * 500}", id="comments"),
        pytest.param("\n".join(f"[a.b{n}.c]\nd.e = [[{n}]]" for n in range(500)), id="tables"),
    ],
)
def test_what_only_looks_deep_in_toml_is_read(block: str) -> None:
    assert read_frontmatter(f"+++\n{block}\n+++\nBody").problems == ()


@pytest.mark.parametrize(("times", "faults"), [(MAX_EXPANSION - 2, 0), (MAX_EXPANSION + 2, 1)])
def test_aliases_write_out_a_bounded_text(times: int, faults: int) -> None:
    aliases = "".join(f"\nb{n}: *a" for n in range(times))

    block = read_frontmatter(f"---\na: &a {'x' * 5_000}{aliases}\n---\nBody")

    assert (len(block.problems), block.fields["a"], block.body) == (faults, "x" * 5_000, "Body")


@pytest.mark.parametrize("inner", ["x: 1, " * 2_000, "? [] : 1, " * 2_000])
def test_keys_that_are_left_out_count_as_well(inner: str) -> None:
    block = read_frontmatter(f"---\na: &a {{{inner}}}\nb: [{'*a, ' * 2_000}]\n---\nBody")

    assert block.problems[0].problem == "the metadata expands to too many values"
    assert len(block.problems) <= MAX_NODES


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("---\n" + "[" * 50_000 + "\n---", id="YAML nesting"),
        pytest.param("---\n" + "a: {" * 9_000 + "\n---", id="YAML keys"),
        pytest.param("+++\na = " + "[" * 50_000 + "\n+++", id="TOML nesting"),
        pytest.param("+++\na = " + "1" * 5_000 + "\n+++", id="TOML integer too long for Python"),
        pytest.param("+++\na = 2024-13-45\n+++", id="TOML date that is none"),
        pytest.param("---\na: \x00\n---", id="NUL"),
        pytest.param("---\na: \ud800\n---", id="lone surrogate"),
        pytest.param("---\n%YAML 9.9\n---", id="directive"),
        pytest.param(
            "---\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(
                f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n"
                for old, new in zip("abcdefg", "bcdefgh", strict=True)
            )
            + "---",
            id="alias bomb",
        ),
    ],
)
def test_a_hostile_block_is_a_problem_and_no_exception(block: str) -> None:
    result = read_frontmatter(f"{block}\nBody")

    assert result.problems
    assert result.body.endswith("Body")


@PROPERTY
@given(st.one_of(st.text(), FRAGMENTS))
def test_the_body_is_the_end_of_the_file_and_its_line_is_right(text: str) -> None:
    block = read_frontmatter(text)

    assert block.body in ("", "\n".join(text.split("\n")[block.body_line - 1 :]))
    assert all(1 <= problem.line <= text.count("\n") + 1 for problem in block.problems)
