"""`lookup-tool eval`: tables, JSON, gates and errors."""

import json
import sys
from pathlib import Path

import pytest
from command_line import run
from conftest import ROOT

from lookup_tool.evaluation.report import METRICS, EvaluationReport

QUESTIONS = ROOT / "examples" / "handbook.queries.jsonl"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four questions: found, unanswerable, missing, and with a section."""
    questions = [
        {
            "id": "leave",
            "query": "How many days of annual leave do I get?",
            "relevant": ["hr/annual-leave"],
        },
        {"id": "dog", "query": "May I bring my dog?"},
        {"id": "lost", "query": "Where is the annual leave?", "relevant": ["hr/gone"]},
        {
            "id": "vpn",
            "query": "What does error TW-58 mean?",
            "relevant_sections": ["it/vpn-setup#error-tw-58"],
        },
    ]
    path = tmp_path_factory.mktemp("eval") / "questions.jsonl"
    path.write_text("\n".join(json.dumps(question) for question in questions), encoding="utf-8")
    return path


def test_json_is_the_report_and_nothing_else(handbook_path: Path, few: Path) -> None:
    result = run("eval", handbook_path, "--queries", few, "--json", "--compare", "bm25, rrf")

    report = EvaluationReport.model_validate_json(result.out)
    assert (result.code, report.questions, report.answerable) == (0, 4, 3)
    assert "ndcg@10" in report.metrics
    assert set(report.metrics) <= set(METRICS)
    assert [each.name for each in report.comparisons] == ["bm25", "rrf"]
    raw = json.loads(result.out)
    assert raw["metrics"]["section.mrr@10"] == {
        "value": 1.0,
        "low": 1.0,
        "high": 1.0,
        "questions": 1,
    }
    assert {detail["id"]: detail["lost"] for detail in raw["details"]} == {
        "lost": "not_in_knowledge_base",
        "leave": "delivered",
        "dog": "abstained",
        "vpn": "delivered",
    }
    assert result.err.splitlines() == [
        "warning: relevant ids not in the knowledge base, counted as not found: 1 (hr/gone)"
    ]


def test_tables_show_the_figures_within_a_hundred_columns(handbook_path: Path) -> None:
    gates = ("--fail-under", "ndcg@10=0.9", "--fail-over", "falseEvidenceRate=0.1")
    options = ("--compare", "bm25", "--worst", 3, *gates)

    said = run("eval", handbook_path, "--queries", QUESTIONS, *options)

    lines = said.lines
    assert said.err == ""
    assert lines[0].startswith("48 questions (37 answerable), wordllama, version ")
    for title in (
        "Delivered in the packed text",
        "Ranking",
        "Abstention, and where the answers went",
        "Category filters of L0, nDCG@10 against no filter",
        "By category",
        "Worst answerable questions",
    ):
        assert title in lines
    assert [line[9:27].strip() for line in lines if line.startswith("entry  ")] == [
        *("lookup_knowledge", "with the rule off", "bm25"),  # delivered
        *("lookup_knowledge", "bm25"),  # ranking
    ]
    assert any(line.startswith("section  bm25 ") for line in lines)
    assert max(len(line) for line in lines) <= 100


def test_questions_are_grouped_and_compared_as_asked(handbook_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "kinds.jsonl"
    lines = [
        {"query": "How many days of annual leave do I get?", "relevant": ["hr/annual-leave"]},
        {"query": "May I bring my dog?", "kind": "unanswerable"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    said = run("eval", handbook_path, "--queries", file, "--by", "kind").lines
    alone = run("eval", handbook_path, "--queries", file, "--compare", "", "--json").out

    table = said[said.index("By kind") + 1 :]
    assert table[0].startswith("kind          n  delivered  rule off   bm25  dense    rrf")
    assert [line.split()[:2] for line in table[1:3]] == [["unanswerable", "1"], ["(none)", "1"]]
    assert json.loads(alone)["comparisons"] == []


def test_the_help_explains_every_metric() -> None:
    said = run("eval", "--help").out

    assert [name for name in METRICS if f" {name}: " not in said] == []


@pytest.mark.parametrize(
    ("gates", "failures"),
    [
        pytest.param(("--fail-under", "section.ndcg@10=1"), [], id="kept at the bound"),
        pytest.param(("--fail-over", "falseEvidenceRate=0"), [], id="rate kept at the bound"),
        pytest.param(
            (
                *("--fail-under", "ndcg@10=0.7", "--fail-under", "mrr@10=0.5"),
                *("--fail-under", "recall@5=0.6667", "--fail-over", "missedRate=-1"),
            ),
            [
                "failed: ndcg@10 is 0.6667, under 0.7",
                "failed: recall@5 is 0.6667, under 0.6667",
                "failed: missedRate is 0.0000, over -1",
            ],
            id="failed",
        ),
        pytest.param(
            (
                *("--fail-under", "delivered=0.6666", "--fail-under", "deliveredRuleOff=0.67"),
                *("--fail-under", "deliveredSection=1", "--fail-over", "answerableWeak=1"),
                *("--fail-over", "unanswerableSufficient=0", "--fail-over", "deliveredRank=0.5"),
            ),
            [
                "failed: deliveredRuleOff is 0.6667, under 0.67",
                "failed: deliveredRank is 1.0000, over 0.5",
            ],
            id="of what is delivered",
        ),
    ],
)
def test_a_gate_that_fails_is_a_line_and_a_non_zero_exit(
    handbook_path: Path, few: Path, gates: tuple[str, ...], failures: list[str]
) -> None:
    result = run("eval", handbook_path, "--queries", few, *gates, "--json")

    assert json.loads(result.out)["questions"] == 4
    assert [line for line in result.err.splitlines() if line.startswith("failed")] == failures
    assert result.code == (1 if failures else 0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--fail-under", "precision=1"), "--fail-under precision=1: no such metric; one of deliv"),
        (("--fail-under", "auroc"), "--fail-under auroc: write METRIC=VALUE, as in auroc=0.7"),
        (("--fail-under", "missedRate=1"), "missedRate=1: take --fail-over for missedRate"),
        (("--fail-over", "ndcg@10=1"), "ndcg@10=1: take --fail-under for ndcg@10"),
        (("--fail-over", "delivered=1"), "delivered=1: take --fail-under for delivered"),
        (("--fail-under", "packUsed=1"), "packUsed=1: take --fail-over for packUsed"),
        (("--fail-under", "unanswerableWeak=0"), "take --fail-over for unanswerableWeak"),
        (("--compare", "bm25,colbert"), "no ranking 'colbert'; one of bm25, dense, rrf"),
        (("--queries", "gone.jsonl"), "gone.jsonl: cannot be read (No such file or directory)"),
    ],
)
def test_an_error_is_one_line(
    handbook_path: Path, few: Path, arguments: tuple[str, ...], says: str
) -> None:
    result = run("eval", handbook_path, "--queries", few, *arguments)

    assert (result.code, result.out) == (1, "")
    (line,) = result.err.splitlines()
    assert line.startswith("error: ")
    assert says in line


def test_a_gate_on_what_cannot_be_measured_is_an_error(handbook_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text('{"query": "May I bring my dog?"}\n', encoding="utf-8")

    result = run("eval", handbook_path, "--queries", file, "--fail-under", "ndcg@10=0.5")

    assert result.code == 1
    assert "error: ndcg@10 cannot be measured with these questions" in result.err


def test_a_missing_extra_is_one_line_with_the_remedy(
    handbook_path: Path, few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)

    result = run("eval", handbook_path, "--queries", few)

    assert (result.code, result.out) == (1, "")
    assert result.err.strip() == (
        "error: evaluation needs an extra: pip install 'lookup-tool[eval]'"
    )
