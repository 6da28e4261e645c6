"""A query is cleaned and bounded, and the plan follows from it."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lookup_tool.config import HintsConfig, LookupConfig, QueryConfig, RetrievalConfig
from lookup_tool.schema import QueryHints
from lookup_tool.stages.transform import TransformedQuery, bound, plan, transform

INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u2060\ufe0f\ufeff"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        pytest.param("How many days?", "How many days?", id="plain"),
        pytest.param("\uff36\uff30\uff2e \uff41ccess", "VPN access", id="full width"),
        pytest.param("ﬁle", "file", id="ligature"),
        pytest.param("an\u200bnual\ufeff leave", "annual leave", id="zero width"),
        pytest.param("soft\u00adware", "software", id="soft hyphen"),
        pytest.param("  a \t\r\n b\u3000c\u00a0", "a b c", id="white space"),
        pytest.param("cafe\u0301", "caf\u00e9", id="composed"),
        pytest.param("cafe\u200b\u0301", "caf\u00e9", id="composed across a zero width"),
        pytest.param("用vpn连接", "用vpn连接", id="mixed scripts"),
    ],
)
def test_a_query_is_normalized_and_kept_as_given(query: str, text: str) -> None:
    assert transform(query, QueryConfig()) == TransformedQuery(
        raw=query, text=text, length=len(query), cut=False
    )


@pytest.mark.parametrize("query", ["", "  ", "\n\t", "\u200b\ufeff", "\u3000\u00ad"])
def test_a_query_without_visible_characters_is_not_searched(query: str) -> None:
    transformed = transform(query, QueryConfig(transform=lambda text: f"about {text}"))

    assert transformed == TransformedQuery(raw=query, text="", length=len(query), cut=False)
    assert plan(transformed, QueryHints(category="hr"), LookupConfig()) == "no_search"


@pytest.mark.parametrize(
    ("query", "kept", "cut"),
    [
        pytest.param("abcdefghijklmnopqrs", "abcdefghijklmnopqrs", False, id="under the limit"),
        pytest.param("abcdefghijklmnopqrst", "abcdefghijklmnopqrst", False, id="at the limit"),
        pytest.param("abcdefghijklmnopqrstu", "abcdefgh ... opqrstu", True, id="over the limit"),
    ],
)
def test_the_middle_of_a_long_query_is_cut_out(query: str, kept: str, cut: bool) -> None:
    assert transform(query, QueryConfig(max_length=20)) == TransformedQuery(
        raw=kept, text=kept, length=len(query), cut=cut
    )


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=80), longest=st.integers(16, 60))
def test_a_bounded_text_keeps_both_ends(text: str, longest: int) -> None:
    bounded = bound(text, longest)

    if len(text) <= longest:
        assert bounded == text
    else:
        assert len(bounded) <= longest
        assert any(
            bounded[place : place + 5] == " ... "
            and text.startswith(bounded[:place])
            and text.endswith(bounded[place + 5 :])
            for place in range(len(bounded))
        )


def test_a_bounded_text_keeps_whole_words() -> None:
    assert bound("where is the key of the blue bicycle shed", 25) == "where is ... shed"


def test_normalization_does_not_lengthen_a_query_over_the_limit() -> None:
    transformed = transform("\ufdfa" * 20, QueryConfig(max_length=20))  # 18 letters in one

    assert len(transformed.text) <= 20


@settings(max_examples=100, deadline=None)
@given(query=st.text(max_size=60))
@example("\u00b4 e\u0301\u200b")
def test_what_is_searched_is_single_spaced_composed_and_visible(query: str) -> None:
    text = transform(query, QueryConfig()).text

    assert text == " ".join(text.split())
    assert unicodedata.is_normalized("NFKC", text)
    assert not set(text) & set(INVISIBLE)


def test_half_of_a_broken_emoji_is_replaced() -> None:
    assert transform("smile \ud83d!", QueryConfig()) == TransformedQuery(
        raw="smile ?!", text="smile ?!", length=8, cut=False
    )


def test_a_transform_gets_the_normalized_query_and_its_answer_is_cleaned() -> None:
    seen: list[str] = []

    def rewrite(text: str) -> str:
        seen.append(text)
        return f" {text}\n in  short "

    transformed = transform("  the\u200b \uff36\uff30\uff2e", QueryConfig(transform=rewrite))

    assert seen == ["the VPN"]
    assert (transformed.raw, transformed.text) == (
        "  the\u200b \uff36\uff30\uff2e",
        "the VPN in short",
    )


def test_the_answer_of_a_transform_is_bounded() -> None:
    config = QueryConfig(max_length=20, transform=lambda text: text * 10)

    assert transform("abcdefgh", config).text == "abcdefgh ... bcdefgh"


@pytest.mark.parametrize(
    ("text", "category", "enabled", "expected"),
    [
        pytest.param("leave", "hr", True, "category_filter", id="a category"),
        pytest.param("leave", None, True, "no_filter", id="no category"),
        pytest.param("", "hr", True, "no_search", id="blank"),
        pytest.param("leave", "hr", False, "no_search", id="switched off"),
    ],
)
def test_the_plan_follows_from_query_hints_and_settings(
    text: str, category: str | None, enabled: bool, expected: str
) -> None:
    query = TransformedQuery(raw=text, text=text, length=len(text), cut=False)
    config = LookupConfig(retrieval=RetrievalConfig(enabled=enabled))

    assert plan(query, QueryHints(category=category), config) == expected


def test_a_category_filters_nothing_where_filters_are_switched_off() -> None:
    query = TransformedQuery(raw="leave", text="leave", length=5, cut=False)
    config = LookupConfig(hints=HintsConfig(filter=False))

    assert plan(query, QueryHints(category="hr"), config) == "no_filter"
