"""Calibration of a whole knowledge base, in Python and from the command line."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from conftest import ROOT, Make
from embedders import HashEmbedder
from numpy.typing import NDArray

from lookup_tool import KnowledgeBase, LookupConfig, calibrate, read_questions
from lookup_tool.calibration.fit import Seen, rates
from lookup_tool.calibration.observations import Looker
from lookup_tool.calibration.report import Calibration
from lookup_tool.calibration.sentences import sentences
from lookup_tool.embedders.wordllama import WordLlamaEmbeddings
from lookup_tool.errors import ConfigurationError

QUESTIONS = ROOT / "examples" / "handbook.queries.jsonl"


@pytest.fixture(scope="module")
def own(handbook_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the handbook, to write into it."""
    return Path(shutil.copytree(handbook_path, tmp_path_factory.mktemp("calibrate") / "kb"))


class Narrow(WordLlamaEmbeddings):
    """The default embedder on a narrow scale: a cosine of c becomes one of (2.25 + c) / 3.25."""

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = super()._embed(texts)
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.hstack([np.full((len(units), 1), 1.5, dtype=np.float32), units])


def test_without_labels_the_shipped_rule_of_the_default_embedder_stands(own: Path) -> None:
    with KnowledgeBase.open(own) as knowledge:
        shipped, version = knowledge.thresholds, knowledge.version
        calibration = calibrate(knowledge)

        assert knowledge.thresholds == calibration.after.thresholds
        assert knowledge.version == calibration.knowledge_version == version
        assert knowledge.manifest.calibrated_at
    assert (calibration.labelled, calibration.written) == (False, True)
    assert calibration.before.thresholds == shipped
    assert calibration.after.thresholds.rule == shipped.rule
    assert calibration.answerable == calibration.unanswerable > 100
    assert calibration.after.rates.kept > 0.95
    assert calibration.after.rates.false_evidence < 0.5


def test_questions_and_a_share_to_keep(own: Path) -> None:
    questions = read_questions(QUESTIONS)
    seen: list[tuple[int, int]] = []
    with KnowledgeBase.open(own) as knowledge:
        before = knowledge.manifest
        calibration = calibrate(
            knowledge,
            questions,
            keep=0.9,
            dry_run=True,
            progress=lambda done, total: seen.append((done, total)),
        )

        assert knowledge.manifest == before
    assert (calibration.answerable, calibration.unanswerable) == (37, 11)
    assert (calibration.labelled, calibration.written) == (True, False)
    assert 0.9 <= calibration.after.rates.kept < 0.95
    kept = [point.kept for point in calibration.curve]
    assert kept == sorted(kept, reverse=True)
    assert seen[-1][0] == seen[-1][1] == len(seen)
    before_kept = f"{calibration.before.rates.kept:.0%}"
    assert calibration.gain.startswith(f"keeps {before_kept} -> 92% of the answerable questions; ")


def test_it_makes_abstention_possible_with_an_embedder_that_finds_everything_alike(
    make: Make,
) -> None:
    folder = ROOT / "examples" / "handbook"
    files = {p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in folder.rglob("*.md")}
    knowledge = make(files, Narrow())

    shipped = knowledge.thresholds.rule
    measured = calibrate(knowledge).after.thresholds.rule

    looker = Looker(knowledge, LookupConfig(), frozenset())
    looked = [(each.answerable, looker.question(each)) for each in read_questions(QUESTIONS)]
    asked = Seen([seen for yes, seen in looked if yes], [seen for yes, seen in looked if not yes])
    assert rates(asked, shipped, knowledge.count()).false_evidence == 1
    assert rates(asked, measured, knowledge.count()).false_evidence < 0.4
    assert rates(asked, measured, knowledge.count()).kept > 0.5


def test_a_sentence_is_looked_up_with_its_entry_and_without_it(handbook: KnowledgeBase) -> None:
    looker = Looker(handbook, LookupConfig(), frozenset())
    picked = sentences(handbook.view(), 20)

    assert len(picked) == 20
    for sentence in picked:
        with_it, without_it = looker.sentence(sentence), looker.without_its_entry(sentence)
        assert with_it.answer == with_it.right == with_it.top > without_it.top
        assert (with_it.repeats, without_it.repeats) == (True, False)
        assert without_it.answer is None


def test_a_sentence_of_two_entries_is_no_question_that_one_alone_answers(make: Make) -> None:
    said = "Every visitor signs the blue register at the northern gate."
    own = "The canteen closes early on the last working Friday afternoon."
    knowledge = make({"a.md": f"# A\n{said}", "b.md": f"# B\n{said}\n\n{own}"}, HashEmbedder())

    calibration = calibrate(knowledge, dry_run=True)

    assert {s.text for s in sentences(knowledge.view(), 9)} <= {said, own}
    assert calibration.dropped + calibration.answerable == len(sentences(knowledge.view(), 300))


def test_what_is_restricted_has_no_part_in_it_unless_asked_for(make: Make) -> None:
    text = "---\naccess: [staff]\n---\n# A\nEvery visitor signs the blue register at the gate."
    knowledge = make({"a.md": text}, HashEmbedder())

    with pytest.raises(ConfigurationError, match="no sentence that these groups may see"):
        calibrate(knowledge)
    assert calibrate(knowledge, groups=["staff"]).answerable == 1


def test_questions_of_one_kind_are_not_enough(handbook: KnowledgeBase) -> None:
    questions = [each for each in read_questions(QUESTIONS) if each.answerable]

    with pytest.raises(ConfigurationError, match="needs answerable and unanswerable questions"):
        calibrate(handbook, questions)


def test_json_and_the_plot_hold_the_whole_curve(own: Path, tmp_path: Path) -> None:
    plot = tmp_path / "curve.png"

    said = run("calibrate", own, "--queries", QUESTIONS, "--dry-run", "--json", "--plot", plot)

    calibration = Calibration.model_validate_json(said.out)
    assert (said.code, said.err) == (0, "")
    assert len(calibration.curve) == 41
    assert json.loads(said.out)["before"]["rates"].keys() == {"kept", "falseEvidence"}
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_command_says_what_it_gains_and_what_it_wrote(own: Path) -> None:
    lines = run("calibrate", own, "--queries", QUESTIONS).lines

    assert lines[0].startswith("keeps ")
    assert "false evidence 0% -> 0%" in lines[0]
    assert lines[-1] == "written"
    assert any(line.startswith("midpoint of the rule      0.810   0.") for line in lines)
    info = run("info", own).lines
    assert any("these documents, calibrated 20" in line for line in info)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--queries", "gone.jsonl"), "gone.jsonl: cannot be read (No such file or directory)"),
        (("--plot", "gone/c.png"), "gone/c.png: no folder gone"),
        (("--plot", "curve.txt"), "curve.txt: unknown ending; one of "),
    ],
)
def test_an_error_is_one_line(own: Path, arguments: tuple[str, ...], says: str) -> None:
    result = run("calibrate", own, *arguments)

    assert (result.code, result.out) == (1, "")
    (line,) = result.err.splitlines()
    assert line.startswith("error: ")
    assert says in line


def test_a_plot_without_its_library_is_refused_at_once(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    result = run("calibrate", own, "--plot", "curve.png")

    assert result.code == 1
    assert result.err.strip() == "error: plotting needs an extra: pip install 'lookup-tool[eval]'"
