"""`LookupRetriever`: the same lookup for chains that expect a LangChain retriever.

A miss is an empty list. A lookup that failed raises: a chain must not take an outage for "nothing
found".
"""

from collections.abc import Collection
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr, ValidationError, field_validator

from lookup_tool.config import EvidenceConfig, LookupConfig, LookupContext, as_groups
from lookup_tool.contracts import LookupResult
from lookup_tool.errors import ConfigurationError, LookupUnavailableError
from lookup_tool.graph.app import open_traces
from lookup_tool.graph.lookup import Lookup
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.threads import threads_of
from lookup_tool.traces import TraceStore

NAME = "lookup_retriever"
"""Name in the trace rows."""


class LookupRetriever(BaseRetriever):
    """Evidence blocks as documents, best first.

    A document's `id` is its source, and its metadata are the block's fields in snake_case (source,
    title, breadcrumb, category, similarity, score, rank, hit_reasons, lines, ...), with
    `evidence_status` and `invocation_id`, the key of the trace row. Both `k` and `groups` may be
    given to a single call: `invoke(query, k=2)`.
    """

    knowledge: KnowledgeBase
    """Where to look."""

    k: int = Field(default=4, ge=1, le=100)
    """Most documents."""

    groups: str | Collection[str] | None = None
    """Access groups of the caller, a list, a tuple or a set; none means public entries only."""

    config: LookupConfig = LookupConfig()
    """Settings; `evidence.max_blocks` is `k` here."""

    traces: TraceStore | str | None = None
    """Store for the trace rows, or its URL; by default the knowledge base's own."""

    _lookups: dict[int, Lookup] = PrivateAttr(default_factory=dict)

    @field_validator("groups", mode="before")
    @classmethod
    def _readable(cls, groups: object) -> tuple[str, ...]:
        """Refuse groups that cannot be read before a chain is built with them."""
        return tuple(sorted(as_groups(groups)))

    def model_post_init(self, context: Any, /) -> None:
        """Open the trace store once, also for copies with other fields."""
        super().model_post_init(context)
        self.traces = open_traces(self.knowledge, self.traces)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        groups: str | Collection[str] | None = None,
    ) -> list[Document]:
        return self._documents(query, k, groups, run_manager.get_child())

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        groups: str | Collection[str] | None = None,
    ) -> list[Document]:
        callbacks = run_manager.get_sync().get_child()
        threads = threads_of(self.knowledge, f"await {NAME}", self.config.retrieval.threads)
        return await threads.run(self._documents, query, k, groups, callbacks)

    def _documents(
        self,
        query: str,
        k: int | None,
        groups: str | Collection[str] | None,
        callbacks: BaseCallbackManager,
    ) -> list[Document]:
        if not isinstance(query, str):
            raise ConfigurationError(
                f"the retriever needs a query, a string; it got {type(query).__name__}"
            )
        context = LookupContext(groups=tuple(as_groups(self.groups if groups is None else groups)))
        result = self._lookup(self.k if k is None else k)(query, lambda: context, callbacks)
        if result.evidence_status == "unavailable":
            trace = result.retrieval_trace
            cause = f" ({trace.error})" if trace.error else ""
            raise LookupUnavailableError(f"{result.message}{cause}", trace.invocation_id)
        return _as_documents(result)

    def _lookup(self, k: int) -> Lookup:
        """Return the machine that keeps `k` blocks, so that its trace tells what was returned."""
        if k not in self._lookups:
            try:
                evidence = EvidenceConfig(max_blocks=k)
            except ValidationError as error:
                raise ConfigurationError(f"k={k!r}: {error.errors()[0]['msg']}") from error
            config = self.config.model_copy(update={"evidence": evidence})
            traces = open_traces(self.knowledge, self.traces)
            self._lookups[k] = Lookup(self.knowledge, config, traces, NAME)
        return self._lookups[k]


def _as_documents(result: LookupResult) -> list[Document]:
    about = {
        "evidence_status": result.evidence_status,
        "invocation_id": result.retrieval_trace.invocation_id,
    }
    return [
        Document(
            id=block.source,
            page_content=block.content,
            metadata=block.model_dump(mode="json", by_alias=False, exclude={"content"}) | about,
        )
        for block in result.evidence_blocks
    ]
