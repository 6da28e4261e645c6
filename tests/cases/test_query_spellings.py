"""Queries: a keyword in every spelling that a reader takes for the same, and in nothing else.

Families: every script, with and without spaces between words, composed or not, in any case; widths,
ligatures and other compatibility forms; names with marks (`AT&T`, `24/7`), currencies and emoji;
acronyms beside function words; versions, dates, addresses and product codes as whole units;
invisible characters inside and around a word; other spacing and hyphens.
"""

# ruff: noqa: RUF001 - look-alikes and odd widths are what is tested

import pytest
from embedders import HashEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from lookup_tool import KnowledgeBase, TraceStore, build_lookup_graph


def recognized(keyword: str, query: str) -> bool:
    """Return whether the query gives the hint, and the filter, of the only entry."""
    metadata = {"source": "z.md", "title": "Zebra", "category": "zoo", "keywords": [keyword]}
    store = TraceStore("sqlite://")
    with KnowledgeBase.from_documents(
        [Document("Some text.", metadata=metadata)], embedder=HashEmbedder()
    ) as knowledge:
        graph = build_lookup_graph(knowledge, traces=store)
        trace = graph.invoke({"query": query})["result"].retrieval_trace
    store.close()
    hints = trace.hints
    seen = (len(hints.keywords), hints.titles, hints.categories, hints.entry_count)
    assert seen in {(1, ("Zebra",), ("zoo",), 1), (0, (), (), 0)}
    assert trace.attempts[0].filter == ({"category": "zoo"} if hints.keywords else None)
    return bool(hints.keywords)


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("  VPN \t  ACCESS  ", id="C-32-padding"),
        pytest.param("vpn\naccess", id="C-32-line-end"),
        pytest.param("vpn-access", id="C-32-hyphen-counts-as-a-space"),
        pytest.param("vpn\r\naccess", id="two marks of a line end"),
        pytest.param("VPN\u3000ACCESS", id="ideographic space"),
        pytest.param("vpn\u00a0access", id="no-break space"),
        pytest.param("vpn\u2028access", id="line separator"),
        pytest.param("Vpn/Access", id="slash"),
        pytest.param("vpn_access", id="underscore"),
        pytest.param("vpn\u2011access", id="no-break hyphen"),
        pytest.param("vpn\u2013access", id="dash"),
        pytest.param("vpn\u2212access", id="minus sign"),
        pytest.param("vpn\x00access", id="NUL between"),
    ],
)
def test_case_padding_and_spacing_do_not_hide_a_phrase(query: str) -> None:
    assert recognized("vpn access", query)


@pytest.mark.parametrize(
    ("keyword", "query"),
    [
        pytest.param("إجازة", "كم يوم إجازة لي؟", id="Arabic"),
        pytest.param("نمی‌خواهم", "من نمی‌خواهم", id="Persian with a non-joiner"),
        pytest.param("חופשה", "כמה ימי חופשה, בבקשה", id="Hebrew"),
        pytest.param("छुट्टी", "मुझे कितनी छुट्टी मिलती है?", id="Devanagari"),
        pytest.param("ক\u09cd\u09b7তি", "ক্ষতি।", id="Bengali"),
        pytest.param("விடுப்பு", "எனக்கு விடுப்பு வேண்டும்", id="Tamil"),
        pytest.param("ลาพักร้อน", "ขอลาพักร้อนได้กี่วัน", id="Thai"),
        pytest.param("วันหยุดพักผ่อนประจำปี", "ขอวันหยุดพักผ่อนประจำปีได้กี่วัน", id="Thai, long"),
        pytest.param("ວັນພັກ", "ຂໍວັນພັກໄດ້ບໍ", id="Lao"),
        pytest.param("ច្បាប់", "ខ្ញុំសុំច្បាប់ថ្ងៃនេះ", id="Khmer"),
        pytest.param("연차", "연차는 며칠인가요?", id="Hangul with an ending"),
        pytest.param("연차", "\u110b\u1167\u11ab\u110e\u1161 며칠", id="Hangul letters"),
        pytest.param("有給休暇", "私の有給休暇は何日ですか", id="Kanji between Kana"),
        pytest.param("パソコン", "ﾉｰﾄﾊﾟｿｺﾝの貸出", id="half-width Katakana"),
        pytest.param("ひらがな", "「ひらがな」とは", id="Hiragana in brackets"),
        pytest.param("人事", "\u2f08事課", id="Kangxi radical"),
        pytest.param("株式会社", "㍿ABC", id="squared word"),
        pytest.param("葛城", "葛\U000e0100城さん", id="ideographic variation"),
        pytest.param(
            "劳动合同法实施条例细则说明文件",
            "劳动合同法实施条例细则说明文件在哪里",
            id="long Chinese",
        ),
        pytest.param("отпуск", "Сколько дней ОТПУСК?", id="Cyrillic"),
        pytest.param("йод", "И\u0306ОД", id="Cyrillic, decomposed"),
        pytest.param("οδός", "ΟΔΌΣ 5", id="Greek sigma"),
        pytest.param("Nghỉ phép", "NGHI\u0309 PHE\u0301P năm", id="Vietnamese, decomposed"),
        pytest.param("İzin", "yıllık izin günleri", id="Turkish dotted capital in the keyword"),
        pytest.param("izin", "İZİN GÜNLERİ", id="Turkish dotted capital in the query"),
        pytest.param("kapı", "KAPI NEREDE", id="Turkish dotless capital"),
        pytest.param("արձակուրդ", "ԱՐՁԱԿՈՒՐԴ՞", id="Armenian"),
        pytest.param("შვებულება", "შვებულება?", id="Georgian"),
        pytest.param("été", "E\u0301TE\u0301", id="French, decomposed"),
        pytest.param("Dž", "ǅ", id="Croatian digraph"),
        pytest.param("office", "oﬃce", id="ligature of three"),
        pytest.param("best", "beﬆ", id="ligature of s and t"),
        pytest.param("IV", "Ⅳ", id="Roman numeral"),
        pytest.param("H2O", "H₂O", id="subscript"),
        pytest.param("μm", "5 µm", id="micro sign"),
        pytest.param("Node.js", "NODE.JS?", id="Node.js"),
        pytest.param("R&D", "the R&D budget", id="R&D"),
        pytest.param("AT&T", "our AT&T contract", id="AT&T"),
        pytest.param("D&D", "D&D night", id="D&D"),
        pytest.param("24/7", "24/7 support", id="24/7"),
        pytest.param("§ 12", "what does §12 say", id="section sign"),
        pytest.param("½ day", "a ½ day off", id="fraction"),
        pytest.param("1/2 day", "a ½ day off", id="fraction for a slash"),
        pytest.param("€50", "50 or € 50?", id="currency"),
        pytest.param("@anna", "ask @Anna", id="handle"),
        pytest.param("#onboarding", "see #Onboarding!", id="tag"),
        pytest.param("A+", "an A+ grade", id="grade"),
        pytest.param("Acme", "the Acme™ portal", id="trade mark sign"),
        pytest.param("Acme®", "the acme portal", id="registered sign"),
        pytest.param("O'Brien", "O’BRIEN", id="curly apostrophe"),
        pytest.param("manager", "my managerʼs desk", id="letter apostrophe"),
        pytest.param("👍🏽", "👍🏽 rule", id="emoji with a modifier"),
        pytest.param("👩\u200d💻", "who is 👩\u200d💻?", id="joined emoji"),
        pytest.param("❤️", "the ❤ fund", id="emoji without its selector"),
        pytest.param("🇩🇪", "🇩🇪 office", id="flag"),
        pytest.param("PTO", "P.T.O. days", id="acronym with dots"),
        pytest.param("A.I.", "the A.I. policy", id="acronym with dots of function words"),
        pytest.param("1.2", "in V1.2, please", id="version with v"),
        pytest.param("1.2.3-rc1", "1.2.3-RC1?", id="release candidate"),
        pytest.param("10.0", "10.0.", id="version at the end of a sentence"),
        pytest.param("1.2.3", "ver.1.2.3", id="version behind a short word"),
        pytest.param("2024-01-15", "on 2024/01/15", id="date"),
        pytest.param("15.01.2024", "15.01.2024?", id="date with dots"),
        pytest.param("192.168.0.1", "http://192.168.0.1/x", id="address"),
        pytest.param("192.168.0.1", "192.168.0.1:8080", id="address with a port"),
        pytest.param("10.0.0.0", "10.0.0.0/8", id="network"),
        pytest.param("fe80::1", "FE80::1", id="IPv6"),
        pytest.param("E47", "error e47!", id="error code"),
        pytest.param("X-200", "the X 200", id="product code"),
        pytest.param("X-200", "X\u2212200", id="product code with a minus sign"),
    ],
)
def test_a_spelling_that_reads_the_same_is_recognized(keyword: str, query: str) -> None:
    assert recognized(keyword, query)


@pytest.mark.parametrize("mark", "\u00ad\u034f\u061c\u200b\u200e\u2060\u2066\u3164\ufe00\U000e0061")
def test_an_invisible_character_neither_hides_nor_splits_a_word(mark: str) -> None:
    assert recognized("vpn", f"the {mark}v{mark}pn{mark} client")


@pytest.mark.parametrize(
    ("keyword", "query"),
    [
        pytest.param("art", "a party, smart", id="inside words"),
        pytest.param("отпуск", "отпускной", id="Cyrillic, inside a word"),
        pytest.param("छुट", "छुट्टी", id="Devanagari, inside a word"),
        pytest.param("年假", "年终假期", id="Chinese, apart"),
        pytest.param("§ 12", "12 days", id="number without its section sign"),
        pytest.param("1.1", "version 1.10", id="longer version"),
        pytest.param("10", "10.0", id="shorter version"),
        pytest.param("1.2.3-rc1", "1.2.3", id="final release"),
        pytest.param("2.3", "ver1.2.3", id="end of a version behind letters"),
        pytest.param("11.2", "python3.11.2", id="end of a version behind a name"),
        pytest.param("192.168.0.1", "192.168.0.10", id="another address"),
        pytest.param("E47", "E470 or AE47", id="another code"),
        pytest.param("X-200", "X-2000", id="another product"),
        pytest.param("C", "C++ or C#", id="shorter name"),
        pytest.param("WHO", "who can help me?", id="function word for an acronym"),
        pytest.param("IT", "is it the", id="function words"),
        pytest.param("vpn", "v p n", id="letters apart"),
    ],
)
def test_what_reads_otherwise_is_not_recognized(keyword: str, query: str) -> None:
    assert not recognized(keyword, query)


WORDS = st.text(st.sampled_from("bçłßéЖщΣωقابגד退款가ﾊカ7"), min_size=1, max_size=8)
AROUND = st.sampled_from(["", " ", "\n", '"', "(", "¿", "«", "…", "—", ": ", "\u200f", "\x00"])


@settings(max_examples=50, deadline=None, derandomize=True)
@given(word=WORDS, before=AROUND, after=AROUND, spell=st.sampled_from([str.upper, str.title, str]))
def test_a_keyword_alone_is_recognized_in_any_case_between_any_marks(
    word: str, before: str, after: str, spell: type[str]
) -> None:
    assert recognized(word, f"{before}{spell(word)}{after}")
