"""The default embedder: static word embeddings that come inside a package."""

import logging
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray


class WordLlamaEmbeddings(Embeddings):
    """Static word embeddings (256 dimensions, English first) without a download."""

    def __init__(self) -> None:
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        import wordllama  # noqa: PLC0415 - half a second, only for those who embed with it

        # Its import configures the root logger, which belongs to the application.
        root.handlers[:] = handlers
        root.setLevel(level)
        # Its loader looks for the tokenizer in the wrong folder and then tries to download it.
        folder = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts; an empty one becomes the zero vector."""
        return self._embed(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """Embed one text."""
        return self._embed([text])[0].tolist()

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, 256), dtype=np.float32)
        return np.asarray(self._model.embed(texts), dtype=np.float32)
