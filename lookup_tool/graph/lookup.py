"""One whole lookup that never raises: the graph, with the error boundary around it.

The tool and the retriever both look up through it, so that both fail, and record it, in one way.
"""

import logging
import uuid
from collections.abc import Callable

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableConfig

from lookup_tool.config import LookupConfig, LookupContext
from lookup_tool.contracts import HintSummary, LookupResult, RetrievalTrace
from lookup_tool.graph.build import draw
from lookup_tool.graph.nodes import LookupNodes
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.stages.assemble import Findings, assemble
from lookup_tool.stages.record import record
from lookup_tool.stages.transform import transform
from lookup_tool.traces import TraceStore

logger = logging.getLogger(__name__)

RECURSION_LIMIT = 25
"""Steps of one lookup are at most 9; without a limit of its own, the caller's would apply."""


class Lookup:
    """The machine of one tool or retriever; safe to call from many threads."""

    def __init__(
        self, knowledge: KnowledgeBase, config: LookupConfig, traces: TraceStore, name: str
    ) -> None:
        self._knowledge = knowledge
        self._config = config
        self._traces = traces
        self._name = name
        nodes = LookupNodes(knowledge, config, traces, name)
        self._graph = draw(nodes).compile(checkpointer=False, name=name)

    def __call__(
        self,
        query: str,
        context: Callable[[], LookupContext],
        callbacks: BaseCallbackManager | None = None,
    ) -> LookupResult:
        """Look a query up.

        Args:
            query: Any string.
            context: Says who asks; a failure in it is a failure of the lookup.
            callbacks: What the run reports to; by default what surrounds the call.

        Returns:
            A result; `unavailable`, with the error's class, when anything failed.
        """
        config: RunnableConfig = {"recursion_limit": RECURSION_LIMIT}
        if callbacks is not None:
            config["callbacks"] = callbacks
        try:
            return self._graph.invoke({"query": query}, config, context=context())["result"]
        except Exception as error:
            logger.exception("%s failed", self._name)
            return self._unavailable(query, error)

    def _unavailable(self, query: str, error: Exception) -> LookupResult:
        """Build and record the result of a lookup that failed outside its searches."""
        prepared = transform(query, self._config.query.model_copy(update={"transform": None}))
        trace = RetrievalTrace(
            query=prepared.raw,
            query_length=prepared.length,
            query_cut=prepared.cut,
            transformed_query=prepared.text,
            hints=HintSummary(),
            knowledge_version=self._knowledge.version_for(frozenset()),
            embedder=self._knowledge.embedder,
            invocation_id=uuid.uuid4().hex,
            error=type(error).__name__,
        )
        result = assemble(Findings(trace=trace), self._config.assemble)
        failure = record(result, self._traces, self._name, self._config.record)
        trace = trace.model_copy(update={"record_error": failure})
        return result.model_copy(update={"retrieval_trace": trace})
