"""Killed at any step, a knowledge base is as before or as after; what is wrong on disk is named."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from embedders import HashEmbedder
from mutations import content
from searching import texts

from lookup_tool import KnowledgeBase
from lookup_tool.engines.local import generations
from lookup_tool.errors import KnowledgeDamagedError, KnowledgeError

FORKED = Path(__file__).parents[1] / "forked.py"
BEFORE = ("vectors kept", "embedded", "passages written", "index written", "sealed")
BEFORE = (*BEFORE, "before the switch", "pointer written")
AFTER = ("after the switch", "old one renamed", "old one removed")


def write(docs: Path, text: str) -> None:
    docs.mkdir(exist_ok=True)
    (docs / "rule.md").write_text(text, encoding="utf-8")
    (docs / "other.md").write_text(f"Beside it: {text}", encoding="utf-8")


def said(kb: Path) -> set[str]:
    with KnowledgeBase.open(kb, embedder=HashEmbedder()) as base:
        return set(texts(base, "rule"))


OLD = {"The old rule.", "Beside it: The old rule."}
NEW = {"The new rule.", "Beside it: The new rule."}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write(tmp_path / "docs", "The old rule.")
    return tmp_path / "docs"


@pytest.fixture
def kb(docs: Path, tmp_path: Path) -> Path:
    KnowledgeBase.build(docs, tmp_path / "kb", embedder=HashEmbedder()).close()
    return tmp_path / "kb"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_any_step_it_is_as_before_or_as_after(
    docs: Path, kb: Path, tmp_path: Path
) -> None:
    write(docs, "The new rule.")
    done = subprocess.run(
        [sys.executable, FORKED, docs, kb, *BEFORE, *AFTER],
        capture_output=True,
        text=True,
        check=True,
    )
    ends = [line.split("\t") for line in done.stdout.splitlines()]
    assert [end for *_, end in ends] == ["-9"] * 2 * len((*BEFORE, *AFTER))

    KnowledgeBase.build(docs, tmp_path / "fresh", embedder=HashEmbedder()).close()
    for point, command, _ in ends:
        left = tmp_path / f"{command} {point}"
        assert said(left) == (OLD if point in BEFORE else NEW), point
        KnowledgeBase.check(left)
        KnowledgeBase.sync(docs, left, embedder=HashEmbedder())
        assert content(left) == content(tmp_path / "fresh"), point
        folders = [path for path in left.iterdir() if path.is_dir()]
        assert (len(folders), (left / "embedded.sqlite").exists()) == (1, False), point


def test_the_next_writer_removes_what_was_left_even_if_it_has_nothing_to_write(
    docs: Path, kb: Path
) -> None:
    (kb / "CURRENT.partial").write_text("half a poin", encoding="utf-8")
    for name in ("generation-2.partial", "generation-3.removed", "generation-4"):
        shutil.copytree(kb / "generation-1", kb / name)

    report = KnowledgeBase.sync(docs, kb, embedder=HashEmbedder())

    assert not report.switched
    assert {path.name for path in kb.iterdir()} == {"CURRENT", ".lock", "generation-1"}


@pytest.mark.skipif(sys.platform == "win32", reason="has no handle on a folder to flush")
def test_all_is_on_disk_before_the_switch_and_the_switch_at_the_end(
    docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int | None] = []
    fsync, replace = os.fsync, Path.replace

    def flush(descriptor: int) -> None:
        fsync(descriptor)
        flushed.append(os.fstat(descriptor).st_ino)

    def switch(path: Path, target: Path) -> Path:
        flushed.append(None)
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(Path, "replace", switch)
    write(docs, "The new rule.")
    KnowledgeBase.sync(docs, kb, embedder=HashEmbedder())

    generation = kb / "generation-2"
    names = {path.stat().st_ino: path for path in (kb, kb / "CURRENT", generation)}
    names |= {path.stat().st_ino: path for path in generation.rglob("*")}
    *before, last = [None if number is None else names[number] for number in flushed]
    assert set(before[:-3]) == {generation, *generation.rglob("*")}
    assert before[-3:] == [kb / "CURRENT", kb, None]  # the pointer, its folder, the switch
    assert last == kb


class FullDisk:
    """Lets some bytes through, then says that the disk is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setattr(generations, name, self._fail)

    def _fail(self, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["_seal", "_flush", "_switch"])
def test_a_full_disk_is_one_line_and_changes_nothing(
    docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write(docs, "The new rule.")
    with monkeypatch.context() as patched:
        FullDisk(patched, step)
        with pytest.raises(KnowledgeError) as raised:
            KnowledgeBase.sync(docs, kb, embedder=HashEmbedder())

    problem = "cannot be written: No space left on device; it was left as it is"
    assert str(raised.value) == f"{kb}: {problem}"
    assert said(kb) == OLD
    assert not list(kb.glob("*.partial/*"))
    KnowledgeBase.sync(docs, kb, embedder=HashEmbedder())
    assert said(kb) == NEW


# Every file of this process ends at so many bytes.
LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[4])
from embedders import HashEmbedder
from lookup_tool import KnowledgeBase
from lookup_tool.errors import KnowledgeError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    KnowledgeBase.sync(sys.argv[1], sys.argv[2], embedder=HashEmbedder())
except KnowledgeError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
@pytest.mark.parametrize("size", [300, 9_000, 60_000], ids=["vectors", "kept", "passages"])
def test_a_file_that_cannot_grow_is_one_line_and_changes_nothing(
    docs: Path, kb: Path, size: int
) -> None:
    write(docs, "\n\n".join(f"## Part {n}\n\nThe new rule {n}." for n in range(100)))

    tests = str(FORKED.parent)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, docs, kb, str(size), tests],
        capture_output=True,
        text=True,
        check=True,
    )

    (line,) = done.stdout.splitlines()
    assert line.startswith(f"{kb}: cannot be written: ")
    assert (done.stderr, said(kb)) == ("", OLD)


def test_a_folder_that_cannot_be_written_is_one_line(
    docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(generations.FileLock, "acquire", refused)
    with pytest.raises(KnowledgeError) as raised:
        KnowledgeBase.sync(docs, kb, embedder=HashEmbedder())

    assert str(raised.value) == f"{kb}: cannot be written: Read-only file system"


def test_check_names_every_file_that_changed(kb: Path) -> None:
    assert KnowledgeBase.check(kb).passages == 2
    for name in ("vectors.npy", "lexical/ids.npy"):
        file = kb / "generation-1" / name
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert said(kb)  # an opening does not read every byte

    with pytest.raises(KnowledgeDamagedError) as raised:
        KnowledgeBase.check(kb)

    problem = "changed since written: lexical/ids.npy, vectors.npy"
    remedy = "build it again with `lookup-tool ingest`"
    assert str(raised.value) == f"{kb / 'generation-1'}: {problem}; {remedy}"


def test_what_is_damaged_is_built_again_in_its_place(docs: Path, kb: Path) -> None:
    for path in sorted(kb.rglob("*"), reverse=True):
        if path.is_file():
            path.write_bytes(b"damaged")

    with pytest.raises(KnowledgeDamagedError, match="build it again with `lookup-tool ingest`"):
        KnowledgeBase.sync(docs, kb, embedder=HashEmbedder())
    KnowledgeBase.build(docs, kb, embedder=HashEmbedder()).close()

    assert said(kb) == OLD
    assert [path.name for path in kb.iterdir() if path.is_dir()] == ["generation-2"]
