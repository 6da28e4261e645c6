"""Whole lookups through the tool and the graph, beside LangChain's retriever tool over FAISS.

Both have the same vectors, one OpenMP thread and an embedder that costs nothing. The retriever tool
filters after the search, so it fetches as many candidates as full recall takes.
"""

import asyncio
import gc
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import faiss
import numpy as np

from corpora import CorpusEmbeddings, Question
from lookup_tool.engines.local.segments import Where
from lookup_tool.graph.app import build_lookup_graph
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.tool import create_lookup_tool
from timing import alternate, timed

K = 50
FULL_RECALL = 0.999
FETCHES = (1_000, 3_000, 10_000, 30_000, 100_000)
LARGEST_PEER = 200_000
"""Passages up to which the peer is built: it keeps every text as a Python object."""

CPUS = os.cpu_count() or 1
"""OpenMP threads of faiss as it is shipped."""

Ask = Callable[[Question], Any]


def measure(
    knowledge: KnowledgeBase,
    embeddings: CorpusEmbeddings,
    everything: list[Question],
    filtered: list[Question],
) -> dict[str, Any]:
    """Time lookups, with the peers that are installed."""
    faiss.omp_set_num_threads(1)
    tool = create_lookup_tool(knowledge, traces="sqlite://")
    graph = build_lookup_graph(knowledge, traces="sqlite://")

    def through_tool(question: Question) -> Any:
        call = {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": question.text}}
        return tool.invoke(call)

    async def awaited() -> None:
        for question in everything:
            await tool.ainvoke({"query": question.text})

    whole: dict[str, Ask] = {
        "tool": through_tool,
        "graph": lambda question: graph.invoke({"query": question.text}),
    }
    part: dict[str, Ask] = {"tool": through_tool}
    notes: list[str] = []
    peer = _retriever_tools(knowledge, embeddings, filtered, notes)
    if peer is not None:
        whole |= {"create_retriever_tool k=20": peer(20, 20), f"... k={K}": peer(K, K)}
        fetch = _fetch_for_full_recall(peer, knowledge, filtered)
        part[f"create_retriever_tool k={K}, fetch_k={fetch}"] = peer(K, fetch)
    # The peer keeps every text as an object: collecting garbage must not go through them on our
    # account, nor through ours on its.
    gc.collect()
    gc.freeze()
    report: dict[str, Any] = {
        "everything_ms": alternate(whole, everything),
        "category_ms": alternate(part, filtered),
        "stages_ms": stages(through_tool, everything),
        "throughput": throughput(through_tool, everything),
        "async_ratio": _async_ratio(tool, everything, awaited),
        "notes": notes,
    }
    if peer is not None:
        report["peer_throughput"] = throughput(peer(20, 20), everything)
        report["peer_throughput_as_shipped"] = throughput(peer(20, 20), everything, openmp=CPUS)
    gc.unfreeze()
    return report


def stages(ask: Ask, questions: list[Question]) -> dict[str, float]:
    """Return the median milliseconds of each stage."""
    found: dict[str, list[float]] = {}
    for question in questions:
        for timing in ask(question).artifact["retrievalTrace"]["timings"]:
            found.setdefault(timing["stage"], []).append(timing["durationMs"])
    return {stage: round(float(np.median(times)), 3) for stage, times in found.items()}


def throughput(ask: Ask, questions: list[Question], openmp: int = 1) -> dict[str, float]:
    """Return lookups a second with one thread and with two, each of so many OpenMP threads."""

    def asked(threads: int) -> float:
        with ThreadPoolExecutor(
            threads, initializer=faiss.omp_set_num_threads, initargs=(openmp,)
        ) as pool:
            list(pool.map(ask, questions[:4]))
            return round(len(questions) / timed(lambda: list(pool.map(ask, questions))), 1)

    found = {"one": [], "two": []}
    for _ in range(3):
        found["one"].append(asked(1))
        found["two"].append(asked(2))
    return {
        "one_thread_per_s": float(np.median(found["one"])),
        "two_threads_per_s": float(np.median(found["two"])),
    }


def _async_ratio(tool: Any, questions: list[Question], awaited: Any) -> float:
    def direct() -> None:
        for question in questions:
            tool.invoke({"query": question.text})

    ratios = [timed(lambda: asyncio.run(awaited())) / timed(direct) for _ in range(3)]
    return round(float(np.median(ratios)), 2)


def _retriever_tools(
    knowledge: KnowledgeBase,
    embeddings: CorpusEmbeddings,
    filtered: list[Question],
    notes: list[str],
) -> Callable[[int, int], Ask] | None:
    """Return a maker of LangChain's retriever tools over the same vectors; None without them."""
    try:
        from langchain_community.docstore.in_memory import InMemoryDocstore  # pyright: ignore[reportMissingImports]
        from langchain_community.vectorstores import FAISS  # pyright: ignore[reportMissingImports]
        from langchain_community.vectorstores.utils import DistanceStrategy  # pyright: ignore[reportMissingImports]
        from langchain_core.documents import Document
        from langchain_core.tools import create_retriever_tool
    except ImportError as error:
        notes.append(f"no comparison with create_retriever_tool: {error.name} is not installed")
        return None
    size = knowledge.manifest.passages
    if size > LARGEST_PEER:
        notes.append(f"no comparison with create_retriever_tool over {LARGEST_PEER:,} passages")
        return None
    snapshot = knowledge.view().snapshot
    index = faiss.IndexFlatIP(snapshot.unit_vectors.shape[1])
    index.add(np.array(snapshot.unit_vectors))
    documents = {
        str(row): Document(
            id=str(row), page_content=each.text, metadata={"row": row, "category": each.category}
        )
        for row, each in snapshot.store.passages(range(size)).items()
    }
    store = FAISS(
        embeddings,
        index,
        InMemoryDocstore(documents),
        {row: str(row) for row in range(size)},
        distance_strategy=DistanceStrategy.MAX_INNER_PRODUCT,
    )

    def make(k: int, fetch: int) -> Ask:
        def ask(question: Question) -> Any:
            options: dict[str, Any] = {"k": k}
            if question.category:
                options |= {"fetch_k": fetch, "filter": {"category": question.category}}
            tool = tools.setdefault(
                str(options),
                create_retriever_tool(
                    store.as_retriever(search_kwargs=options),
                    "search",
                    "Search.",
                    response_format="content_and_artifact",
                ),
            )
            call = {
                "type": "tool_call",
                "id": "1",
                "name": "search",
                "args": {"query": question.text},
            }
            return tool.invoke(call)

        tools: dict[str, Any] = {}
        for each in filtered[:1]:
            ask(each)
        return ask

    return make


def _fetch_for_full_recall(
    peer: Callable[[int, int], Ask], knowledge: KnowledgeBase, filtered: list[Question]
) -> int:
    """Return how many candidates to fetch so that the filter leaves what an exact search has."""
    vectors = knowledge.view().snapshot.vectors
    fetch = K
    for fetch in FETCHES:
        shares = []
        for question in filtered[:20]:
            where = Where(category=question.category)
            exact = vectors.search(question.vector, K, where)[0]
            found = [each.metadata["row"] for each in peer(K, fetch)(question).artifact]
            shares.append(len(np.intersect1d(found, exact)) / len(exact))
        if np.mean(shares) >= FULL_RECALL or fetch >= knowledge.manifest.passages:
            return fetch
    return knowledge.manifest.passages
