"""A folder of documents that changes at random, as people change theirs."""

import random
from collections.abc import Callable
from pathlib import Path

from embedders import HashEmbedder
from searching import search

from lookup_tool import KnowledgeBase
from lookup_tool.schema import SearchRequest

WORDS = (
    *("annual", "leave", "days", "manager", "approval", "badge", "door", "printer", "invoice"),
    *("refund", "salary", "band", "office", "parking", "bicycle", "dog", "visitor", "laptop"),
    *("password", "reset", "vpn", "travel", "hotel", "expense", "receipt", "年假", "申请"),
)
GROUPS = frozenset({"board"})


class SometimesBlind(HashEmbedder):
    """Gives no usable vector for a text with `blind` in it."""

    def embed_query(self, text: str) -> list[float]:
        return [0.0] * self.dimension if "blind" in text else super().embed_query(text)


class Documents:
    """The folder."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self._random = random.Random(seed)
        root.mkdir()
        for _ in range(8):
            self.add()

    def mutate(self) -> None:
        """Change something."""
        kinds: tuple[Callable[[], None], ...] = (
            self.add,
            self.edit,
            self.edit,
            self.rename,
            self.delete,
            self.copy,
            self.touch,
        )
        self._random.choice(kinds)()

    def add(self) -> None:
        """Add a file, or write over one."""
        name = f"{self._random.choice(['', 'hr/', 'it/'])}{self._random.randrange(40)}.md"
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(self._text(), encoding="utf-8")

    def edit(self) -> None:
        """Change a word, add a section, cut the end off, or write the file anew."""
        path = self._any()
        text = path.read_text(encoding="utf-8")
        edits = (
            text.replace(self._random.choice(WORDS), self._random.choice(WORDS), 1),
            f"{text}\n## {self._words(2)}\n\n{self._words(12)}.\n",
            text[: self._random.randrange(len(text) + 1)],
            self._text(),
        )
        path.write_text(self._random.choice(edits), encoding="utf-8")

    def rename(self) -> None:
        """Rename a file; what has the name already is gone."""
        self._any().replace(self.root / f"renamed-{self._random.randrange(10)}.md")

    def delete(self) -> None:
        """Delete a file, but never the last one."""
        path = self._any()
        if len(self._all()) > 1:
            path.unlink()

    def copy(self) -> None:
        """Give two files the same content."""
        (self.root / "copy.md").write_bytes(self._any().read_bytes())

    def touch(self) -> None:
        """Write a file as it is, or with other line ends."""
        path = self._any()
        ends = self._random.choice([b"\n", b"\r\n"])
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", ends))

    def _all(self) -> list[Path]:
        return sorted(self.root.rglob("*.md"))

    def _any(self) -> Path:
        return self._random.choice(self._all())

    def _words(self, count: int) -> str:
        return " ".join(self._random.choices(WORDS, k=count))

    def _text(self) -> str:
        block = self._random.choice(
            [
                f"---\ntitle: {self._words(2)}\ncategory: {self._random.choice(['HR', 'IT'])}\n---",
                f"---\naccess: [board]\nkeywords: [{self._words(1)}]\naliases: [pto]\n---",
                "---\naccess: []\nentities: [TimeTrail]\n---",
                "---\ntitle: a: b\n---",
                "",
            ]
        )
        blind = self._random.choice(["blind", "", "", "", "", ""])
        sections = (
            f"## {self._words(1)}\n\n{self._words(30)}.\n{blind}"
            for _ in range(self._random.randrange(4))
        )
        return f"{block}\n# {self._words(2)}\n\n{self._words(9)}.\n\n" + "\n\n".join(sections)


def content(kb: Path) -> dict[str, object]:
    """Return everything that a knowledge base holds, but for the time: checksums of each file."""
    manifest = KnowledgeBase.check(kb).model_dump(mode="json")
    del manifest["created_at"]
    return manifest


def found(kb: Path, query: str) -> list[tuple[str, float, float]]:
    """Return source, similarity and BM25 score of everything that a query finds."""
    with KnowledgeBase.open(kb, embedder=SometimesBlind()) as knowledge:
        result = search(knowledge, SearchRequest(query, groups=GROUPS))
    return [(passage.source, found.similarity, found.bm25) for passage, found in result]
