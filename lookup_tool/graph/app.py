"""The machine as a compiled graph, for LangGraph applications."""

import threading
from weakref import WeakKeyDictionary

from langgraph.graph.state import CompiledStateGraph

from lookup_tool.config import Groups, LookupConfig, LookupContext, who_asks
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
    groups: Groups | None = None,
) -> LookupGraph:
    """Compile the machine over a knowledge base.

    With a checkpointer, a run goes on only for the caller that it was begun for, and a new turn
    starts from a clean state. But LangGraph reads and streams the state of a thread to whoever uses
    the thread, and the first events of a turn, before its first node has run, hold what the turn
    before has left: give every caller threads of their own.

    LangGraph runs the nodes of an awaited run in the event loop's default executor. Where an
    embedder is slow, await the tool, which has threads of its own, or give the loop a larger one.

    Args:
        knowledge: Where to look.
        config: Settings; by default what we ship.
        traces: Store for the trace rows, or its URL; by default `traces.sqlite` in the knowledge
            base, in memory for a knowledge base in memory.
        groups: The caller's access groups, or a function of the run's `Runtime` that returns them,
            called at every stage; by default the `groups` of the run's context. A context is
            trusted: on a server whose clients send their own, give a function that asks somebody
            else.

    Returns:
        A graph without a checkpointer: `invoke({"query": ...})` gives `{"result": LookupResult}`;
        pass `context=LookupContext(groups=...)` for a caller with access groups.

    Raises:
        ConfigurationError: The groups cannot be read.
    """
    store = open_traces(knowledge, traces)
    nodes = LookupNodes(knowledge, config or LookupConfig(), store, TOOL_NAME, who_asks(groups))
    return draw(nodes).compile()


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
