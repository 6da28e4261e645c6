from collections.abc import Sequence
from typing import Any

import pytest
from embedders import HashEmbedder
from langchain_core.documents import Document

from lookup_tool import KnowledgeBase
from lookup_tool.documents.phrases import MAX_PHRASE, phrase_key, phrases_of
from lookup_tool.retrieval.hints import (
    CONCENTRATION,
    MAX_TITLES,
    TELLING,
    derive_category,
    longest_first,
    ngrams,
)
from lookup_tool.schema import Entry, HintMatch, Phrase, QueryHints
from lookup_tool.text import atoms


def knowledge(*entries: dict[str, Any]) -> KnowledgeBase:
    documents = [
        Document("Some text.", metadata={"source": f"{number}.md", **entry})
        for number, entry in enumerate(entries)
    ]
    return KnowledgeBase.from_documents(documents, embedder=HashEmbedder())


def stretches(query: str, longest: int = MAX_PHRASE) -> list[tuple[int, int, str]]:
    found = atoms(query)
    return ngrams(found, dict.fromkeys(found, longest))


@pytest.mark.parametrize(
    ("phrase", "query", "matches"),
    [
        pytest.param("C++", "Is C++ allowed?", True, id="plus-signs"),
        pytest.param("C", "Is C++ allowed?", False, id="c-is-not-c-plus-plus"),
        pytest.param("C++", "Is C allowed?", False, id="c-plus-plus-is-not-c"),
        pytest.param("C#", "the c# guide", True, id="sharp"),
        pytest.param("C", "the c# guide", False, id="c-is-not-c-sharp"),
        pytest.param(".NET", "Upgrade .net, please", True, id="leading-dot"),
        pytest.param("NET", "Upgrade .NET", False, id="net-is-not-dot-net"),
        pytest.param(".NET", "net salary", False, id="dot-net-is-not-net"),
        pytest.param("vpn", "用vpn连接", True, id="latin-inside-cjk"),
        pytest.param("年假", "我的年假有几天", True, id="cjk-substring"),
        pytest.param("年假", "年终假期", False, id="cjk-apart"),
        pytest.param("art", "start", False, id="inside-a-word"),
        pytest.param("art", "modern-art!", True, id="beside-punctuation"),
        pytest.param("VPN", "\uff36\uff30\uff2e access", True, id="full-width"),
        pytest.param("Straße", "STRASSE 5", True, id="case-folding"),
        pytest.param("leave", "le\u200bave", True, id="zero-width"),
        pytest.param("annual leave", "annual\n  Leave", True, id="white-space"),
        pytest.param("time-off", "time off", True, id="hyphen"),
        pytest.param("Python 3.11", "python 3.11 or newer", True, id="version"),
        pytest.param("Python 3.1", "python 3.11", False, id="version-is-one-unit"),
        pytest.param("annual leave", "leave annual", False, id="order"),
        pytest.param("annual leave", "annual paid leave", False, id="gap"),
        pytest.param("manager", "my manager's desk", True, id="possessive"),
    ],
)
def test_a_phrase_matches_whole_units_only(phrase: str, query: str, matches: bool) -> None:
    assert (phrase_key(phrase) in {key for _, _, key in stretches(query)}) is matches


@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param("How to get it", None, id="stop-words-only"),
        pytest.param("How to travel", "how to travel", id="stop-words-and-another"),
        pytest.param("---", None, id="marks-only"),
        pytest.param("", None, id="empty"),
        pytest.param(
            " ".join(["word"] * MAX_PHRASE), "word " * (MAX_PHRASE - 1) + "word", id="longest"
        ),
        pytest.param("word " * (MAX_PHRASE + 1), None, id="too-long"),
    ],
)
def test_phrases_that_say_nothing_or_too_much_are_not_matched(text: str, key: str | None) -> None:
    assert phrase_key(text) == key


def test_every_stretch_of_a_query_is_asked_for_longest_first() -> None:
    assert stretches("Paid leave now") == [
        (0, 3, "paid leave now"),
        (0, 2, "paid leave"),
        (1, 2, "leave now"),
        (0, 1, "paid"),
        (1, 1, "leave"),
        (2, 1, "now"),
    ]


def test_a_query_has_no_stretch_longer_than_a_phrase() -> None:
    lengths = {length for _, length, _ in stretches("word " * 60)}

    assert lengths == set(range(1, MAX_PHRASE + 1))


def test_only_atoms_that_begin_a_phrase_are_asked_for() -> None:
    assert ngrams(["paid", "leave", "now"], {"leave": 2}) == [
        (1, 2, "leave now"),
        (1, 1, "leave"),
    ]


def test_the_longest_phrase_wins_and_covers_its_parts() -> None:
    known = {"annual", "annual leave", "leave policy", "policy"}

    assert longest_first(stretches("annual leave policy"), known) == ["annual leave", "policy"]


def test_a_part_that_stands_elsewhere_too_is_still_picked_once() -> None:
    known = {"annual leave", "leave"}

    assert longest_first(stretches("leave or annual leave or leave"), known) == [
        "annual leave",
        "leave",
    ]


def test_an_entry_stands_for_title_keywords_aliases_and_entities() -> None:
    entry = Entry(
        "a.md", "", keywords=("Time off", "the"), aliases=("PTO",), entities=("TimeTrail",)
    )

    assert tuple(phrases_of(entry, "Annual Leave")) == (
        Phrase("annual leave", "title", "Annual Leave"),
        Phrase("time off", "keyword", "Time off"),
        Phrase("pto", "keyword", "PTO"),
        Phrase("timetrail", "entity", "TimeTrail"),
    )


def match(key: str, *categories: str | None) -> HintMatch:
    return HintMatch("keyword", key.upper(), key, categories)


@pytest.mark.parametrize(
    ("matches", "derived"),
    [
        pytest.param([], (None, ""), id="nothing-recognized"),
        pytest.param([match("pto", "hr")], ("hr", "keyword:PTO"), id="one-phrase"),
        pytest.param([match("pto", "hr", "it")], (None, ""), id="phrase-of-two-categories"),
        pytest.param([match("pto", "hr", None)], (None, ""), id="uncategorized-competes"),
        pytest.param([match("pto", None)], (None, ""), id="uncategorized-only"),
        pytest.param([match("pto", "hr"), match("vpn", "it")], (None, ""), id="contradiction"),
        pytest.param(
            [match("pto", "hr"), match("leave", "hr", "it")],
            ("hr", "keyword:PTO"),
            id="one-decides-and-the-other-allows-it",
        ),
        pytest.param(
            [match("pto", "hr", "it"), match("leave", "hr", "law")],
            (None, ""),
            id="one-in-common-and-none-decides",
        ),
        pytest.param(
            [match("pto", "hr"), match("leave", "hr")],
            ("hr", "keyword:PTO, keyword:LEAVE"),
            id="two-agree",
        ),
        pytest.param(
            [match("pto", "hr"), HintMatch("title", "PTO", "pto", ("it",))],
            (None, ""),
            id="one-phrase-of-two-kinds-is-ambiguous",
        ),
    ],
)
def test_a_category_is_derived_only_when_everything_agrees(
    matches: Sequence[HintMatch], derived: tuple[str | None, str]
) -> None:
    assert derive_category(matches, lambda _text, _category: 1.0) == derived


@pytest.mark.parametrize(
    ("matches", "shares", "derived"),
    [
        pytest.param([match("pto", "hr")], {}, ("hr", "keyword:PTO"), id="no-text-has-it"),
        pytest.param([match("pto", "hr")], {"PTO": CONCENTRATION}, ("hr", "keyword:PTO"), id="at"),
        pytest.param([match("pto", "hr")], {"PTO": CONCENTRATION - 0.01}, (None, ""), id="under"),
        pytest.param([match("pto", "hr")], {"PTO": 0.0}, (None, ""), id="elsewhere"),
        pytest.param(
            [match("pto", "hr"), match("vpn", "it")],
            {"PTO": 1.0, "VPN": 0.2},
            ("hr", "keyword:PTO"),
            id="one-that-is-everywhere-contradicts-nothing",
        ),
        pytest.param(
            [match("pto", "hr"), match("vpn", "it")],
            {"PTO": 1.0, "VPN": 1.0},
            (None, ""),
            id="two-that-decide-contradict",
        ),
        pytest.param(
            [match("pto", "hr"), match("rule", "it", "law")],
            {"PTO": 1.0},
            (None, ""),
            id="an-ambiguous-one-forbids",
        ),
        pytest.param(
            [match("pto", "hr"), match("rule", "hr", "law")],
            {"PTO": 1.0},
            ("hr", "keyword:PTO"),
            id="an-ambiguous-one-allows",
        ),
        pytest.param(
            [match("pto", "hr"), match("lunch", None)],
            {"PTO": 1.0},
            (None, ""),
            id="an-entry-without-category-competes",
        ),
    ],
)
def test_a_category_is_derived_only_when_the_texts_bear_it_out(
    matches: Sequence[HintMatch],
    shares: dict[str, float],
    derived: tuple[str | None, str],
) -> None:
    assert derive_category(matches, lambda text, _category: shares.get(text)) == derived


def test_a_phrase_is_looked_up_in_the_category_of_its_entries() -> None:
    asked: list[tuple[str, str]] = []

    def share(text: str, category: str) -> None:
        asked.append((text, category))

    derive_category([match("pto", "hr"), match("rule", "it", "law"), match("lunch", None)], share)

    assert asked == [("PTO", "hr")]


def test_hints_tell_what_was_recognized_as_its_author_wrote_it() -> None:
    with knowledge(
        {"title": "Annual Leave", "category": "HR", "keywords": ["Time Off"]},
        {"title": "Sick Leave", "category": "hr", "entities": ["TimeTrail"]},
    ) as base:
        assert base.hints("does TIMETRAIL show my time off, or ask HR?") == QueryHints(
            matches=(
                HintMatch("keyword", "Time Off", "time off", ("hr",), ("HR",)),
                HintMatch("entity", "TimeTrail", "timetrail", ("hr",), ("hr",)),
                HintMatch("category", "HR", "hr", ("hr",), ("HR",)),
            ),
            titles=("Annual Leave", "Sick Leave"),
            entry_count=2,
            category="hr",
            because="keyword:Time Off, entity:TimeTrail, category:HR",
        )


def test_a_phrase_of_an_entry_without_category_gives_no_filter() -> None:
    with knowledge({"title": "Lunch"}, {"title": "Dinner", "category": "food"}) as base:
        assert base.hints("lunch") == QueryHints(
            matches=(HintMatch("title", "Lunch", "lunch", (None,), (None,)),),
            titles=("Lunch",),
            entry_count=1,
        )


def test_nothing_recognized_is_nothing_told() -> None:
    with knowledge({"title": "Lunch", "category": "food"}) as base:
        assert base.hints("parking \ud800 ? \x00") == QueryHints()


def test_more_titles_than_are_listed_are_still_counted() -> None:
    with knowledge(
        *({"title": f"Rule {n:02}", "keywords": ["rule"]} for n in range(MAX_TITLES + 1))
    ) as base:
        hints = base.hints("which rule")

    assert (len(hints.titles), hints.entry_count) == (MAX_TITLES, MAX_TITLES + 1)


RESTRICTED = (
    {"title": "Leave", "category": "hr"},
    {"title": "Secret leave", "category": "board", "access": ["board"]},
    {"title": "Merger", "category": "merger plans", "access": ["board"]},
    {"title": "Sealed", "access": []},
)


def test_what_a_caller_may_not_see_neither_matches_nor_hides_a_shorter_phrase() -> None:
    with knowledge(*RESTRICTED) as base:
        assert base.hints("secret leave, the board, merger plans, sealed") == QueryHints(
            matches=(HintMatch("title", "Leave", "leave", ("hr",), ("hr",)),),
            titles=("Leave",),
            entry_count=1,
            category="hr",
            because="title:Leave",
        )


def test_a_group_sees_its_own_phrases_and_categories() -> None:
    with knowledge(*RESTRICTED) as base:
        hints = base.hints("secret leave, merger plans, sealed", frozenset({"board"}))

    assert hints == QueryHints(
        matches=(
            HintMatch("title", "Secret leave", "secret leave", ("board",), ("board",)),
            HintMatch(
                "category", "merger plans", "merger plans", ("merger plans",), ("merger plans",)
            ),
        ),
        titles=("Secret leave",),
        entry_count=1,
    )


def test_a_restricted_meaning_makes_a_phrase_ambiguous_only_for_those_who_see_it() -> None:
    with knowledge(
        {"title": "Bonus", "category": "pay"},
        {"title": "Bonus", "category": "board", "access": ["board"]},
    ) as base:
        derived = base.hints("bonus").category, base.hints("bonus", frozenset({"board"})).category

    assert derived == ("pay", None)


def saying(text: str, **metadata: Any) -> Document:
    return Document(text, metadata={"title": "T", **metadata})


REST = [saying(f"Other text {n}.", source=f"rest-{n}.md", category="rest") for n in range(TELLING)]


def spread(
    inside: int, outside: int, rest: Sequence[Document] = REST, **elsewhere: Any
) -> KnowledgeBase:
    """Build texts with the word `payslip`: so many in its keyword's category, so many outside."""
    documents = [
        *rest,
        saying("Other text.", source="owner.md", category="pay", keywords=["payslip"]),
        *(saying(f"Payslip {n}.", source=f"pay-{n}.md", category="pay") for n in range(inside)),
        *(saying(f"Payslip {n}.", source=f"it-{n}.md", **elsewhere) for n in range(outside)),
    ]
    return KnowledgeBase.from_documents(documents, embedder=HashEmbedder())


@pytest.mark.parametrize(
    ("inside", "outside", "elsewhere", "category"),
    [
        pytest.param(0, 0, {}, "pay", id="no-text-has-it"),
        pytest.param(7, 3, {"category": "it"}, "pay", id="concentrated"),
        pytest.param(6, 3, {"category": "it"}, None, id="spread"),
        pytest.param(6, 3, {}, None, id="spread-over-entries-without-category"),
    ],
)
def test_a_filter_needs_the_texts_behind_it(
    inside: int, outside: int, elsewhere: dict[str, Any], category: str | None
) -> None:
    with spread(inside, outside, **elsewhere) as base:
        assert base.hints("my payslip?").category == category


def test_among_few_passages_the_metadata_alone_decide_a_filter() -> None:
    with spread(1, 8, rest=(), category="it") as base:
        assert base.hints("my payslip?").category == "pay"


@pytest.mark.parametrize("category", ["it", "pay"])
def test_restricted_texts_do_not_change_the_filter_of_those_who_may_not_see_them(
    category: str,
) -> None:
    with spread(6, 3, category=category, access=["staff"]) as base:
        seen = [base.hints("payslip", frozenset(groups)).category for groups in ((), ("staff",))]

    assert seen == ["pay", None if category == "it" else "pay"]


def test_restricted_texts_do_not_make_a_filter_either() -> None:
    documents = [
        *REST,
        saying("Other.", source="owner.md", category="pay", keywords=["payslip"]),
        saying("Payslip.", source="it.md", category="it"),
        *(
            saying(f"Payslip {n}.", source=f"{n}.md", category="pay", access=["staff"])
            for n in range(9)
        ),
    ]
    with KnowledgeBase.from_documents(documents, embedder=HashEmbedder()) as base:
        seen = [base.hints("payslip", frozenset(groups)).category for groups in ((), ("staff",))]

    assert seen == [None, "pay"]
