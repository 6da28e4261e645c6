"""What is in files as they lie in real folders.

Families: encodings, byte-order marks and line ends; sizes from nothing to megabytes. Every file
that has words is found, whatever its bytes, and what had to be guessed is in the load report.
"""

import pytest
from case_builders import DEFAULT, PAINT, Ask, Build, sources, warned

from lookup_tool import LookupResult


def comparable(result: LookupResult) -> dict[str, object]:
    """Return everything of a result but the clock, the id and the version."""
    trace = {"invocation_id", "duration_ms", "timings", "knowledge_version"}
    fields = result.model_dump(exclude={"retrieval_trace": trace})
    fields["retrievalTrace"]["attempts"] = len(result.retrieval_trace.attempts)
    return fields


ALARM = "---\ntitle: Alarm codes\ncategory: security\nkeywords: [alarm]\n---\n{}\n"
MARCH = "Codes are changed in March."


def test_b_18_a_byte_order_mark_hides_no_metadata(build_docs: Build, ask: Ask) -> None:
    knowledge = build_docs({"a.md": b"\xef\xbb\xbf" + ALARM.format(MARCH).encode()}, DEFAULT)

    entry = knowledge.read("a.md")
    hints = ask(knowledge, "alarm").retrieval_trace.hints

    assert (entry.title, entry.category, hints.keywords) == ("Alarm codes", "security", ("alarm",))
    assert [passage.text for passage in entry.passages] == [MARCH]
    assert [block.content for block in ask(knowledge, "alarm codes March").evidence_blocks] == [
        MARCH
    ]


MARKS = {
    "twice": "\ufeff\ufeff{}".encode(),
    "blank line": "\ufeff\n{}".encode(),
    "UTF-16-LE": b"\xff\xfe",
    "UTF-16-BE": b"\xfe\xff",
    "UTF-32-LE": b"\xff\xfe\x00\x00",
    "UTF-32-BE": b"\x00\x00\xfe\xff",
}


@pytest.mark.parametrize("kind", MARKS)
def test_a_marked_file_gives_the_plain_file_s_answer(
    build_docs: Build, ask: Ask, kind: str
) -> None:
    text = ALARM.format("Zugang für Zoë 文.\n\n# Part\ufeff two\n\nOf a joined \ufefffile.")
    raw = MARKS[kind]
    if kind.startswith("UTF"):
        content = raw + text.encode(kind.lower())
    else:
        content = raw.decode().format(text).encode()
    knowledge = build_docs({"a.md": content})

    entry = knowledge.read("a.md")

    assert (entry.title, entry.category) == ("Alarm codes", "security")
    assert ask(knowledge, "alarm").retrieval_trace.hints.keywords == ("alarm",)
    assert [(p.breadcrumb[1:], p.text) for p in entry.passages] == [
        ((), "Zugang für Zoë 文."),
        (("Part two",), "Of a joined file."),
    ]


def test_b_19_a_windows_file_stops_no_other(build_docs: Build, ask: Ask) -> None:
    cafe = (
        b"---\ntitle: Caf\xe9 opening hours\n---\nThe caf\xe9 opens at nine \x96 except Monday.\n"
    )
    knowledge = build_docs(
        {"cafe.md": cafe, "gym.md": "# Gym\nThe gym is open all night.\n"}, DEFAULT
    )

    block = ask(knowledge, "opening hours nine").evidence_blocks[0]

    assert "gym.md" in sources(ask(knowledge, "gym"))
    assert (block.title, block.content) == (
        "Café opening hours",
        "The café opens at nine \u2013 except Monday.",
    )
    assert warned(knowledge) == {"cafe.md"}


@pytest.mark.parametrize(
    "raw",
    [
        *(
            pytest.param(f"# Hours\n{text}\n".encode(encoding), id=encoding)
            for encoding, text in {
                "latin-1": "Größe", "cp1250": "Žluťoučký kůň", "cp1251": "Часы работы",
                "koi8-r": "Часы работы", "iso8859-7": "Ώρες", "mac-roman": "Größe",
                "cp437": "Größe", "shift_jis": "営業時間", "euc-jp": "営業時間",
                "gb18030": "营业时间", "big5": "營業時間", "euc-kr": "영업시간",
                "cp1256": "ساعات", "tis-620": "เวลา",
            }.items()
        ),
        pytest.param("# Hours\nGröße".encode()[:-2] + b"\xc3", id="cut in a character"),
        pytest.param("Größe ".encode() + "Größe".encode("cp1252"), id="two encodings"),
        pytest.param(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xfe\x00", id="a picture"),
        pytest.param(bytes(range(256)), id="every byte"),
    ],
)  # fmt: skip
def test_no_encoding_stops_the_load_or_goes_unreported(
    build_docs: Build, ask: Ask, raw: bytes
) -> None:
    knowledge = build_docs({"a.md": raw, "ok.md": PAINT})

    assert sources(ask(knowledge, "paint room 5")) == ["ok.md"]
    assert warned(knowledge) == {"a.md"}


PRINTER = "---\ntitle: Printer queue\ncategory: it\nkeywords: [printer, queue]\n---\n{}"
STUCK = "# Stuck job\nRestart the spooler.\n\n## Later\n\n| a | b |\n|---|---|\n| queue | 2 |\n"


@pytest.mark.parametrize("end", [pytest.param("\r\n", id="B-21"), pytest.param("\r", id="old Mac")])
@pytest.mark.parametrize("query", ["printer queue", "restart the spooler"])
def test_line_ends_change_nothing(build_docs: Build, ask: Ask, query: str, end: str) -> None:
    text = PRINTER.format(STUCK)
    twin = comparable(ask(build_docs({"a.md": text}), query))

    result = ask(build_docs({"a.md": text.replace("\n", end)}), query)

    assert result.found
    assert comparable(result) == twin
    assert "\\r" not in result.model_dump_json()


@pytest.mark.parametrize("end", ["\r\r\n", "\r\n\n"])
def test_doubled_line_ends_leave_metadata_and_text(build_docs: Build, end: str) -> None:
    knowledge = build_docs({"a.md": PRINTER.format("Restart the spooler.\n").replace("\n", end)})

    entry = knowledge.read("a.md")

    assert (entry.title, entry.category) == ("Printer queue", "it")
    assert [passage.text for passage in entry.passages] == ["Restart the spooler."]


def test_b_47_files_without_text_are_never_evidence(build_docs: Build, ask: Ask) -> None:
    files = {
        "empty.md": "",
        "blank.md": "  \n\t\n\n",
        "only.md": "---\ntitle: Only metadata\nkeywords: [onlymeta]\n---\n",
        "ok.md": "# Keys\nKeys hang behind the door.\n",
    }
    knowledge = build_docs(files, DEFAULT)

    assert sources(ask(knowledge, "keys")) == ["ok.md"]
    only = ask(knowledge, "onlymeta")
    assert (only.retrieval_trace.hints.keywords, sources(only)) == (("onlymeta",), [])


@pytest.mark.parametrize(
    "text",
    ["\ufeff", "\u200b", "\x00\x00", "***\n\n---", "```\n```", "\n" * 999, "|\n|-|", "#",
     "---\n---",
     "---\ntitle: Keys hang\n---\n\n***\n", "...", "\\\n", "&nbsp;", "- \n- \n"],
)  # fmt: skip
def test_a_file_without_words_is_no_evidence(build_docs: Build, ask: Ask, text: str) -> None:
    knowledge = build_docs({"a.md": text, "ok.md": "# Keys\nKeys hang behind the door."})

    result = ask(knowledge, "keys hang behind the door")

    assert sources(result) == ["ok.md"]
    assert knowledge.report.entries == 2


def test_a_folder_of_files_without_words_answers_nothing(build_docs: Build, ask: Ask) -> None:
    result = ask(build_docs({"a.md": "", "b.md": "---\ntitle: T\n---\n"}), "anything")

    assert (result.evidence_status, sources(result)) == ("no_evidence", [])


def test_b_48_a_large_file_is_indexed_whole(build_docs: Build, ask: Ask) -> None:
    filler = [f"Part {n} of the handbook speaks of nothing else." for n in range(60_000)]
    filler[40_000] = "The turbine torque is 41 Nm."
    files = {"handbook.md": "\n\n".join(filler), "small.md": "Torque wrenches hang left"}
    assert len(files["handbook.md"]) > 3_000_000 - 100_000

    knowledge = build_docs(files, DEFAULT)

    texts = [passage.text for passage in knowledge.read("handbook.md").passages]
    assert [filler[40_000] in text for text in texts].count(True) == 1
    result = ask(knowledge, "the turbine torque is 41 Nm")
    content = {block.source: block.content for block in result.evidence_blocks}
    assert filler[40_000] in content["handbook.md"]
    assert warned(knowledge) == set()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{} " + "word " * 40_000, id="one line, at its start"),
        pytest.param("word " * 40_000 + "{}", id="one line, at its end"),
        pytest.param("# One\n\ntext\n\n" * 3_000 + "# Last\n\n{}", id="many headings"),
        pytest.param("| a |\n|---|\n" + "| b |\n" * 10_000 + "\n{}", id="long table"),
        pytest.param("```\n" + "code\n" * 20_000 + "```\n\n{}", id="long code"),
        pytest.param("---\ntitle: T\nx: " + "y" * 100_000 + "\n---\n{}", id="long metadata"),
    ],
)
def test_a_long_file_is_indexed_whatever_its_shape(build_docs: Build, text: str) -> None:
    knowledge = build_docs({"a.md": text.format("The turbine torque is 41 Nm.")})

    passages = knowledge.read("a.md").passages

    assert any("The turbine torque is 41 Nm." in passage.text for passage in passages)
