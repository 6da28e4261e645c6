"""A knowledge base above the size from which codes are made, with that size made small."""

import json
from pathlib import Path

import pytest
from embedders import HashEmbedder

from lookup_tool.errors import KnowledgeDamagedError
from lookup_tool.indexing import build
from lookup_tool.knowledge_base import KnowledgeBase


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build 30 public passages, of which 20 are enough for codes, and a restricted one."""
    monkeypatch.setattr(build, "QUANTIZED_FROM", 20)
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(30):
        (docs / f"{number}.md").write_text(f"# Entry {number}\n\nText number {number}.\n")
    (docs / "secret.md").write_text("---\naccess: [a]\n---\n# Secret\n\nText number 99.\n")
    KnowledgeBase.build(docs, tmp_path / "kb", embedder=HashEmbedder()).close()
    return tmp_path / "kb"


def test_codes_of_the_public_rows_are_recorded_and_checked(large: Path) -> None:
    manifest = KnowledgeBase.check(large)

    assert manifest.quantized_rows == 30
    assert "quantized.faiss" in manifest.files


def test_a_damaged_file_of_codes_is_named(large: Path) -> None:
    generation = json.loads((large / "CURRENT").read_text())["generation"]
    path = large / generation / "quantized.faiss"
    path.write_bytes(path.read_bytes()[::-1])

    with pytest.raises(KnowledgeDamagedError, match=r"quantized\.faiss"):
        KnowledgeBase.open(large, embedder=HashEmbedder())
    path.unlink()
    with pytest.raises(KnowledgeDamagedError, match=r"quantized\.faiss: missing"):
        KnowledgeBase.open(large, embedder=HashEmbedder())


def test_a_small_knowledge_base_has_none(tmp_path: Path) -> None:
    with KnowledgeBase.from_documents([], into=tmp_path / "kb", embedder=HashEmbedder()) as small:
        assert small.manifest.quantized_rows == 0
    assert not list((tmp_path / "kb").rglob("quantized.faiss"))
