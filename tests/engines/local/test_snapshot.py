import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from embedders import HashEmbedder
from searching import search

from lookup_tool import KnowledgeBase
from lookup_tool.engines.local import snapshot
from lookup_tool.engines.local.generations import writing
from lookup_tool.errors import KnowledgeBusyError, KnowledgeDamagedError, KnowledgeNotFoundError
from lookup_tool.schema import SearchRequest

FILES = (
    "vectors.npy",
    "passages.sqlite",
    "lexical/ids.npy",
    "lexical/starts.npy",
    "lexical/heads.npy",
    "lexical/posting_starts.npy",
    "lexical/posting_rows.npy",
    "lexical/posting_counts.npy",
    "lexical/frequency.npy",
    "lexical/public.npy",
    "lexical/vocabulary.json",
    "text_ids.npy",
)


def build(root: Path, text: str, progress: Callable[[str, int, int], None] | None = None) -> None:
    docs = root.parent / "docs"
    docs.mkdir(exist_ok=True)
    (docs / "a.md").write_text(text, encoding="utf-8")
    KnowledgeBase.build(docs, root, embedder=HashEmbedder(), progress=progress).close()


def text_of(base: KnowledgeBase) -> str:
    """Go through the vectors, the terms and the texts of a knowledge base."""
    ((passage, candidate),) = search(base, SearchRequest("rule"))
    assert candidate.found_by == ("vector", "lexical")
    return passage.text


def read(root: Path) -> str:
    with KnowledgeBase.open(root, embedder=HashEmbedder()) as base:
        return text_of(base)


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    build(tmp_path / "kb", "The old rule.")
    return tmp_path / "kb"


def test_a_rebuild_replaces_what_is_opened_next(root: Path) -> None:
    build(root, "The new rule.")

    assert read(root) == "The new rule."
    assert names(root) == ["CURRENT", "generation-2"]


def test_the_pointer_is_replaced_as_a_whole_and_never_rewritten(root: Path) -> None:
    with (root / "CURRENT").open(encoding="utf-8") as before:
        build(root, "The new rule.")

        assert json.loads(before.read())["generation"] == "generation-1"


class PowerCutError(Exception):
    """Stops a build."""


def cut_at(phase: str, done: int) -> Callable[[str, int, int], None]:
    def progress(now: str, so_far: int, _: int) -> None:
        if (now, so_far) == (phase, done):
            raise PowerCutError

    return progress


STEPS = [("read", 1), ("cut", 1), ("embed", 1), ("index", 0), ("index", 1), ("index", 2)]


@pytest.mark.parametrize(("phase", "done"), [*STEPS, ("index", 3)])
def test_a_build_that_is_cut_short_changes_nothing(root: Path, phase: str, done: int) -> None:
    with pytest.raises(PowerCutError):
        build(root, "The new rule.", cut_at(phase, done))

    assert read(root) == "The old rule."


@pytest.mark.parametrize(("phase", "done"), [*STEPS, ("index", 3)])
def test_a_first_build_that_is_cut_short_is_no_knowledge_base(
    tmp_path: Path, phase: str, done: int
) -> None:
    with pytest.raises(PowerCutError):
        build(tmp_path / "kb", "The new rule.", cut_at(phase, done))

    with pytest.raises(KnowledgeNotFoundError):
        read(tmp_path / "kb")


def test_the_build_after_one_that_was_cut_short_leaves_nothing_of_it(root: Path) -> None:
    with pytest.raises(PowerCutError):
        build(root, "The lost rule.", cut_at("index", 2))
    build(root, "The new rule.")

    assert read(root) == "The new rule."
    assert names(root) == ["CURRENT", "generation-2"]


def test_a_reader_keeps_its_generation_during_and_after_a_rebuild(root: Path) -> None:
    seen: list[str] = []
    with KnowledgeBase.open(root, embedder=HashEmbedder()) as reader:
        build(root, "The new rule.", lambda *_: seen.append(text_of(reader)))
        seen.append(text_of(reader))
        version = reader.version

    assert set(seen) == {"The old rule."}
    with KnowledgeBase.open(root, embedder=HashEmbedder()) as other:
        assert other.version != version


def test_old_generations_are_kept_as_long_as_somebody_reads_them(root: Path) -> None:
    with KnowledgeBase.open(root, embedder=HashEmbedder()) as first:
        build(root, "The second rule.")
        with KnowledgeBase.open(root, embedder=HashEmbedder()) as second:
            build(root, "The third rule.")
            build(root, "The fourth rule.")

            assert names(root) == ["CURRENT", "generation-1", "generation-2", "generation-4"]
            assert (text_of(first), text_of(second)) == ("The old rule.", "The second rule.")
        build(root, "The fifth rule.")
        assert names(root) == ["CURRENT", "generation-1", "generation-5"]

    build(root, "The sixth rule.")
    assert names(root) == ["CURRENT", "generation-6"]


READ = """
import sys
sys.path.insert(0, sys.argv[2])
from embedders import HashEmbedder
from lookup_tool import KnowledgeBase
from searching import texts
base = KnowledgeBase.open(sys.argv[1], embedder=HashEmbedder())
for line in sys.stdin:
    print(texts(base, "rule")[0], flush=True)
"""


def test_a_reader_in_another_process_keeps_its_generation_until_it_is_killed(root: Path) -> None:
    command = [sys.executable, "-c", READ, str(root), str(Path(__file__).parents[2])]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write("\n")
        assert reader.stdout.readline() == "The old rule.\n"
        build(root, "The second rule.")
        build(root, "The third rule.")
        reader.stdin.write("\n")
        assert reader.stdout.readline() == "The old rule.\n"
        assert names(root) == ["CURRENT", "generation-1", "generation-3"]
        reader.kill()

    build(root, "The fourth rule.")
    assert names(root) == ["CURRENT", "generation-4"]


def test_a_reader_that_comes_while_its_generation_is_removed_takes_the_next_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointers = [snapshot.read_pointer(root)]
    build(root, "The new rule.")
    current = snapshot.read_pointer

    monkeypatch.setattr(
        snapshot, "read_pointer", lambda root: pointers.pop() if pointers else current(root)
    )
    assert read(root) == "The new rule."
    assert pointers == []


@pytest.mark.skipif(sys.platform == "win32", reason="has no such modes")
def test_a_folder_that_cannot_be_written_can_be_read(root: Path) -> None:
    paths = [root, *root.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert read(root) == "The old rule."
    finally:
        for path in paths:
            path.chmod(0o755)


def test_a_second_writer_in_the_same_process_is_refused(root: Path) -> None:
    def second(phase: str, _: int, __: int) -> None:
        if phase == "embed":
            with pytest.raises(KnowledgeBusyError, match="another process is writing here"):
                build(root, "The second rule.")

    build(root, "The first rule.", second)

    assert read(root) == "The first rule."


HOLD = """
import sys
from pathlib import Path
from lookup_tool.engines.local.generations import writing
with writing(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_in_another_process_is_refused_until_the_first_is_done(root: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(KnowledgeBusyError):
            build(root, "The second rule.")
        holder.communicate()

    assert read(root) == "The old rule."
    build(root, "The second rule.")
    assert read(root) == "The second rule."


def test_a_writer_that_fails_lets_the_next_one_in(root: Path) -> None:
    with pytest.raises(PowerCutError), writing(root):
        raise PowerCutError

    build(root, "The new rule.")
    assert read(root) == "The new rule."


def damaged(root: Path) -> None:
    with pytest.raises(KnowledgeDamagedError, match="build it again with `lookup-tool ingest`"):
        KnowledgeBase.open(root, embedder=HashEmbedder())


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_missing_file_is_noticed_when_opening(root: Path, name: str) -> None:
    (root / "generation-1" / name).unlink()

    damaged(root)


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("change", [-1, 1], ids=["short", "long"])
def test_a_file_of_another_size_is_noticed_when_opening(root: Path, name: str, change: int) -> None:
    path = root / "generation-1" / name
    path.write_bytes((path.read_bytes() + b" ")[: path.stat().st_size + change])

    damaged(root)


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_a_broken_header_is_noticed_when_opening(root: Path, name: str) -> None:
    path = root / "generation-1" / name
    content = path.read_bytes()
    path.write_bytes(b"?" * min(64, len(content)) + content[64:])

    damaged(root)


def test_a_manifest_that_was_changed_by_hand_is_refused(root: Path) -> None:
    path = root / "generation-1" / "manifest.json"
    written = path.read_text("utf-8")
    changed = written.replace('"entries": 1', '"entries": 2')
    assert changed != written
    path.write_text(changed, encoding="utf-8")

    damaged(root)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"generation-1", id="no-json"),
        pytest.param(b"[1]", id="no-object"),
        pytest.param(b"{}", id="no-key"),
        pytest.param(b'{"generation": 1, "manifest": ""}', id="no-name"),
        pytest.param(b'{"generation": "generation-9", "manifest": ""}', id="not-there"),
        pytest.param(b"\xff\xfe\x00", id="no-text"),
    ],
)
def test_a_pointer_that_cannot_be_read_is_damage(root: Path, content: bytes) -> None:
    (root / "CURRENT").write_bytes(content)

    damaged(root)


def reseal(root: Path, **changes: object) -> None:
    """Change the manifest, and make the pointer agree with it."""
    path = root / "generation-1" / "manifest.json"
    manifest = json.loads(path.read_bytes()) | changes
    path.write_text(json.dumps(manifest), encoding="utf-8")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    pointer = {"generation": "generation-1", "manifest": digest}
    (root / "CURRENT").write_text(json.dumps(pointer), encoding="utf-8")


def test_another_format_is_refused_by_its_number(root: Path) -> None:
    reseal(root, format=1)

    with pytest.raises(KnowledgeDamagedError, match="has format 1, this version reads 5"):
        read(root)


def test_a_manifest_with_an_unknown_key_is_refused(root: Path) -> None:
    reseal(root, surprise=1)

    damaged(root)


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".npy")])
def test_a_pickle_in_place_of_an_array_is_never_read(root: Path, tmp_path: Path, name: str) -> None:
    path, mark = root / "generation-1" / name, tmp_path / "mark"
    np.save(path, np.array([Bomb(mark)], dtype=object), allow_pickle=True)
    files = json.loads((root / "generation-1" / "manifest.json").read_bytes())["files"]
    reseal(root, files=files | {name: {"size": path.stat().st_size, "sha256": ""}})

    damaged(root)
    assert not mark.exists()
    np.load(path, allow_pickle=True)
    assert mark.exists()
