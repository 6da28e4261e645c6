"""What the README and the examples say is true."""

import re
from pathlib import Path

import pytest
import yaml
from case_builders import ScriptedModel, calls
from conftest import ROOT
from langchain_core.messages import AIMessage

from lookup_tool import KnowledgeBase, LookupConfig, TraceStore, build_lookup_graph
from lookup_tool.graph.progress import COUNTS

README = (ROOT / "README.md").read_text(encoding="utf-8")
HANDBOOK = ROOT / "examples" / "handbook"


def demo_questions() -> list[str]:
    """Return the questions of `make demo`, as the script has them."""
    script: dict[str, object] = {"__name__": "demo", "__file__": str(ROOT / "examples/demo.py")}
    exec((ROOT / "examples" / "demo.py").read_text(encoding="utf-8"), script)
    questions = script["QUESTIONS"]
    assert isinstance(questions, dict)
    return list(questions.values())


def test_the_demo_shows_an_answer_a_dropped_filter_and_a_miss(
    handbook: KnowledgeBase, traces: TraceStore
) -> None:
    graph = build_lookup_graph(handbook, traces=traces)

    results = [graph.invoke({"query": question})["result"] for question in demo_questions()]

    assert [
        (
            result.found,
            result.retrieval_trace.fallback_reason,
            result.evidence_blocks[0].source if result.found else None,
        )
        for result in results
    ] == [
        (True, None, "hr/annual-leave.md#how-many-days-you-get"),
        (
            True,
            "filtered_vector_low_quality",
            "facilities/lost-property.md#when-you-lose-your-pass-or-badge",
        ),
        (False, None, None),
    ]


def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    asks = calls({"query": "How many days of annual leave do I get?"})
    names: dict[str, object] = {"model": ScriptedModel(messages=iter([asks, AIMessage("28")]))}

    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(block, names)

    knowledge = names["knowledge"]
    assert isinstance(knowledge, KnowledgeBase)
    knowledge.close()
    said = capsys.readouterr().out
    assert "28 days of annual leave" in said
    assert "True hr/salary-bands.md" in said
    assert "\nhr/salary-bands.md#the-bands ['vector'" in said
    stages = re.findall(r"^(\w+) \d+\.\d+$", said, re.MULTILINE)
    assert stages == [stage for stage in COUNTS if stage != "retrieve_unfiltered"]
    assert said.splitlines()[-1] in {"sufficient", "weak"}


def test_the_readme_names_every_event(handbook: KnowledgeBase, traces: TraceStore) -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (`.*`) \|$", README, re.MULTILINE)
    told = {
        stage: set(re.findall(r"`(\w+)`", counts))
        for stages, counts in rows
        for stage in re.findall(r"`(\w+)`", stages)
        if stage in COUNTS
    }
    _, question, _ = demo_questions()  # its filter is dropped: every stage runs

    events = list(
        build_lookup_graph(handbook, traces=traces).stream(
            {"query": question}, stream_mode="custom"
        )
    )

    always = {"stage", "invocationId", "durationMs"}
    assert {event["stage"]: event.keys() - always for event in events} == told


def test_the_handbook_loads_without_a_problem(tmp_path: Path) -> None:
    with KnowledgeBase.build(HANDBOOK, tmp_path / "kb") as knowledge:
        assert knowledge.report.problems == ()
        assert knowledge.report.entries >= 30
        assert len(knowledge.manifest.categories) >= 6
        assert len(knowledge.manifest.access_sets) == 3


@pytest.mark.parametrize("path", sorted(HANDBOOK.rglob("*.md")), ids=lambda path: path.stem)
def test_an_entry_of_the_handbook_lies_in_its_categorys_folder(path: Path) -> None:
    block = path.read_text(encoding="utf-8").split("---\n")[1]

    assert yaml.safe_load(block)["category"] == path.parent.name


def test_the_readme_lists_every_setting() -> None:
    table = ["| setting | default | meaning |", "|---|---|---|"]
    for section, defaults in LookupConfig():
        for name, field in type(defaults).model_fields.items():
            meaning = " ".join((field.description or "").split())
            table.append(f"| `{section}.{name}` | `{field.default!r}` | {meaning} |")
    listed = README.partition("<!-- settings -->")[2].partition("<!-- /settings -->")[0]

    assert listed.strip().splitlines() == table
