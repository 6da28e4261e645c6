import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from embedders import HashEmbedder
from langchain_core.embeddings import Embeddings

from lookup_tool.embedders.embedder import BATCH, DEFAULT, Embedder
from lookup_tool.errors import ConfigurationError, EmbeddingError, MissingExtraError


class FixedEmbedder(Embeddings):
    """Returns what it was given, whatever it is asked."""

    def __init__(self, documents: Any, query: Any = None) -> None:
        self.documents = documents
        self.query = query

    def embed_documents(self, texts: list[str]) -> Any:
        return self.documents

    def embed_query(self, text: str) -> Any:
        return self.query


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("vector", "unit"),
    [
        pytest.param([3.0, 4.0], [0.6, 0.8], id="longer"),
        pytest.param([0.6, 0.8], [0.6, 0.8], id="unit-already"),
        pytest.param([-3.0, 4.0], [-0.6, 0.8], id="sign-kept"),
        pytest.param([3e-300, 4e-300], [0.6, 0.8], id="tiny"),
        pytest.param([3e300, 4e300], [0.6, 0.8], id="huge"),
        pytest.param([3, 4], [0.6, 0.8], id="integers"),
        pytest.param(np.array([3, 4], dtype=np.float16), [0.6, 0.8], id="half-precision-array"),
    ],
)
def test_every_vector_becomes_a_unit_vector(vector: Any, unit: list[float]) -> None:
    embedder = Embedder(FixedEmbedder([vector], vector))
    vectors, usable = embedder.embed_documents(["text"])
    query = embedder.embed_query("text")

    assert (query.dtype, vectors.dtype, usable.tolist()) == (np.float32, np.float32, [True])
    assert query.tolist() == pytest.approx(unit)
    assert vectors.tolist() == [pytest.approx(unit)]


def test_vectors_without_a_direction_are_marked_and_returned_as_zeros() -> None:
    rows = [[0.0, 0.0], [1.0, NAN], [3.0, 4.0], [INF, 1.0], [1.0, -INF]]

    vectors, usable = Embedder(FixedEmbedder(rows)).embed_documents(["text"] * 5)

    assert usable.tolist() == [False, False, True, False, False]
    assert vectors[2].tolist() == pytest.approx([0.6, 0.8])
    assert not vectors[~usable].any()


@pytest.mark.parametrize("vector", [[0.0, 0.0], [NAN, 1.0], [INF, 1.0]], ids=["zero", "nan", "inf"])
def test_a_query_without_a_direction_is_an_error(vector: list[float]) -> None:
    with pytest.raises(EmbeddingError, match="FixedEmbedder gave no usable vector for the query"):
        Embedder(FixedEmbedder([], vector)).embed_query("text")


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([[1.0, 0.0]], id="one-too-few"),
        pytest.param([[1.0, 0.0]] * 3, id="one-too-many"),
        pytest.param([[1.0, 0.0], [1.0]], id="unequal-lengths"),
        pytest.param([[], []], id="no-dimensions"),
        pytest.param([1.0, 0.0], id="numbers"),
        pytest.param([[[1.0]], [[0.0]]], id="too-deep"),
        pytest.param([["a"], ["b"]], id="words"),
        pytest.param([[1.0, 0.0], None], id="none"),
    ],
)
def test_vectors_of_a_wrong_shape_are_an_error(documents: Any) -> None:
    with pytest.raises(EmbeddingError):
        Embedder(FixedEmbedder(documents)).embed_documents(["one", "two"])


@pytest.mark.parametrize("query", [1.0, [], [[1.0, 0.0]], "word", None])
def test_a_query_vector_of_a_wrong_shape_is_an_error(query: Any) -> None:
    with pytest.raises(EmbeddingError):
        Embedder(FixedEmbedder([], query)).embed_query("text")


def test_batches_of_unequal_dimension_are_an_error() -> None:
    class Growing(HashEmbedder):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            self.dimension += 1
            return super().embed_documents(texts)

    with pytest.raises(EmbeddingError, match="vectors of different lengths"):
        Embedder(Growing()).embed_documents(["text"] * (BATCH + 1))


def test_the_arrays_of_an_embedder_are_left_as_they_were() -> None:
    own = np.array([[3.0, 4.0], [NAN, 1.0]])
    own.setflags(write=False)

    vectors, usable = Embedder(FixedEmbedder(own)).embed_documents(["one", "two"])

    assert vectors[0].tolist() == pytest.approx([0.6, 0.8])
    assert (usable.tolist(), own[1, 1]) == ([True, False], 1.0)


@pytest.mark.parametrize(
    ("count", "steps"),
    [
        (0, []),
        (BATCH, [(BATCH, BATCH)]),
        (BATCH + 1, [(BATCH, BATCH + 1), (BATCH + 1, BATCH + 1)]),
    ],
)
def test_texts_are_embedded_in_batches_in_order(count: int, steps: list[tuple[int, int]]) -> None:
    told: list[tuple[int, int]] = []
    texts = [f"word{number}" for number in range(count)]
    embedder = Embedder(HashEmbedder())

    vectors, usable = embedder.embed_documents(texts, lambda *step: told.append(step))

    assert (told, len(vectors), usable.all()) == (steps, count, True)
    assert all(np.array_equal(vectors[n], embedder.embed_query(texts[n])) for n in range(count))


class Named(HashEmbedder):
    model_name = "some-model"


@pytest.mark.parametrize(
    ("embedder", "name", "loads_by_name"),
    [
        pytest.param(DEFAULT, "wordllama", True, id="by-name"),
        pytest.param("openai:small", "openai:small", True, id="not-loaded-yet"),
        pytest.param(HashEmbedder(), "embedders.HashEmbedder", False, id="object"),
        pytest.param(Named(), f"{__name__}.Named(some-model)", False, id="object-with-a-model"),
    ],
)
def test_an_embedder_has_the_name_that_it_is_opened_by(
    embedder: str | Embeddings, name: str, loads_by_name: bool
) -> None:
    opened = Embedder(embedder)

    assert (opened.name, opened.loads_by_name) == (name, loads_by_name)


@pytest.mark.parametrize(
    "name", ["nonsense", "", "huggingface", "huggingface:", "nobody:model", ":model"]
)
def test_an_unknown_name_is_a_configuration_error(name: str) -> None:
    with pytest.raises(ConfigurationError, match=repr(name)):
        Embedder(name).embed_query("text")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("huggingface:small", "langchain_huggingface", "huggingface"),
        ("openai:small", "langchain.embeddings", "agents"),
    ],
)
def test_a_missing_extra_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtraError) as raised:
        Embedder(name).embed_query("text")

    assert raised.value.extra == extra
    assert str(raised.value) == (
        f"The embedder '{name}' needs an extra: pip install 'lookup-tool[{extra}]'"
    )


def test_half_of_an_extra_is_a_missing_extra_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_sentence_transformers(model_name: str) -> Embeddings:
        raise ImportError(f"no sentence_transformers to open {model_name}")

    installed = ModuleType("langchain_huggingface")
    vars(installed)["HuggingFaceEmbeddings"] = without_sentence_transformers
    monkeypatch.setitem(sys.modules, "langchain_huggingface", installed)

    with pytest.raises(MissingExtraError):
        Embedder("huggingface:small").embed_query("text")


def test_a_missing_provider_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_openai", None)

    with pytest.raises(ConfigurationError, match=r"cannot open the embedder 'openai:small'"):
        Embedder("openai:small").embed_query("text")


OFFLINE = """
import logging, sys
def refuse(event, args):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
        raise OSError("no network here")
sys.addaudithook(refuse)
logging.getLogger().setLevel(logging.ERROR)
from lookup_tool.embedders.embedder import Embedder
print(len(Embedder().embed_query("annual leave")))
print(logging.getLogger().handlers, logging.getLogger().level == logging.ERROR)
"""


def test_wordllama_needs_no_network_and_no_cache_and_leaves_logging_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        env={"HOME": str(home), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (["256", "[] True"], "", 0)


def similarity(embedder: Embedder, texts: Sequence[str]) -> float:
    one, two = (embedder.embed_query(text) for text in texts)
    return float(one @ two)


def test_wordllama_puts_what_is_alike_close_together() -> None:
    embedder = Embedder()
    alike = similarity(embedder, ["How many days of holiday?", "annual leave and vacation days"])
    unlike = similarity(embedder, ["How many days of holiday?", "reset the router's password"])

    assert 0.9 > alike > unlike + 0.2
    assert similarity(embedder, ["same text", "same text"]) == pytest.approx(1.0)


def test_wordllama_marks_a_text_without_words() -> None:
    vectors, usable = Embedder().embed_documents(["leave", ""])

    assert (vectors.shape, usable.tolist()) == ((2, 256), [True, False])
