"""`lookup-tool bench`: what it reports; never how fast."""

import json
from pathlib import Path

import pytest
from command_line import run


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    docs = tmp_path_factory.mktemp("bench")
    for number in range(12):
        (docs / f"{number}.md").write_text(f"# Topic {number}\n\nThe text of topic {number}.\n")
    (docs / "secret.md").write_text("---\naccess: [board]\n---\n# Plans\n\nThe plans.\n")
    assert run("ingest", docs, "--into", docs / "kb").code == 0
    return docs / "kb"


def report(*arguments: object) -> dict[str, object]:
    return json.loads("\n".join(run("bench", *arguments, "--json").lines))


def test_questions_come_from_the_titles_that_the_caller_may_see(kb: Path) -> None:
    public, board = report(kb), report(kb, "--group", "board")

    assert (public["passages"], public["questions"]) == (12, 12)
    assert (board["passages"], board["questions"]) == (13, 13)
    assert set(public) == {
        *("passages", "questions", "open_ms", "first_ms", "lookups_per_second"),
        *("lookup", "stages", "resident_mb"),
    }


def test_every_stage_of_the_path_is_measured(kb: Path) -> None:
    stages = report(kb)["stages"]

    assert isinstance(stages, dict)
    assert {"transform_query", "build_evidence", "record_trace", "framework"} <= set(stages)
    assert all(spread["p50"] <= spread["p95"] for spread in stages.values())


def test_questions_come_from_a_file(kb: Path, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"query": "What is topic 3?"}\n{"query": "And topic 4?"}\n')

    assert report(kb, "--queries", file)["questions"] == 2


def test_nothing_is_recorded_in_the_knowledge_base(kb: Path) -> None:
    run("bench", kb)

    assert not (kb / "traces.sqlite").exists()


def test_a_reader_sees_a_table_and_the_rate(kb: Path) -> None:
    lines = run("bench", kb).lines

    assert lines[0].split() == ["ms", "p50", "p95"]
    assert lines[-2].split()[:2] == ["whole", "lookup"]
    assert "lookups a second (12 questions, 12 passages)" in lines[-1]


def test_an_empty_knowledge_base_has_nothing_to_ask_about(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    assert run("ingest", tmp_path / "docs", "--into", tmp_path / "kb").code == 0

    result = run("bench", tmp_path / "kb")

    assert (result.code, result.err.strip()) == (
        1,
        f"error: {tmp_path / 'kb'}: holds no entries to ask about",
    )
