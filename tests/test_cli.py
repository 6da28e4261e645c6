"""The command line: each command in this process, and the whole once as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run
from conftest import ROOT

from lookup_tool.errors import KnowledgeNotFoundError

HANDBOOK = ROOT / "examples" / "handbook"
PROGRAM = Path(sys.executable).with_name("lookup-tool")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "kb"
    (said,) = run("ingest", HANDBOOK, "--into", path).lines
    assert said.startswith("40 entries, 219 passages and 10 categories in ")
    return path


def test_ask_shows_evidence_path_and_trace(kb: Path) -> None:
    said = run("ask", "How many days of annual leave do I get?", "--kb", kb).lines

    assert said[0].startswith("sufficient, relevance high: Found evidence in ")
    assert "[1] Annual leave > How many days you get" in said
    assert any("hr/annual-leave.md#how-many-days-you-get, lines 17-19" in line for line in said)
    assert said[-2].startswith("path: transform_query -> retrieve_filtered -> build_evidence")
    assert said[-1].startswith("trace: row ")


def test_ask_says_why_a_filter_was_dropped(kb: Path) -> None:
    question = "I lost my badge, what must I do and what does a replacement cost?"

    said = run("ask", question, "--kb", kb).lines

    assert "filter dropped: filtered_vector_low_quality" in said
    assert any(line.startswith("searched category it (category_filter") for line in said)


def test_ask_prints_the_contract_as_json(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKUP_KB", str(kb))

    result = run("ask", "May I bring my dog?", "--json")

    contract = json.loads(result.out)
    assert (result.code, contract["found"]) == (0, False)
    assert contract["evidenceStatus"] == "no_evidence"


@pytest.mark.parametrize("command", ["ask", "show", "bench", "eval", "calibrate", "mcp"])
def test_a_group_without_a_name_is_one_line(kb: Path, command: str) -> None:
    about: dict[str, list[object]] = {
        "ask": ["badge", "--kb", kb],
        "show": ["it/badges.md", "--kb", kb],
        "mcp": ["--kb", kb],
        "eval": [kb, "--queries", ROOT / "examples" / "handbook.queries.jsonl"],
    }

    refused = run(command, *about.get(command, [kb]), "--group", " ")

    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "error: an access group must be a name, not an empty one\n"


def test_a_group_opens_what_is_restricted(kb: Path) -> None:
    question = ("ask", "What does band B3 pay?", "--kb", kb, "--json")

    without, with_group = run(*question), run(*question, "--group", "people-team")

    assert json.loads(without.out)["found"] is False
    assert json.loads(with_group.out)["evidenceBlocks"][0]["title"] == "Salary bands"
    assert run("show", "hr/salary-bands.md", "--kb", kb).code == 1
    assert run("show", "hr/salary-bands.md", "--kb", kb, "--group", "people-team").lines


def test_show_prints_an_entry_or_a_section(kb: Path) -> None:
    entry = run("show", "hr/annual-leave.md", "--kb", kb).lines
    section = run("show", "hr/annual-leave.md#how-many-days-you-get", "--kb", kb).lines

    assert entry[0] == section[0] == "Annual leave"
    assert any("28 days" in line for line in section)
    assert len(section) < len(entry)


def test_info_names_counts_categories_and_embedder(kb: Path) -> None:
    said = "\n".join(run("info", kb).lines)

    assert "billing (21), facilities (21), hr (37)" in said
    assert "wordllama, 256 dimensions" in said
    assert "it-leads, people-team, security-team" in said


def test_traces_are_listed_and_shown(kb: Path) -> None:
    assert run("ask", "Where do I park my bicycle?", "--kb", kb).lines

    listed = run("trace", "list", "--kb", kb, "--limit", 1).lines
    assert "Where do I park my bicycle?" in listed[1]
    row = json.loads(run("trace", "show", listed[1].split()[0], "--kb", kb).out)
    assert row["query"] == "Where do I park my bicycle?"
    assert row["retrieval_details"]["attempts"]


@pytest.mark.parametrize("file", ["README.md", "graph/README.md"])
def test_graph_prints_the_machine_that_a_readme_shows(file: str) -> None:
    drawn = run("graph").out.strip()

    assert f"```mermaid\n{drawn}\n```" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ask", "x", "--kb", "nowhere"), "nowhere: no knowledge base here; build one with"),
        (("ingest", "nowhere", "--into", "kb"), "nowhere: no such folder; give the folder"),
        (("ingest", "a.md", "--into", "kb"), "a.md: is a file; give the folder"),
        (("ingest", ".", "--into", "."), "holds the documents; name another folder"),
        (("ingest", ".", "--into", "a.md"), "a.md: cannot be written: it is a file"),
        (("info", "nowhere"), "nowhere: no knowledge base here"),
        (("trace", "list"), "name a knowledge base with --kb, or a database with --traces"),
        (("trace", "list", "--kb", "nowhere"), "no lookups were recorded here yet"),
        (("ingest", ".", "--into", "kb", "--embedder", "nothing"), "unknown embedder 'nothing'"),
    ],
)
def test_an_error_is_one_line_and_a_non_zero_exit(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("# A\ntext\n", encoding="utf-8")

    result = run(*arguments)

    assert (result.code, result.out) == (1, "")
    errors = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert says in errors[0]
    assert "Traceback" not in result.err


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(KnowledgeNotFoundError):
        run("--debug", "info", "nowhere")


def test_an_unknown_trace_is_named(kb: Path) -> None:
    assert run("ask", "x", "--kb", kb).lines

    result = run("trace", "show", "nothing", "--kb", kb)

    assert result.code == 1
    assert "no single lookup 'nothing'" in result.err


def test_a_folder_without_entries_replaces_nothing(kb: Path, tmp_path: Path) -> None:
    result = run("ingest", tmp_path, "--into", kb)

    assert (result.code, result.out) == (1, "")
    assert "holds no entries; the knowledge base in" in result.err
    assert run("ask", "How do I book a meeting room?", "--kb", kb).lines[0].startswith("sufficient")


def test_a_long_query_is_shown_as_cut(kb: Path) -> None:
    said = run("ask", "where is the key " * 400, "--kb", kb).lines

    assert "the query was cut: 6800 characters are more than are read" in said


def test_problems_are_listed_and_stop_nothing(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "good.md").write_text("# Good\ntext\n", encoding="utf-8")
    (docs / "bad.md").write_text("---\ntitle: a: b\n---\nbody\n", encoding="utf-8")

    result = run("ingest", docs, "--into", tmp_path / "kb")

    assert result.lines[0].startswith("2 entries, 2 passages")
    assert "warning: bad.md:2: not valid YAML" in result.err
    assert "quote values that contain a colon" in result.err


@pytest.mark.parametrize(
    "command",
    ["ingest", "sync", "check", "ask", "info", "show", "graph", "trace list", "trace show"],
)
def test_every_command_has_help(command: str) -> None:
    assert "Usage: lookup-tool" in run(*command.split(), "--help").out


def test_version_is_the_packages_version() -> None:
    assert run("--version").lines == ["0.1.0"]


def test_a_user_builds_asks_and_looks_back(tmp_path: Path) -> None:
    """The whole, through the installed program."""

    def program(*arguments: str) -> str:
        return subprocess.run(
            [PROGRAM, *arguments], capture_output=True, text=True, check=True, cwd=tmp_path
        ).stdout

    built = program("ingest", str(HANDBOOK), "--into", "kb")
    asked = program("ask", "How many days of annual leave do I get?", "--kb", "kb")
    listed = program("trace", "list", "--kb", "kb")

    assert built.startswith("40 entries")
    assert "28 days" in asked
    assert "How many days of annual leave do I get?" in listed
