"""`lookup-tool sync`, with and without `--watch`, and `lookup-tool check`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import run

from lookup_tool.commands import sync as command
from lookup_tool.engines.local.generations import writing
from lookup_tool.errors import KnowledgeBusyError, KnowledgeNotFoundError
from lookup_tool.indexing.sync import SyncReport


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "leave.md").write_text("# Leave\n\nYou get 25 days.\n", encoding="utf-8")
    (folder / "pay.md").write_text("# Pay\n\nAt the end of a month.\n", encoding="utf-8")
    return folder


@pytest.fixture
def kb(docs: Path, tmp_path: Path) -> Path:
    assert run("ingest", docs, "--into", tmp_path / "kb").code == 0
    return tmp_path / "kb"


def test_a_sync_says_what_changed_and_what_it_cost(docs: Path, kb: Path) -> None:
    (docs / "leave.md").write_text("# Leave\n\nYou get 28 days.\n", encoding="utf-8")
    (docs / "pay.md").rename(docs / "salary.md")
    (docs / "bikes.md").write_text("# Bikes\n\nOutside.\n", encoding="utf-8")

    said = run("sync", docs, "--kb", kb).lines

    assert said[:3] == ["+ bikes.md", "~ leave.md", "pay.md -> salary.md"]
    assert said[3].startswith(
        f"1 added, 1 changed, 0 removed, 1 renamed; 2 passages embedded; {kb} has 3 passages, "
    )
    (said,) = run("sync", docs, "--kb", kb).lines
    assert said.startswith(f"nothing changed: {kb} is up to date with {docs} (3 passages, ")
    assert "28 days" in run("ask", "How many days do I get?", "--kb", kb).out


def test_a_sync_builds_a_new_knowledge_base(docs: Path, tmp_path: Path) -> None:
    said = run("sync", docs, "--kb", tmp_path / "new").lines

    assert said[-1].startswith("2 added, 0 changed, 0 removed, 0 renamed; 2 passages embedded")


def test_check_says_that_all_is_whole_or_names_what_is_not(kb: Path) -> None:
    (said,) = run("check", kb).lines
    assert said.startswith(f"{kb} is whole: 17 files, ")

    file = kb / "generation-1" / "vectors.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    result = run("check", kb)

    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        f"error: {kb / 'generation-1'}: changed since written: vectors.npy; "
        "build it again with `lookup-tool ingest`"
    ]


def test_a_sync_mends_damage_and_says_so(docs: Path, kb: Path) -> None:
    file = kb / "generation-1" / "vectors.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"?")

    result = run("sync", docs, "--kb", kb)

    assert result.code == 0
    assert "warning: vectors.npy was damaged; built again" in result.err
    assert run("check", kb).code == 0


def test_a_second_writer_gets_one_line(docs: Path, kb: Path) -> None:
    with writing(kb):
        result = run("sync", docs, "--kb", kb)

    assert result.code == 1
    assert f"error: {kb}: another process is writing here; try again" in result.err


def test_watching_syncs_at_every_change_and_lives_through_errors(
    docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changes(*_: Path) -> Iterator[object]:
        yield set()  # nothing since the first sync
        (docs / "new.md").write_text("---\ntitle: a: b\n---\nNew.\n", encoding="utf-8")
        yield {"new.md"}
        (docs / "more.md").write_text("More.\n", encoding="utf-8")
        with writing(kb):
            yield {"more.md"}
            yield set()
        yield set()  # nothing new, but the change before was not taken in
        yield set()
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "follow", changes)
    result = run("sync", docs, "--kb", kb, "--watch")

    assert result.code == 0
    assert [line[0] for line in result.out.splitlines() if line[0] in "+~-"] == ["+", "+"]
    assert [line for line in result.out.splitlines() if line.startswith("+")] == [
        "+ new.md",
        "+ more.md",
    ]
    assert result.err.count("warning: new.md:2: not valid YAML") == 2
    assert result.err.count("error: ") == 1
    assert result.err.splitlines()[-1] == "stopped"


def test_watching_ends_when_the_folder_is_gone() -> None:
    reports: list[SyncReport] = []
    failures = iter([KnowledgeBusyError(Path("kb")), KnowledgeNotFoundError(Path("docs"), "gone")])

    def once() -> SyncReport:
        raise next(failures)

    with pytest.raises(KnowledgeNotFoundError):
        command.keep_in_step(once, iter([set(), set(), set()]), reports.append)

    assert (reports, list(failures)) == ([], [])


def test_following_tells_of_documents_and_not_of_the_knowledge_base(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = docs / "kb"
    assert run("ingest", docs, "--into", kb).code == 0
    monkeypatch.setattr(command, "_LOOK_AGAIN_MS", 50)
    changes = command.follow(docs, kb)

    assert next(changes) == set()  # from here on it watches
    (kb / "generation-1" / "other.md").write_text("no document", encoding="utf-8")
    (docs / "kb-notes.md").write_text("A document.", encoding="utf-8")
    seen = next(change for change in changes if change)

    assert isinstance(seen, set)
    assert {Path(path).name for _, path in seen} == {"kb-notes.md"}


def test_a_missing_extra_is_one_line(docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    result = run("sync", docs, "--kb", kb, "--watch")

    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        "error: --watch needs an extra: pip install 'lookup-tool[watch]'"
    ]
