"""Embedders without a model, for tests that force a path."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import regex
from langchain_core.embeddings import Embeddings


class TableEmbedder(Embeddings):
    """Fixed vectors: a text gets the vector of the longest key that it contains."""

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        self.table = table
        self.queries: list[str] = []
        self.documents: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        keys = [key for key in self.table if key in text]
        return [float(x) for x in self.table[max(keys, key=len)]]


class HashEmbedder(Embeddings):
    """Signed bags of words: texts that share words are similar."""

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = np.zeros(self.dimension)
        for word in regex.findall(r"\w+", text.casefold()):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            number = int.from_bytes(digest, "big")
            vector[number % self.dimension] += 1.0 if number >> 63 else -1.0
        vector[0] += 1e-6  # a text without words is no zero vector
        return vector.tolist()


def at_similarity(similarity: float) -> list[float]:
    """Return a unit vector with this cosine to [1, 0]."""
    return [similarity, float(np.sqrt(1.0 - similarity**2))]
