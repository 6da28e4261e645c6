"""Names, paths and kinds of files as they lie in real folders.

Families: the same name twice, capitals, odd characters, other suffixes; hidden and tool folders;
links that lead out or nowhere; files that are none; one file that cannot be read among good ones.
Every readable file is found under a source of its own, nothing from outside the folder is, and what
was left out is in the load report.
"""

import os
import socket
import threading
from pathlib import Path

import pytest
from case_builders import DEFAULT, HASH, PAINT, Ask, Build, sources, warned
from langchain_core.documents import Document

from lookup_tool import KnowledgeBase, LookupToolError

SECRET = "The zebrafish tank key is under the mat."


def test_b_40_one_file_name_in_two_folders_is_two_entries(build_docs: Build, ask: Ask) -> None:
    files = {
        "north/readme.md": "# North hall\nForklifts charge at dock 1.\n",
        "south/readme.md": "# South hall\nForklifts charge at dock 8.\n",
    }

    found = sources(ask(build_docs(files, DEFAULT), "where do forklifts charge"))

    assert sorted(found) == ["north/readme.md", "south/readme.md"]


@pytest.mark.parametrize(
    "names",
    [
        ("readme.md", "README.md"),
        ("a/index.md", "a/b/index.md", "index.md"),
        ("a.md", "a.markdown"),
        ("a b.md", "a%20b.md", "a_b.md"),
        ("caf\u00e9.md", "cafe\u0301.md"),
        ("c#.md", "c.md", "c?.md"),
        ("a\\b.md", "a/b.md"),
        ("line\nbreak.md", "line break.md"),
        ("-.md", "--help.md", "~.md"),
    ],
    ids=lambda names: ascii(names[0]),
)
def test_every_file_has_a_source_of_its_own(
    build_docs: Build, ask: Ask, names: tuple[str, ...]
) -> None:
    knowledge = build_docs({name: f"Forklifts charge at dock {n}." for n, name in enumerate(names)})

    blocks = ask(knowledge, "where do forklifts charge at dock").evidence_blocks

    assert {block.source: block.content for block in blocks} == {
        name: f"Forklifts charge at dock {n}." for n, name in enumerate(names)
    }


def test_a_name_without_utf8_is_written_as_no_other_is(
    build_docs: Build, docs: Path, ask: Ask
) -> None:
    names = {
        b"caf\xe9.md": "./caf%E9.md",
        b"caf\xe8.md": "./caf%E8.md",
        b"caf%E9.md": "caf%E9.md",
        b"caf%\xe9.md": "./caf%25%E9.md",
        "caf\u00e9 \ufffd.md".encode(): "caf\u00e9 \ufffd.md",
    }
    for n, name in enumerate(names):
        (docs / os.fsdecode(name)).write_text(f"Forklifts charge at dock {n}.")

    blocks = ask(build_docs({}), "where do forklifts charge at dock").evidence_blocks

    assert {block.content: block.source for block in blocks} == {
        f"Forklifts charge at dock {n}.": name for n, name in enumerate(names.values())
    }


@pytest.mark.parametrize(
    "named",
    [("a", "a#two"), ("a#two", "a"), ("a", "a#two", "b#two"), ("a#b", "a#b-two", "a")],
    ids=" ".join,
)
def test_documents_never_share_a_block(ask: Ask, named: tuple[str, ...]) -> None:
    documents = [
        Document(
            f"# One\nIntro {n}.\n\n## Two\nForklifts charge at dock {n}.", metadata={"source": name}
        )
        for n, name in enumerate(named)
    ]
    with KnowledgeBase.from_documents(documents, embedder=HASH) as knowledge:
        blocks = ask(knowledge, "where do forklifts charge at dock two").evidence_blocks

    texts = {block.content for block in blocks if "Forklifts" in block.content}
    assert texts == {f"Forklifts charge at dock {n}." for n in range(len(named))}
    assert len({block.source for block in blocks}) == len(blocks)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text(SECRET)
    return folder


def test_b_42_nothing_outside_the_folder_is_found(
    build_docs: Build, docs: Path, outside: Path, ask: Ask
) -> None:
    (docs / "link.md").symlink_to("../outside/secret.md")
    (docs / "dir").symlink_to("../outside")
    knowledge = build_docs({"ok.md": f"---\nsource: ../outside/secret.md\n---\n{PAINT}"}, DEFAULT)

    assert "secret" not in ask(knowledge, "zebrafish").model_dump_json()
    assert sources(ask(knowledge, "which room is the paint in")) == ["ok.md"]
    path = ask(knowledge, "../../etc/passwd")
    assert (path.evidence_status, path.retrieval_trace.query) == ("no_evidence", "../../etc/passwd")
    assert "link.md" in warned(knowledge)


@pytest.mark.parametrize("source", ["../outside/secret.md", "/etc/passwd", "ok.md/../x", "\0", ""])
def test_no_path_leads_out_when_an_entry_is_read(
    build_docs: Build, outside: Path, source: str
) -> None:
    knowledge = build_docs({"ok.md": PAINT})

    with pytest.raises(LookupToolError, match="no entry"):
        knowledge.read(source)


@pytest.mark.parametrize("kind", ["absolute", "chain", "through a folder", "of a folder"])
def test_no_kind_of_link_leads_out(
    build_docs: Build, docs: Path, outside: Path, ask: Ask, kind: str
) -> None:
    (docs / "sub").mkdir()
    target = {"absolute": outside / "secret.md", "chain": "two.md", "of a folder": outside}
    (docs / "sub/two.md").symlink_to("../../outside/secret.md")
    (docs / "up").symlink_to("..")
    (docs / "sub/one.md").symlink_to(target.get(kind, "../up/outside/secret.md"))
    knowledge = build_docs({"ok.md": PAINT})

    assert sources(ask(knowledge, SECRET)) == []
    assert sources(ask(knowledge, PAINT)) == ["ok.md"]


def test_a_folder_may_itself_be_reached_by_a_link(docs: Path, tmp_path: Path, ask: Ask) -> None:
    (docs / "ok.md").write_text(PAINT)
    (tmp_path / "link").symlink_to("docs")

    with KnowledgeBase.build(tmp_path / "link", tmp_path / "kb", embedder=HASH) as knowledge:
        assert sources(ask(knowledge, PAINT)) == ["ok.md"]
        assert warned(knowledge) == set()


HIDDEN = [".git/x.md", ".obsidian/y.md", "node_modules/z/readme.md", ".draft.md"]


def test_b_44_hidden_and_tool_folders_are_left_out_unless_named(
    build_docs: Build, docs: Path, tmp_path: Path, ask: Ask
) -> None:
    knowledge = build_docs(dict.fromkeys(["ok.md", *HIDDEN], "The quokka is fed at noon."), DEFAULT)

    assert sources(ask(knowledge, "when is the quokka fed")) == ["ok.md"]
    with KnowledgeBase.build(docs / ".obsidian", tmp_path / "kb", embedder=HASH) as named:
        assert sources(ask(named, "quokka fed at noon")) == ["y.md"]


@pytest.mark.parametrize(
    "name",
    [".github/x.md", "a/.git/x.md", "a/node_modules/x.md", ".venv/lib/x.md", ".a/b/c.md", ".md",
     "a/__pycache__/x.md", ".trash/x.MD", "..x/y.md"],
)  # fmt: skip
def test_no_hidden_file_is_read_at_any_depth(build_docs: Build, ask: Ask, name: str) -> None:
    knowledge = build_docs({"ok.md": PAINT, name: "The quokka is fed at noon."})

    assert sources(ask(knowledge, "the quokka is fed at noon")) == []
    assert knowledge.report.entries == 1


def test_b_45_suffixes_in_capitals_are_read_and_folders_are_not(
    build_docs: Build, docs: Path, ask: Ask
) -> None:
    (docs / "old.md").mkdir()
    files = {"README.MD": "The kiln is at 900 degrees", "notes.markdown": "Glaze dries overnight"}
    knowledge = build_docs(files, DEFAULT)

    assert sources(ask(knowledge, "kiln"))[:1] == ["README.MD"]
    assert sources(ask(knowledge, "glaze"))[:1] == ["notes.markdown"]
    assert knowledge.report.problems == ()


@pytest.mark.parametrize(
    "suffix", ["Md", "mD", "MARKDOWN", "Markdown", "mdx", "mkd", "mkdn", "mdown", "mdwn", "mdtxt"]
)
def test_a_markdown_file_is_read_or_reported(build_docs: Build, ask: Ask, suffix: str) -> None:
    knowledge = build_docs({f"a.{suffix}": "The kiln is at 900 degrees", "ok.md": PAINT})

    found = sources(ask(knowledge, "the kiln is at 900 degrees"))

    assert f"a.{suffix}" in {*found, *warned(knowledge)}


BAD = {
    "colon.md": "---\ntitle: Refunds: how long\n---\nMoney is back.",
    "tab.md": "---\ntitle: Badge\nkeywords:\n\t- badge\n---\nLost badges.",
    "list.md": "---\n- soap\n- towels\n---\nSupplies are counted.",
}


def test_b_46_one_bad_file_hides_no_other(
    build_docs: Build, docs: Path, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = docs / "locked.md"
    locked.write_text("Locked away.")
    locked.chmod(0)
    unreadable = set() if os.access(locked, os.R_OK) else {"locked.md"}  # root reads everything
    (docs / "gone.md").symlink_to("nowhere.md")
    knowledge = build_docs({**BAD, "ok.md": "Paint is in room 5"}, DEFAULT)

    assert sources(ask(knowledge, "paint room"))[:1] == ["ok.md"]
    assert warned(knowledge) == {*BAD, "gone.md", *unreadable}
    assert all(problem.problem and problem.remedy for problem in knowledge.report.problems)
    assert capsys.readouterr().out == ""


def test_a_link_to_itself_hides_no_other_file(build_docs: Build, docs: Path, ask: Ask) -> None:
    (docs / "loop.md").symlink_to("loop.md")
    (docs / "one.md").symlink_to("two.md")
    (docs / "two.md").symlink_to("one.md")
    knowledge = build_docs({"ok.md": PAINT})

    assert sources(ask(knowledge, PAINT)) == ["ok.md"]
    assert warned(knowledge) == {"loop.md", "one.md", "two.md"}


def test_a_socket_hides_no_other_file(
    build_docs: Build, docs: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(docs)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.md")
        knowledge = build_docs({"ok.md": PAINT})

    assert sources(ask(knowledge, PAINT)) == ["ok.md"]
    assert warned(knowledge) == {"socket.md"}


def test_a_pipe_is_not_waited_for(build_docs: Build, docs: Path, ask: Ask) -> None:
    pipe = docs / "pipe.md"
    os.mkfifo(pipe)
    # Opening for writing waits for a reader, and sets one free that the load may have become.
    writer = threading.Thread(target=lambda: os.close(os.open(pipe, os.O_WRONLY)))
    writer.start()
    knowledge = build_docs({"ok.md": PAINT})
    waited_for = not writer.is_alive()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer.join()
    os.close(reader)

    assert sources(ask(knowledge, PAINT)) == ["ok.md"]
    assert (waited_for, warned(knowledge)) == (False, {"pipe.md"})
