"""One text never stops the others: time grows with its length, and not with the square of it.

Every mark that some stage gives a meaning is repeated, nested, left open, and mixed with others,
and goes through all that happens to a file when it is read and cut, to a question, and to evidence
when it is packed. Eight times the text may take eight times the time, which is compared with the
time of eight texts: nearly equal, where a quadratic stage takes eight times as long.
"""

from collections.abc import Callable
from time import process_time

import pytest
from stages_builders import block

from lookup_tool.config import PackConfig, PassageConfig, QueryConfig
from lookup_tool.documents.entries import Problems, parse_entry
from lookup_tool.documents.phrases import phrase_key
from lookup_tool.documents.prepared import prepare
from lookup_tool.engines.local.lexical import LexicalIndex
from lookup_tool.indexing.sync import _changes
from lookup_tool.stages.pack import pack
from lookup_tool.stages.transform import transform

SMALL = 200
"""Characters; the long text has eight times as many."""

MOST = 3.0
"""How much more time one long text may take than eight short ones; a quadratic stage takes 8."""

LEAST_SECONDS = 0.001
"""Less is not measured."""

ATTEMPTS = 5
HOPELESS_SECONDS = 0.5
"""Nothing here takes so long, by far; what does is not tried again, nor with more."""

Stage = Callable[[str], None]

# fmt: off
FENCES = [
    "---\n", "--- yaml\n", "+++\n", "...\n", "----\n", "***\n", "___\n", "~~~\n", "===\n", ";;;\n",
    "```\n", "``` yaml\n", "- - -\n", "-", "_", "=", "~", "`", "+", "\u2014",
]
SPACES = [
    "\n", " ", "\t", " \n", "\r", "\x00", "\ufeff", "\u200b", "\u2028", "\x0b",
]
ACCESS = [
    "access", "access\n", "access:", "access: ", "access: \n", "access: x\n", "access: [",
    "access,", "access: [x]\n", "access = ", '"access"', "- access\n", "{access", "title: x\n",
    "a: b: c\n", "a: |\n  b\n", "access_a: x\n", "\uff41ccess\uff1a ", "a/", "a,b; ",
    "https://a.b/c?d=e&",
]
BRACKETS = [
    ":", '"', "'", "[", "]", "[[", "{", "}", "{a: ", "[a, ", "(", ")", "? ", "- ", "&a ", "*a, ",
    "!a ", "a.", "a = [", "[a]\n", "[[a]]\n", "[a.", '"""', "'''", "{#a}", "{#", "{ .a", "{/*",
]
BLOCKS = [
    "# a\n", "# ", "#", "## a\n\nb c.\n\n", "a\n===\n", "a: b\n---\n", "# a-1\n# a\n",
    "# [a](b) `c`\n", "|a|b|\n", "|a|b|\n|-|-|\n", "|a|b|\n|-|-|\n|c|d|\n\n", "|", "- a\n", "-\n",
    "1. a\n\n", "- - a\n", "> ", "> a\n", "> - a\n", "1) > - ", "<!--", "<!-- a\n", "<!-- a -->",
    "-->", "<div>\n", "</", "<?", "<![CDATA[", "    a\n", "[a]: b\n", "[a]: b '\n", "[a\n",
]
MODULES = [
    "import a from 'b'\n", "import a\n", "import ", " from ", "export const a  \n", "export ",
]
INLINE = [
    "*", "**a", "_a ", "![", "[a](", "[a][", "<a ", "<a b='", "\\", "&", "&a", "a&", "A&", "a&b ",
    "<evidence", "</evidence>", "< ", "<e\u0301",
]
WORDS = [
    "a", "a ", "A", "A.", "a.b.", "Aa", "1", "1.", "1.2.3 ", "1:", "v1.", "a1", "'s", "a's ",
    "\u2019s", ". ", "a. ", 'a." ', "...", "! ", "\u2026", "\u3002", "\u4e2d", "\u4e2d\u6587\u3002",
    "\u3042", "\uac00", "\u0e01", "C++ ", "C# ", ".NET ", "$", "\u00a7", "\u00e9", "\u00df",
    "\ufb01", "\u0130",
]
JOINED = [
    "\u0301", "\u0316\u0301", "\u0301\u200b\u0316", "\uff9e\u0316", "\u0345\u0301", "\u200d",
    "\ufe0f", "\U0001f468\u200d", "\U0001f1e6", "\u20e3", "\u00ad", "\u034f", "\u00ae", "\ud800",
]
# fmt: on
MARKS = [*FENCES, *SPACES, *ACCESS, *BRACKETS, *BLOCKS, *MODULES, *INLINE, *WORDS, *JOINED]
METADATA = [*FENCES, *SPACES, *ACCESS, *BRACKETS, *JOINED]

AROUND: dict[str, tuple[list[str], str]] = {
    "alone": (MARKS, "{}"),
    "in a block": (METADATA, "---\n{}\n---\nText."),
    "in a block that is never closed": (METADATA, "---\ntitle: a: b\n{}"),
    "in a value": (METADATA, "---\naccess: [a]\ntitle: {}\n---\nText."),
    "in a list": (METADATA, "---\na: b: c\nkeywords: [{}\n---\nText."),
    "in TOML": (METADATA, "+++\na = {}\n+++\nText."),
    "below a strange fence": (METADATA, "----\n{}\n"),
    "in a line that names access": (METADATA, "access: {}%a"),
    "after access": (METADATA, "access{}\x01a"),
    "below a heading": (BLOCKS, "# Title\n\nText.\n\n{}"),
}
"""Which marks, and what stands around them when they are repeated."""


def repeated(mark: str, length: int) -> str:
    return mark * (length // len(mark) + 1)


def read(text: str) -> None:
    prepare(parse_entry(text, "a.md", Problems()), PassageConfig())


def read_module(text: str) -> None:
    prepare(parse_entry(text, "a.mdx", Problems()), PassageConfig())


INDEX = LexicalIndex.build([("Title", "Text.")])
ANY_LENGTH = QueryConfig(max_length=1_000_000)


def ask(text: str) -> None:
    query = transform(text, ANY_LENGTH)
    phrase_key(query.text)
    INDEX.query_terms(query.text)


def pack_half(text: str) -> None:
    pack([block("a.md", content=text)], PackConfig(budget=len(text) // 8 + 40))


def seconds(stage: Stage, text: str, times: int) -> float:
    start = process_time()
    for _ in range(times):
        stage(text)
        if process_time() - start > HOPELESS_SECONDS:
            break
    return process_time() - start


def is_linear(stage: Stage, text: Callable[[int], str], small: int = SMALL) -> bool:
    """Tell whether eight times the text takes little more than the time of eight texts."""
    for length in (small // 4, small // 2, small):
        if seconds(stage, text(length), 1) > HOPELESS_SECONDS:
            return False
    short, long = text(small), text(8 * small)
    for _ in range(ATTEMPTS):
        eight, one = seconds(stage, short, 8), seconds(stage, long, 1)
        if one <= MOST * max(eight, LEAST_SECONDS):
            return True
        if one > HOPELESS_SECONDS:
            break
    return False


@pytest.mark.parametrize("place", AROUND)
def test_marks_that_are_repeated_take_linear_time(place: str) -> None:
    marks, around = AROUND[place]

    def text(mark: str) -> Callable[[int], str]:
        return lambda length: around.format(repeated(mark, length))

    assert [mark for mark in marks if not is_linear(read, text(mark))] == []


@pytest.mark.parametrize("stage", [read, ask, pack_half])
def test_marks_that_alternate_with_others_take_linear_time(stage: Stage) -> None:
    def text(pair: tuple[str, str]) -> Callable[[int], str]:
        return lambda length: repeated(f"{pair[0]}{pair[1]}word {pair[0]}\n\n", length)

    half = len(MARKS) // 2
    pairs = zip(MARKS[:half], MARKS[half:], strict=False)
    assert [pair for pair in pairs if not is_linear(stage, text(pair))] == []


@pytest.mark.parametrize("stage", [ask, pack_half])
def test_a_question_and_evidence_of_one_mark_take_linear_time(stage: Stage) -> None:
    def text(mark: str) -> Callable[[int], str]:
        return lambda length: repeated(mark, length)

    marks = [*SPACES, *INLINE, *WORDS, *JOINED]
    assert [mark for mark in marks if not is_linear(stage, text(mark))] == []


@pytest.mark.parametrize("before", ["", "import a from 'b'\n", "import ", "export const a = 1"])
def test_what_stands_above_a_module_takes_linear_time(before: str) -> None:
    def text(mark: str) -> Callable[[int], str]:
        return lambda length: before + repeated(mark, length)

    marks = [*MODULES, *SPACES, "'", ";"]
    assert [mark for mark in marks if not is_linear(read_module, text(mark))] == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda n: "<!-- a\n" * (n // 7), id="comments that are never closed"),
        pytest.param(lambda n: "|a|b|\n|-|-|\n|c|d|\n\n" * (n // 19), id="tables"),
        pytest.param(lambda n: "## a\n\nb c.\n\n" * (n // 12), id="headings"),
        pytest.param(lambda n: f"# {'![' * (n // 2)}\n\nText.", id="marks in a heading"),
        pytest.param(lambda n: "a. " * (n // 3), id="sentences"),
        pytest.param(lambda n: "word\n\n" * (n // 6), id="blocks"),
        pytest.param(
            lambda n: f"---\ntitle: {'t' * (n // 3)}\n---\n" + "## a\n\nb\n\n" * (n // 15),
            id="a long title over many sections",
        ),
        pytest.param(lambda n: "e" + "\u0316\u0301" * (n // 2), id="marks on one letter"),
        pytest.param(lambda n: "e" + "\u0301\u200b\u0316" * (n // 3), id="and invisible between"),
        pytest.param(lambda n: f"+++\na{'.a' * (n // 2)} = 1\n+++\n", id="dotted keys in TOML"),
        pytest.param(
            lambda n: f"+++\n[a{'.a' * (n // 4)}]\n{'b = 1 ' * (n // 12)}\n+++\n",
            id="dotted header in TOML",
        ),
        pytest.param(
            lambda n: f"---\na: &a {{{'x: 1, ' * (n // 12)}}}\nb: [{'*a, ' * (n // 8)}]\n---\n",
            id="aliases of a mapping whose keys are equal",
        ),
        pytest.param(
            lambda n: f"---\na: &a {'x' * (n // 2)}\nb: [{'*a, ' * (n // 8)}]\n---\n",
            id="aliases of a long text",
        ),
    ],
)
def test_long_files_take_linear_time(text: Callable[[int], str]) -> None:
    assert is_linear(read, text, small=2_000)


def test_many_renamed_files_are_compared_in_linear_time() -> None:
    def compare(sources: str) -> None:
        names = sources.split()
        before = {f"old/{name}": name for name in names}
        _changes(before, {f"new/{name}": name for name in reversed(names)})

    assert is_linear(compare, lambda count: " ".join(map(str, range(count))), small=500)
