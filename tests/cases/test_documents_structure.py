"""Structure of the text: headings, code, tables, components, titles.

Families: what only looks like a heading; headings written in other ways, or with marks that are not
for readers; code and tables that must stay whole or keep their header; components of MDX; titles
and keywords in any script; one title in several entries. Breadcrumbs say what a reader sees, and no
cut takes the meaning away.
"""

from collections.abc import Mapping

import pytest
from case_builders import DEFAULT, HASH, Ask, Build
from embedders import TableEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from lookup_tool import KnowledgeBase, LookupConfig, LookupResult, build_lookup_graph
from lookup_tool.config import PassageConfig, RetrievalConfig

SMALL = LookupConfig(passages=PassageConfig(max_tokens=64, min_tokens=8))
ONE = LookupConfig(retrieval=RetrievalConfig(candidates=1, lexical_candidates=0))


@pytest.fixture
def build(build: Build) -> Build:
    """Build knowledge bases from texts, without a model unless a test names one."""

    def from_texts(
        files: Mapping[str, str],
        embedder: str | Embeddings = HASH,
        config: LookupConfig | None = None,
    ) -> KnowledgeBase:
        return build(files, embedder, config)

    return from_texts


def places(result: LookupResult) -> list[tuple[str, tuple[str, ...]]]:
    return [(block.source, block.breadcrumb) for block in result.evidence_blocks]


def test_b_30_comments_in_code_are_no_headings(build: Build, ask: Ask) -> None:
    code = "```bash\n# weekly job\nrsync -a /data /backup\n```"
    text = f"# Backup\n\n{code}\n\n~~~py\n# not a title\n~~~\n\nRestores take an hour.\n"
    knowledge = build({"a.md": text}, DEFAULT)

    (block,) = ask(knowledge, "restores take an hour").evidence_blocks

    assert (block.breadcrumb, code in block.content) == (("Backup",), True)
    assert "Restores take an hour." in block.content


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("````md\n```\n# a\n```\n# b\n````", id="longer fence around a fence"),
        pytest.param("   ```\n# a\n   ```", id="indented fence"),
        pytest.param("``` {.sh #id}\n# a\n```", id="attributes on the fence"),
        pytest.param("~~~~\n# a\n~~~\n# b\n~~~~", id="longer tildes"),
        pytest.param("- item\n\n  ```\n  # a\n  ```", id="fence in a list"),
        pytest.param("> ```\n> # a\n> ```", id="fence in a quotation"),
        pytest.param("<pre>\n# a\n\n# b\n</pre>", id="pre"),
        pytest.param("<script>\n\n# a\n\n</script>", id="script"),
        pytest.param("<!--\n\n# a\n\n-->", id="comment over paragraphs"),
        pytest.param("```\n\n# a\n\n\n## b\n\n```", id="blank lines in the code"),
        pytest.param("```\nHead\n===\n\nSub\n---\n```", id="underlined in code"),
        pytest.param("```\r\n# a\r\n```", id="Windows line ends"),
    ],
)
def test_nothing_in_code_is_a_heading(build: Build, ask: Ask, code: str) -> None:
    knowledge = build({"a.md": f"# Backup\n\n{code}\n\nRestores take an hour."})

    (block,) = ask(knowledge, "backup restores take an hour").evidence_blocks

    assert (block.source, block.breadcrumb) == ("a.md", ("Backup",))
    assert block.content == f"{code}\n\nRestores take an hour.".replace("\r\n", "\n").lstrip("\n")


def test_a_fence_that_is_never_closed_holds_the_rest(build: Build) -> None:
    knowledge = build({"a.md": "# Backup\n\nText.\n\n```sh\n# a\n## b\nc"})

    assert [p.breadcrumb for p in knowledge.read("a.md").passages] == [("Backup",)]


def test_code_between_long_texts_stays_whole(build: Build) -> None:
    code = "```sh\n" + "\n".join(f"# step {n}\nrun {n}" for n in range(8)) + "\n```"
    long = "Some words about backups stand here. " * 6
    knowledge = build({"a.md": f"# Backup\n\n{long}\n\n{code}\n\n{long}"}, config=SMALL)

    passages = knowledge.read("a.md").passages

    assert len(passages) > 2
    assert sum(code in passage.text for passage in passages) == 1


def test_b_32_underlined_headings_are_headings(build: Build, ask: Ask) -> None:
    text = "Key handover\n============\n\nAt the desk.\n\nDeposit\n-------\n\nTwenty coins.\n"

    (block, *_) = ask(build({"a.md": text}, DEFAULT), "deposit").evidence_blocks

    assert (block.title, block.breadcrumb, block.content) == (
        "Key handover",
        ("Key handover", "Deposit"),
        "Twenty coins.",
    )


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("Deposit\n-", id="one hyphen"),
        pytest.param("Deposit\n---", id="like a fence"),
        pytest.param("   Deposit\n   ---   ", id="indented, spaces behind"),
        pytest.param("*Deposit*\n---", id="marks"),
        pytest.param("## Deposit ##", id="closed"),
        pytest.param("  ##   Deposit", id="indented"),
        pytest.param("##\tDeposit", id="tab"),
        pytest.param("###### Deposit", id="deepest"),
        pytest.param("Deposit\r\n---\r\n", id="Windows line ends"),
    ],
)
@pytest.mark.parametrize("above", ["", "---\ntitle: Keys\n---\n"], ids=["plain", "metadata"])
def test_a_heading_may_be_written_in_any_way(build: Build, above: str, head: str) -> None:
    knowledge = build({"a.md": f"{above}Keys\n===\n\nAt the desk.\n\n{head}\n\nTwenty coins."})

    passages = knowledge.read("a.md").passages

    assert [(p.breadcrumb, p.text) for p in passages] == [
        (("Keys",), "At the desk."),
        (("Keys", "Deposit"), "Twenty coins."),
    ]


def test_an_underlined_heading_right_under_the_metadata_is_no_second_block(build: Build) -> None:
    knowledge = build({"a.md": "---\ntitle: Keys\n---\nDeposit\n---\nTwenty coins."})

    assert [(p.breadcrumb, p.text) for p in knowledge.read("a.md").passages] == [
        (("Keys", "Deposit"), "Twenty coins.")
    ]


def test_b_34_a_heading_says_what_a_reader_sees(build: Build, ask: Ask) -> None:
    text = (
        "# Use `sync()` and the [guide](http://example.invalid/x) {#use-sync}\n\n"
        "Call it once per hour.\n"
    )

    (block,) = ask(build({"a.md": text}, DEFAULT), "sync once per hour").evidence_blocks

    assert block.title == "Use sync() and the guide"


@pytest.mark.parametrize(
    ("head", "seen"),
    [
        ("Use **it** and _that_", "Use it and that"),
        ("Use ``a`b``", "Use a`b"),
        ("Use ![the icon](x.png)", "Use the icon"),
        ("[Use **it**](x.md 'title')", "Use it"),
        ("Use <https://example.invalid>", "Use https://example.invalid"),
        ('<a id="x"></a>Use', "Use"),
        ("Use <kbd>F1</kbd>", "Use F1"),
        ("Use &amp; go", "Use & go"),
        (r"Use \*it\*", "Use *it*"),
        ("Use C# or F#", "Use C# or F#"),
        ("Use {braces} here", "Use {braces} here"),
        ("Use {#use-sync} ##", "Use"),
        ("Use {#use-sync .wide}", "Use"),
        ("Use {.wide #use-sync}", "Use"),
        ("Use {: #use-sync }", "Use"),
        ("Use {/* #use-sync */}", "Use"),
    ],
)
def test_no_mark_of_a_heading_is_shown(build: Build, head: str, seen: str) -> None:
    knowledge = build({"a.md": f"# {head}\n\nOnce.\n\n## {head}\n\nTwice."})

    entry = knowledge.read("a.md")

    assert (entry.title, entry.passages[-1].breadcrumb) == (seen, (seen, seen))


MDX = (
    "---\ntitle: Install\n---\nimport Tabs from '@theme/Tabs'\nimport './style.css'\n"
    "export const rows = [1, 2]\n\n# Install\n\n<Tabs>\n<Note>Run the installer as admin.</Note>\n"
    "</Tabs>\n"
)


@pytest.mark.parametrize("name", [pytest.param("a.mdx", id="B-36"), "a.MDX"])
def test_a_page_of_components_is_clean_or_reported(build: Build, ask: Ask, name: str) -> None:
    knowledge = build({name: MDX, "ok.md": "Paint is in room 5."}, DEFAULT)

    text = "\n".join(b.content for b in ask(knowledge, "installer admin").evidence_blocks)

    reported = name in {problem.path for problem in knowledge.report.problems}
    clean = "Run the installer as admin." in text and "import" not in text and "export" not in text
    assert clean or reported


ROWS = [f"| E{n} | fault number {n} of the press | call line {n % 4} |" for n in range(60)]
HEAD = "| code | meaning | first aid |\n|---|---|---|\n"


def test_b_38_a_row_comes_with_its_column_names(build: Build, ask: Ask) -> None:
    knowledge = build({"a.md": f"# Fault codes\n\n{HEAD}" + "\n".join(ROWS) + "\n"}, DEFAULT)

    (block,) = ask(knowledge, "fault E47").evidence_blocks

    assert ROWS[47] in block.content.split("\n")
    assert "| code | meaning | first aid |" in block.content
    packed = ask(knowledge, "fault E47", ONE).evidence_blocks[0].content
    assert packed.startswith(HEAD)


@pytest.mark.parametrize(
    ("head", "row"),
    [
        pytest.param("|code|first aid|\n|:--|--:|\n", "|E{}|line {}|", id="aligned"),
        pytest.param("code | first aid\n--- | ---\n", "E{} | line {}", id="no outer bars"),
        pytest.param(r"| code \| id | aid |" "\n|---|---|\n", r"| E{} \| x | line {} |", id="bar"),
        pytest.param("| 代码 | 急救 |\n|---|---|\n", "| E{} | 线路 {} |", id="Chinese"),
        pytest.param("  | code | aid |\n  |---|---|\n", "  | E{} | line {} |", id="indented"),
    ],
)
@pytest.mark.parametrize("above", ["", "Words above.\n\n", "| x |\n|---|\n| y |\n\nBetween.\n\n"])
def test_every_piece_of_any_table_has_its_header(
    build: Build, above: str, head: str, row: str
) -> None:
    rows = [row.format(n, n) for n in range(80)]
    knowledge = build({"a.md": f"# Faults\n\n{above}{head}" + "\n".join(rows)}, config=SMALL)

    passages = knowledge.read("a.md").passages
    first = head.partition("\n")[0]

    assert len(passages) > 3
    for passage in passages:
        lines = (passage.lead + passage.text).split("\n")
        assert first in lines or not set(rows) & set(lines)
    assert [x for p in passages for x in p.text.split("\n") if x in rows] == rows


def test_b_49_a_title_in_any_script_is_shown_unchanged_and_recognized(
    build: Build, ask: Ask
) -> None:
    title = "🚀 起動手順 \u2014 بدء التشغيل"
    block = f'title: "{title}"\nkeywords: [起動, تشغيل, "🚀"]'
    knowledge = build({"a.md": f"---\n{block}\n---\nPress the green button twice.\n"}, DEFAULT)

    (found,) = ask(knowledge, "green button").evidence_blocks

    assert found.title == title
    for query in ("起動", "🚀"):
        assert ask(knowledge, query).retrieval_trace.hints.keywords == (query,)


@pytest.mark.parametrize(
    ("title", "keyword", "query"),
    [
        pytest.param("会议室预订", "会议室", "怎么预订会议室", id="Chinese"),
        pytest.param("スキャナの設定", "スキャナ", "スキャナはどこ", id="Japanese"),
        pytest.param("회의실 예약", "회의실", "회의실은 어디", id="Korean"),
        pytest.param("การจองห้อง", "ห้อง", "จองห้องอย่างไร", id="Thai"),
        pytest.param("כללי חניה", "חניה", "איפה חניה", id="Hebrew"),
        pytest.param("छुट्टी के नियम", "छुट्टी", "मेरी छुट्टी कब", id="Hindi"),
        pytest.param("Правила отпуска", "отпуск", "Отпуск когда", id="Russian"),
        pytest.param("Κανόνες άδειας", "άδεια", "ΆΔΕΙΑ πότε", id="Greek"),
        pytest.param("Quy định nghỉ phép", "nghỉ phép", "nghỉ phép là gì", id="Vietnamese"),
        pytest.param(
            "👩\u200d💻 desk", "👩\u200d💻", "where does 👩\u200d💻 sit", id="joined emoji"
        ),
        pytest.param("\u2764\ufe0f club", "\u2764\ufe0f", "we \u2764\ufe0f it", id="emoji variant"),
        pytest.param("🇩🇪 office", "🇩🇪", "the 🇩🇪 flag", id="flag"),
        pytest.param("👍🏽 rule", "👍🏽", "what is 👍🏽", id="skin tone"),
        pytest.param("CO\u2082 in m\u00b3", "CO\u2082", "how much CO2", id="subscript"),
        pytest.param("\u00bd cup", "\u00bd", "only \u00bd of it", id="fraction"),
        pytest.param("Acme\u2122 portal", "Acme\u2122", "all of Acme\u2122", id="trade mark"),
        pytest.param("\u2460 Start", "\u2460", "step \u2460", id="circled"),
        pytest.param(
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            id="Persian joiner",
        ),
        pytest.param("\uff21\uff22\uff23 desk", "\uff21\uff22\uff23", "abc", id="full width"),
        pytest.param("Café hours", "Café", "CAFE\u0301", id="decomposed"),
    ],
)
def test_words_in_any_script_are_shown_unchanged_and_recognized(
    build: Build, ask: Ask, title: str, keyword: str, query: str
) -> None:
    block = f'title: "{title}"\nkeywords: ["{keyword}"]'
    knowledge = build({"a.md": f"---\n{block}\n---\n# {title}\nPress the green button twice."})

    result = ask(knowledge, f"{query} \u2014 press the green button twice")

    assert result.retrieval_trace.hints.keywords == (keyword,)
    assert [(b.title, b.breadcrumb) for b in result.evidence_blocks] == [(title, (title,))]


def test_b_52_one_title_in_two_categories_is_no_filter(build: Build, ask: Ask) -> None:
    head = "---\ntitle: Overview\ncategory: {}\nkeywords: [overview]\n---\n{}\n"
    files = {
        "a.md": head.format("sales", "Quotes expire after 30 days."),
        "b.md": head.format("lab", "Samples expire after 7 days."),
    }

    result = ask(build(files, DEFAULT), "overview")

    hints = result.retrieval_trace.hints
    assert (hints.entry_count, hints.categories) == (2, ("lab", "sales"))
    assert [attempt.filter for attempt in result.retrieval_trace.attempts] == [None]
    assert {source for source, _ in places(result)} == {"a.md", "b.md"}


@pytest.mark.parametrize("first", ["category: sales\n", "category: lab\n", ""])
@pytest.mark.parametrize("body", ["# Overview\nSamples expire after 7 days.", "Quotes expire."])
def test_entries_of_one_title_stay_apart(build: Build, ask: Ask, first: str, body: str) -> None:
    files = {
        "a.md": f"---\ntitle: Overview\n{first}---\n# Overview\nSamples expire after 30 days.",
        "b.md": f"---\ntitle: OVERVIEW\ncategory: lab\n---\n{body}",
    }
    knowledge = build(files)

    result = ask(knowledge, "overview samples expire after days")

    assert result.retrieval_trace.hints.entry_count == 2
    assert {source for source, _ in places(result)} >= {"a.md"}
    wanted = {"category": "lab"} if "lab" in first else None
    assert result.retrieval_trace.attempts[0].filter == wanted


WORDS = st.lists(st.sampled_from(["red", "blue", "年假", "🚀", "*so*", "`x`", "| y"]), max_size=9)
BLOCKS = st.tuples(
    st.sampled_from(["", "# ", "## ", "- ", "> ", "```\n# ", "<Tabs>", "---\n", "| ", "    "]),
    WORDS.map(" ".join),
)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(BLOCKS, min_size=1, max_size=12))
def test_every_block_of_evidence_stands_on_the_lines_that_it_names(
    blocks: list[tuple[str, str]],
) -> None:
    body = "Zebra stripes.\n\n" + "\n\n".join(f"{mark}{words}" for mark, words in blocks)
    document = Document(body, metadata={"source": "a.md"})
    near = TableEmbedder({"": [1.0]})  # every text is evidence for every question
    with KnowledgeBase.from_documents([document], embedder=near) as knowledge:
        result = build_lookup_graph(knowledge, traces="sqlite://").invoke(
            {"query": "zebra stripes"}
        )["result"]

    lines = body.split("\n")
    assert result.evidence_blocks
    for block in result.evidence_blocks:
        said = "\n".join(lines[block.lines.start - 1 : block.lines.end])
        assert all(line in said for line in block.content.split("\n") if line != "[...]")
