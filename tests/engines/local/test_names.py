"""What entries and sections are called, for readers who see different ones."""

from collections.abc import Sequence

import pytest
import regex
from embedders import HashEmbedder
from langchain_core.documents import Document

from lookup_tool import KnowledgeBase
from lookup_tool.errors import SourceNotFoundError
from lookup_tool.retrieval.view import View

BOTH = ("b", "c")
HASH = regex.compile("~[0-9a-f]{12}")
SECTIONS = "# One\n\nintro\n\n## Two\n\nnext"


def document(source: str, text: str, access: Sequence[str] | None = None) -> Document:
    known = {} if access is None else {"access": list(access)}
    return Document(text, metadata={"source": source, **known})


def names(documents: Sequence[Document], *groups: str) -> dict[str, str]:
    """Return what a reader calls each text; a hash is written as `~`."""
    with KnowledgeBase.from_documents(documents, embedder=HashEmbedder()) as knowledge:
        return {text: HASH.sub("~", name) for text, name in _names(knowledge.view(), groups)}


def _names(view: View, groups: Sequence[str]) -> list[tuple[str, str]]:
    reader = frozenset(groups)
    passages = view.passages(range(view.count(reader)), reader).values()
    return [(passage.text, passage.source) for passage in passages]


PUBLIC = document("notes.md", "everybody's")
OF_B = document("notes.md", "b's", ["b"])
OF_C = document("notes.md", "c's", ["c"])
OF_BOTH = document("notes.md", "both's", ["b", "c"])
SEALED = document("notes.md", "nobody's", [])


@pytest.mark.parametrize(
    ("documents", "groups", "expected"),
    [
        pytest.param([OF_B], "b", {"b's": "notes.md"}, id="alone"),
        pytest.param([OF_B, OF_C, SEALED], "b", {"b's": "notes.md"}, id="beside hidden ones"),
        pytest.param([PUBLIC, OF_B, OF_C], "", {"everybody's": "notes.md"}, id="public"),
        pytest.param(
            [OF_B, PUBLIC], "b", {"everybody's": "notes.md", "b's": "notes.md~"}, id="beside public"
        ),
        pytest.param(
            [OF_B, OF_C], "bc", {"b's": "notes.md~", "c's": "notes.md~"}, id="both are seen"
        ),
        pytest.param(
            [OF_B, OF_BOTH, OF_C], "b", {"b's": "notes.md~", "both's": "notes.md~"}, id="of two"
        ),
        pytest.param(
            [document("a.md", SECTIONS, ["b"]), document("a.md", "c's", ["c"])],
            "bc",
            {"intro": "a.md~", "next": "a.md~#two", "c's": "a.md~"},
            id="sections follow their entry",
        ),
        pytest.param(
            [document("a.md", SECTIONS), document("a.md#two", "other")],
            "",
            {"intro": "a.md", "next": "a.md#two~", "other": "a.md#two"},
            id="a section yields",
        ),
        pytest.param(
            [document("a.md", SECTIONS), document("a.md#two", "b's", ["b"])],
            "b",
            {"intro": "a.md", "next": "a.md#two", "b's": "a.md#two~"},
            id="not a public section to a restricted entry",
        ),
        pytest.param(
            [document("a.md", SECTIONS, ["b"]), document("a.md#two", "c's", ["c"])],
            "bc",
            {"intro": "a.md", "next": "a.md#two~", "c's": "a.md#two"},
            id="a restricted section yields",
        ),
        pytest.param(
            [document("a.md", SECTIONS, ["b"]), document("a.md#two", "c's", ["c"])],
            "b",
            {"intro": "a.md", "next": "a.md#two"},
            id="not to what is hidden",
        ),
        pytest.param(
            [
                document("a", "# One\n\nfirst\n\n## B two\n\nsecond"),
                document("a#b", "# One\n\nthird\n\n## Two\n\nfourth"),
            ],
            "",
            {"first": "a", "second": "a#b-two~", "third": "a#b", "fourth": "a#b-two~"},
            id="two sections",
        ),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_name_is_settled_among_what_its_reader_sees(
    documents: list[Document], groups: str, expected: dict[str, str], turned: bool
) -> None:
    given = documents[::-1] if turned else documents

    assert names(given, *groups) == expected


@pytest.mark.parametrize("groups", ["b", "c", "bc"])
def test_what_a_reader_sees_can_be_read_by_its_name_and_nothing_else_can(groups: str) -> None:
    documents = [
        document("a.md", SECTIONS, ["b"]),
        document("a.md", "c's", ["c"]),
        document("a.md#two", "nobody's", []),
    ]
    reader = frozenset(groups)
    with KnowledgeBase.from_documents(documents, embedder=HashEmbedder()) as knowledge:
        named = {name for _, name in _names(knowledge.view(), groups)}
        others = {name for who in ("", "b", "c", "bc") for _, name in _names(knowledge.view(), who)}
        read = {name: knowledge.read(name, reader) for name in named}
        for name in others - named:
            with pytest.raises(SourceNotFoundError):
                knowledge.read(name, reader)

    for name, entry in read.items():
        assert entry.source == name.partition("#")[0]
        assert name in {passage.source for passage in entry.passages}
        assert {passage.source for passage in entry.passages} <= named


def test_the_hash_is_of_content_and_access() -> None:
    def shown(*others: Document) -> set[str]:
        with KnowledgeBase.from_documents([PUBLIC, *others], embedder=HashEmbedder()) as base:
            return {name for _, name in _names(base.view(), BOTH)} - {"notes.md"}

    same = [shown(OF_B), shown(OF_B, SEALED)]
    others = [shown(OF_C), shown(document("notes.md", "b's", ["c"])), shown(OF_BOTH)]

    assert same[0] == same[1]
    assert len(set.union(*same, *others)) == 4
