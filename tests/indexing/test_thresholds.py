"""Thresholds that were measured are written by one switch, and kept."""

from pathlib import Path

import pytest
from conftest import Make
from embedders import HashEmbedder, TableEmbedder

from lookup_tool import KnowledgeBase
from lookup_tool.engines.local.generations import writing
from lookup_tool.engines.local.snapshot import read_pointer
from lookup_tool.errors import KnowledgeBusyError, KnowledgeDamagedError, KnowledgeError
from lookup_tool.indexing.thresholds import replace_thresholds
from lookup_tool.schema import AnswerabilityRule, Thresholds

MEASURED = Thresholds(0.7, 0.1, AnswerabilityRule(midpoint=0.9, similarity=17.0))
FILES = {"a.md": "# One\nbread", "b.md": "# Two\ncheese"}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def calibrated(docs: Path, tmp_path: Path) -> Path:
    with KnowledgeBase.build(docs, tmp_path / "kb", embedder=HashEmbedder()) as knowledge:
        knowledge.set_thresholds(MEASURED)
    return tmp_path / "kb"


def test_they_are_used_at_once_by_everybody_and_the_version_stays(make: Make) -> None:
    knowledge = make(FILES, HashEmbedder())
    before = knowledge.manifest

    knowledge.set_thresholds(MEASURED)

    with KnowledgeBase.open(knowledge.path, embedder=HashEmbedder()) as reopened:
        assert (reopened.thresholds, reopened.version) == (MEASURED, before.version)
    KnowledgeBase.check(knowledge.path)
    assert (knowledge.thresholds, knowledge.version) == (MEASURED, before.version)
    assert knowledge.manifest.calibrated_at is not None
    changed = {"thresholds", "calibrated_at"}
    assert knowledge.manifest.model_dump(exclude=changed) == before.model_dump(exclude=changed)


def test_a_lookup_that_is_under_way_keeps_what_it_began_with(make: Make) -> None:
    knowledge = make(FILES, HashEmbedder())
    view, shipped = knowledge.view(), knowledge.thresholds

    knowledge.set_thresholds(MEASURED)

    assert (view.thresholds, knowledge.view().thresholds) == (shipped, MEASURED)


def test_a_build_and_a_sync_with_the_same_embedder_keep_them(calibrated: Path, docs: Path) -> None:
    (docs / "c.md").write_text("# Three\nwine", encoding="utf-8")
    with KnowledgeBase.open(calibrated, embedder=HashEmbedder()) as knowledge:
        when = knowledge.manifest.calibrated_at
        assert KnowledgeBase.sync(docs, calibrated, embedder=HashEmbedder()).switched
        assert knowledge.refresh()
        assert (knowledge.thresholds, knowledge.manifest.calibrated_at) == (MEASURED, when)

    with KnowledgeBase.build(docs, calibrated, embedder=HashEmbedder()) as rebuilt:
        assert (rebuilt.thresholds, rebuilt.manifest.calibrated_at) == (MEASURED, when)


def test_another_embedder_begins_with_its_own(calibrated: Path, docs: Path) -> None:
    other = TableEmbedder({"": [1.0, 0.0]})

    with KnowledgeBase.build(docs, calibrated, embedder=other) as rebuilt:
        assert rebuilt.thresholds.reference_threshold == 0.45
        assert rebuilt.manifest.calibrated_at is None


def test_what_is_shipped_is_not_taken_for_measured(docs: Path, tmp_path: Path) -> None:
    with KnowledgeBase.build(docs, tmp_path / "kb", embedder=HashEmbedder()) as knowledge:
        assert knowledge.manifest.calibrated_at is None
    assert not KnowledgeBase.sync(docs, tmp_path / "kb", embedder=HashEmbedder()).switched


def test_a_second_writer_is_refused(calibrated: Path) -> None:
    with (
        KnowledgeBase.open(calibrated, embedder=HashEmbedder()) as knowledge,
        writing(calibrated),
        pytest.raises(KnowledgeBusyError),
    ):
        knowledge.set_thresholds(MEASURED)


def test_documents_that_changed_meanwhile_are_not_given_thresholds(
    calibrated: Path, docs: Path
) -> None:
    with KnowledgeBase.open(calibrated, embedder=HashEmbedder()) as knowledge:
        measured = knowledge.manifest
        (docs / "a.md").write_text("# One\nbutter", encoding="utf-8")
        KnowledgeBase.sync(docs, calibrated, embedder=HashEmbedder())

        with pytest.raises(KnowledgeError, match="was built again while it was measured"):
            replace_thresholds(calibrated, measured, MEASURED)


def test_damage_is_not_copied(calibrated: Path) -> None:
    with KnowledgeBase.open(calibrated, embedder=HashEmbedder()) as knowledge:
        vectors = calibrated / read_pointer(calibrated).generation / "vectors.npy"
        content = vectors.read_bytes()
        vectors.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

        with pytest.raises(KnowledgeDamagedError, match=r"vectors\.npy"):
            knowledge.set_thresholds(MEASURED)
        assert knowledge.refresh() is False
