"""Vector store: nothing to index, and identities.

Families: nothing to find is a result with a trace, whatever there is instead of text; identities
(equal headings, equal sources, names that look like another one's section) never collide, so every
text is found, and read, under a source of its own.
"""

from contextlib import closing

import pytest
from case_builders import Folder, Sections, ask_tool, look_up_everything, sections
from embedders import HashEmbedder
from langchain_core.documents import Document

from lookup_tool import (
    KnowledgeBase,
    TraceStore,
    create_lookup_tool,
)

# Nothing to index


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="A-08"),
        pytest.param({"a.md": ""}, id="empty-file"),
        pytest.param({"a.md": "\n \t\n"}, id="white-space"),
        pytest.param({"a.md": "---\ntitle: A\n---\n"}, id="metadata-only"),
        pytest.param({"a.md": "---\naccess: []\n---\nSealed.\n"}, id="sealed"),
        pytest.param({"a.txt": "Text."}, id="no-markdown"),
        pytest.param({".hidden.md": "Text."}, id="hidden"),
    ],
)
def test_nothing_to_find_is_a_result_with_a_trace(folder: Folder, files: dict[str, str]) -> None:
    folder.write(files)
    with folder.build() as knowledge, closing(TraceStore("sqlite://")) as traces:
        tool = create_lookup_tool(knowledge, traces=traces)
        message = ask_tool(tool, "any")
        (row,) = traces.rows()

    (attempt,) = message.artifact["retrievalTrace"]["attempts"]
    assert (message.artifact["found"], message.artifact["evidenceStatus"]) == (False, "no_evidence")
    assert "no evidence" in message.text
    assert (attempt["strategy"], attempt["candidateCount"]) == ("unfiltered", 0)
    assert (row.found, row.evidence_status, row.candidate_count) == (False, "no_evidence", 0)


@pytest.mark.parametrize("documents", [[], [Document("")], [Document(" \n")]])
def test_no_documents_are_a_knowledge_base_too(documents: list[Document]) -> None:
    with KnowledgeBase.from_documents(documents, embedder=HashEmbedder()) as knowledge:
        assert look_up_everything(knowledge, "any").evidence_status == "no_evidence"


# Identities


@pytest.mark.parametrize(
    ("headings", "slugs"),
    [
        pytest.param(["Notes", "Notes"], ["notes", "notes-1"], id="A-15"),
        pytest.param(["Notes"] * 4, ["notes", "notes-1", "notes-2", "notes-3"], id="four"),
        pytest.param(["Notes", "notes", "NOTES!"], ["notes", "notes-1", "notes-2"], id="case"),
        pytest.param(["Notes", "Notes-1", "Notes"], None, id="looks-like-a-repeat"),
        pytest.param(["Notes-1", "Notes", "Notes"], None, id="repeat-is-taken"),
        pytest.param(["Notes", "Notes", "Notes 1", "Notes-1"], None, id="all-taken"),
        pytest.param(["!!!", "???", "..."], None, id="no-letters"),
        pytest.param(["x", "", ""], None, id="empty-headings"),
        pytest.param(["附注", "附注"], None, id="cjk"),
        pytest.param(["🅿", "🚲", "🅿"], None, id="emoji"),
        pytest.param(["part-2", "part-2"], None, id="part-2"),
        pytest.param(["a#b", "a#b", "ab"], None, id="hash-in-heading"),
    ],
)
def test_every_section_has_an_identity_of_its_own(
    headings: list[str], slugs: list[str] | None
) -> None:
    texts = [f"text number {number} on bicycles." for number in range(len(headings))]
    body = "# FAQ\n" + "".join(
        f"## {heading}\n{text}\n" for heading, text in zip(headings, texts, strict=True)
    )
    document = Document(body, metadata={"source": "faq.md"})
    with KnowledgeBase.from_documents([document], embedder=HashEmbedder()) as knowledge:
        result = look_up_everything(knowledge, "bicycles")
        found = {block.content: block.source for block in result.evidence_blocks}
        read = {knowledge.read(found[text]).passages[0].text for text in texts if text in found}
        assert knowledge.count() == len(texts)

    assert set(found) == set(texts)
    assert len(set(found.values())) == len(texts)
    assert slugs is None or [found[text] for text in texts] == [f"faq.md#{s}" for s in slugs]
    assert read == set(texts)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([("a.md", "one"), ("a.md#part-2", "three")], id="named-part"),
        pytest.param([("a.md#part-2", "three"), ("a.md", "one")], id="part-first"),
        pytest.param([("a.md", "# A\none\n## B\ntwo"), ("a.md#b", "three")], id="heading-taken"),
        pytest.param([("a.md#b", "three"), ("a.md", "# A\none\n## B\ntwo")], id="section-first"),
        pytest.param([("a.md", "one"), ("A.md", "two"), ("a.MD", "three")], id="case"),
        pytest.param([("", "one"), ("", "two"), ("document-1", "three")], id="no-source"),
        pytest.param([("é.md", "one"), ("e\u0301.md", "two")], id="composed-and-decomposed"),
    ],
)
def test_documents_never_share_an_identity(given: Sections) -> None:
    texts = [Document(text, metadata={"source": source}) for source, text in given]
    words = {w for _, text in given for w in ("one", "two", "three") if w in text.split()}
    with KnowledgeBase.from_documents(texts, embedder=HashEmbedder()) as knowledge:
        found = sections(look_up_everything(knowledge, "one two three"))
        read = [[p.text for p in knowledge.read(source).passages] for source, _ in found]

    assert sorted(text for _, text in found) == sorted(words)
    assert len({source for source, _ in found}) == len(words)
    assert all(text in texts for (_, text), texts in zip(found, read, strict=True))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([{"source": "a.md"}, {"source": "a.md"}], id="pages-of-one-file"),
        pytest.param([{"source": "a\\b.md"}, {"source": "a/b.md"}], id="slashes"),
        pytest.param([{"source": "a.md "}, {"source": "a.md"}], id="trailing-space"),
        pytest.param([{"id": "7"}, {"id": "7"}], id="one-id"),
        pytest.param([{"source": "7"}, {"id": "7"}], id="source-and-id"),
    ],
)
def test_documents_of_one_source_are_one_entry(names: list[dict[str, str]]) -> None:
    documents = [
        Document(text, metadata={k: v for k, v in name.items() if k == "source"}, id=name.get("id"))
        for text, name in zip(["first note on parking", "second on bicycles"], names, strict=True)
    ]
    with KnowledgeBase.from_documents(documents, embedder=HashEmbedder()) as knowledge:
        found = sections(look_up_everything(knowledge, "parking bicycles"))

    assert [text for _, text in found] == ["first note on parking\n\nsecond on bicycles"]
