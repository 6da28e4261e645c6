"""Open an embedder by name, and make what it returns safe to search.

By name: `wordllama` (default; its weights come with its package, nothing is downloaded),
`huggingface:MODEL_OR_PATH`, or anything that `langchain.embeddings.init_embeddings` accepts, such
as `openai:text-embedding-3-small`. Or any LangChain `Embeddings` object. Models are loaded at
their first use. To add a name, add a branch to `_load`.
"""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from lookup_tool.config import EmbeddingConfig
from lookup_tool.embedders.remote import RemoteCalls
from lookup_tool.embedders.thresholds import thresholds_of
from lookup_tool.embedders.wordllama import WordLlamaEmbeddings
from lookup_tool.errors import ConfigurationError, EmbeddingError, MissingExtraError
from lookup_tool.schema import Thresholds

DEFAULT = "wordllama"
BATCH = 256
"""Texts embedded in one call."""

_FOLDERS = re.compile(r"(?<=[:(])(?:[A-Za-z]:|~|\.{1,2})?[/\\](?:[^/\\)]*[/\\])*(?=[^/\\)])")
"""The folders of a model that is named by its path; `organization/model` is no path."""

_CHARACTERS_PER_TOKEN = 3
"""A cautious estimate for word pieces: prose has four and more, logs have fewer."""


class Embedder:
    """An embedding model that loads at first use and gives unit vectors."""

    def __init__(
        self, embedder: str | Embeddings = DEFAULT, config: EmbeddingConfig | None = None
    ) -> None:
        if isinstance(embedder, str) and embedder != DEFAULT and not embedder.partition(":")[2]:
            raise ConfigurationError(
                f"unknown embedder {embedder!r}: use wordllama, huggingface:MODEL or provider:MODEL"
            )
        self._given = embedder
        self._model = None if isinstance(embedder, str) else embedder
        self._lock = threading.Lock()
        self.name = embedder if isinstance(embedder, str) else _name_of(embedder)
        # A model in this process cannot be reached badly, and torch dislikes many threads.
        runs_here = self.name == DEFAULT or self.name.startswith("huggingface:")
        self.config = config or EmbeddingConfig()
        self._remote = None if runs_here else RemoteCalls(self.name, self.config)

    @property
    def label(self) -> str:
        """Its name without folders of this machine: results and traces are read elsewhere."""
        return _FOLDERS.sub("", self.name)

    @property
    def thresholds(self) -> Thresholds:
        """Those of a known embedder, cautious ones for others."""
        return thresholds_of(self.name)

    @property
    def max_characters(self) -> int | None:
        """How much of a text it reads, when it says so; loads the model."""
        model = self._loaded()
        for holder in (model, getattr(model, "_client", None)):  # sentence-transformers' own
            tokens = getattr(holder, "max_seq_length", None)
            if isinstance(tokens, int) and tokens > 0:
                return tokens * _CHARACTERS_PER_TOKEN
        return None

    @property
    def is_cheap(self) -> bool:
        """Whether embedding a text again costs less than to keep its vector somewhere."""
        return self.name == DEFAULT

    @property
    def loads_by_name(self) -> bool:
        """Whether the name alone is enough to open it again."""
        return isinstance(self._given, str)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Embed a query.

        Returns:
            A unit vector, shape (d,).

        Raises:
            EmbeddingError: It gave no vector, or one that is zero, NaN or infinite.
            EmbeddingTimeoutError: There was none in time.
        """
        embed = self._loaded().embed_query
        raw = embed(text) if self._remote is None else self._remote.query(embed, text)
        vectors, usable = _unit(_numbers(raw, self.name)[None], 1, self.name)
        if not usable[0]:
            raise EmbeddingError(f"{self.name} gave no usable vector for the query")
        return vectors[0]

    def embed_passage(self, text: str) -> NDArray[np.float32]:
        """Embed one passage while somebody waits, as `embed_query` does; zeros if not usable."""
        embed = self._loaded().embed_documents
        raw = embed([text]) if self._remote is None else self._remote.query(embed, [text])
        return _unit(_numbers(raw, self.name), 1, self.name)[0][0]

    def embed_documents(
        self, texts: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Embed passages, in batches.

        Returns:
            Unit vectors, shape (n, d), and which of them are usable, shape (n,): a zero, NaN or
            infinite one is not, and is returned as zeros.

        Raises:
            EmbeddingError: The number or the length of the vectors is wrong.
        """
        parts: list[NDArray[np.float32]] = []
        usable: list[NDArray[np.bool_]] = []
        for vectors, fine in self.embed_batches(texts):
            parts.append(vectors)
            usable.append(fine)
            if progress is not None:
                progress(sum(len(part) for part in parts), len(texts))
        if not parts:
            return np.zeros((0, 0), dtype=np.float32), np.zeros(0, dtype=np.bool_)
        return np.concatenate(parts), np.concatenate(usable)

    def embed_batches(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
        """Embed passages, and yield what `embed_documents` returns, batch by batch."""
        dimension: int | None = None
        for start in range(0, len(texts), BATCH):
            batch = list(texts[start : start + BATCH])
            embed = self._loaded().embed_documents
            raw = embed(batch) if self._remote is None else self._remote.batch(embed, batch)
            vectors, usable = _unit(_numbers(raw, self.name), len(batch), self.name)
            if dimension not in {None, vectors.shape[1]}:
                raise EmbeddingError(f"{self.name} gave vectors of different lengths")
            dimension = vectors.shape[1]
            yield vectors, usable

    def _loaded(self) -> Embeddings:
        with self._lock:
            if self._model is None:
                self._model = _load(self.name)
            return self._model


def _unit(
    vectors: NDArray[np.float64], count: int, embedder: str
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Normalize vectors, in their place; mark those that have no direction.

    Raises:
        EmbeddingError: They are not `count` vectors.
    """
    if vectors.ndim != 2 or vectors.shape[1] == 0:  # noqa: PLR2004 - a matrix
        raise EmbeddingError(f"{embedder} gave an array of shape {vectors.shape}, not (n, d)")
    if len(vectors) != count:
        raise EmbeddingError(f"{embedder} gave {len(vectors)} vectors for {count} texts")
    finite = np.isfinite(vectors).all(axis=1)
    vectors[~finite] = 0.0
    scale = np.abs(vectors).max(axis=1, keepdims=True)
    vectors = np.divide(vectors, scale, out=np.zeros_like(vectors), where=scale > 0)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return units.astype(np.float32), finite & (norms[:, 0] > 0)


def _numbers(raw: object, embedder: str) -> NDArray[np.float64]:
    """Copy what an embedder returned into an array.

    Raises:
        EmbeddingError: It is no array, nor nested lists of one length, of real numbers.
    """
    try:
        given = np.asarray(raw)
        is_real = given.dtype.kind in "bfiu" or (
            # Integers of any size, and None, which becomes NaN; anything else that is no number
            # comes as objects, too. None alone is no vector.
            given.dtype.kind == "O"
            and given.ndim > 0
            and all(number is None or isinstance(number, Real) for number in given.flat)
        )
        with np.errstate(over="ignore"):  # infinite is not usable, and said so
            numbers = given.astype(np.float64) if is_real else None
    except Exception as error:  # an array of another library raises what it likes
        problem = f"{embedder} gave no list of equally long vectors: {error}"
        raise EmbeddingError(problem) from error
    if numbers is None:
        raise EmbeddingError(f"{embedder} gave {type(raw).__name__}, not vectors of real numbers")
    return numbers


def _name_of(embedder: Embeddings) -> str:
    """Name an object by its class and the model that it says it runs."""
    model: Any = getattr(embedder, "model_name", None) or getattr(embedder, "model", None)
    kind = f"{type(embedder).__module__}.{type(embedder).__qualname__}"
    return f"{kind}({model})" if isinstance(model, str) else kind


def _load(name: str) -> Embeddings:
    if name == DEFAULT:
        return WordLlamaEmbeddings()
    provider, _, model = name.partition(":")
    try:
        if provider == "huggingface":
            from langchain_huggingface import (  # noqa: PLC0415  # pyright: ignore[reportMissingImports] - an extra
                HuggingFaceEmbeddings,
            )

            return HuggingFaceEmbeddings(model_name=model)
        from langchain.embeddings import init_embeddings  # noqa: PLC0415 - an extra

        return init_embeddings(name)
    except (ImportError, OSError, ValueError) as error:
        if isinstance(error, ImportError) and provider == "huggingface":
            raise MissingExtraError(f"The embedder {name!r}", "huggingface") from error
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "langchain":
            raise MissingExtraError(f"The embedder {name!r}", "agents") from error
        raise ConfigurationError(f"cannot open the embedder {name!r}: {error}") from error
