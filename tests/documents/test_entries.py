import errno
import os
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from lookup_tool.config import PassageConfig
from lookup_tool.documents import folder
from lookup_tool.documents.entries import Problems, entries_from_documents, parse_entry
from lookup_tool.documents.folder import load_file, load_folder
from lookup_tool.documents.prepared import prepare
from lookup_tool.errors import KnowledgeNotFoundError
from lookup_tool.schema import Entry, LoadProblem
from lookup_tool.text import category_key

PROPERTY = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the file is overwritten
)
FENCES = st.sampled_from(
    [b"", b"---\n", b"+++\n", b"\xef\xbb\xbf---\r\n", b"\xff\xfe-\0-\0-\0\n\0"]
)
BYTES = st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda t: t.encode("utf-8")))


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def load_bytes(folder: Path, raw: bytes) -> tuple[Entry | None, list[LoadProblem]]:
    path = folder / "a.md"
    path.write_bytes(raw)
    problems = Problems()
    file = load_file(path, "a.md", problems)
    if file is None:
        return None, problems.found
    assert isinstance(file.entry, Entry)
    return file.entry, problems.found


def test_frontmatter_becomes_the_fields_of_an_entry() -> None:
    text = (
        "---\ntitle: ' Annual\n  leave '\ncategory: HR\nkeywords: [holiday, 1.10, no, holiday]\n"
        "aliases: PTO, time off,\nentities:\n  - TimeTrail\naccess: [people]\n"
        "source: elsewhere\nreviewed: 2024-01-02\n---\n# Head\r\nText\r\n"
    )
    problems = Problems()

    entry = parse_entry(text, "hr/leave.md", problems)

    assert problems.found == []
    assert entry == Entry(
        source="hr/leave.md",
        body="# Head\nText\n",
        body_line=13,
        title="Annual leave",
        category="HR",
        keywords=("holiday", "1.10", "no"),
        aliases=("PTO", "time off"),
        entities=("TimeTrail",),
        access=frozenset({"people"}),
        metadata={"source": "elsewhere", "reviewed": "2024-01-02"},
    )


@pytest.mark.parametrize(
    ("fields", "entry"),
    [
        pytest.param("title: ''", Entry("a.md", "B", 4), id="blank title"),
        pytest.param("title: 2024", Entry("a.md", "B", 4, title="2024"), id="title is a number"),
        pytest.param("title: [One, Two]", Entry("a.md", "B", 4, title="One"), id="list of titles"),
        pytest.param("title: {a: b}", Entry("a.md", "B", 4), id="title is a mapping"),
        pytest.param(
            "title: A\u200bB", Entry("a.md", "B", 4, title="AB"), id="invisible character"
        ),
        pytest.param("domain: it", Entry("a.md", "B", 4, category="it"), id="domain"),
        pytest.param("category: {x: y}", Entry("a.md", "B", 4), id="category is a mapping"),
        pytest.param("keywords: one", Entry("a.md", "B", 4, keywords=("one",)), id="one keyword"),
        pytest.param("keywords: {a: b}", Entry("a.md", "B", 4), id="keywords are a mapping"),
        pytest.param(
            "keywords: [a, [b], ~, ' ']", Entry("a.md", "B", 4, keywords=("a",)), id="odd"
        ),
    ],
)
def test_odd_values_cost_only_themselves(fields: str, entry: Entry) -> None:
    assert parse_entry(f"---\n{fields}\n---\nB", "a.md", Problems()) == entry


def test_category_wins_over_domain() -> None:
    entry = parse_entry("---\ndomain: it\ncategory: hr\n---\nB", "a.md", Problems())

    assert entry.category == "hr"


def test_two_spellings_of_a_category_are_one() -> None:
    assert category_key(" Human  \uff32esources") == category_key("human resources")
    assert category_key("HR") != category_key("IT")


def test_a_broken_block_is_loaded_with_a_warning_that_names_line_and_remedy() -> None:
    problems = Problems()

    entry = parse_entry("---\ntitle: a: b\n---\nBody", "x/a.md", problems)

    assert entry == Entry("x/a.md", "Body", body_line=4, title="a: b")
    assert [str(problem) for problem in problems.found] == [
        "x/a.md:2: not valid YAML (mapping values are not allowed in this context); "
        "quote values that contain a colon, and indent with spaces"
    ]
    assert [problem.level for problem in problems.found] == ["warning"]


@pytest.mark.parametrize(
    ("raw", "body", "guessed"),
    [
        pytest.param(b"", "", None, id="empty"),
        pytest.param("Größe 文".encode(), "Größe 文", None, id="UTF-8"),
        pytest.param("Größe".encode("utf-8-sig"), "Größe", None, id="UTF-8 with mark"),
        pytest.param("Größe".encode("utf-16"), "Größe", None, id="UTF-16 with mark"),
        pytest.param(b"\xfe\xff" + "Größe".encode("utf-16-be"), "Größe", None, id="big-endian"),
        pytest.param("Größe".encode("utf-32"), "Größe", None, id="UTF-32 with mark"),
        pytest.param("Some text".encode("utf-16-le"), "Some text", "utf-16-le", id="UTF-16-LE"),
        pytest.param("Some text".encode("utf-16-be"), "Some text", "utf-16-be", id="UTF-16-BE"),
        pytest.param("Größe 5 €".encode("cp1252"), "Größe 5 €", "cp1252", id="Windows"),
        pytest.param(b"a\x81\xe4", "a\x81\xe4", "latin-1", id="no code page"),
        pytest.param(b"a\x00b and more", "ab and more", "utf-8", id="a NUL"),
        pytest.param(b"one\rtwo\r\nthree", "one\ntwo\nthree", None, id="line ends"),
    ],
)
def test_a_file_is_decoded_in_any_encoding(
    tmp_path: Path, raw: bytes, body: str, guessed: str | None
) -> None:
    expected = [] if guessed is None else [f"a.md: not UTF-8, read as {guessed}"]

    entry, problems = load_bytes(tmp_path, raw)

    assert entry == Entry("a.md", body)
    assert [f"{problem.path}: {problem.problem}" for problem in problems] == expected


@PROPERTY
@given(FENCES, BYTES, FENCES, BYTES)
def test_loading_never_fails_whatever_the_bytes(
    tmp_path: Path, opening: bytes, block: bytes, closing: bytes, rest: bytes
) -> None:
    raw = opening + block + b"\n" + closing + rest

    entry, problems = load_bytes(tmp_path, raw)

    assert entry is not None
    assert entry.source == "a.md"
    assert all(problem.remedy for problem in problems)


@pytest.mark.parametrize(("size", "loaded"), [(9, True), (10, True), (11, False)])
def test_a_file_has_a_largest_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, loaded: bool
) -> None:
    monkeypatch.setattr(folder, "MAX_FILE_BYTES", 10)

    entry, problems = load_bytes(tmp_path, b"x" * size)

    assert (entry is not None, [p.level for p in problems]) == (loaded, [] if loaded else ["error"])


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    names = ["b.md", "a/z.markdown", "a.md", "a/B.MD", "c/d/e.md"]
    write(tmp_path, {name: f"Text of {name}" for name in names})
    left_out = ["note.txt", ".hidden.md", ".git/x.md", "node_modules/y.md", "a/__pycache__/z.md"]
    write(tmp_path, dict.fromkeys(left_out, "no"))
    problems, seen = Problems(), list[tuple[int, int]]()

    files = load_folder(tmp_path, problems, lambda done, total: seen.append((done, total)))

    expected = ["a.md", "a/B.MD", "a/z.markdown", "b.md", "c/d/e.md"]
    assert [file.entry for file in files] == [Entry(name, f"Text of {name}") for name in expected]
    assert (problems.found, seen) == ([], [(n, 5) for n in range(1, 6)])


def test_a_folder_without_markdown_has_no_entries(tmp_path: Path) -> None:
    assert load_folder(tmp_path, Problems()) == []


@pytest.mark.parametrize("name", ["missing", "file.md", "too long for any file system " * 10])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"file.md": "Text"})

    with pytest.raises(KnowledgeNotFoundError, match="folder"):
        load_folder(tmp_path / name, Problems())


def test_a_folder_that_cannot_be_listed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"open.md": "Text", "hr/closed.md": "Text"})
    scandir = os.scandir

    def closed(path: str | Path) -> object:
        if Path(path).name == "hr":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    problems = Problems()

    assert [file.source for file in load_folder(tmp_path, problems)] == ["open.md"]
    assert [(p.path, p.level, p.problem) for p in problems.found] == [
        ("hr", "error", "cannot be listed (Permission denied)")
    ]


def test_only_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    write(tmp_path, {"secret.md": "Secret", "kb/real.md": "Real"})
    (tmp_path / "kb/out.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "kb/in.md").symlink_to("real.md")
    (tmp_path / "kb/broken.md").symlink_to("gone.md")
    (tmp_path / "kb/loop").symlink_to(tmp_path)
    problems = Problems()

    files = load_folder(tmp_path / "kb", problems)

    assert [file.entry for file in files] == [Entry("in.md", "Real"), Entry("real.md", "Real")]
    assert [(p.path, p.level, p.problem) for p in sorted(problems.found, key=str)] == [
        ("broken.md", "error", "links to nothing"),
        ("out.md", "error", "links out of the folder"),
    ]


def test_documents_become_entries() -> None:
    parts = [
        Document(
            "One", metadata={"source": "dir\\a.pdf", "Title": "A", "page": 1, "n": [1.5, None]}
        ),
        Document("Two\r\n", metadata={"source": "b.pdf", "category": "HR", "keywords": ("x",)}),
        Document("Three", id="id-3", metadata={"day": date(2024, 1, 2), "tags": {"b", "a"}}),
        Document("Four", metadata={"long": 10**600, "source": " "}),
    ]
    problems = Problems()

    *named, unnamed = entries_from_documents(parts, problems)

    assert problems.found == []
    assert named == [
        Entry(
            "dir/a.pdf",
            "One",
            title="A",
            metadata={"source": "dir\\a.pdf", "page": "1", "n": ["1.5", None]},
        ),
        Entry("b.pdf", "Two\n", category="HR", keywords=("x",), metadata={"source": "b.pdf"}),
        Entry("id-3", "Three", metadata={"day": "2024-01-02", "tags": ["a", "b"]}),
    ]
    assert replace(unnamed, source="") == Entry(
        "", "Four", metadata={"long": "1" + "0" * 499, "source": " "}
    )
    assert re.fullmatch(r"document-[0-9a-f]{12}", unnamed.source)


def test_documents_of_equal_source_and_access_are_one_entry() -> None:
    pages = [
        Document("---\ntitle: First\n---\nOne", metadata={"source": "a", "page": 1}),
        Document("For board", metadata={"source": "a", "access": ["board"], "category": "Pay"}),
        Document("Two", metadata={"source": "a", "page": 2, "title": "Second"}),
        Document("Three", metadata={"source": "b"}),
        Document("---\naccess: board\n---\nFor board too", metadata={"source": "a"}),
    ]

    entries = entries_from_documents(pages, Problems())

    about = {"source": "a"}
    assert entries == [
        Entry("a", "One\n\nTwo", 4, title="First", metadata={**about, "page": "1"}),
        Entry(
            "a",
            "For board\n\nFor board too",
            category="Pay",
            access=frozenset({"board"}),
            metadata=about,
        ),
        Entry("b", "Three", metadata={"source": "b"}),
    ]


def test_a_problem_of_any_document_is_told() -> None:
    problems = Problems()
    pages = [Document(text, metadata={"source": "a"}) for text in ("One", "---\n- x\n---\nTwo")]

    entries_from_documents(pages, problems)

    assert [problem.path for problem in problems.found] == ["a"]


def name_of(text: str, **metadata: object) -> str:
    (entry,) = entries_from_documents([Document(text, metadata=metadata)], Problems())
    return entry.source


def test_a_document_without_source_is_named_by_its_content_alone() -> None:
    contents = [{}, {"title": "T"}, {"keywords": ["x"]}]
    documents = [Document("Text", metadata=each) for each in (*contents, {"access": "b"}, {})]
    documents.append(Document("Other text"))

    names = [entry.source for entry in entries_from_documents(documents, Problems())]

    assert names == [
        *(name_of("Text", **each) for each in contents),
        name_of("Text"),  # of other access, and of the same content
        name_of("Other text"),  # what is there twice is one
    ]
    assert len(set(names)) == 4


def test_a_document_without_source_title_and_heading_is_called_document() -> None:
    (entry,) = entries_from_documents([Document("Some text.")], Problems())

    prepared = prepare(entry, PassageConfig())

    assert (prepared.title, prepared.phrases) == ("document", ())
