"""LangChain's standard tests, for the tool, the retriever and the embeddings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import (
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    ToolsIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests, ToolsUnitTests

from lookup_tool import KnowledgeBase, LookupRetriever, TraceStore, create_lookup_tool
from lookup_tool.embedders.wordllama import WordLlamaEmbeddings

QUERY = "How many days of annual leave do I get?"


class OverTheHandbook:
    """The standard tests ask for their subject through properties, which see no fixture."""

    handbook: KnowledgeBase
    store: TraceStore

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def open_handbook(cls, handbook_path: Path) -> Iterator[None]:
        cls.store = TraceStore("sqlite://")
        with KnowledgeBase.open(handbook_path) as cls.handbook:
            yield
        cls.store.close()


class OfTheTool(OverTheHandbook):
    @property
    def tool_constructor(self) -> BaseTool:
        return create_lookup_tool(self.handbook, traces=self.store)

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": QUERY}


class TestToolUnit(OfTheTool, ToolsUnitTests):
    pass


class TestToolIntegration(OfTheTool, ToolsIntegrationTests):
    pass


class TestToolOfSearchResults(OfTheTool, ToolsIntegrationTests):
    @property
    def tool_constructor(self) -> BaseTool:
        return create_lookup_tool(self.handbook, traces=self.store, content_format="search_result")


class TestRetriever(OverTheHandbook, RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[LookupRetriever]:
        return LookupRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"knowledge": self.handbook, "traces": self.store}

    @property
    def retriever_query_example(self) -> str:
        return QUERY


class OfTheEmbeddings:
    @property
    def embeddings_class(self) -> type[WordLlamaEmbeddings]:
        return WordLlamaEmbeddings


class TestEmbeddingsUnit(OfTheEmbeddings, EmbeddingsUnitTests):
    pass


class TestEmbeddingsIntegration(OfTheEmbeddings, EmbeddingsIntegrationTests):
    pass
