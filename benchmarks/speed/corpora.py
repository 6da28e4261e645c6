"""Synthetic knowledge bases of any size: clustered vectors, words as frequent as words are.

A passage's vector is the centre of its topic plus noise, its words follow Zipf's law, and a
question is a few words of one passage with a vector near it. Nothing here reads a file or a model,
so that building measures the index alone and looking up leaves the embedding out.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from lookup_tool.config import PassageConfig
from lookup_tool.documents.entries import Problems
from lookup_tool.embedders.embedder import Embedder
from lookup_tool.engines.local.generations import writing
from lookup_tool.engines.local.snapshot import open_current
from lookup_tool.indexing.build import write
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import Passage, Phrase, PreparedEntry

CATEGORIES = 20
PASSAGES_PER_ENTRY = 5
PASSAGES_PER_TOPIC = 250
WORDS_PER_PASSAGE = 40
VOCABULARY = 60_000
QUESTION_NOISE = 0.5
"""Length of what a question's vector differs from its passage's by; similarity is then about .9."""


@dataclass(frozen=True)
class Corpus:
    """What a synthetic knowledge base is made from."""

    size: int
    """Passages."""

    dimension: int
    seed: int = 7

    @property
    def entries(self) -> int:
        """Entries that the passages are spread over."""
        return -(-self.size // PASSAGES_PER_ENTRY)


@dataclass(frozen=True)
class Question:
    """A question about one passage."""

    text: str
    vector: NDArray[np.float32]
    """Unit vector, shape (d,)."""

    category: str | None
    """The category that it names, if it names one."""


class CorpusEmbeddings(Embeddings):
    """Gives the vectors that belong to the texts of a corpus, and of questions about it."""

    def __init__(self, corpus: Corpus, questions: Sequence[Question] = ()) -> None:
        self._seed = corpus.seed
        topics = max(1, corpus.size // PASSAGES_PER_TOPIC)
        rng = np.random.default_rng(corpus.seed)
        self._centers = rng.standard_normal((topics, corpus.dimension), dtype=np.float32)
        self._questions = {question.text: question.vector for question in questions}

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (n, d): the centre of a text's topic, and noise of its own."""
        found = np.empty((len(texts), self._centers.shape[1]), dtype=np.float32)
        for place, text in enumerate(texts):
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            seed = int.from_bytes(digest, "little")
            rng = np.random.Generator(np.random.SFC64(seed))
            rng.standard_normal(out=found[place], dtype=np.float32)
            found[place] += self._centers[seed % len(self._centers)]
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        return self.vectors(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """Look a question's vector up."""
        return self._questions[text].tolist()

    def query_vector(self, text: str) -> NDArray[np.float32]:
        """Return a question's unit vector, shape (d,)."""
        return self._questions[text]


class _Arrays(Embedder):
    """Hands vectors on as they are: a million lists of floats would take minutes.

    No query waits for it, which leaves the embedding out of what is measured.
    """

    def __init__(self, embeddings: CorpusEmbeddings) -> None:
        super().__init__(embeddings)
        self._embeddings = embeddings

    @property
    def is_cheap(self) -> bool:
        return True

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._embeddings.query_vector(text)

    def embed_passage(self, text: str) -> NDArray[np.float32]:
        return self._embeddings.vectors([text])[0]

    def embed_batches(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
        for start in range(0, len(texts), 4096):
            vectors = self._embeddings.vectors(texts[start : start + 4096])
            yield vectors, np.ones(len(vectors), dtype=np.bool_)


class Words:
    """Pseudo-words, the n-th one with a frequency of 1/n."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        syllables = [
            c + v + e for c in "bdfgklmnprst" for v in "aeiou" for e in ("", "n", "r", "l")
        ]
        pairs = [first + second for first in syllables for second in syllables]
        self._words = self._rng.permutation(pairs)[:VOCABULARY].tolist()
        weights = 1 / np.arange(1, len(self._words) + 1)
        self._cumulative = np.cumsum(weights) / weights.sum()

    def draw(self, count: int) -> list[str]:
        """Return words, in any order, with repetitions."""
        places = np.searchsorted(self._cumulative, self._rng.random(count))
        return [self._words[place] for place in places.tolist()]


def prepared(corpus: Corpus) -> Iterator[PreparedEntry]:
    """Yield the entries of a corpus."""
    words = Words(corpus.seed)
    left = corpus.size
    for number in range(corpus.entries):
        source, category = f"entry-{number:07}.md", f"handbook{number % CATEGORIES}"
        own = words.draw(3 + WORDS_PER_PASSAGE * min(PASSAGES_PER_ENTRY, left))
        title, text = " ".join(own[:3]), own[3:]
        passages = [
            Passage(
                source=source if not start else f"{source}#s{start}",
                breadcrumb=(title,),
                text=" ".join(text[start : start + WORDS_PER_PASSAGE]),
                start_line=1 + start,
                end_line=1 + start,
            )
            for start in range(0, len(text), WORDS_PER_PASSAGE)
        ]
        left -= len(passages)
        yield PreparedEntry(
            source=source,
            title=title,
            category=category,
            access=None,
            metadata={},
            phrases=(Phrase(title, "title", title),),
            passages=tuple(passages),
            digest=hashlib.sha256(source.encode()).hexdigest(),
        )


def build(corpus: Corpus, root: Path) -> None:
    """Write the knowledge base of a corpus, unless it is there."""
    if (root / "CURRENT").exists():
        return
    embedder = _Arrays(CorpusEmbeddings(corpus))
    with writing(root):
        write(
            list(prepared(corpus)),
            root,
            Problems(),
            embedder,
            settings=PassageConfig(),
            progress=lambda phase, done, total: None,
        )


def opened(corpus: Corpus, root: Path, asked: Sequence[Question] = ()) -> KnowledgeBase:
    """Open the knowledge base of a corpus, to ask it these questions."""
    embedder = _Arrays(CorpusEmbeddings(corpus, asked))
    return KnowledgeBase(root, open_current(root), embedder, keeps_embedder=True)


def questions(knowledge: KnowledgeBase, count: int, *, filtered: bool) -> list[Question]:
    """Ask about passages that are spread over a knowledge base.

    Args:
        knowledge: Built by `build`.
        count: How many.
        filtered: Whether the questions name the category of their passage.
    """
    snapshot = knowledge.view().snapshot
    rng = np.random.default_rng(count + filtered)
    rows = rng.integers(0, knowledge.manifest.passages, count)
    passages = snapshot.store.passages(rows.tolist())
    asked: list[Question] = []
    for row in rows.tolist():
        said = passages[row].text.split()
        picked = [said[place] for place in sorted(rng.permutation(len(said))[:6].tolist())]
        category = passages[row].category if filtered else None
        text = f"what is the {' '.join(picked)}" + (f" in {category}" if category else "")
        noise = rng.standard_normal(snapshot.unit_vectors.shape[1], dtype=np.float32)
        vector = snapshot.unit_vectors[row] + QUESTION_NOISE * noise / np.linalg.norm(noise)
        asked.append(Question(text, vector / np.linalg.norm(vector), category))
    return asked
