"""Whatever bytes stand where a file was, what comes out is an error that names it."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedders import HashEmbedder

from lookup_tool import KnowledgeBase, TraceStore, create_lookup_tool
from lookup_tool.engines.local.arrays import save_array
from lookup_tool.engines.local.snapshot import read_pointer
from lookup_tool.errors import KnowledgeDamagedError, KnowledgeError, RemovalsRefusedError

ARRAYS = (
    *("vectors", "entry_vectors", "text_ids", "sections", "entries", "lexical/ids"),
    *("lexical/starts", "lexical/heads", "lexical/sizes", "lexical/frequency", "lexical/public"),
    *("lexical/posting_starts", "lexical/posting_rows", "lexical/posting_counts"),
    "lexical/posting_most",
)
FILES = (
    *(f"{name}.npy" for name in ARRAYS),
    *("lexical/vocabulary.json", "passages.sqlite", "manifest.json", "CURRENT"),
)
"""The last five are of five different kinds."""
MENDED = tuple(name for name in FILES if name not in {"manifest.json", "CURRENT"})


def embedder() -> HashEmbedder:
    return HashEmbedder(16)


def write(docs: Path, edition: str) -> None:
    docs.mkdir(exist_ok=True)
    for name, block in (("a", "category: HR"), ("b", "access: [board]"), ("c", "keywords: [pto]")):
        text = (
            f"---\n{block}\n---\n# Leave {name}\n\n{edition} rule.\n\n## Days\n\nIt has 28 days.\n"
        )
        (docs / f"{name}.md").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, a knowledge base of them, and one of an earlier edition."""
    folder = tmp_path_factory.mktemp("whole")
    for edition in ("old", "new"):
        write(folder / "docs", edition)
        KnowledgeBase.build(folder / "docs", folder / edition, embedder=embedder()).close()
    return folder


class Damaged:
    """A copy of a knowledge base that is opened, and then gets a damaged generation."""

    def __init__(self, whole: Path, folder: Path) -> None:
        self.docs, self.kb = whole / "docs", folder / "kb"
        shutil.copytree(whole / "old", self.kb)
        self.reader = KnowledgeBase.open(self.kb, embedder=embedder())
        self.generation = self.kb / "generation-2"
        shutil.copytree(whole / "new" / "generation-1", self.generation)
        self.seal()

    def path(self, name: str) -> Path:
        return self.kb / name if name == "CURRENT" else self.generation / name

    def seal(self, *files: str) -> None:
        """Make the manifest agree with these files, and the pointer with the manifest."""
        path = self.generation / "manifest.json"
        if files:
            manifest = json.loads(path.read_bytes())
            for name in files:
                content = (self.generation / name).read_bytes()
                digest = hashlib.sha256(content).hexdigest()
                manifest["files"][name] = {"size": len(content), "sha256": digest}
            path.write_text(json.dumps(manifest), encoding="utf-8")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        pointer = {"generation": self.generation.name, "manifest": digest}
        (self.kb / "CURRENT").write_text(json.dumps(pointer), encoding="utf-8")

    def change_manifest(self, **changes: Any) -> None:
        path = self.generation / "manifest.json"
        manifest = json.loads(path.read_bytes()) | changes
        path.write_text(json.dumps(manifest), encoding="utf-8")
        self.seal()

    def open(self) -> None:
        KnowledgeBase.open(self.kb, embedder=embedder()).close()

    def check(self) -> None:
        KnowledgeBase.check(self.kb)

    def refresh(self) -> None:
        self.reader.refresh()

    def sync(self) -> tuple[str, ...]:
        return KnowledgeBase.sync(self.docs, self.kb, embedder=embedder()).damaged

    def look_up(self) -> str:
        with KnowledgeBase.open(self.kb, embedder=embedder()) as knowledge:
            tool = create_lookup_tool(knowledge, traces=TraceStore("sqlite://"), groups=["board"])
            call = {"name": tool.name, "args": {"query": "leave days"}, "id": "1"}
            return tool.invoke({**call, "type": "tool_call"}).artifact["evidenceStatus"]

    def is_refused(self, name: str) -> None:
        """Check that everything that opens it names the file, and that the reader goes on."""
        version = self.reader.version
        for step in (self.open, self.check, self.refresh):
            with pytest.raises(KnowledgeDamagedError) as raised:
                step()
            assert name in str(raised.value)
            assert "\n" not in str(raised.value)
        assert self.reader.version == version

    def is_mended_by_a_sync(self, name: str) -> None:
        assert self.sync() == (name,)
        self.check()


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Damaged:
    return Damaged(whole, tmp_path)


BRACKETS = b"[" * 100_000
HEADER = b"\x93NUMPY\x01\x00v\x00"


def array(header: bytes) -> bytes:
    return HEADER + header.ljust(117) + b"\n" + b"\0" * 64


ANY_CONTENT = {
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "brackets": BRACKETS,
    "null": b"null",
    "list": b"[1]",
    "long number": b"9" * 10_000,
}
ARRAY_CONTENT = {
    "token error": array(b"{'descr': '<f4', 'fortran_order': False, 'shape': ((3, 4)"),
    "syntax error": array(b"{'descr': '<f4',, }"),
    "no dictionary": array(b"'<f4'"),
    "no such type": array(b"{'descr': '<z9', 'fortran_order': False, 'shape': (3,), }"),
    "objects": array(b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }"),
    "absurd shape": array(
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000000), }"
    ),
    "negative shape": array(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 16), }"),
    "header cut off": HEADER + b"{'descr'",
    "length of the header cut off": HEADER[:9],
    "long header": b"\x93NUMPY\x01\x00\x28\x23" + b"(" * 9000,
    "many signs": b"\x93NUMPY\x01\x00\x28\x23" + b"-" * 8999 + b"1",
    "archive": b"PK\x03\x04" + b"\0" * 200,
}
CONTENT = [
    *((name, kind, ANY_CONTENT[kind]) for name in FILES[-5:] for kind in ANY_CONTENT),
    *(("lexical/starts.npy", kind, content) for kind, content in ARRAY_CONTENT.items()),
    ("passages.sqlite", "header alone", b"SQLite format 3\0" + b"\xff" * 5000),
]


@pytest.mark.parametrize(
    ("name", "content"),
    [pytest.param(name, content, id=f"{name} {kind}") for name, kind, content in CONTENT],
)
def test_hostile_bytes_with_checksums_of_their_own_are_refused_by_the_name_of_their_file(
    damaged: Damaged, name: str, content: bytes
) -> None:
    damaged.path(name).write_bytes(content)
    if name != "CURRENT":
        damaged.seal(*([name] if name in MENDED else []))

    damaged.is_refused(name)
    if name in MENDED:
        damaged.is_mended_by_a_sync(Path(name).name)
    else:
        with pytest.raises(KnowledgeDamagedError, match=name):
            damaged.sync()


def other_type(found: Any) -> Any:
    return found.astype(np.float64 if found.dtype.kind == "f" else np.uint64)


def one_less(found: Any) -> Any:
    return found[:-1]


@pytest.mark.parametrize("change", [other_type, one_less])
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_does_not_fit_the_others_is_refused(
    damaged: Damaged, name: str, change: Callable[[Any], Any]
) -> None:
    path = damaged.path(f"{name}.npy")
    save_array(path, change(np.load(path)))
    damaged.seal(f"{name}.npy")

    damaged.is_refused("")
    assert len(damaged.sync()) == 1
    damaged.check()


def test_vectors_in_the_order_of_their_columns_are_refused(damaged: Damaged) -> None:
    path = damaged.path("vectors.npy")
    np.save(path, np.asfortranarray(np.load(path)))
    damaged.seal("vectors.npy")

    damaged.is_refused("vectors.npy")


@pytest.mark.parametrize("name", ["starts", "posting_starts"])
def test_runs_out_of_order_are_refused_before_memory_is_set_aside_for_them(
    damaged: Damaged, name: str
) -> None:
    path = damaged.path(f"lexical/{name}.npy")
    starts = np.load(path)
    starts[1] = 2**40
    save_array(path, starts)
    damaged.seal(f"lexical/{name}.npy")

    damaged.is_refused(f"{name}.npy")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("entries", 3),
        ("entries", -1),
        ("lexical/ids", 255),
        ("lexical/heads", 10_000),
        ("lexical/heads", -1),
        ("lexical/posting_rows", 10_000),
        ("lexical/public", 10_000),
    ],
)
def test_values_that_point_nowhere_are_found_by_a_check_and_mended_by_a_sync(
    damaged: Damaged, name: str, value: int
) -> None:
    path = damaged.path(f"{name}.npy")
    content = np.load(path)
    content[0] = value
    save_array(path, content)
    damaged.seal(f"{name}.npy")

    with pytest.raises(KnowledgeDamagedError, match=rf"{name}\.npy"):
        damaged.check()
    damaged.is_mended_by_a_sync(path.name)


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param({"a": 1}, id="no list"),
        pytest.param(["leave", "leave"], id="twice"),
        pytest.param([1, 2], id="numbers"),
        pytest.param([["a"]], id="lists"),
    ],
)
def test_a_vocabulary_that_is_no_list_of_terms_is_refused(damaged: Damaged, terms: object) -> None:
    damaged.path("lexical/vocabulary.json").write_text(json.dumps(terms), encoding="utf-8")
    damaged.seal("lexical/vocabulary.json")

    damaged.is_refused("vocabulary.json")


SEGMENT = {"access": None, "category": None}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"passages": 7}, id="more passages"),
        pytest.param({"passages": -1}, id="negative passages"),
        pytest.param({"entries": 2}, id="fewer entries"),
        pytest.param({"entries": 10**30}, id="a huge number of entries"),
        pytest.param({"segments": []}, id="no segments"),
        pytest.param({"segments": [{**SEGMENT, "start": 1, "stop": 6}]}, id="rows left out"),
        pytest.param({"segments": [{**SEGMENT, "start": 0, "stop": 9}]}, id="rows that are none"),
        pytest.param(
            {"segments": [{**SEGMENT, "start": 0, "stop": 6}, {**SEGMENT, "start": 6, "stop": 0}]},
            id="a run that goes back",
        ),
        pytest.param({"access_sets": [None]}, id="an access set without a version"),
        pytest.param({"versions": []}, id="no versions"),
        pytest.param({"quantized_rows": 10**6}, id="codes of more rows than there are"),
        pytest.param({"quantized_rows": 2}, id="codes that are not there"),
        pytest.param({"files": {}}, id="no files"),
        pytest.param({"embedder": {"name": "x", "dimension": 8, "loads_by_name": False}}, id="8"),
        pytest.param({"thresholds": {"reference_threshold": 9, "evidence_floor": 0}}, id="9"),
    ],
)
def test_a_manifest_that_contradicts_itself_or_the_files_is_refused(
    damaged: Damaged, changes: dict[str, Any]
) -> None:
    damaged.change_manifest(**changes)

    damaged.is_refused("")
    try:
        damaged.sync()
    except (KnowledgeDamagedError, RemovalsRefusedError):
        return  # it cannot be read, or says that it held more than the folder has
    damaged.check()


def test_a_manifest_that_names_other_places_is_refused(damaged: Damaged) -> None:
    manifest = json.loads(damaged.path("manifest.json").read_bytes())
    outside = {"../../x": {"size": 0, "sha256": ""}}
    damaged.change_manifest(files=manifest["files"] | outside)

    damaged.is_refused("lists other files than a generation has")


def test_an_embedder_that_cannot_be_is_damage(damaged: Damaged) -> None:
    named = {"name": "wordllamb", "dimension": 16, "loads_by_name": True}
    damaged.change_manifest(embedder=named)

    with pytest.raises(KnowledgeDamagedError, match="unknown embedder 'wordllamb'"):
        KnowledgeBase.open(damaged.kb)


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(os.name == "nt", reason="has none of these")
@pytest.mark.parametrize("other", [Path.mkdir, a_loop, a_pipe, a_device])
@pytest.mark.parametrize("name", ["CURRENT", "manifest.json", "vectors.npy", "passages.sqlite"])
def test_what_stands_in_place_of_a_file_is_never_read(
    damaged: Damaged, name: str, other: Callable[[Path], None]
) -> None:
    damaged.path(name).unlink()
    other(damaged.path(name))

    damaged.is_refused(name)
    if name in MENDED:
        damaged.is_mended_by_a_sync(name)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything is permitted")
@pytest.mark.parametrize("name", ["CURRENT", "manifest.json", "vectors.npy", ""])
def test_what_may_not_be_read_is_named(damaged: Damaged, name: str) -> None:
    damaged.path(name).chmod(0)
    try:
        damaged.is_refused(name)
    finally:
        damaged.path(name).chmod(0o755)


def test_a_knowledge_base_in_a_circle_of_links_is_an_error(whole: Path, tmp_path: Path) -> None:
    circle = tmp_path / "kb"
    circle.symlink_to("kb")

    for step in (KnowledgeBase.open, KnowledgeBase.check):
        with pytest.raises(KnowledgeError):
            step(circle)
    with pytest.raises(KnowledgeError):
        KnowledgeBase.sync(whole / "docs", circle, embedder=embedder())


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Flip, insert or cut a few bytes, most often near the beginning."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 3])):
        place = min(chance.randrange(len(changed) + 1), chance.choice([130, len(changed)]))
        match chance.randrange(4):
            case 0 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                changed[place : place + 8] = chance.choice(
                    [b"\xff" * 8, b"\0" * 8, b"\0\0\0\1" * 2]
                )
            case 2:
                changed[place:place] = chance.randbytes(4)
            case _:
                del changed[place : place + chance.choice([1, 8, 10_000])]
    return bytes(changed)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_ends_in_errors_of_our_own(damaged: Damaged, seed: int) -> None:
    chance = random.Random(seed)
    name = chance.choice(FILES)
    damaged.path(name).write_bytes(mutated(damaged.path(name).read_bytes(), chance))
    if name != "CURRENT" and chance.random() < 0.7:
        damaged.seal(*([name] if name in MENDED else []))

    ends: dict[str, str] = {}
    steps = (damaged.check, damaged.look_up, damaged.refresh, damaged.sync)
    for step in steps:
        try:
            ends[step.__name__] = str(step())
        except KnowledgeError as error:
            ends[step.__name__] = type(error).__name__

    assert ends["look_up"] in {"sufficient", "weak", "unavailable", "KnowledgeDamagedError"}
    if name in MENDED:
        damaged.check()
        assert damaged.look_up() == "sufficient"
        assert read_pointer(damaged.kb).generation in {"generation-2", "generation-3"}
