"""Queries: what an embedder does not know, and what a keyword does about it.

Families: exact names (versions, codes, addresses, acronyms); misspellings; languages that the
default model does not know; spellings that read the same, in both searches. A keyword is a reason
and a lead, never evidence.
"""

# ruff: noqa: RUF001 - look-alikes and odd widths are what is tested

import pytest
from case_builders import ROOT, AskFiles, best, entry


@pytest.mark.parametrize(
    "text",
    ["Faults are mended, start is faster.", "In 1.2.{n} faults are mended, start is faster."],
    ids=["same text", "own number"],
)
@pytest.mark.parametrize(
    "query",
    [
        pytest.param("what changed in version 1.2.3", id="C-17-sentence"),
        pytest.param("v1.2.3", id="C-17-version"),
        pytest.param("release notes 1.2.3", id="title words"),
        pytest.param("1.2.3?", id="number alone"),
    ],
)
def test_a_version_number_finds_its_own_release(ask_files: AskFiles, query: str, text: str) -> None:
    files = {
        f"notes-{n}.md": entry(f"Release notes 1.2.{n}", "notes", f"1.2.{n}", text.format(n=n))
        for n in range(2, 10)
    }

    (result,) = ask_files(files, query)

    assert best(result) == "notes-3.md"
    reasons = result.evidence_blocks[0].hit_reasons
    assert {"keyword:1.2.3", "title:Release notes 1.2.3"} & set(reasons)


@pytest.mark.parametrize(
    ("codes", "query", "code"),
    [
        pytest.param(("E46", "E47", "E470"), "error E47 on the display", "E47", id="error code"),
        pytest.param(("X-100", "X-200", "X-2000"), "battery of the X-200", "X-200", id="product"),
        pytest.param(
            ("10.0.0.1", "10.0.0.2", "10.0.0.20"), "what runs on 10.0.0.2", "10.0.0.2", id="address"
        ),
        pytest.param(("KB-2023-7", "KB-2024-7"), "see KB-2024-7", "KB-2024-7", id="ticket"),
    ],
)
def test_a_code_finds_its_own_entry(
    ask_files: AskFiles, codes: tuple[str, ...], query: str, code: str
) -> None:
    files = {
        f"{name}.md": entry(f"About {name}", "codes", name, f"Entry {name}: error, battery, runs.")
        for name in codes
    }

    (result,) = ask_files(files, query)

    assert best(result) == f"{code}.md"
    assert f"keyword:{code}" in result.evidence_blocks[0].hit_reasons


SHAFT = entry("Power take-off shaft", "machines", "shaft", "Grease it weekly.")


@pytest.mark.parametrize(
    ("title", "keyword", "text", "query"),
    [
        pytest.param("Paid time off", "PTO", "Twenty-eight days per year.", "PTO rules", id="C-19"),
        pytest.param(
            "Monitoring", "SLO", "Pages load within two seconds.", "What is our SLO?", id="question"
        ),
    ],
)
def test_a_house_acronym_leads_to_evidence(
    ask_files: AskFiles, title: str, keyword: str, text: str, query: str
) -> None:
    (result,) = ask_files({"own.md": entry(title, "hr", keyword, text), "shaft.md": SHAFT}, query)

    assert result.retrieval_trace.hints.categories == ("hr",)
    assert best(result) == "own.md"
    assert f"keyword:{keyword}" in result.evidence_blocks[0].hit_reasons


@pytest.mark.parametrize(
    "body",
    ["", "\n\n", "---", "<!-- nothing yet -->"],
    ids=["C-19-empty", "blank", "rule", "comment"],
)
def test_a_hint_alone_never_makes_evidence(ask_files: AskFiles, body: str) -> None:
    files = {"pto.md": entry("Paid time off", "hr", "PTO, vacation", body), "shaft.md": SHAFT}

    (result,) = ask_files(files, "PTO rules")

    assert result.retrieval_trace.hints.keywords == ("PTO",)
    assert "pto.md" not in {block.source for block in result.evidence_blocks}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("refnud polcy", id="C-24"),
        pytest.param("refudn plicy", id="letters swapped"),
        pytest.param("reffund pollicy", id="letters doubled"),
        pytest.param("r e f u n d  p o l i c y", id="letters apart"),
        pytest.param("refundpolicy", id="words together"),
        pytest.param("rеfund pоlicy", id="Cyrillic letters that look alike"),
    ],
)
def test_a_misspelt_query_finds_the_right_entry_or_asks_for_other_words(
    ask_files: AskFiles, query: str
) -> None:
    files = {
        "r.md": entry("Refund policy", "billing", "refund", "Refunds take five days."),
        "p.md": "# Policy on pets\nDogs stay outside.\n",
    }

    (result,) = ask_files(files, query)

    assert best(result) in {"r.md", None}
    if not result.found:
        assert "other words" in result.message


@pytest.mark.parametrize(
    ("right", "other", "query"),
    [
        pytest.param(
            ("退款政策", "退款", "五个工作日内退回原卡。"),
            ("天气预报", "天气", "明天有雨。"),
            "如何退款",
            id="C-31",
        ),
        pytest.param(
            ("有給休暇", "有給休暇", "年に二十日あります。"),
            ("天気予報", "天気", "明日は雨です。"),
            "有給休暇は何日",
            id="Japanese",
        ),
        pytest.param(
            ("연차 휴가", "연차", "일 년에 이십 일입니다."),
            ("날씨", "날씨", "내일은 비가 옵니다."),
            "연차는 며칠인가요",
            id="Korean",
        ),
        pytest.param(
            ("Отпуск", "отпуск", "Двадцать восемь дней в году."),
            ("Погода", "погода", "Завтра будет дождь."),
            "сколько дней отпуск",
            id="Russian",
        ),
        pytest.param(
            ("إجازة", "إجازة", "ثمانية وعشرون يوما في السنة."),
            ("الطقس", "الطقس", "غدا ممطر."),
            "كم يوم إجازة",
            id="Arabic",
        ),
    ],
)
def test_a_keyword_leads_where_the_model_does_not_know_the_language(
    ask_files: AskFiles, right: tuple[str, str, str], other: tuple[str, str, str], query: str
) -> None:
    title, keyword, text = right
    files = {
        "r.md": entry(title, "right", keyword, text),
        "w.md": entry(other[0], "misc", *other[1:]),
    }

    (result,) = ask_files(files, query)

    assert result.retrieval_trace.hints.keywords == (keyword,)
    assert result.retrieval_trace.attempts[0].filter == {"category": "right"}
    assert best(result) == "r.md"
    assert f"keyword:{keyword}" in result.evidence_blocks[0].hit_reasons


def test_c_31_the_readme_names_the_limits_of_the_default_model() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert "The default embedder knows English best." in readme
    assert "for languages other than\nEnglish, take a multilingual model" in readme


@pytest.mark.parametrize(
    ("query", "plain"),
    [
        pytest.param("２０２４", "2024", id="full-width digits"),
        pytest.param("ｒｅｆｕｎｄｓ", "refunds", id="full-width letters"),
        pytest.param("reﬁne ﬁle", "refine file", id="ligatures"),
        pytest.param("re\u200bfunds", "refunds", id="zero width"),
        pytest.param("cafe\u0301", "caf\u00e9", id="decomposed"),
    ],
)
def test_a_spelling_makes_no_difference_to_either_search(
    ask_files: AskFiles, query: str, plain: str
) -> None:
    """The second search has the raw query; what is embedded of it is normalized all the same."""
    files = {
        "a.md": entry("Closing", "finance", "2024, refunds, refine file, café", "Close in 2024."),
        "b.md": entry("Refunds", "billing", "money", "Refunds take five days; refine the file."),
    }

    odd, even = ask_files(files, query, plain)

    assert [a.query for a in odd.retrieval_trace.attempts][1:] in ([], [query])
    assert [a.top_similarity for a in odd.retrieval_trace.attempts] == [
        a.top_similarity for a in even.retrieval_trace.attempts
    ]
    assert [(b.source, b.score) for b in odd.evidence_blocks] == [
        (b.source, b.score) for b in even.evidence_blocks
    ]
