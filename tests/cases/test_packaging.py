"""What an installation brings, and what an import and a run do to the process of a user.

Families: graph files that a server loads by path; names of the user's own files beside ours; what
the wheel and the source archive hold; imports without side effects and without extras; an async run
without a blocking call; two OpenMP runtimes in one process.

The server itself is not started here. A second process stands in a folder of the user's own, and
watches what an import does and what happens on its event loop.
"""

import ast
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from case_builders import ROOT
from langchain_core.documents import Document
from packaging.requirements import Requirement

from lookup_tool import KnowledgeBase, TraceStore, create_lookup_tool

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCES = sorted((ROOT / "lookup_tool").rglob("*.py"))
STUDIO = sorted((ROOT / "graph").glob("*.py"))

# F-06 Relative import in the graph file


def test_f_06_no_file_imports_relatively() -> None:
    """Studio loads files by path, outside any package; those under graph/ are read as they come."""
    relative = [
        path
        for path in [*SOURCES, *STUDIO]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]

    assert relative == []


@pytest.mark.parametrize("name", ["lookup_knowledge", "graph", "a-b", "0"])
def test_f_06_a_graph_file_can_be_loaded_by_path_from_another_folder(
    handbook_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / "studio" / f"{name}.py"
    file.parent.mkdir()
    file.write_text(
        "from lookup_tool import KnowledgeBase, TraceStore, build_lookup_graph\n"
        f"knowledge = KnowledgeBase.open({str(handbook_path)!r})\n"
        "traces = TraceStore('sqlite://')\n"
        "graph = build_lookup_graph(knowledge, traces=traces)\n"
    )
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("loaded_by_path", file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert module.graph.invoke({"query": "badge"})["result"].found is True
    module.knowledge.close()
    module.traces.close()


# F-08 User's own graph.py; F-11 Importing has no side effects: one process of a user

OWN_NAMES = (
    *("graph", "tests", "examples", "notebooks", "benchmarks", "config", "tools", "tool", "utils"),
    *("state", "nodes", "edges", "build", "app", "cli", "server", "errors", "contracts", "traces"),
    *("stages", "knowledge", "embeddings", "embedders", "retriever", "evaluation", "passages"),
    *("documents", "search", "snapshot", "lexical", "vectors", "hints", "frontmatter", "agent"),
)
EXTRAS = (
    *("langchain", "langchain_huggingface", "langchain_openai", "langchain_community", "torch"),
    *("sentence_transformers", "transformers", "mcp", "watchfiles", "matplotlib", "pandas"),
    *("langgraph_cli", "langgraph_api", "hypothesis", "pytest"),
)

PROBE = """
import asyncio, json, os, pkgutil, importlib, logging, signal, sys, threading
for extra in EXTRAS:
    sys.modules[extra] = None
done, touched, blocking, watched = {}, [], [], []
NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}
SLOW = NETWORK | {"open", "sqlite3.connect", "time.sleep", "os.listdir", "os.scandir", "os.mkdir"}

def watch(event, args):
    if event in NETWORK or event == "subprocess.Popen":
        touched.append(event)
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
        touched.append(str(args[0]))
    if watched == [threading.get_ident()] and event in SLOW:
        blocking.append(f"{event} {args[:1]}")

def world():
    return [dict(os.environ), os.getcwd(), logging.getLogger().handlers[:],
            logging.getLogger().level, threading.active_count(),
            signal.getsignal(signal.SIGINT), sys.excepthook]

before = world()
sys.addaudithook(watch)
import lookup_tool
names = [m.name for m in pkgutil.walk_packages(lookup_tool.__path__, "lookup_tool.")]
names.remove("lookup_tool.http_server")  # is imported where its extra is needed, and only there
for name in names:
    importlib.import_module(name)
done["modules"] = len(names)
done["touched"] = touched[:]
done["world"] = [a == b for a, b in zip(before, world())]

from langchain_core.documents import Document
from lookup_tool import KnowledgeBase, TraceStore, build_lookup_graph, create_lookup_tool
from lookup_tool.embedders.embedder import Embedder
done["missing"] = {}
for name in ("huggingface:some/model", "openai:some-model"):
    try:
        Embedder(name).embed_query("badge")
    except lookup_tool.LookupToolError as error:
        done["missing"][name] = str(error)
document = Document(TEXT, metadata={"source": "badge.md", "title": "Badge"})
knowledge = KnowledgeBase.from_documents([document])
traces = TraceStore("traces.sqlite")
done["content"] = create_lookup_tool(knowledge, traces=traces).invoke("badge")
graph = build_lookup_graph(knowledge, traces=traces)

async def twice():
    await graph.ainvoke({"query": "badge"})
    watched.append(threading.get_ident())
    await graph.ainvoke({"query": "badge"})
    watched.clear()

asyncio.run(twice())
done["rows"] = traces.count()
done["blocking"] = blocking
done["environment"] = dict(os.environ) == before[0]
done["own"] = [name for name in OWN if name in sys.modules]
done["network"] = [event for event in touched if event in NETWORK]
knowledge.close()
traces.close()
print(json.dumps(done))
"""
TEXT = "A lost badge is reported at the desk."


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run a user's app.py among files that are named like ours, without network and extras."""
    folder = tmp_path_factory.mktemp("user")
    for name in OWN_NAMES:
        (folder / f"{name}.py").write_text("raise ImportError('the user\\'s own file')\n")
    values = f"EXTRAS, OWN, TEXT = {EXTRAS!r}, {OWN_NAMES!r}, {TEXT!r}\n"
    (folder / "main.py").write_text(values + PROBE)
    home = tmp_path_factory.mktemp("home")
    environment = {
        **{key: value for key, value in os.environ.items() if "proxy" not in key.lower()},
        "HF_HUB_OFFLINE": "1",
        "HOME": str(home),
        "PYTHONHASHSEED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(home),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "main.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    kept = {file.name for file in folder.iterdir()} - {f"{name}.py" for name in OWN_NAMES}
    return {
        **json.loads(done.stdout),
        "kept": sorted(name for name in kept if not name.startswith("traces.sqlite")),
        "home": [file.name for file in home.rglob("*")],
    }


def test_f_08_an_app_beside_a_users_own_graph_py_works(probe: dict[str, Any]) -> None:
    assert probe["own"] == []
    assert TEXT in probe["content"]


def test_f_11_importing_every_module_touches_nothing(probe: dict[str, Any]) -> None:
    assert probe["modules"] == len(SOURCES) - 2  # itself, and `http_server`
    assert probe["touched"] == []
    assert probe["world"] == [True] * 7


def test_f_11_a_missing_extra_is_reported_when_it_is_used(probe: dict[str, Any]) -> None:
    assert probe["missing"] == {
        "huggingface:some/model": "The embedder 'huggingface:some/model' needs an extra: "
        "pip install 'lookup-tool[huggingface]'",
        "openai:some-model": "The embedder 'openai:some-model' needs an extra: "
        "pip install 'lookup-tool[agents]'",
    }


def test_a_lookup_needs_no_network_and_leaves_no_file_behind(probe: dict[str, Any]) -> None:
    assert probe["network"] == []
    assert (probe["kept"], probe["home"]) == (["main.py"], [])


def test_f_01_an_async_run_makes_no_blocking_call_on_the_loop(probe: dict[str, Any]) -> None:
    assert probe["blocking"] == []
    assert probe["rows"] == 3


def test_another_process_with_other_hashes_gives_the_same_bytes(
    probe: dict[str, Any], traces: TraceStore
) -> None:
    document = Document(TEXT, metadata={"source": "badge.md", "title": "Badge"})
    with KnowledgeBase.from_documents([document]) as knowledge:
        content = create_lookup_tool(knowledge, traces=traces).invoke("badge")

    assert content == probe["content"]


# F-09 Wheel installs a top-level tests package


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Build the source archive, the wheel, and the wheel of the source archive."""
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    sdists = pytest.importorskip("hatchling.builders.sdist", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    wheel = next(wheels.WheelBuilder(str(ROOT)).build(directory=str(folder / "wheel")))
    sdist = next(sdists.SdistBuilder(str(ROOT)).build(directory=str(folder / "sdist")))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
        held = [member.name.partition("/")[2] for member in archive.getmembers()]
    again = next(
        wheels.WheelBuilder(str(folder / Path(sdist).name.removesuffix(".tar.gz"))).build(
            directory=str(folder / "again")
        )
    )
    return {
        "wheel": zipfile.ZipFile(wheel).namelist(),
        "sdist": held,
        "again": zipfile.ZipFile(again).namelist(),
    }


def test_f_09_the_wheel_holds_one_package_and_all_of_it(archives: dict[str, list[str]]) -> None:
    names = archives["wheel"]
    info = f"lookup_tool-{PROJECT['project']['version']}.dist-info"

    assert {name.partition("/")[0] for name in names} == {"lookup_tool", info}
    ours = {path.relative_to(ROOT).as_posix() for path in SOURCES} | {"lookup_tool/py.typed"}
    assert {name for name in names if name.startswith("lookup_tool/")} == ours
    assert {f"{info}/entry_points.txt", f"{info}/licenses/LICENSE"} <= {*names}


def test_the_source_archive_builds_the_same_wheel(archives: dict[str, list[str]]) -> None:
    assert archives["again"] == archives["wheel"]
    assert {"README.md", "LICENSE", "pyproject.toml"} <= {*archives["sdist"]}
    assert [name for name in archives["sdist"] if "__pycache__" in name or "/." in name] == []


def test_the_wheel_is_told_its_one_package() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["lookup_tool"]}
    assert PROJECT["project"]["scripts"] == {"lookup-tool": "lookup_tool.cli:main"}


def test_every_imported_package_is_declared() -> None:
    """An import inside a function may come from an extra; all others from the dependencies.

    So may all of `http_server`, which nothing imports but inside a function.
    """
    provided = importlib.metadata.packages_distributions()
    declared = {
        Requirement(needed).name.lower().replace("_", "-")
        for needed in PROJECT["project"]["dependencies"]
    }

    always = [path for path in SOURCES if path.name != "http_server.py"]
    imported = {name for path in always for name in top_level_imports(path)}

    undeclared = {
        name
        for name in imported - sys.stdlib_module_names - {"lookup_tool"}
        if not {found.lower().replace("_", "-") for found in provided.get(name, [])} & declared
    }
    assert undeclared == set()


def top_level_imports(path: Path) -> set[str]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    names = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in body if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


# F-13 macOS: two OpenMP runtimes


def test_f_13_the_readme_names_the_problem_and_the_ways_around_it() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    assert "macOS" in readme
    assert "OMP: Error #15" in readme
    assert "import torch first" in readme


def test_f_13_no_environment_variable_is_set_behind_the_users_back(probe: dict[str, Any]) -> None:
    files = [*SOURCES, *STUDIO, *(ROOT / "examples").glob("*.py"), ROOT / "Makefile"]

    assert probe["environment"] is True
    assert [path for path in files if "KMP_DUPLICATE" in path.read_text(encoding="utf-8")] == []
