from pathlib import Path

import pytest
from langchain_core.documents import Document

from lookup_tool.documents.entries import Problems, entries_from_documents, parse_entry
from lookup_tool.documents.folder import load_file
from lookup_tool.schema import NOBODY, Access

KEY = "access: [hr]"
# fmt: off
NO_NAMES = [
    "''", "' '", "1", "1.10", "no", "true", "2024-01-02", "{hr: yes}", "[hr, 1]", "[hr, no]",
    "[hr, null]", "[hr, '']", "[hr, ' ']", "[[hr]]", "[{hr: x}]", "!group [hr]", "!!set {hr}",
]
OTHER_FENCES = [
    "--", "----", "- - -", "\u2013\u2013\u2013", "\u2014", "\uff0d\uff0d\uff0d",
    "\u2212\u2212\u2212", "***", "___", "~~~", "===", ";;;", "```", "```yaml", "``` yaml",
    "````yaml", "---json", "++++", "--- # note",
]
# fmt: on


SLIPS = ["acces", "acess", "accss", "ccess", "accesss", "axcess", "accesd", "acecss", "cacess"]


def verdict(text: str) -> tuple[Access, bool]:
    """Return who may read the entry, and whether the report has an error about access."""
    problems = Problems()
    entry = parse_entry(text, "a.md", problems)
    return entry.access, has_access_error(problems)


def has_access_error(problems: Problems) -> bool:
    return any(
        problem.level == "error" and "`access`" in problem.problem for problem in problems.found
    )


@pytest.mark.parametrize(
    ("text", "access"),
    [
        pytest.param("---\ntitle: T\n---\nBody", None, id="absent"),
        pytest.param("Body", None, id="no block"),
        pytest.param("---\naccess: [hr]\n---\nBody", {"hr"}, id="list of one"),
        pytest.param("---\naccess: [hr, ' it ']\n---\nBody", {"hr", "it"}, id="list"),
        pytest.param("---\naccess:\n  - hr\n  - hr\n---\nBody", {"hr"}, id="block list, repeated"),
        pytest.param("---\naccess: hr\n---\nBody", {"hr"}, id="single string"),
        pytest.param("---\naccess: hr, it\n---\nBody", {"hr, it"}, id="a comma is no list"),
        pytest.param("---\naccess: ['1']\n---\nBody", {"1"}, id="quoted number"),
        pytest.param("---\nAccess : [hr]\n---\nBody", {"hr"}, id="capital, space before colon"),
        pytest.param("---\n'access': [hr]\n---\nBody", {"hr"}, id="quoted key"),
        pytest.param("---\nacc\u200bess: [hr]\n---\nBody", {"hr"}, id="invisible character"),
        pytest.param("---\nstaff: &s [hr]\naccess: *s\n---\nBody", {"hr"}, id="alias"),
        pytest.param("---\naccess: [] \n---\nBody", NOBODY, id="empty list: nobody"),
        pytest.param("---\naccess:\n---\nBody", NOBODY, id="null: nobody"),
        pytest.param("---\naccess: ~\n---\nBody", NOBODY, id="tilde: nobody"),
        pytest.param('+++\naccess = ["hr"]\n+++\nBody', {"hr"}, id="TOML list"),
        pytest.param('+++\naccess = "hr"\n+++\nBody', {"hr"}, id="TOML string"),
        pytest.param("+++\naccess = []\n+++\nBody", NOBODY, id="TOML empty: nobody"),
        pytest.param(f"\ufeff\n---\r\n{KEY}\r\n---\r\nBody", {"hr"}, id="Windows file"),
    ],
)
def test_access_says_who_may_read(text: str, access: set[str] | None) -> None:
    assert verdict(text) == (access, False)


@pytest.mark.parametrize("value", NO_NAMES)
def test_access_that_is_no_list_of_names_means_nobody(value: str) -> None:
    assert verdict(f"---\naccess: {value}\n---\nBody") == (NOBODY, True)


@pytest.mark.parametrize("value", ["''", "1", "true", "2024-01-02", "['hr', 1]", "{hr = 1}"])
def test_toml_access_that_is_no_list_of_names_means_nobody(value: str) -> None:
    assert verdict(f"+++\naccess = {value}\n+++\nBody") == (NOBODY, True)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(f"title: a: b\n{KEY}", id="colon in a value above"),
        pytest.param(f"{KEY}\ntitle: a: b", id="colon in a value below"),
        pytest.param("title: a: b\n'access': [hr]", id="quoted key"),
        pytest.param("title: a: b\n\uff21ccess\uff1a[hr]", id="full-width key and colon"),
        pytest.param("title: a: b\nacc\u200bess: [hr]", id="invisible character in the key"),
        pytest.param("title: x\naccess: [hr", id="open bracket"),
        pytest.param('title: x\naccess: ["hr]', id="open quote"),
        pytest.param(f'title: "x\n{KEY}', id="open quote above"),
        pytest.param(f'title: "x\n{KEY}\nsummary: y"', id="key swallowed by double quotes"),
        pytest.param(f"title: 'x\n{KEY}\nsummary: y'", id="key swallowed by single quotes"),
        pytest.param(f"title: x\n  {KEY}", id="indented key"),
        pytest.param(f"title: x\n\t{KEY}", id="tab"),
        pytest.param("title: x\naccess [hr]", id="no colon"),
        pytest.param("access [hr]", id="no colon, alone"),
        pytest.param("title: x\naccess:[hr]", id="no space after the colon"),
        pytest.param("access:[hr]", id="no space after the colon, alone"),
        pytest.param("access: [hr]\nACCESS: [all]", id="key twice"),
        pytest.param("access: *unknown", id="unknown alias"),
        pytest.param(f"{KEY}\nkey: !tag x", id="tag elsewhere"),
        pytest.param(f"{KEY}\n? [a]\n: b", id="a key that is a list"),
        pytest.param("? access\n: [hr]\ntitle: a: b", id="question mark key"),
        pytest.param(f"{KEY}\nkey: \x00", id="NUL"),
        pytest.param("acc\x00ess: [hr]", id="NUL in the key"),
        pytest.param(f"- {KEY}\n- title: x", id="list of keys"),
        pytest.param("{access: [hr], title", id="open brace"),
        pytest.param('access = ["hr"]', id="TOML between hyphens"),
        pytest.param(f"key: {'[' * 30}x{']' * 30}\n{KEY}", id="too deep"),
        pytest.param(f"key: {'x' * 70_000}\n{KEY}", id="too long"),
        pytest.param(f"key: [{'x,' * 10_000}]\n{KEY}", id="too many values"),
        pytest.param("rules:\n  access: [hr]", id="inside another key"),
        pytest.param("rules:\n  - access: [hr]", id="inside a list"),
        pytest.param(f"base: &b {{{KEY}}}\n<<: *b", id="merged"),
    ],
)
def test_access_in_a_broken_block_means_nobody(block: str) -> None:
    assert verdict(f"---\n{block}\n---\nBody") == (NOBODY, True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"+++\n{KEY}\n+++\nBody", id="YAML between plus signs"),
        pytest.param('+++\na = oops\naccess = ["hr"]\n+++\nBody', id="broken TOML"),
        pytest.param('+++\n[rules]\naccess = ["hr"]\n+++\nBody', id="in a TOML table"),
        pytest.param('+++\naccess = ["hr"]\nBody', id="TOML never closed"),
        pytest.param(f"---\n{KEY}\nBody", id="never closed"),
        pytest.param(f"---\n{KEY}\n ---\nBody", id="indented end"),
        pytest.param(f"---\ntitle: x\n----\n{KEY}\nBody", id="end of four hyphens"),
        pytest.param(f"---\n---\n{KEY}\n---\nBody", id="empty block first"),
        pytest.param(f"---\ntitle: x\n---\n\n---\n{KEY}\n---\nBody", id="second block"),
        pytest.param(f"---\ntitle: x\n---\n{KEY}\n---\nBody", id="closed too early"),
        pytest.param(f"title: x\n{KEY}\n---\nBody", id="no opening fence"),
        pytest.param(f"{KEY}\n\nBody", id="no fence"),
        pytest.param(f"title: x\n\n{KEY}\n---\nBody", id="no opening fence, blank line"),
        pytest.param(f"keywords: [a,\n  b]\n{KEY}\n---\nBody", id="no opening fence, long list"),
        pytest.param(f"summary: >\n  x\n{KEY}\n---\nBody", id="no opening fence, folded text"),
        pytest.param(f"<!-- note -->\n---\n{KEY}\n---\nBody", id="comment above"),
        pytest.param(f"# Title\n---\n{KEY}\n---\nBody", id="heading above"),
        pytest.param(f"# Title\n\n---\n{KEY}\n---\nBody", id="heading and blank line above"),
        pytest.param(f"%YAML 1.2\n---\n{KEY}\n---\nBody", id="YAML directive above"),
        pytest.param(f"--- {KEY}\n---\nBody", id="key in the fence"),
        pytest.param(f"--- {{{KEY}, title: x}}\n---\nBody", id="braces in the fence"),
        pytest.param(f"<!--\n{KEY}\n-->\nBody", id="HTML comment"),
        pytest.param(f"<!-- {KEY} -->\nBody", id="HTML comment in one line"),
        pytest.param('{"title": "x",\n "access": ["hr"]}\nBody', id="JSON"),
        pytest.param(f"```markdown\n---\n{KEY}\n---\nBody\n```", id="all in a code block"),
    ],
)
def test_access_behind_a_broken_fence_means_nobody(text: str) -> None:
    assert verdict(text) == (NOBODY, True)


@pytest.mark.parametrize("fence", OTHER_FENCES)
def test_access_between_fences_of_another_style_means_nobody(fence: str) -> None:
    closing = fence.rstrip("yaml ") if "`" in fence else fence

    assert verdict(f"{fence}\n{KEY}\n{closing}\nBody") == (NOBODY, True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp1252"])
@pytest.mark.parametrize("body", ["Plain text. ", "é", "文"])
def test_access_holds_in_any_encoding(tmp_path: Path, encoding: str, body: str) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(f"---\n{KEY}\n---\n{body * 2000}".encode(encoding, "replace"))

    file = load_file(path, "a.md", Problems())

    assert file is not None
    assert file.entry.access == {"hr"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"# How to\n\nWrite `{KEY}` at the top.", id="prose about the key"),
        pytest.param(f"# How to\n\n```yaml\n---\n{KEY}\n---\n```", id="example in the body"),
        pytest.param(f"---\ntitle: x\n---\n# A\n\n{KEY}\n", id="line in the body"),
        pytest.param(f"---\ntitle: x\n---\nText\n\n---\n{KEY}\n---\n", id="rules in the body"),
        pytest.param(f"---\ntitle: x\n# {KEY}\n---\nBody", id="comment in a whole block"),
        pytest.param("---\ntitle: 'Remote access: how to'\n---\nBody", id="title"),
        pytest.param("---\ntitle: Remote access: how to\n---\nBody", id="title with a colon"),
        pytest.param("---\ntitle: a: b\nkeywords: [access card]\n---\nB", id="keyword"),
        pytest.param("---\ntitle: a: b\naccessibility: high\n---\nBody", id="longer word"),
        pytest.param("---\ntitle: a: b\n---\nBody", id="broken block without it"),
        pytest.param("---\ntitle: x\n\nBody", id="open block without it"),
        pytest.param("---\n\nBody with access.\n\n---\n\nMore", id="prose between rules"),
        pytest.param("# Access\n\nBody", id="heading"),
        pytest.param("# Access: how to get a badge\n\nBody", id="heading with a colon"),
        pytest.param("Access to the lab needs a badge.\n", id="first sentence"),
    ],
)
def test_an_entry_that_only_speaks_of_access_stays_public(text: str) -> None:
    assert verdict(text) == (None, False)


@pytest.mark.parametrize(
    ("metadata", "access", "error"),
    [
        pytest.param({}, None, False, id="absent"),
        pytest.param({"access": ["hr"]}, {"hr"}, False, id="list"),
        pytest.param({"Access": ("hr", "it")}, {"hr", "it"}, False, id="tuple, capital"),
        pytest.param({"access": {"hr"}}, {"hr"}, False, id="set"),
        pytest.param({"access": "hr"}, {"hr"}, False, id="string"),
        pytest.param({"access": []}, NOBODY, False, id="empty"),
        pytest.param({"access": None}, NOBODY, False, id="null"),
        pytest.param({"access": ["hr", 1]}, NOBODY, True, id="number in the list"),
        pytest.param({"access": False}, NOBODY, True, id="truth value"),
        pytest.param({"access": {"hr": True}}, NOBODY, True, id="mapping"),
        pytest.param({"extra": [{"access": ["hr"]}]}, NOBODY, True, id="inside another key"),
    ],
)
def test_a_document_carries_access_in_its_metadata(
    metadata: dict[str, object], access: set[str] | None, error: bool
) -> None:
    problems = Problems()

    (entry,) = entries_from_documents([Document("Body", metadata=metadata)], problems)

    assert (entry.access, has_access_error(problems)) == (access, error)


def test_frontmatter_in_the_content_of_a_document_does_not_become_public() -> None:
    document = Document(f"---\n{KEY}\n---\nBody", metadata={"source": "a.md"})  # as TextLoader does

    (entry,) = entries_from_documents([document], Problems())

    assert entry.access == frozenset({"hr"})


@pytest.mark.parametrize(
    "text",
    [
        "```yaml\ntitle: x\naccess: corp.hr\n```\nText",
        "----\naccess: team@corp.com\n----\nText",
        "***\naccess: corp/hr\n***\nText",
        "access: corp/hr\n\nText",
        "Title: x\nAccess: dept.hr\n\nText",
        "<!-- note -->\n---\ntitle: x\naccess: hr, legal, board, exec\n---\nText",
        "Some intro\n\n---\ntitle: x\naccess: corp/hr\n---\nText",
        "<!--\naccess: corp/hr\n-->\nText",
        "---\ntitle: x\n---\n\naccess: team@corp.com\n\nText",
        '{"title": "x", "access": ["hr"]}\n\nText',
        ';;;\n{"title": "x", "access": ["hr"]}\n;;;\nText',
        "---\nmeta.access: [hr]\n---\nText",
        "---\naccess_groups: [hr]\n---\nText",
        *(f"---\n{slip}: [hr]\n---\nText" for slip in SLIPS),
        "---\n\u0430ccess: [hr]\n---\nText",
        "**access**: hr\n\nText",
        "----\n" + "key: value\n" * 120 + "access: [hr]\n----\nText",
    ],
)
def test_access_with_any_value_in_anything_like_metadata_means_nobody(text: str) -> None:
    assert verdict(text) == (NOBODY, True)


@pytest.mark.parametrize(
    "text",
    [
        "# Museum\n\nAccess: free",
        "# API\n\n- Access: public\n- Method: GET",
        "# Data\n\n* **Access:** open access",
        "# Parameters\n\naccess: string",
        "# Code\n\n    access: private",
        "---\ndescription: |\n  how to\n  access: the panel\n---\nText",
        "Access: via the side door, then left.\n",
        *(f"---\n{word}: [hr]\n---\nText" for word in ("across", "recess", "success", "assess")),
        *(f"---\n{word}: [hr]\n---\nText" for word in ("excess", "process", "axes", "case")),
        *(f"---\n{word}: [hr]\n---\nText" for word in ("accessgroups", "accessibility", "aces")),
        "---\n\u0430\u0441cess: [hr]\n---\nText",  # two letters of another alphabet
    ],
)
def test_a_page_that_says_access_in_passing_stays_public(text: str) -> None:
    assert verdict(text) == (None, False)


@pytest.mark.parametrize(
    ("block", "access"),
    [
        pytest.param("title: x", {"staff"}, id="absent"),
        pytest.param("access: public", None, id="public"),
        pytest.param("access: Public ", None, id="public, capital"),
        pytest.param("access: \uff30UBLIC", None, id="public, wide"),
        pytest.param("access: 'public'", None, id="public in quotes"),
        pytest.param("access: [public]", None, id="public in a list"),
        pytest.param("access: [hr, public]", None, id="public among groups"),
        pytest.param("access: [hr]", {"hr"}, id="group"),
        pytest.param("access: []", NOBODY, id="nobody"),
        pytest.param("access: [publik]", {"publik"}, id="another word"),
    ],
)
@pytest.mark.parametrize("default", [frozenset({"staff"}), None, NOBODY])
def test_an_entry_that_does_not_say_who_may_read_it_has_the_default_access(
    block: str, access: set[str] | None, default: Access
) -> None:
    problems = Problems()
    entry = parse_entry(f"---\n{block}\n---\nBody", "a.md", problems, default)

    expected = default if access == {"staff"} else access
    assert (entry.access, problems.found) == (expected, [])


@pytest.mark.parametrize("text", ["Body", "", "# T\n\nBody", "---\n\nBody", '+++\na = "b"\n+++\nB'])
def test_a_file_without_metadata_has_the_default_access(text: str) -> None:
    assert parse_entry(text, "a.md", Problems(), frozenset({"staff"})).access == {"staff"}


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: a: b\naccess: public\n---\nBody",
        "---\naccess: public\nBody",
        "access: public\n\nBody",
        "---\nrules: {access: public}\n---\nBody",
        "---\naccess: [public, 1]\n---\nBody",
        "---\naccess: {public: yes}\n---\nBody",
    ],
)
@pytest.mark.parametrize("default", [None, frozenset({"staff"})])
def test_public_that_cannot_be_read_is_nobody(text: str, default: Access) -> None:
    assert parse_entry(text, "a.md", Problems(), default).access == NOBODY


@pytest.mark.parametrize(
    ("inside", "outside", "access"),
    [
        pytest.param("title: x", {}, {"staff"}, id="neither"),
        pytest.param("access: public", {}, None, id="public inside"),
        pytest.param("title: x", {"access": "public"}, None, id="public outside"),
        pytest.param("access: public", {"Access": ["hr"]}, {"hr"}, id="a group outside"),
        pytest.param("access: [hr]", {"access": "public"}, {"hr"}, id="a group inside"),
        pytest.param("access: [hr, it]", {"access": ["it"]}, {"it"}, id="both restrict"),
        pytest.param("title: x", {"access": None}, NOBODY, id="nobody outside"),
        pytest.param("access: public", {"acess": ["hr"]}, NOBODY, id="a slip outside"),
        pytest.param("rules: {access: x}", {"access": "public"}, NOBODY, id="sealed inside"),
    ],
)
def test_a_document_says_who_may_read_it_inside_or_outside(
    inside: str, outside: dict[str, object], access: set[str] | None
) -> None:
    document = Document(f"---\n{inside}\n---\nBody", metadata=outside)

    (entry,) = entries_from_documents([document], Problems(), frozenset({"staff"}))

    assert entry.access == access
