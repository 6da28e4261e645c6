from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookup_tool.text import (
    STOP_WORDS,
    approximate_tokens,
    atoms,
    fold,
    surface_terms,
    terms,
    visible,
    word_terms,
)

PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        pytest.param("Plain Text", "Plain Text", id="nothing to strip"),
        pytest.param("re\u00adset", "reset", id="soft hyphen"),
        pytest.param("a\u200bb\u200dc\u2060d", "abcd", id="zero width"),
        pytest.param("\ufeffstart", "start", id="byte-order mark"),
        pytest.param("\u202eleft\u202c", "left", id="marks of direction"),
        pytest.param("\uff36\uff30\uff2e \ufb01le", "VPN file", id="width and ligature"),
        pytest.param("a  b\n", "a  b\n", id="white space stays"),
    ],
)
def test_visible_strips_what_nobody_sees(written: str, seen: str) -> None:
    assert visible(written) == seen


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        pytest.param("Annual LEAVE", "annual leave", id="case"),
        pytest.param("Straße", "strasse", id="sharp s"),
        pytest.param("\uff36\uff30\uff2e", "vpn", id="full width"),
        pytest.param("ｶﾞｽ", "ガス", id="half width katakana"),
        pytest.param("cafe\u0301", "caf\u00e9", id="combining accent"),
        pytest.param("cafe\u200b\u0301", "caf\u00e9", id="accent behind a zero-width space"),
        pytest.param(" a\t\u00a0b\n\nc ", "a b c", id="white space"),
        pytest.param("\u200b", "", id="nothing visible"),
    ],
)
def test_fold_makes_spellings_equal(written: str, folded: str) -> None:
    assert fold(written) == folded


@PROPERTY
@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("--- *** ...", [], id="punctuation"),
        pytest.param("How do I reset it?", ["how", "do", "i", "reset", "it"], id="words"),
        pytest.param("C++ and C#", ["c++", "and", "c#"], id="languages"),
        pytest.param("C+++", ["c++"], id="third plus is no part"),
        pytest.param(".NET core", [".net", "core"], id="leading dot"),
        pytest.param("node.js", ["node", "js"], id="dot inside"),
        pytest.param("from v1.2.3 at 12:30", ["from", "1.2.3", "at", "12:30"], id="versions"),
        pytest.param("3.5%", ["3.5"], id="decimal"),
        pytest.param("the manager's pay", ["the", "manager", "pay"], id="possessive"),
        pytest.param("the manager\u2019s pay", ["the", "manager", "pay"], id="curly possessive"),
        pytest.param("e-mail", ["e", "mail"], id="hyphen"),
        pytest.param("用vpn连接", ["用", "vpn", "连", "接"], id="word inside Chinese"),
        pytest.param("안녕", ["안", "녕"], id="Hangul"),
        pytest.param("😀 → €5", ["😀", "→", "€", "5"], id="symbols"),
        pytest.param("$5 < $6", ["5", "6"], id="marks of mathematics are none"),
        pytest.param("re\u00adset", ["reset"], id="soft hyphen"),
    ],
)
def test_atoms_are_words_characters_and_symbols(text: str, expected: list[str]) -> None:
    assert atoms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("Policies policy", ["polici", "polici"], id="stems, with repetitions"),
        pytest.param(".NET", ["net"], id="leading dot is dropped"),
        pytest.param("C++", ["c++"], id="language"),
        pytest.param("v2.0 2.0", ["2.0", "2.0"], id="version with and without v"),
        pytest.param("manager's", ["manag"], id="possessive"),
        pytest.param("连接网络", ["连接", "接网", "网络"], id="Chinese pairs"),
        pytest.param("日 本", ["日", "本"], id="single characters stay"),
        pytest.param("用vpn连接", ["用", "vpn", "连接"], id="mixed scripts"),
        pytest.param("パーティー", ["パー", "ーテ", "ティ", "ィー"], id="long vowels are Katakana"),
        pytest.param("👍 done", ["👍", "done"], id="symbol"),
    ],
)
def test_terms_are_stems_and_pairs(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_surface_terms_keep_the_written_form_beside_the_term() -> None:
    assert surface_terms("Policies for .NET v1.2 连接网") == [
        ("policies", "polici"),
        ("for", "for"),
        (".net", "net"),
        ("1.2", "1.2"),
        ("连接", "连接"),
        ("接网", "接网"),
    ]


@PROPERTY
@given(st.text())
def test_spelling_does_not_change_the_tokens(text: str) -> None:
    assert (atoms(fold(text)), terms(fold(text))) == (atoms(text), terms(text))


def test_threads_get_the_same_terms() -> None:
    text = "policies leaving managers " * 50

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(terms, [text] * 64))

    assert results == [["polici", "leav", "manag"] * 50] * 64


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("a", 1, id="one byte"),
        pytest.param("abcd", 1, id="four bytes"),
        pytest.param("abcde", 2, id="five bytes"),
        pytest.param("日本", 2, id="six bytes"),
        pytest.param("日本語文", 3, id="twelve bytes"),
        pytest.param("\ud800", 1, id="lone surrogate"),
    ],
)
def test_four_bytes_are_about_one_token(text: str, count: int) -> None:
    assert approximate_tokens(text) == count


def test_stop_words_are_folded_function_words() -> None:
    assert {fold(word) for word in STOP_WORDS} == STOP_WORDS
    assert STOP_WORDS.issuperset({"the", "is", "how", "not", "s", "t", "don"})
    assert STOP_WORDS.isdisjoint({"access", "leave", "holiday", "pay", "manager"})


@given(st.text(st.characters(codec="utf-8"), max_size=60))
@PROPERTY
def test_the_terms_of_a_text_are_those_of_its_words(text: str) -> None:
    words = fold(text).split(" ")

    assert [term for word in words for term in word_terms(word)] == terms(text)


@pytest.mark.parametrize(
    "text", ["U.S. it's P.T.O., v1.2.3 12:30 C++ R&D .NET 's", "a\x1c b\x0b\tC"]
)
def test_words_are_cut_alike_alone_and_in_a_text(text: str) -> None:
    assert [term for word in fold(text).split(" ") for term in word_terms(word)] == terms(text)
