import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lookup_tool
from lookup_tool import errors

HEAVY = (
    "torch",
    "sqlalchemy",
    "faiss",
    "langgraph",
    "langchain_core",
    "langchain",
    "langchain_community",
    "wordllama",
    "bm25s",
    "numpy",
    "pydantic",
)


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    assert run(f"import sys, lookup_tool; print(sorted(set({HEAVY!r}) & set(sys.modules)))") == "[]"


def test_opening_a_knowledge_base_class_loads_no_model_and_no_torch() -> None:
    code = "import sys; from lookup_tool import KnowledgeBase; print({models!r} & set(sys.modules))"
    models = {"torch", "wordllama", "sentence_transformers", "langchain_huggingface"}

    assert run(code.format(models=models)) == "set()"


@pytest.mark.parametrize("name", lookup_tool.__all__)
def test_every_public_name_can_be_imported_first(name: str) -> None:
    imported = f"from lookup_tool import {name}; print({name}.__name__)"

    assert run(imported) == name


def test_public_names_are_sorted_and_listed() -> None:
    assert sorted(lookup_tool.__all__) == lookup_tool.__all__
    assert set(lookup_tool.__all__) <= set(dir(lookup_tool))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'lookup_tool' has no attribute 'nothing'"):
        _ = lookup_tool.nothing  # pyright: ignore[reportAttributeAccessIssue]


def test_every_error_can_be_caught_by_one_class() -> None:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind is not Path]

    assert [kind.__name__ for kind in classes if not issubclass(kind, errors.LookupToolError)] == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            errors.KnowledgeDamagedError(Path("kb"), "cut short"),
            "kb: cut short; build it again with `lookup-tool ingest`",
        ),
        (
            errors.KnowledgeBusyError(Path("kb")),
            "kb: another process is writing here; try again when it has finished",
        ),
        (
            errors.MissingExtraError("The embedder", "huggingface"),
            "The embedder needs an extra: pip install 'lookup-tool[huggingface]'",
        ),
        (
            errors.TraceStoreError("cannot write to sqlite:///t: disk is full; make room there"),
            "cannot write to sqlite:///t: disk is full; make room there",
        ),
    ],
    ids=["damaged", "busy", "missing-extra", "trace-store"],
)
def test_an_error_names_the_thing_and_the_remedy(error: Exception, message: str) -> None:
    assert str(error) == message
