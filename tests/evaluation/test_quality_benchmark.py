"""`python benchmarks/quality`, on the example handbook as the only set."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

COMMAND = (sys.executable, "-W", "error", str(ROOT / "benchmarks" / "quality"))
FEW = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay the handbook out as a set, with a section that has two names, and a kind of question."""
    folder = tmp_path_factory.mktemp("data")
    shutil.copytree(ROOT / "examples" / "handbook", folder / "handbook" / "docs")
    questions = (ROOT / "examples" / "handbook.queries.jsonl").read_text("utf-8").splitlines()
    renamed = {
        "id": "renamed",
        "query": "What does error TW-58 mean?",
        "relevant_sections": ["it/vpn-setup#its-own-anchor"],
        "kind": "renamed",
    }
    few = "\n".join([*questions[:FEW], *questions[-FEW:], json.dumps(renamed)])
    (folder / "handbook" / "queries.dev.jsonl").write_text(few, encoding="utf-8")
    names = {"it/vpn-setup#its-own-anchor": "it/vpn-setup#error-tw-58"}
    (folder / "handbook" / "anchors.dev.json").write_text(json.dumps(names), encoding="utf-8")
    (folder / "notes").mkdir()
    return folder


def run(*arguments: object, data: Path) -> str:
    environment = {**os.environ, "LOOKUP_DATA": str(data)}
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_measures_every_set_and_keeps_the_figures_of_other_embedders(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = run("--out", tmp_path, data=data)

    results = json.loads((tmp_path / "results.json").read_text("utf-8"))
    figures = results["wordllama"]["handbook"]
    assert figures["questions"] == 2 * FEW + 1
    assert set(figures["metrics"]) == {"lookup_knowledge", "bm25", "dense", "rrf"}
    ours = figures["metrics"]["lookup_knowledge"]
    assert figures["oracle"] >= ours["section.ndcg@10"]
    assert ours["deliveredRuleOff"] >= ours["delivered"] > 0
    assert {kind: each["questions"] for kind, each in figures["slices"].items()} == {
        "renamed": 1,
        "(none)": 2 * FEW,
    }
    assert figures["slices"]["renamed"]["metrics"]["bm25"]["deliveredSection"] == 1
    assert figures["ablation"].keys() >= {"similarity", "bm25", "crowding", "title_hint"}
    assert any(figures["ablation"].values())
    assert "EnsembleRetriever" in said.splitlines()[-1]
    written = (tmp_path / "results.md").read_text("utf-8")
    delivered, ranking, by_kind, *_ = (part for part in written.split("\n\n") if part[0] == "|")
    assert delivered.startswith("| delivered (sections) | lookup_knowledge | rule off | BM25 |")
    assert delivered.splitlines()[2].startswith(
        f"| handbook | {share(ours)} ({share(ours, 'Section')}) |"
    )
    assert "| handbook, sections | " in ranking
    assert [line.split(" | ")[0] for line in by_kind.splitlines()[2:]] == ["| renamed", "| (none)"]
    assert written.strip() in said

    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "quality")
    tables = importlib.import_module("tables")
    both = tables.update(tmp_path / "results.json", "other", {"handbook": figures})
    assert both == {**results, "other": {"handbook": figures}}
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n", encoding="utf-8")
    tables.replace_between_markers(readme, both)
    text = readme.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert text.count("| handbook, sections | ") == 2
    assert text.index("| delivered (sections) | ") < text.index("| nDCG@10 | ")
    assert "old" not in text


def share(metrics: dict[str, float], level: str = "") -> str:
    return f"{metrics[f'delivered{level}']:.3f}".replace("0.", ".", 1)


def test_without_sets_it_says_why_it_is_skipped(tmp_path: Path) -> None:
    said = run("--out", tmp_path / "out", data=tmp_path)

    assert said == f"skipped: no document sets in {tmp_path}; name their folder with --data\n"
    assert not (tmp_path / "out").exists()
