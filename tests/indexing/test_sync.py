"""A sync ends where a build from nothing ends, and computes only what has changed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from embedders import HashEmbedder, TableEmbedder
from langchain_core.documents import Document
from mutations import WORDS, Documents, SometimesBlind, content, found
from searching import search, texts

from lookup_tool import KnowledgeBase, LookupConfig
from lookup_tool.config import PassageConfig
from lookup_tool.documents import prepared
from lookup_tool.engines.local.generations import writing
from lookup_tool.errors import (
    EmbedderMismatchError,
    KnowledgeBusyError,
    KnowledgeError,
    KnowledgeNotFoundError,
    RemovalsRefusedError,
)
from lookup_tool.indexing.sync import SyncReport, _changes
from lookup_tool.schema import SearchRequest

LEAVE = "---\ntitle: Leave\n---\n# Leave\n\nYou get 25 days.\n\n## Asking\n\nAsk your manager.\n"
PAY = "---\naccess: [board]\n---\n# Pay\n\nThe bonus is 10 %.\n"
BROKEN = "---\ntitle: a: b\n---\nA rule.\n"


class Counting(HashEmbedder):
    """Remembers which texts it embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents += texts
        return super().embed_documents(texts)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in {"leave.md": LEAVE, "pay.md": PAY, "broken.md": BROKEN}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def kb(docs: Path, tmp_path: Path) -> Path:
    KnowledgeBase.build(docs, tmp_path / "kb", embedder=Counting()).close()
    return tmp_path / "kb"


def synced(docs: Path, kb: Path, embedder: HashEmbedder | None = None) -> SyncReport:
    return KnowledgeBase.sync(docs, kb, embedder=embedder or Counting())


def test_fifty_random_changes_leave_what_a_build_from_nothing_would(tmp_path: Path) -> None:
    documents, blind = Documents(tmp_path / "docs", seed=5), SometimesBlind()
    kb, fresh = tmp_path / "kb", tmp_path / "fresh"
    for number in range(50):
        documents.mutate()
        report = KnowledgeBase.sync(documents.root, kb, embedder=blind)
        with KnowledgeBase.build(documents.root, fresh, embedder=blind) as built:
            assert (report.version, report.passages) == (built.version, built.manifest.passages)
            assert set(report.load.problems) == set(built.report.problems)
        assert content(kb) == content(fresh)
        query = WORDS[number % len(WORDS)]
        assert found(kb, query) == found(fresh, query)


def test_nothing_changed_writes_nothing_and_says_what_was_wrong_before(
    docs: Path, kb: Path
) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in kb.rglob("*.*"))
    embedder = Counting()

    report = synced(docs, kb, embedder)

    assert (report.switched, report.embedded, embedder.documents) == (False, 0, [])
    assert [(p.path, p.level) for p in report.load.problems] == [("broken.md", "warning")]
    assert sorted((path, path.stat().st_mtime_ns) for path in kb.rglob("*.*")) == before


def test_every_kind_of_change_is_told_and_costs_what_is_new(docs: Path, kb: Path) -> None:
    (docs / "leave.md").write_text(LEAVE.replace("25", "28"), encoding="utf-8")
    (docs / "pay.md").rename(docs / "bonus.md")
    (docs / "broken.md").unlink()
    (docs / "new.md").write_text("# Bikes\n\nPark them outside.\n", encoding="utf-8")
    embedder = Counting()

    report = synced(docs, kb, embedder)

    assert (report.added, report.changed, report.removed, report.renamed) == (
        ("new.md",),
        ("leave.md",),
        ("broken.md",),
        (("pay.md", "bonus.md"),),
    )
    assert (report.switched, report.embedded, report.passages) == (True, 2, 4)
    probe = "a: b\n\nA rule."  # the first passage that is stored is embedded again
    assert embedder.documents == [
        probe,
        "Leave\n\nYou get 28 days.",
        "Bikes\n\nPark them outside.",
    ]


def test_a_change_that_embeds_nothing_does_not_need_the_embedder(docs: Path, kb: Path) -> None:
    (docs / "broken.md").unlink()
    embedder = Counting()

    assert synced(docs, kb, embedder).removed == ("broken.md",)
    assert embedder.documents == []


def test_what_is_gone_cannot_be_found(docs: Path, kb: Path) -> None:
    (docs / "leave.md").write_text(LEAVE.replace("25 days", "nothing"), encoding="utf-8")
    synced(docs, kb)

    with KnowledgeBase.open(kb, embedder=HashEmbedder()) as base:
        found = texts(base, "25 days")

    assert "You get nothing." in found
    assert all("25" not in text for text in found)
    stored = b"".join(path.read_bytes() for path in kb.rglob("*") if path.is_file())
    assert b"25 days" not in stored


def test_an_entry_that_closes_or_opens_moves_behind_the_wall_or_out(docs: Path, kb: Path) -> None:
    (docs / "leave.md").write_text("---\naccess: [hr]\n---\n" + LEAVE[20:], encoding="utf-8")
    (docs / "pay.md").write_text(PAY.replace("access: [board]", "owner: x"), encoding="utf-8")
    synced(docs, kb)

    with KnowledgeBase.open(kb, embedder=HashEmbedder()) as base:
        public = {passage.entry for passage, _ in search(base, SearchRequest("bonus days"))}

    assert public == {"pay.md", "broken.md"}


def test_a_sync_builds_where_there_is_nothing(docs: Path, tmp_path: Path) -> None:
    report = synced(docs, tmp_path / "kb")

    assert report.added == ("broken.md", "leave.md", "pay.md")
    assert (report.switched, report.embedded, report.passages) == (True, 4, 4)


def test_documents_of_another_origin_are_replaced(docs: Path, tmp_path: Path) -> None:
    documents = [Document("Old.", metadata={"source": "leave.md"})]
    kb = tmp_path / "kb"
    KnowledgeBase.from_documents(documents, into=kb, embedder=HashEmbedder()).close()

    report = synced(docs, kb)

    assert (report.changed, report.added) == (("leave.md",), ("broken.md", "pay.md"))


@pytest.mark.parametrize(
    ("before", "now", "changes"),
    [
        pytest.param({}, {"a": "1"}, (["a"], [], [], []), id="added"),
        pytest.param({"a": "1"}, {}, ([], [], ["a"], []), id="removed"),
        pytest.param({"a": "1"}, {"a": "2"}, ([], ["a"], [], []), id="changed"),
        pytest.param({"a": None}, {"a": "1"}, ([], ["a"], [], []), id="from no file before"),
        pytest.param({"a": "1"}, {"b": "1"}, ([], [], [], [("a", "b")]), id="renamed"),
        pytest.param(
            {"a": "1", "b": "1", "c": "1"},
            {"x": "1", "y": "1"},
            ([], [], ["c"], [("a", "x"), ("b", "y")]),
            id="fewer copies: in order",
        ),
        pytest.param(
            {"a": "1", "b": "2"},
            {"x": "2", "y": "1", "z": "1"},
            (["z"], [], [], [("a", "y"), ("b", "x")]),
            id="more copies: the first",
        ),
        pytest.param(
            {"a": "1", "b": "2"}, {"a": "2", "c": "1"}, (["c"], ["a"], ["b"], []), id="overwritten"
        ),
    ],
)
def test_files_are_compared_by_name_and_content(
    before: dict[str, str | None], now: dict[str, str | None], changes: tuple[list[object], ...]
) -> None:
    found = _changes(before, now)

    names = ("added", "changed", "removed", "renamed")
    assert tuple(list(found[name]) for name in names) == changes


def test_a_sync_cuts_as_the_knowledge_base_was_cut_unless_told(docs: Path, tmp_path: Path) -> None:
    (docs / "long.md").write_text("\n\n".join(["word " * 40] * 9), encoding="utf-8")
    small = LookupConfig(passages=PassageConfig(max_tokens=60, min_tokens=10))
    kb = tmp_path / "kb"
    KnowledgeBase.build(docs, kb, embedder=Counting(), config=small).close()

    assert not synced(docs, kb).switched
    report = KnowledgeBase.sync(docs, kb, embedder=Counting(), config=LookupConfig())
    assert (report.switched, report.changed) == (True, ())
    KnowledgeBase.build(docs, tmp_path / "fresh", embedder=Counting()).close()
    assert content(kb) == content(tmp_path / "fresh")


def test_what_other_libraries_cut_is_cut_again_and_its_vectors_stay(
    docs: Path, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "unidata_version", "99.0")

    report = synced(docs, kb)

    assert (report.switched, report.embedded) == (True, 0)
    assert KnowledgeBase.check(kb).made_by.endswith("Unicode 99.0")


@pytest.mark.parametrize("name", ["vectors.npy", "passages.sqlite", "lexical/ids.npy"])
def test_a_sync_mends_what_is_damaged_and_spreads_nothing(docs: Path, kb: Path, name: str) -> None:
    sound = content(kb)
    file = kb / "generation-1" / name
    file.write_bytes(file.read_bytes()[:-8] + b"damaged!")

    report = synced(docs, kb)

    assert (report.damaged, report.switched, report.embedded) == ((name,), True, 4)
    assert content(kb) == sound


@pytest.mark.parametrize("name", ["vectors.npy", "passages.sqlite", "lexical/ids.npy"])
@pytest.mark.parametrize("how", ["empty", "cut off", "missing", "not of its kind"])
def test_a_sync_mends_what_cannot_be_opened(docs: Path, kb: Path, name: str, how: str) -> None:
    sound = content(kb)
    file = kb / "generation-1" / name
    written = file.read_bytes()
    file.unlink()
    left = {"empty": b"", "cut off": written[:100], "not of its kind": b"?" * len(written)}
    if how in left:
        file.write_bytes(left[how])

    report = synced(docs, kb)

    assert (report.damaged, report.switched, report.embedded) == ((name,), True, 4)
    assert content(kb) == sound


def test_another_embedder_is_refused_and_nothing_is_changed(docs: Path, kb: Path) -> None:
    before = content(kb)
    (docs / "new.md").write_text("New.", encoding="utf-8")

    for embedder in (HashEmbedder(8), TableEmbedder({"": [1.0] * 256}), None):
        with pytest.raises(EmbedderMismatchError):
            KnowledgeBase.sync(docs, kb, embedder=embedder)

    assert content(kb) == before


def test_an_emptied_folder_empties_nothing(docs: Path, kb: Path) -> None:
    for path in docs.iterdir():
        path.unlink()

    for allow_removals in (False, True):
        with pytest.raises(RemovalsRefusedError, match="holds no entries; the knowledge base in"):
            KnowledgeBase.sync(docs, kb, embedder=HashEmbedder(), allow_removals=allow_removals)
    with pytest.raises(KnowledgeError, match="holds no entries; the knowledge base in"):
        KnowledgeBase.build(docs, kb, embedder=HashEmbedder())
    docs.rmdir()
    with pytest.raises(KnowledgeNotFoundError, match="no such folder"):
        synced(docs, kb)

    assert len(found(kb, "days")) == 4


def test_an_emptied_folder_empties_no_damaged_knowledge_base(docs: Path, kb: Path) -> None:
    (kb / "generation-1" / "vectors.npy").write_bytes(b"damaged")
    before = sorted(kb.rglob("*"))
    for path in docs.iterdir():
        path.unlink()

    with pytest.raises(RemovalsRefusedError, match="holds no entries") as refused:
        synced(docs, kb)

    assert (refused.value.removed, refused.value.entries) == (3, 3)
    assert sorted(kb.rglob("*")) == before


@pytest.fixture
def forty(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with `00.md` to `39.md`, and the knowledge base of it."""
    docs, kb = tmp_path / "forty", tmp_path / "of-forty"
    docs.mkdir()
    for number in range(40):
        (docs / f"{number:02}.md").write_text(f"Rule {number}.", encoding="utf-8")
    KnowledgeBase.build(docs, kb, embedder=HashEmbedder()).close()
    return docs, kb


def remove(docs: Path, *numbers: int) -> None:
    for number in numbers:
        (docs / f"{number:02}.md").unlink()


def empty(docs: Path) -> None:
    """Leave the names, and nothing in 21 files, as a copy does that was cut off."""
    for number in range(21):
        (docs / f"{number:02}.md").write_bytes(b"")


def replace(docs: Path) -> None:
    for number in range(30):
        (docs / f"{number:02}.md").rename(docs / f"{number}.txt")
        (docs / f"other-{number}.md").write_text(f"Other {number}.", encoding="utf-8")


def move(docs: Path) -> None:
    (docs / "moved").mkdir()
    for number in range(40):
        (docs / f"{number:02}.md").rename(docs / "moved" / f"{number:02}.md")


@pytest.mark.parametrize(
    ("change", "removed"),
    [
        pytest.param(lambda docs: remove(docs, *range(21)), 21, id="21-removed"),
        pytest.param(lambda docs: remove(docs, *range(1, 40)), 39, id="all-but-one-removed"),
        pytest.param(empty, 21, id="21-emptied"),
        pytest.param(replace, 30, id="30-replaced"),
    ],
)
def test_a_folder_that_has_lost_most_files_is_refused_unless_told(
    forty: tuple[Path, Path], change: Callable[[Path], None], removed: int
) -> None:
    docs, kb = forty
    before = content(kb)
    change(docs)

    with pytest.raises(RemovalsRefusedError) as refused:
        synced(docs, kb)

    assert (refused.value.removed, refused.value.entries) == (removed, 40)
    assert str(refused.value).startswith(
        f"{docs}: {removed} of the 40 entries of {kb} are gone or empty (0"
    )
    assert str(refused.value).endswith("sync with `--allow-removals`")
    assert content(kb) == before
    KnowledgeBase.sync(docs, kb, embedder=HashEmbedder(), allow_removals=True)
    KnowledgeBase.build(docs, docs.parent / "fresh", embedder=HashEmbedder()).close()
    assert content(kb) == content(docs.parent / "fresh")


def test_half_of_the_files_may_go_and_most_of_a_few(forty: tuple[Path, Path]) -> None:
    docs, kb = forty
    remove(docs, *range(20))
    assert len(synced(docs, kb).removed) == 20  # of 40
    remove(docs, *range(20, 39))
    assert len(synced(docs, kb).removed) == 19  # of 20


def test_twenty_of_fewer_than_forty_are_refused(forty: tuple[Path, Path]) -> None:
    docs, kb = forty
    remove(docs, 39)
    assert synced(docs, kb).switched
    remove(docs, *range(20))

    with pytest.raises(RemovalsRefusedError, match=r"20 of the 39 entries"):
        synced(docs, kb)


def test_files_that_have_moved_are_not_removed(forty: tuple[Path, Path]) -> None:
    docs, kb = forty
    move(docs)

    report = synced(docs, kb)

    assert (len(report.renamed), report.removed, report.embedded) == (40, (), 0)


def test_a_folder_that_is_half_there_mends_no_damage(forty: tuple[Path, Path]) -> None:
    docs, kb = forty
    (kb / "generation-1" / "vectors.npy").write_bytes(b"damaged")
    remove(docs, *range(21))

    with pytest.raises(RemovalsRefusedError, match="21 of the 40 entries"):
        synced(docs, kb)
    report = KnowledgeBase.sync(docs, kb, embedder=HashEmbedder(), allow_removals=True)

    assert (report.damaged, report.passages) == (("vectors.npy",), 19)


def test_a_second_sync_is_refused_at_once(docs: Path, kb: Path) -> None:
    with writing(kb), pytest.raises(KnowledgeBusyError, match="try again when it has finished"):
        synced(docs, kb)


class Killed(BaseException):
    """Stands for the end of the process."""


class Dying(Counting):
    """Embeds some batches, then dies."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.batches = batches

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.batches == 0:
            raise Killed
        self.batches -= 1
        return super().embed_documents(texts)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    text = "\n\n".join(f"## Rule {number}\n\nText {number}." for number in range(600))
    (folder / "many.md").write_text(text, encoding="utf-8")
    return folder


Build = Callable[[Path, Path, HashEmbedder], object]


def built(docs: Path, kb: Path, embedder: HashEmbedder) -> None:
    KnowledgeBase.build(docs, kb, embedder=embedder).close()


@pytest.mark.parametrize("build", [built, synced], ids=["ingest", "sync"])
def test_a_build_that_was_killed_goes_on_where_it_was(
    many: Path, tmp_path: Path, build: Build
) -> None:
    kb = tmp_path / "kb"
    with pytest.raises(Killed):
        build(many, kb, Dying(batches=2))
    (many / "new.md").write_text("New.", encoding="utf-8")
    second = Dying(batches=9)

    build(many, kb, second)

    # The first batch is the first kept vector, embedded again; then what was not kept.
    assert len(second.documents) == 1 + 601 - 512
    assert not (kb / "embedded.sqlite").exists()
    built(many, tmp_path / "fresh", Counting())
    assert content(kb)["files"] == content(tmp_path / "fresh")["files"]


class Shifted(Dying):
    """Gives other vectors under the same name."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(f"{text} shifted by many other words")


def test_vectors_of_another_model_are_not_taken_up(many: Path, tmp_path: Path) -> None:
    Shifted.__qualname__ = Dying.__qualname__
    with pytest.raises(Killed):
        built(many, tmp_path / "kb", Dying(batches=2))
    other = Shifted(batches=9)

    built(many, tmp_path / "kb", other)

    assert len(other.documents) == 1 + 600


def test_a_damaged_file_of_kept_vectors_costs_only_those(many: Path, tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    with pytest.raises(Killed):
        built(many, kb, Dying(batches=2))
    (kb / "embedded.sqlite").write_bytes(b"no database" * 500)
    second = Dying(batches=9)

    built(many, kb, second)

    assert len(second.documents) == 600
