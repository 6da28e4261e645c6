"""The machine as a compiled graph, for LangGraph applications."""

import threading
from weakref import WeakKeyDictionary

from langgraph.graph.state import CompiledStateGraph

from lookup_tool.config import LookupConfig, LookupContext
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.graph.state import LookupInput, LookupOutput, LookupState
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.traces import IN_MEMORY, TraceStore

LookupGraph = CompiledStateGraph[LookupState, LookupContext, LookupInput, LookupOutput]

TOOL_NAME = "lookup_knowledge"

_stores: WeakKeyDictionary[KnowledgeBase, dict[str | None, TraceStore]] = WeakKeyDictionary()
"""By their URLs; the knowledge base's own under None."""

_opening = threading.Lock()


def build_lookup_graph(
    knowledge: KnowledgeBase,
    *,
    config: LookupConfig | None = None,
    traces: TraceStore | str | None = None,
) -> LookupGraph:
    """Compile the machine over a knowledge base.

    Args:
        knowledge: Where to look.
        config: Settings; by default what we ship.
        traces: Store for the trace rows, or its URL; by default `traces.sqlite` in the knowledge
            base, in memory for a knowledge base in memory.

    Returns:
        A graph without a checkpointer: `invoke({"query": ...})` gives `{"result": LookupResult}`;
        pass `context=LookupContext(groups=...)` for a caller with access groups.
    """
    store = open_traces(knowledge, traces)
    return draw(LookupNodes(knowledge, config or LookupConfig(), store, TOOL_NAME)).compile()


def open_traces(knowledge: KnowledgeBase, traces: TraceStore | str | None = None) -> TraceStore:
    """Return the given store, or the one with the given URL, or the knowledge base's own.

    Of the latter two there is one for each opened knowledge base, and it is closed with it. Its own
    is opened at the first lookup: where it cannot be written, results say so, and lookups go on.

    Raises:
        TraceStoreError: The URL cannot be used.
    """
    if isinstance(traces, TraceStore):
        return traces
    with _opening:
        stores = _stores.setdefault(knowledge, {})
        if traces not in stores:
            own = IN_MEMORY if knowledge.in_memory else knowledge.path / "traces.sqlite"
            stores[traces] = TraceStore(own, lazy=True) if traces is None else TraceStore(traces)
            knowledge.at_close(stores[traces].close)
        return stores[traces]
