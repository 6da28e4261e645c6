"""Vector store: what counts as one category, as evidence, and as one text.

Families: one category is one category however it is typed; an unrelated question has no evidence,
with the candidates still in the trace; and equal texts do not crowd out different ones.
"""

from collections.abc import Iterator, Mapping

import pytest
from case_builders import Make, look_up_with, path, sources
from embedders import TableEmbedder, at_similarity
from langchain_core.documents import Document

from lookup_tool import (
    KnowledgeBase,
)
from lookup_tool.config import EvidenceConfig

# One category, however it is typed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Billing", "' billing '", id="A-31"),
        pytest.param("BILLING", "billing", id="capitals"),
        pytest.param("\uff42\uff49\uff4c\uff4c\uff49\uff4e\uff47", "billing", id="full-width"),
        pytest.param('"bil\\u200bling"', "billing", id="zero-width"),
        pytest.param('"customer\\u00a0billing"', "customer billing", id="no-break-space"),
        pytest.param("customer   billing", "Customer billing", id="inner-spaces"),
        pytest.param('"customer\\tbilling"', "customer billing", id="tab"),
        pytest.param("Straße", "STRASSE", id="sharp-s"),
        pytest.param('"caf\\u00e9"', '"cafe\\u0301"', id="composed-and-decomposed"),
        pytest.param("ﬁles", "files", id="ligature"),
        pytest.param("ΣΊΣΥΦΟΣ", "σίσυφος", id="final-sigma"),
        pytest.param("[Billing]", "billing", id="a-list-of-one"),
    ],
)
def test_a_category_is_one_category_in_every_spelling(make: Make, one: str, other: str) -> None:
    table = {"": [1.0, 0.0], "Copies": at_similarity(0.9), "Change": at_similarity(0.8)}
    front = "---\ntitle: {}\ncategory: {}\nkeywords: [invoice]\n---\n{}"
    files = {
        "a.md": front.format("Invoice copy", one, "Copies are under Documents."),
        "b.md": front.format("Invoice address", other, "Change the address under Profile."),
    }

    result = look_up_with(make(files, TableEmbedder(table)), "invoice")

    (attempt,) = result.retrieval_trace.attempts
    assert (attempt.strategy, attempt.candidate_count) == ("filtered", 2)
    assert sources(result) == ["a.md", "b.md"]


def test_a_31_the_spelling_of_the_author_is_shown(make: Make) -> None:
    files = {
        "a.md": "---\ncategory: Billing\nkeywords: [invoice]\n---\nCopies.",
        "b.md": "---\ncategory: ' billing '\nkeywords: [invoice]\n---\nChange.",
    }

    result = look_up_with(make(files, TableEmbedder({"": [1.0, 0.0]})), "invoice")

    shown = {block.source: block.category for block in result.evidence_blocks}
    assert shown == {"a.md": "Billing", "b.md": "billing"}


@pytest.mark.parametrize("other", ["billings", "bill", "bil-ling", "billing/eu", "pilling"])
def test_categories_that_only_look_alike_stay_apart(make: Make, other: str) -> None:
    files = {
        "a.md": "---\ntitle: a\ncategory: billing\nkeywords: [invoice]\n---\nCopies.",
        "b.md": f"---\ntitle: b\ncategory: {other}\n---\nChange.",
    }

    result = look_up_with(make(files, TableEmbedder({"": [1.0, 0.0]})), "invoice")

    assert path(result) == [("filtered", "accepted")]
    assert sources(result) == ["a.md"]


# Evidence or nothing

OFFICE = {
    "refunds.md": "# Refunds\nMoney is returned to the original card within five working days.",
    "invoices.md": "# Invoices\nInvoices are sent on the first day of the month by email.",
    "parking.md": "# Parking\nVisitors park on level two and get a ticket at the reception.",
    "vpn.md": "# VPN\nInstall the client, then connect with your company account.",
    "badges.md": "# Badges\nA lost badge is blocked at the reception; a new one takes a day.",
}


@pytest.fixture(scope="module")
def office() -> Iterator[KnowledgeBase]:
    texts = [Document(text, metadata={"source": name}) for name, text in OFFICE.items()]
    with KnowledgeBase.from_documents(texts) as knowledge:
        yield knowledge


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("What is the capital of the Mars colony?", id="A-27"),
        "Who painted the ceiling of the chapel?",
        "How do I bake sourdough bread?",
        "Which planets have rings?",
        "translate good morning to Finnish",
        "asdf qwer zxcv",
        "42",
        "???",
        "火星殖民地的首都是什么",
        "Расскажи анекдот",
        "🦖🦕",
        "SELECT * FROM passages; --",
        "the of and to a",
    ],
)
def test_an_unrelated_question_has_no_evidence(office: KnowledgeBase, query: str) -> None:
    result = look_up_with(office, query)

    trace = result.retrieval_trace
    assert (result.found, result.evidence_status, result.evidence_blocks) == (
        False,
        "no_evidence",
        (),
    )
    assert "no evidence" in result.message
    assert (result.context_pack.text, result.rerank_trace.entries) == ("", ())
    assert [attempt.candidate_count for attempt in trace.attempts] == [5]
    assert trace.attempts[0].top_similarity is not None
    assert trace.evidence_block_count == 0


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("How do I get my money returned to my card?", "refunds.md"),
        ("where do visitors park", "parking.md"),
        ("What happens to a lost badge?", "badges.md"),
        ("connect the VPN client", "vpn.md"),
        ("When are invoices sent?", "invoices.md"),
    ],
)
def test_a_related_question_has_evidence(office: KnowledgeBase, query: str, source: str) -> None:
    assert sources(look_up_with(office, query))[:1] == [source]


# Equal texts


def crowd(copies: Mapping[str, str]) -> list[Document]:
    texts = [Document(text, metadata={"source": name}) for name, text in copies.items()]
    texts.append(Document("SECOND text on badges.", metadata={"source": "y-second"}))
    texts.append(Document("THIRD text on badges.", metadata={"source": "z-third"}))
    return texts


COPIED = "COPIED text on badges."


@pytest.mark.parametrize(
    "copies",
    [
        pytest.param({f"c{n}": COPIED for n in range(10)}, id="A-25"),
        pytest.param({f"c{n}": f"{COPIED}{' ' * n}\n" for n in range(10)}, id="white-space"),
        pytest.param({"c0": COPIED, "c1": COPIED.upper(), "c2": COPIED.lower()}, id="capitals"),
        pytest.param({"c0": COPIED, "c1": f"\u200b{COPIED}"}, id="invisible"),
        pytest.param({"c0": COPIED, "c1": COPIED.replace("T", "\uff34")}, id="full-width"),
        pytest.param({"c0": f"---\nowner: a\n---\n{COPIED}", "c1": COPIED}, id="other-metadata"),
    ],
)
def test_equal_texts_take_one_place_and_name_every_source(copies: dict[str, str]) -> None:
    table = {
        "": at_similarity(0.9),
        "topic": [1.0, 0.0],
        "SECOND": at_similarity(0.7),
        "THIRD": at_similarity(0.6),
    }
    with KnowledgeBase.from_documents(crowd(copies), embedder=TableEmbedder(table)) as knowledge:
        result = look_up_with(knowledge, "topic", evidence=EvidenceConfig(max_blocks=5))

    first, *_ = result.evidence_blocks
    assert sources(result) == ["c0", "y-second", "z-third"]
    assert {first.source, *first.duplicates} == set(copies)


def test_a_25_equal_texts_do_not_use_up_the_candidates() -> None:
    table = {"": at_similarity(0.9), "topic": [1.0, 0.0], "SECOND": at_similarity(0.7)}
    table["THIRD"] = at_similarity(0.6)
    texts = crowd({f"c{n}": COPIED for n in range(10)})
    with KnowledgeBase.from_documents(texts, embedder=TableEmbedder(table)) as knowledge:
        result = look_up_with(knowledge, "topic", candidates=5, lexical_candidates=0)

    assert sources(result) == ["c0", "y-second", "z-third"]
