"""`lookup-tool sync`, with and without `--watch`, and `lookup-tool check`."""

import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from command_line import run

from lookup_tool.commands import sync as command
from lookup_tool.engines.local.generations import writing
from lookup_tool.errors import KnowledgeBusyError, LookupToolError, RemovalsRefusedError
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


def away(docs: Path) -> None:
    """Move the folder away and back, as an unmounted share goes and comes."""
    docs.rename(docs.with_name("away"))


def back(docs: Path) -> None:
    docs.with_name("away").rename(docs)


def delete(docs: Path) -> None:
    shutil.copytree(docs, docs.with_name("copy"))
    shutil.rmtree(docs)


def restore(docs: Path) -> None:
    shutil.copytree(docs.with_name("copy"), docs)


def hide(docs: Path) -> None:
    """Put a file in its place."""
    away(docs)
    docs.write_text("no folder", encoding="utf-8")


def show(docs: Path) -> None:
    docs.unlink()
    back(docs)


@pytest.mark.parametrize(
    ("go", "come"),
    [(away, back), (delete, restore), (hide, show)],
    ids=["moved", "deleted", "hidden"],
)
def test_watching_outlives_a_folder_that_goes_away_and_comes_back(
    docs: Path,
    kb: Path,
    monkeypatch: pytest.MonkeyPatch,
    go: Callable[[Path], None],
    come: Callable[[Path], None],
) -> None:
    monkeypatch.setattr(command, "_LOOK_AGAIN_MS", 50)
    follow = command.follow

    def changes(docs: Path, kb: Path) -> Iterator[object]:
        seen = follow(docs, kb)
        yield next(seen)  # from here on it watches
        go(docs)
        yield from islice(seen, 10)
        come(docs)
        (docs / "new.md").write_text("New.", encoding="utf-8")
        yield from until("new.md", seen, kb)
        (docs / "more.md").write_text("More.", encoding="utf-8")  # it watches again
        yield from until("more.md", seen, kb)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "follow", changes)
    result = run("sync", docs, "--kb", kb, "--watch")

    assert result.code == 0
    assert [line for line in result.out.splitlines() if line.startswith("+")] == [
        "+ new.md",
        "+ more.md",
    ]
    assert result.err.count("error: ") == 1
    assert result.err.count(f"error: {docs}: ") == result.err.count("(still watching)") == 1


def until(source: str, seen: Iterator[object], kb: Path) -> Iterator[object]:
    """Yield what is seen until the knowledge base has a source; in vain, only so often."""
    for change in islice(seen, 200):
        yield change
        if run("show", source, "--kb", kb).code == 0:
            return


@pytest.mark.parametrize("how", ["swapped", "linked", "made anew"])
def test_a_folder_that_takes_the_place_of_another_is_watched(
    docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(command, "_LOOK_AGAIN_MS", 50)
    other, place = shutil.copytree(docs, docs.with_name("other")), docs
    if how == "linked":
        place = docs.with_name("link")
        place.symlink_to(docs)
    changes = command.follow(place, kb)
    next(changes)
    before = command._place(place)

    if how == "linked":
        place.unlink()
        place.symlink_to(other)
    elif how == "swapped":
        docs.rename(docs.with_name("old"))
        other.rename(docs)
    else:
        shutil.rmtree(docs)
        docs.mkdir()
        # A file system may give it the same number.
        monkeypatch.setattr(command, "_place", lambda _: before)
    for change in changes:
        if not change:
            break  # what it tells of the other folder is told
    (place / "new.md").write_text("New.", encoding="utf-8")

    assert any(isinstance(seen, set) and seen for seen in islice(changes, 200))


def test_watching_goes_on_when_a_sync_is_refused(
    docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changes(docs: Path, _: Path) -> Iterator[object]:
        for number in range(40):
            (docs / f"{number}.md").write_text(f"Rule {number}.", encoding="utf-8")
        yield {"40 files"}
        for number in range(30):
            (docs / f"{number}.md").rename(docs / f"{number}.txt")
        yield {"30 of them gone"}
        (docs / "0.txt").rename(docs / "0.md")
        yield {"one of them back"}
        for number in range(1, 30):
            (docs / f"{number}.txt").rename(docs / f"{number}.md")
        yield {"all of them back"}
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "follow", changes)
    result = run("sync", docs, "--kb", kb, "--watch")

    assert result.code == 0
    assert result.err.count("error: ") == 1
    assert "30 of the 42 entries" in result.err
    assert not [line for line in result.out.splitlines() if line.startswith("-")]
    assert result.out.splitlines()[-1].startswith("nothing changed: ")


def test_what_is_refused_waits_for_a_change_and_what_failed_does_not() -> None:
    busy = KnowledgeBusyError(Path("kb"))
    refused = RemovalsRefusedError(Path("docs"), "30 of 40 are gone", 30, 40)
    failures: list[LookupToolError] = []

    def once() -> SyncReport:
        raise failures.pop(0)

    for error, tries in ((busy, 3), (refused, 2)):
        failures[:] = [error] * 3
        command.keep_in_step(once, iter([{"a change"}, set(), {"a change"}]), lambda report: None)
        assert len(failures) == 3 - tries


def test_most_files_are_removed_when_that_is_meant(tmp_path: Path) -> None:
    docs, kb = tmp_path / "many", tmp_path / "of-many"
    docs.mkdir()
    for number in range(30):
        (docs / f"{number}.md").write_text(f"Rule {number}.", encoding="utf-8")
    assert run("ingest", docs, "--into", kb).code == 0
    for number in range(1, 30):
        (docs / f"{number}.md").unlink()

    result = run("sync", docs, "--kb", kb)
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        f"error: {docs}: 29 of the 30 entries of {kb} are gone or empty (1.md, 10.md, 11.md, "
        "12.md, 13.md, ...); if they are to be removed, sync with `--allow-removals`"
    ]
    said = run("sync", docs, "--kb", kb, "--allow-removals").lines
    assert said[-1].startswith("0 added, 0 changed, 29 removed, 0 renamed; ")


def test_a_folder_that_cannot_be_watched_is_one_line(
    docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(*_: object, **__: object) -> Iterator[object]:
        raise OSError("OS file watch limit reached.")
        yield

    monkeypatch.setattr("watchfiles.watch", watch)

    result = run("sync", docs, "--kb", kb, "--watch")

    assert result.code == 1
    assert f"error: {docs}: cannot be watched: OS file watch limit reached." in result.err


def test_following_tells_of_documents_and_not_of_the_knowledge_base(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = docs / "kb"
    assert run("ingest", docs, "--into", kb).code == 0
    monkeypatch.setattr(command, "_LOOK_AGAIN_MS", 50)
    changes = command.follow(docs, kb)

    assert next(changes)  # from here on it watches
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
