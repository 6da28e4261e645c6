"""Builders that several files of `cases` share: documents, lookups, calls, and readers of results.

A lookup here asks one knowledge base under one kind of settings; a reader takes from a result, a
message, a report or a trace table only what a test compares.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from conftest import ROOT, Make
from embedders import HashEmbedder, at_similarity
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupContext,
    LookupResult,
    TraceStore,
    build_lookup_graph,
)
from lookup_tool.config import EvidenceConfig, RetrievalConfig

__all__ = ["ROOT", "Make"]  # handed on: in `cases`, `conftest` is the one beside the file

Build = Callable[..., KnowledgeBase]
Ask = Callable[..., LookupResult]
AskFiles = Callable[..., list[LookupResult]]
Vector = Sequence[float]
Sections = list[tuple[str, str]]

DEFAULT = "wordllama"
HASH = HashEmbedder()

BODY = "Run the tablet programme weekly."
PAINT = "Paint is in room 5."
MARS = "What is the capital of the Mars colony?"
USER: Any = {"messages": [("user", "hello")]}

_OTHER_ENTRIES = {
    "parking.md": "# Parking\nPermits come from facilities.\n",
    "vpn.md": "# VPN\nInstall the client on your laptop.\n",
}
_LOST_BADGE = "# Badge\nReport it at the desk.\n"
ENTRIES = {
    "badge.md": f"---\ncategory: desk\nkeywords: [badge]\n---\n{_LOST_BADGE}",
    **_OTHER_ENTRIES,
}
DESK = {"badge.md": f"---\nupdated: 2024-05-01\n---\n{_LOST_BADGE}", **_OTHER_ENTRIES}

BADGE_TEXT = "Lost badges are blocked at the reception desk."
BADGES = Document(BADGE_TEXT, metadata={"source": "badges.md", "title": "Badges", "category": "it"})
LAB = Document(
    "LAB", metadata={"source": "lab", "title": "x", "keywords": ["lab"], "category": "l"}
)
CAFE = Document("CAFE", metadata={"source": "cafe", "title": "y"})
LAB_TABLE = {
    "": [0.0, -1.0],
    "hit": [1.0, 0.0],
    "lab": [1.0, 0.0],
    "LAB": at_similarity(0.4),
    "CAFE": at_similarity(0.95),
}

LOW = "filtered_vector_low_quality"
NONE = "filtered_vector_no_evidence"
EVERYTHING = LookupConfig(retrieval=RetrievalConfig(reference_threshold=0, evidence_floor=0))
VECTORS_ALONE = RetrievalConfig(lexical_candidates=0, reference_threshold=0.0, evidence_floor=0.0)
"""Vectors alone, and every candidate is evidence."""


# Documents and embedders


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write every file as it is given, without a change of its line ends."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def build_entries(folder: Path, entries: Mapping[str, str]) -> KnowledgeBase:
    (folder / "docs").mkdir(parents=True)
    write_files(folder / "docs", entries)
    return KnowledgeBase.build(folder / "docs", folder / "kb", embedder=HashEmbedder())


def entry(title: str, category: str, keywords: str, text: str) -> str:
    return f"---\ntitle: {title}\ncategory: {category}\nkeywords: [{keywords}]\n---\n{text}\n"


def documents(*texts: str) -> list[Document]:
    return [Document(f"{text}.", metadata={"source": text, "title": text}) for text in texts]


class Fixed(Embeddings):
    """Gives the very object that stands in its table, whatever its type, for the text's key."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return next(vector for key, vector in self.table.items() if key in text)


class Folder:
    """A folder of documents that is built again and again."""

    def __init__(self, root: Path) -> None:
        self.docs, self.kb = root / "docs", root / "kb"
        self.docs.mkdir()

    def write(self, files: Mapping[str, str]) -> None:
        write_files(self.docs, files)

    def build(self) -> KnowledgeBase:
        return KnowledgeBase.build(self.docs, self.kb, embedder=HashEmbedder())

    def ask(self, query: str = "anything at all") -> LookupResult:
        self.build().close()
        with KnowledgeBase.open(self.kb, embedder=HashEmbedder()) as knowledge:
            return look_up_everything(knowledge, query)


# Lookups


def look_up_everything(knowledge: KnowledgeBase, query: str) -> LookupResult:
    """Ask so that every candidate is evidence."""
    with closing(TraceStore("sqlite://")) as traces:
        graph = build_lookup_graph(knowledge, config=EVERYTHING, traces=traces)
        return graph.invoke({"query": query})["result"]


def look_up_vectors(
    knowledge: KnowledgeBase, asked: str, traces: TraceStore, /, **sections: Any
) -> LookupResult:
    """Ask the vectors alone, unless a section of the settings says otherwise."""
    config = LookupConfig(**{"retrieval": VECTORS_ALONE, **sections})
    graph = build_lookup_graph(knowledge, config=config, traces=traces)
    return graph.invoke({"query": asked})["result"]


def look_up_with(
    knowledge: KnowledgeBase,
    asked: str,
    /,
    groups: tuple[str, ...] = (),
    evidence: EvidenceConfig | None = None,
    **retrieval: Any,
) -> LookupResult:
    """Ask for a reader of these groups, with these settings of the retrieval."""
    config = LookupConfig(
        retrieval=RetrievalConfig(**retrieval), evidence=evidence or EvidenceConfig()
    )
    with closing(TraceStore("sqlite://")) as traces:
        graph = build_lookup_graph(knowledge, config=config, traces=traces)
        return graph.invoke({"query": asked}, context=LookupContext(groups=groups))["result"]


# Calls of the tool


def tool_call(tool: StructuredTool, query: Any) -> dict[str, Any]:
    return {"name": tool.name, "args": {"query": query}, "id": "1", "type": "tool_call"}


def ask_tool(tool: StructuredTool, query: Any) -> ToolMessage:
    return tool.invoke(tool_call(tool, query))


def ask_artifact(tool: StructuredTool, query: Any) -> dict[str, Any]:
    return ask_tool(tool, query).artifact


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self


def calls(*arguments: Any) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": "lookup_knowledge", "args": args, "id": str(number)}
            for number, args in enumerate(arguments)
        ],
    )


def agent(tool: StructuredTool, *says: AIMessage, **options: Any) -> Any:
    model = ScriptedModel(messages=iter([*says, AIMessage("done")]))
    return create_agent(model, tools=[tool], **options)


def through_agent(tool: StructuredTool, says: AIMessage) -> list[ToolMessage]:
    state = agent(tool, says).invoke(USER)
    assert state["messages"][-1].content == "done"
    return answers(state)


def answers(state: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


# What a test reads


def sources(result: LookupResult) -> list[str]:
    return [block.source for block in result.evidence_blocks]


def message_sources(message: ToolMessage) -> list[str]:
    return [block["source"] for block in message.artifact["evidenceBlocks"]]


def sections(result: LookupResult) -> Sections:
    return sorted((block.source, block.content) for block in result.evidence_blocks)


def best(result: LookupResult) -> str | None:
    return result.evidence_blocks[0].source if result.evidence_blocks else None


def filters(result: LookupResult) -> list[dict[str, str] | None]:
    return [attempt.filter for attempt in result.retrieval_trace.attempts]


def path(result: LookupResult) -> list[tuple[str, str]]:
    """Return how each attempt was made and how it ended."""
    return [(a.strategy, a.outcome) for a in result.retrieval_trace.attempts]


def warned(knowledge: KnowledgeBase) -> set[str]:
    """Return the files that the load report names."""
    return {problem.path for problem in knowledge.report.problems}


def stable(value: Any) -> Any:
    """Leave out what may differ between two runs: ids and times."""
    if isinstance(value, dict):
        changing = {"invocationId", "durationMs", "timings"}
        return {key: stable(part) for key, part in value.items() if key not in changing}
    return [stable(part) for part in value] if isinstance(value, list) else value


def dumped(state: dict[str, Any]) -> Any:
    return stable(state["result"].model_dump(mode="json"))


def strictly(text: str) -> Any:
    """Parse JSON, refusing what only Python calls JSON."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def stored(path: Path) -> list[dict[str, Any]]:
    """Read the table with another program's eyes; every row must be valid for SQLite itself."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(
            "SELECT *, json_valid(retrieval_details) AS valid FROM tool_invocation ORDER BY id"
        ).fetchall()
    found = [dict(row) for row in rows]
    assert all(row["valid"] == 1 for row in found)
    return [{**row, "details": strictly(row["retrieval_details"])} for row in found]
