"""What a packed text delivers: by its blocks, where they show the passage that was found."""

import pytest
from stages_builders import block, passage, result

from lookup_tool.config import PackConfig
from lookup_tool.contracts import ContextPack, IncludedSource
from lookup_tool.evaluation.delivery import PackedText, rank_of, read_pack, shows
from lookup_tool.evaluation.peers import fill_budget
from lookup_tool.stages.pack import CUT, element
from lookup_tool.text import approximate_tokens

LONG = "The spare key for the valve cabinet hangs behind the green fire blanket."


@pytest.mark.parametrize(
    ("content", "passage_text", "shown"),
    [
        pytest.param(LONG, LONG, True, id="whole"),
        pytest.param(f"Before.\n\n{LONG}\n\nAfter.", LONG, True, id="among others"),
        pytest.param("The spare key for the valve cabinet hangs", LONG, True, id="beginning"),
        pytest.param("cabinet hangs behind the green fire blanket.", LONG, False, id="seven words"),
        pytest.param("valve cabinet hangs behind the green fire blanket.", LONG, True, id="eight"),
        pytest.param("The key hangs behind the blanket.", LONG, False, id="the same words"),
        pytest.param("Press the button.", "Press the button!", True, id="a short one"),
        pytest.param("Press the", "Press the button!", False, id="a part of a short one"),
        pytest.param("No &lt;evidence> here.", "No <evidence> here.", True, id="escaped"),
        pytest.param(
            "第三十二条 承包人应得的承包收益", "承包人应得的承包收益", True, id="unspaced"
        ),
        pytest.param("", LONG, False, id="nothing"),
    ],
)
def test_a_content_shows_a_passage_whole_or_eight_terms_of_it(
    content: str, passage_text: str, shown: bool
) -> None:
    assert shows(content, passage_text) is shown


def test_a_block_delivers_its_section_and_those_with_its_text() -> None:
    blocks = [block("a#x", duplicates=("c",)), block("b", duplicates=("d",)), block("left-out")]
    pack = ContextPack(
        text=f"{element(blocks[0], LONG)}\n\n{element(blocks[1], f'Before the key.{CUT}')}",
        budget=100,
        used=7,
        included=(
            IncludedSource(source="a#x", truncated=False),
            IncludedSource(source="b", truncated=True),
        ),
    )
    best = {"a#x": frozenset({"Something else.", LONG}), "b": frozenset({LONG})}

    text = read_pack(result(*blocks, context_pack=pack), best, {"a#x": "a", "b": "b", "c": "c"})

    assert text == PackedText(
        sections=(frozenset({"a#x", "c"}), frozenset()),  # of b, what was found is cut away
        entries=(frozenset({"a", "c"}), frozenset()),
        used=7,
    )


@pytest.mark.parametrize(
    ("expected", "rank"),
    [({"c"}, 1), ({"b", "d"}, 2), ({"d"}, 3), ({"e"}, None), (set[str](), None)],
)
def test_the_rank_is_that_of_the_first_block_with_an_expected_source(
    expected: set[str], rank: int | None
) -> None:
    blocks = [frozenset({"a", "c"}), frozenset({"b"}), frozenset({"d", "c"})]

    assert rank_of(expected, blocks) == rank


PASSAGES = [
    passage("a.md#x", text="One two three."),
    passage("b.md", text="A row.", lead="| head |\n"),
    passage("a.md#y", text="Four five six."),
]
TEXT = "\n\n".join(
    [
        element(block("a.md#x", hit_reasons=("vector", "lexical")), "One two three."),
        element(block("b.md", hit_reasons=("vector", "lexical")), "| head |\nA row."),
        element(block("a.md#y", hit_reasons=("vector", "lexical")), "Four five six."),
    ]
)


@pytest.mark.parametrize(
    ("budget", "sections"),
    [
        pytest.param(len(TEXT), ["a.md#x", "b.md", "a.md#y"], id="all"),
        pytest.param(len(TEXT) - 1, ["a.md#x", "b.md"], id="the last is left out whole"),
        pytest.param(1, [], id="none"),
    ],
)
def test_passages_fill_a_budget_with_the_headers_of_blocks(
    budget: int, sections: list[str]
) -> None:
    text = fill_budget("rrf", PASSAGES, PackConfig(budget=budget, unit="characters"))

    shown = "\n\n".join(TEXT.split("\n\n")[: len(sections)])
    assert text == PackedText(
        sections=tuple(frozenset({source}) for source in sections),
        entries=tuple(frozenset({source.partition("#")[0]}) for source in sections),
        used=len(shown),
    )


def test_what_does_not_fit_ends_the_text_even_if_a_later_passage_would() -> None:
    long_second = [PASSAGES[0], passage("long.md", text="word " * 100), PASSAGES[2]]

    text = fill_budget("bm25", long_second, PackConfig(budget=len(TEXT), unit="characters"))

    assert text.sections == (frozenset({"a.md#x"}),)


def test_tokens_are_counted_as_configured() -> None:
    def words(text: str) -> int:
        return len(text.split())

    text = element(block("a.md#x"), "One two three.")
    counted = fill_budget("dense", PASSAGES, PackConfig(budget=words(text), count_tokens=words))
    by_default = fill_budget("dense", PASSAGES, PackConfig(budget=approximate_tokens(text)))

    assert (counted.used, len(counted.sections)) == (words(text), 1)
    assert (by_default.used, len(by_default.sections)) == (approximate_tokens(text), 1)
