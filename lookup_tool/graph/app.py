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

_own: WeakKeyDictionary[KnowledgeBase, TraceStore] = WeakKeyDictionary()
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
    """Return the given store, or the one that belongs to the knowledge base.

    There is one of these for each opened knowledge base, and it is closed with it. It is opened at
    the first lookup: where it cannot be written, results say so, and lookups go on.
    """
    if isinstance(traces, TraceStore):
        return traces
    if traces is not None:
        return TraceStore(traces)
    with _opening:
        if knowledge not in _own:
            place = IN_MEMORY if knowledge.in_memory else knowledge.path / "traces.sqlite"
            _own[knowledge] = TraceStore(place, lazy=True)
            knowledge.at_close(_own[knowledge].close)
        return _own[knowledge]
