"""The packed context: what fits, what is cut, and where.

Families: sources under a budget, in tokens and in characters, where a header is whole or not there
and every block is accounted for; cuts in texts of every script, which end between two characters
and are a beginning of what the document says.
"""

from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any, Literal

import pytest
import regex
from case_builders import ask_tool
from embedders import TableEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupResult,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)
from lookup_tool.config import PackConfig

MARK = " [cut]"
ELEMENT = regex.compile(r"<evidence ([^\n]*)>\n(.*?)\n</evidence>", regex.DOTALL)
Unit = Literal["tokens", "characters"]


def knowledge_of(*documents: Document, into: Path | None = None) -> KnowledgeBase:
    return KnowledgeBase.from_documents(
        documents, embedder=TableEmbedder({"": [1.0, 0.0]}), into=into
    )


def look_up(
    knowledge: KnowledgeBase, traces: TraceStore, query: str, config: PackConfig
) -> LookupResult:
    graph = build_lookup_graph(knowledge, config=LookupConfig(pack=config), traces=traces)
    return graph.invoke({"query": query})["result"]


def size(text: str, unit: Unit) -> int:
    """Count as the settings say: characters, or four UTF-8 bytes for a token."""
    return len(text) if unit == "characters" else -(-len(text.encode()) // 4)


# D-21 Budget cuts the sources

TOPICS = ("refunds", "returns", "repairs")


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    documents = [
        Document(
            (f"The {topic} desk answers warranty questions about {topic}. " * 60)[:3000],
            metadata={
                "source": f"desk/{topic}.md",
                "title": f'Desk of "{topic}" & <more>',
                "keywords": [f"{topic}, warranty"],
                "category": "desk",
            },
        )
        for topic in TOPICS
    ]
    with knowledge_of(*documents, into=tmp_path_factory.mktemp("topics") / "kb") as knowledge:
        yield knowledge


def assert_accounted_for(result: LookupResult, config: PackConfig) -> None:
    """Check what a pack promises, reading only its text."""
    pack = result.context_pack
    blocks = {block.source: block for block in result.evidence_blocks}
    shown = ELEMENT.findall(pack.text)
    assert "\n\n".join(found.group() for found in ELEMENT.finditer(pack.text)) == pack.text
    assert len(shown) == len(pack.included)
    for part, (header, content) in zip(pack.included, shown, strict=True):
        block = blocks[part.source]
        assert attributes(header) == {
            "source": block.source,
            "title": block.title,
            "breadcrumb": " > ".join(block.breadcrumb),
            "hits": ", ".join(block.hit_reasons),
        }
        kept = content.removesuffix(MARK)
        assert kept.strip()
        assert block.content.startswith(kept)
        assert part.truncated is (kept != block.content) is content.endswith(MARK)
    accounted = [part.source for part in (*pack.included, *pack.omitted)]
    assert sorted(accounted) == sorted(blocks)
    assert pack.used == size(pack.text, config.unit) <= pack.budget == config.budget


def attributes(header: str) -> dict[str, str]:
    found = regex.findall(r"""(\w+)=(?:"([^"]*)"|'([^']*)')""", header)
    return {name: unescape(double or single) for name, double, single in found}


@pytest.mark.parametrize("unit", ["tokens", "characters"])
def test_d_21_sources_stay_whole_under_a_budget_of_1200(
    topics: KnowledgeBase, traces: TraceStore, unit: Unit
) -> None:
    config = PackConfig(budget=1200, unit=unit)

    result = look_up(topics, traces, "warranty questions", config)

    assert len(result.evidence_blocks) == 3
    assert_accounted_for(result, config)
    assert len(result.context_pack.included) == (2 if unit == "tokens" else 1)
    assert result.completeness_hint.level == "partial"


@settings(max_examples=30, deadline=None, derandomize=True)
@given(budget=st.integers(1, 12_000), unit=st.sampled_from(["tokens", "characters"]))
def test_every_budget_accounts_for_every_block(
    topics: KnowledgeBase, budget: int, unit: Unit
) -> None:
    store = TraceStore("sqlite://")
    config = PackConfig(budget=budget, unit=unit)

    assert_accounted_for(look_up(topics, store, "warranty questions", config), config)
    store.close()


def test_nothing_but_packed_sources_reaches_the_model(
    topics: KnowledgeBase, traces: TraceStore
) -> None:
    config = LookupConfig(pack=PackConfig(budget=1200, unit="characters"))
    tool = create_lookup_tool(topics, config=config, traces=traces)

    message = ask_tool(tool, "warranty")

    packed = [part["source"] for part in message.artifact["contextPack"]["included"]]
    omitted = [part["source"] for part in message.artifact["contextPack"]["omitted"]]
    assert regex.findall(r'source="([^"]+)"', message.text) == packed
    assert len(packed) == 1
    assert [source for source in omitted if source in message.text] == []


COUNTERS: dict[str, tuple[Callable[[str], int], int]] = {
    "words": (lambda text: len(text.split()), 60),
    "lines": (lambda text: text.count("\n") + 1, 8),
    "bytes": (lambda text: len(text.encode()), 900),
    "always-too-many": (lambda _: 10**9, 100),
    "step": (lambda text: 50 * (len(text) // 500), 100),
}


@pytest.mark.parametrize(("count", "budget"), COUNTERS.values(), ids=COUNTERS)
def test_a_callers_own_counter_is_obeyed(
    topics: KnowledgeBase, traces: TraceStore, count: Callable[[str], int], budget: int
) -> None:
    config = PackConfig(budget=budget, count_tokens=count)

    result = look_up(topics, traces, "warranty", config)

    pack = result.context_pack
    assert pack.used == (count(pack.text) if pack.text else 0) <= budget
    assert len(pack.included) + len(pack.omitted) == len(result.evidence_blocks) == 3


# D-23 Cut inside a character

REFUNDS = "退款将在五个工作日内退回原卡。"


@pytest.fixture(scope="module")
def refunds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp("refunds")
    document = Document(REFUNDS * 400, metadata={"source": "退款.md"})
    with knowledge_of(document, into=folder / "kb") as knowledge:
        yield knowledge


def packed_content(result: LookupResult) -> str:
    ((_, content),) = ELEMENT.findall(result.context_pack.text)
    return content


@pytest.mark.parametrize("unit", ["tokens", "characters"])
def test_d_23_a_cut_chinese_text_is_a_beginning_of_what_was_written(
    refunds: KnowledgeBase, traces: TraceStore, unit: Unit
) -> None:
    for budget in range(500, 531):
        result = look_up(refunds, traces, "退款", PackConfig(budget=budget, unit=unit))

        content = packed_content(result)
        assert content.endswith(MARK)
        assert (REFUNDS * 400).startswith(content.removesuffix(MARK))
        assert "\ufffd" not in result.context_pack.text


TEXTS: dict[str, str] = {
    "chinese": REFUNDS,
    "chinese-without-stops": "退款将在五个工作日内退回原卡",
    "japanese": "返金は五営業日以内に元のカードへ戻ります。",
    "thai": "เงินคืนจะเข้าบัตรเดิมภายในห้าวันทำการ",
    "long-word": "Donaudampfschifffahrtsgesellschaftskapitän",
    "link": "https://example.org/refund?id=0123456789&next=/a/b/c;",
    "spaces": "A refund goes back to the card within five days. ",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_content_says_exactly_what_one_long_line_says(traces: TraceStore, text: str) -> None:
    """Nothing is put between two pieces that were cut apart, and nothing lost."""
    whole = (text * 100).rstrip()
    with knowledge_of(Document(whole, metadata={"source": "a.md", "title": "T"})) as knowledge:
        result = look_up(knowledge, traces, text[:20], PackConfig(budget=100_000))

        assert [block.content for block in result.evidence_blocks] == [whole]
        assert packed_content(result) == whole


CHARACTERS: dict[str, str] = {
    "emoji": "😀",
    "skin-tone": "👍🏽",
    "family": "👨\u200d👩\u200d👧",
    "flag": "🇩🇪",
    "keycap": "1\ufe0f\u20e3",
    "accent": "e\u0301",
    "devanagari": "क्षि",
    "jamo": "\u1112\u1161\u11ab",
    "hebrew-point": "ש\u05c1",
    "outside-the-plane": "𠮷",
    "line-end": "x\r\n",
}


@pytest.mark.parametrize("character", CHARACTERS.values(), ids=CHARACTERS)
def test_a_cut_never_stands_inside_a_character(traces: TraceStore, character: str) -> None:
    whole = f"refund {character * 120}"
    with knowledge_of(Document(whole, metadata={"source": "a.md", "title": "T"})) as knowledge:
        read = look_up(knowledge, traces, "refund", PackConfig()).evidence_blocks[0].content
        ends = {match.end() for match in regex.finditer(r"\X", read)}
        budgets = [PackConfig(budget=n, unit="characters") for n in range(150, 162, 2)]
        for config in [*budgets, *(PackConfig(budget=n) for n in range(45, 50))]:
            result = look_up(knowledge, traces, "refund", config)

            kept = packed_content(result).removesuffix(MARK)
            assert read.startswith(kept)
            assert len(kept) in ends


def test_one_character_longer_than_the_budget_is_left_out(traces: TraceStore) -> None:
    monster = "refund e" + "\u0301" * 5000
    with knowledge_of(Document(monster, metadata={"source": "a.md", "title": "T"})) as knowledge:
        result: Any = look_up(knowledge, traces, "refund", PackConfig(budget=60, unit="characters"))

    assert (result.context_pack.text, result.context_pack.used) == ("", 0)
    assert [part.source for part in result.context_pack.omitted] == ["a.md"]
