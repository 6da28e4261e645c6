"""Random knowledge bases, and everything that a caller receives from one.

A caller must receive the same whether what they may not see is there or not. `differences` builds a
base with everything, and for each caller one with what they may see, and compares all doors.
"""

import asyncio
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from command_line import run
from embedders import HashEmbedder
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from mcp.shared.memory import create_connected_server_and_client_session
from pydantic import BaseModel

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupContext,
    LookupRetriever,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)
from lookup_tool.config import RetrievalConfig
from lookup_tool.server import create_mcp_server

BASES = 200
CALLERS = (frozenset[str](), frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"}))

_ACCESS: tuple[tuple[str, ...] | None, ...] = (
    *(None, None, None, ("a",), ("a",), ("b",), ("b",)),
    *(("a", "b"), ("c",), ("b", "c"), ("a", "c"), ()),
)
_SOURCES = (
    *("notes.md", "notes.md#night", "notes.md#night-1", "guide/door.md", "guide/door.md#badge"),
    *("a.md", "a.md#door-badge", "b.md", None, None),
)
_CATEGORIES = ("Site", "site", "HR", "Takeover", None, None)
_HEADINGS = ("Night", "Night", "Badge", "Door badge", "Vacaciones", "年假")
_WORDS = (
    *("annual", "leave", "badge", "door", "falcon", "guard", "night", "E47", "ZX900", "ACME"),
    *(
        "invoice",
        "takeover",
        "board",
        "Urlaub",
        "Rechnung",
        "年假",
        "收购计划",
        "员工",
        "the",
        "what",
    ),
)
_NEVER_THE_SAME = frozenset(
    {
        *("duration_ms", "durationMs", "timings", "invocation_id", "invocationId"),
        *("started", "created_at", "generation", "scope", "view"),
        *("timestamp", "id", "config", "parent_config", "ts"),  # of LangGraph's debug events
    }
)
"""Times, and ids that are other ones for every lookup or build."""


@dataclass(frozen=True)
class Base:
    """What one random knowledge base is made of, and what it is asked."""

    documents: tuple[Document, ...]
    queries: tuple[str, ...]
    config: LookupConfig
    embedder: Embeddings
    quantized: bool
    """Whether public rows are ranked roughly first, as in a large one."""

    def seen_by(self, groups: frozenset[str]) -> tuple[Document, ...]:
        """Return what these groups may see."""
        return tuple(
            document
            for document in self.documents
            if (access := document.metadata.get("access")) is None or groups.intersection(access)
        )


def random_base(seed: int) -> Base:
    """Make a base whose hidden entries share all that they can with visible ones."""
    chance = random.Random(seed)
    texts = [_text(chance) for _ in range(chance.choice([4, 12, 30]))]
    documents = [_document(chance, texts) for _ in range(chance.choice([12, 40, 40, 130]))]
    queries = [
        " ".join(chance.choices(_WORDS, k=chance.randint(1, 4))),
        " ".join(chance.choices(_WORDS, k=9)),
        chance.choice([chance.choice(texts)[:200], "site door", "the takeover", ""]),
    ]
    few = chance.choice([3, 8, 50])
    return Base(
        tuple(documents),
        tuple(queries),
        LookupConfig(
            retrieval=RetrievalConfig(candidates=few, lexical_candidates=chance.choice([0, few]))
        ),
        HashEmbedder(chance.choice([8, 24, 24, 256])),
        quantized=chance.random() < 0.25,
    )


def _text(chance: random.Random) -> str:
    def words(most: int) -> str:
        return " ".join(chance.choices(_WORDS, k=chance.randint(1, most)))

    parts = [f"# {words(2)}\n\n{words(12)}."] * chance.randint(0, 1) or [f"{words(12)}."]
    parts += [f"## {chance.choice(_HEADINGS)}\n\n{words(12)}." for _ in range(chance.randrange(4))]
    return "\n\n".join(parts)


def _document(chance: random.Random, texts: Sequence[str]) -> Document:
    text = chance.choice(texts)
    if chance.random() < 0.3:  # nearly equal
        text = text.replace(chance.choice(_WORDS), chance.choice(_WORDS), 1)
    metadata: dict[str, Any] = {}
    for key, value in {
        "source": chance.choice(_SOURCES),
        "access": chance.choice(_ACCESS),
        "category": chance.choice(_CATEGORIES),
        "title": chance.choice([None, None, "Falcon door", "Night", "Urlaub"]),
        "owner": chance.choice([None, "site office"]),
    }.items():
        if value is not None:
            metadata[key] = list(value) if isinstance(value, tuple) else value
    for key in ("keywords", "entities"):
        metadata[key] = [chance.choice(_WORDS), f"{chance.choice(_WORDS)} {chance.choice(_WORDS)}"]
    return Document(text, metadata=metadata)


async def differences(base: Base, folder: Path | None = None) -> list[str]:
    """Compare what each caller receives with and without the entries that they may not see.

    Args:
        base: The knowledge base.
        folder: Ask through the command line too, which opens bases in this folder.

    Returns:
        Where they differ, and how; nothing where the wall holds.
    """
    found: list[str] = []
    with _opened(base, base.documents, _place(folder, "whole")) as whole:
        for groups in CALLERS:
            name = "+".join(sorted(groups)) or "public"
            with _opened(base, base.seen_by(groups), _place(folder, name)) as visible:
                without = await _received(visible, base, groups)
                with_ = await _received(whole, base, groups)
            found += [f"{name}: {each}" for each in _compared(without, with_)]
    return found


def walls(folder: Path) -> None:
    """Compare many random bases, every tenth through the command line too."""
    compared = 0
    for seed in range(BASES):
        base = random_base(seed)
        on_disk = folder / str(seed) if seed % 10 == 0 else None
        if found := asyncio.run(differences(base, on_disk)):
            sys.exit(f"base {seed}: hidden entries show in {len(found)} places: {found[0]}")
        compared += len(CALLERS) * len(base.queries)
    print(  # noqa: T201
        f"{BASES} bases, {len(CALLERS)} callers each: the answers to {compared:,} questions, "
        "through every door, are the same with and without what the caller may not see"
    )


def _place(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / name


@contextmanager
def _opened(
    base: Base, documents: Sequence[Document], into: Path | None
) -> Iterator[KnowledgeBase]:
    """Build a base; one on disk with the default embedder, which the command line finds by name."""
    with ExitStack() as settings:
        if base.quantized:
            for name, value in {
                "indexing.build.QUANTIZED_FROM": 8,
                "engines.local.quantized._FEWEST": 6,
                "engines.local.quantized._OVERSAMPLED": 2,
                "engines.local.quantized._LARGEST_SHARE": 1.0,
            }.items():
                settings.enter_context(patch(f"lookup_tool.{name}", value))
        embedder = base.embedder if into is None else "wordllama"
        with KnowledgeBase.from_documents(documents, into=into, embedder=embedder) as knowledge:
            yield knowledge


async def _received(knowledge: KnowledgeBase, base: Base, groups: frozenset[str]) -> dict[str, Any]:
    """Return everything that one caller receives, by door and query."""
    store = TraceStore("sqlite://")
    context = LookupContext(groups=tuple(groups))
    tool = create_lookup_tool(knowledge, config=base.config, traces=store, groups=groups)
    graph = build_lookup_graph(knowledge, config=base.config, traces=store)
    retriever = LookupRetriever(
        knowledge=knowledge, config=base.config, traces=store, groups=groups
    )
    received: dict[str, Any] = {
        "version": knowledge.version_for(groups),
        "passages": knowledge.count(groups),
    }
    view = knowledge.view()
    received["spread"] = (view.titles(5, groups), view.sample(7, groups))
    for query in base.queries:
        call = {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": query}}
        message = tool.invoke(call)
        events = graph.stream(
            {"query": query}, context=context, stream_mode=["values", "updates", "custom", "debug"]
        )
        shown = message.artifact["evidenceBlocks"]
        received[query] = {
            "tool": (message.content, message.artifact),
            "graph": list(events),
            "retriever": retriever.invoke(query),
            "hints": knowledge.hints(query, groups),
            "read": [knowledge.read(block["source"], groups) for block in shown],
        }
    async with create_connected_server_and_client_session(create_mcp_server(tool)) as session:
        answer = await session.call_tool(tool.name, {"query": base.queries[0]})
    received["mcp"] = answer
    received["rows"] = store.rows()
    if not knowledge.in_memory:
        received["command line"] = _asked(knowledge.path, base.queries[0], groups)
    store.close()
    return plain(received, {})


def _asked(kb: Path, query: str, groups: frozenset[str]) -> Any:
    given = [option for group in groups for option in ("--group", group)]
    return json.loads(run("ask", query, "--kb", kb, "--json", "--traces", "sqlite://", *given).out)


def plain(value: Any, known: dict[int, tuple[Any, Any]]) -> Any:
    """Return a value as plain types, without times and ids.

    Args:
        value: Any value.
        known: What has been made plain, by identity: the events of a graph share their values.
    """
    if id(value) in known:
        return known[id(value)][1]
    given = value
    if isinstance(value, BaseModel):
        value = dict(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        value = {
            key: plain(each, known) for key, each in value.items() if key not in _NEVER_THE_SAME
        }
    elif isinstance(value, list | tuple):
        value = [plain(each, known) for each in value]
    elif isinstance(value, set | frozenset):
        value = sorted(value)
    known[id(given)] = (given, value)
    return value


def _compared(without: Any, with_: Any, *, path: str = "") -> Iterator[str]:
    """Yield the places at which two plain values differ."""
    if without == with_:
        return
    if isinstance(without, dict) and isinstance(with_, dict) and without.keys() == with_.keys():
        for key, value in without.items():
            yield from _compared(value, with_[key], path=f"{path}/{key}")
    elif isinstance(without, list) and isinstance(with_, list) and len(without) == len(with_):
        for number, (one, other) in enumerate(zip(without, with_, strict=True)):
            yield from _compared(one, other, path=f"{path}/{number}")
    else:
        yield f"{path}: {str(without)[:300]} becomes {str(with_)[:300]}"
