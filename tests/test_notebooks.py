"""The notebooks run from a clone, and show what the code says now."""

from pathlib import Path
from runpy import run_path
from typing import Any

import nbformat
import pytest
from conftest import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def shown(notebook: Any) -> list[list[str]]:
    """Return what each code cell shows: its text, and the kinds of its pictures."""
    return [
        [
            output["text"]
            if output["output_type"] == "stream"
            else ", ".join(sorted(output["data"]))
            for output in cell["outputs"]
            if output.get("name") != "stderr"
        ]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_a_run_shows(path: Path) -> None:
    """After a change in what the code says, `make notebooks` shows it."""
    execute = run_path(str(FOLDER / "execute.py"))["execute"]

    assert shown(execute(path)) == shown(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_output_and_no_place_of_the_machine_it_ran_on(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)

    assert sum(map(bool, shown(notebook))) >= 4
    text = "".join(text for cell in shown(notebook) for text in cell)
    assert [place for place in ("/tmp", "/home", "/root", str(ROOT)) if place in text] == []
    assert notebook["metadata"]["language_info"] == {"name": "python"}


def test_the_trace_is_plotted() -> None:
    trace = nbformat.read(FOLDER / "3_reading_a_trace.ipynb", as_version=4)

    assert [text for cell in shown(trace) for text in cell if "image/png" in text] != []
