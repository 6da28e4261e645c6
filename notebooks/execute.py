"""Run the notebooks and keep what they show: `make notebooks`.

Nothing is kept that differs from run to run (times, the interpreter's version), so that a change in
a notebook is a change in what the code says.
"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parent
LANGUAGE = {"name": "python"}


def execute(path: Path) -> NotebookNode:
    """Return a notebook with the outputs of a fresh run.

    Raises:
        CellExecutionError: A cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
        timeout=120,
    ).execute()
    notebook.metadata["language_info"] = LANGUAGE
    return notebook


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(execute(path), path)
