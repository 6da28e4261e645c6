"""Measure quality on real document sets, beside what a user would pick instead.

`python benchmarks/quality --data FOLDER`: each folder in it with `docs/` and `queries.dev.jsonl` is
a set. Knowledge bases are kept in the output folder, so that only what changed is embedded again.
"""

import re
from pathlib import Path
from typing import Annotated

import ensemble
import tables
import typer
from measure import is_set, measure

from lookup_tool import KnowledgeBase, read_questions
from lookup_tool.commands.console import PHASES, bars
from lookup_tool.errors import LookupToolError

HERE = Path(__file__).parent
README = HERE.parents[1] / "README.md"
DATA = HERE.parents[2] / "shared" / "data"


app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def main(  # noqa: PLR0913 - the options of one command
    data: Annotated[
        Path, typer.Option(envvar="LOOKUP_DATA", help="Folder with a folder for each set.")
    ] = DATA,
    embedder: Annotated[
        str, typer.Option(help="`wordllama`, or `huggingface:PATH` with its extra installed.")
    ] = "wordllama",
    name: Annotated[
        str | None, typer.Option(help="What the embedder is called in the tables.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results and knowledge bases.")] = (
        HERE / "out"
    ),
    only: Annotated[
        list[str] | None, typer.Option("--set", help="Measure this set alone; repeat for several.")
    ] = None,
    *,
    readme: Annotated[
        bool, typer.Option("--readme", help="Put the tables into README.md too.")
    ] = False,
) -> None:
    """Measure quality on real document sets, and write results.json and results.md.

    Figures of other embedders that are in results.json stay.
    """
    folders = sorted(folder for folder in data.glob("*") if is_set(folder))
    folders = [folder for folder in folders if not only or folder.name in only]
    if not folders:
        typer.echo(f"skipped: no document sets in {data}; name their folder with --data")
        return
    label = name or embedder
    out.mkdir(parents=True, exist_ok=True)
    sets = {folder.name: _measure(folder, _cache(out, label), embedder) for folder in folders}
    results = tables.update(out / "results.json", label, sets)
    (out / "results.md").write_text(tables.markdown(results), encoding="utf-8")
    typer.echo(tables.markdown({label: results[label]}))
    with KnowledgeBase.open(_cache(out, label) / folders[0].name) as knowledge:
        _compare_with_langchain(folders[0], knowledge)
    if readme:
        tables.replace_between_markers(README, results)


def _cache(out: Path, label: str) -> Path:
    return out / "kb" / re.sub(r"[^\w.-]+", "-", label)


def _measure(folder: Path, cache: Path, embedder: str) -> dict[str, object]:
    into = cache / folder.name
    phases = {phase: f"{folder.name}: {what}" for phase, what in PHASES.items()}
    with bars({**phases, "ask": f"{folder.name}: Asking"}) as step:
        KnowledgeBase.sync(folder / "docs", into, embedder=embedder, progress=step)
        with KnowledgeBase.open(into) as knowledge:
            measured = measure(folder, knowledge, lambda done, total: step("ask", done, total))
    return tables.figures(measured)


def _compare_with_langchain(folder: Path, knowledge: KnowledgeBase) -> None:
    if not ensemble.is_installed():
        typer.echo(f"EnsembleRetriever: skipped, {ensemble.PACKAGE} is not installed")
        return
    questions = read_questions(folder / "queries.dev.jsonl")
    same = ensemble.count_same(knowledge, questions)
    typer.echo(
        f"EnsembleRetriever ranks as RRF does on {same} of {len(questions)} questions "
        f"({folder.name}, ties aside)"
    )


if __name__ == "__main__":
    try:
        app()
    except LookupToolError as error:
        raise SystemExit(f"error: {error}") from error
