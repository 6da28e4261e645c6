"""The tool on its own: how it may be called, what it returns, and what a model is handed.

Families: one input in every call form, sync and async, that never blocks an event loop; content
that is text and nothing else, for a hit and for every way to miss; a miss that says that repeating
does not help; the schema that a model is handed.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from case_builders import MARS, ask_tool, dumped, tool_call
from embedders import HashEmbedder
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_function, convert_to_openai_tool

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)
from lookup_tool.config import AssembleConfig, PackConfig, RetrievalConfig

# D-01 One input, three call forms


def test_d_01_text_arguments_and_tool_call_give_the_same_evidence(tool: StructuredTool) -> None:
    message = ask_tool(tool, "badge")

    assert (type(message), type(message.content)) == (ToolMessage, str)
    assert (message.tool_call_id, message.name) == ("1", "lookup_knowledge")
    assert [block["source"] for block in message.artifact["evidenceBlocks"]] == ["badge.md"]
    assert message.content == tool.invoke("badge") == tool.invoke({"query": "badge"})


FORMS: dict[str, Callable[[StructuredTool, str], Any]] = {
    "run-text": lambda tool, query: tool.run(query),
    "run-arguments": lambda tool, query: tool.run({"query": query}),
    "run-with-a-call-id": lambda tool, query: tool.run(query, tool_call_id="1").content,
    "extra-arguments": lambda tool, query: tool.invoke({"query": query, "k": 3}),
    "batch": lambda tool, query: tool.batch([query, {"query": query}])[1],
    "stream": lambda tool, query: next(tool.stream(query)),
    "in-a-chain": lambda tool, query: (RunnableLambda(str) | tool).invoke(query),
    "function": lambda tool, query: tool.func(query)[0] if tool.func else None,
    "ainvoke-text": lambda tool, query: asyncio.run(tool.ainvoke(query)),
    "ainvoke-arguments": lambda tool, query: asyncio.run(tool.ainvoke({"query": query})),
    "ainvoke-tool-call": lambda tool, query: (
        asyncio.run(tool.ainvoke(tool_call(tool, query))).content
    ),
    "arun": lambda tool, query: asyncio.run(tool.arun(query)),
    "abatch": lambda tool, query: asyncio.run(tool.abatch([query]))[0],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("query", ["badge", "", '{"query": "badge"}'])
def test_every_call_form_gives_the_same_text(
    tool: StructuredTool, form: Callable[[StructuredTool, str], Any], query: str
) -> None:
    assert form(tool, query) == ask_tool(tool, query).content


# D-07 Sync and async both work

RUNS: dict[str, Callable[[Any, Any], Any]] = {
    "invoke": lambda graph, given: graph.invoke(given),
    "ainvoke": lambda graph, given: asyncio.run(graph.ainvoke(given)),
    "stream": lambda graph, given: [*graph.stream(given, stream_mode="values")][-1],
    "astream": lambda graph, given: asyncio.run(last(graph.astream(given, stream_mode="values"))),
    "batch": lambda graph, given: graph.batch([given])[0],
    "abatch": lambda graph, given: asyncio.run(graph.abatch([given]))[0],
    "batch_as_completed": lambda graph, given: next(graph.batch_as_completed([given]))[1],
}


async def last(items: Any) -> Any:
    return [item async for item in items][-1]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("query", ["badge", MARS])
def test_d_07_the_graph_runs_every_way(
    front_desk: KnowledgeBase, traces: TraceStore, run: Callable[[Any, Any], Any], query: str
) -> None:
    graph = build_lookup_graph(front_desk, traces=traces)

    state = run(graph, {"query": query})

    assert dumped(state) == dumped(graph.invoke({"query": query}))
    assert traces.count() == 2


class WaitingEmbedder(HashEmbedder):
    """Embeds a query only when somebody on the event loop lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let = threading.Event(), threading.Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [HashEmbedder.embed_query(self, text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.asked.set()
        if not self.let.wait(10):
            raise TimeoutError
        return super().embed_query(text)


@pytest.mark.parametrize("way", ["tool", "graph"])
async def test_d_07_the_event_loop_goes_on_while_a_query_is_embedded(
    traces: TraceStore, way: str
) -> None:
    embedder = WaitingEmbedder()
    document = Document("Report it at the desk.", metadata={"source": "a.md", "title": "Badge"})
    with KnowledgeBase.from_documents([document], embedder=embedder) as knowledge:
        tool = create_lookup_tool(knowledge, traces=traces)
        graph = build_lookup_graph(knowledge, traces=traces)

        async def let() -> None:
            await asyncio.to_thread(embedder.asked.wait, 10)
            embedder.let.set()

        asked = tool.ainvoke("badge") if way == "tool" else graph.ainvoke({"query": "badge"})
        answer, _ = await asyncio.gather(asked, let())

    assert "Report it at the desk." in str(answer)


async def test_many_lookups_on_one_loop_do_not_mix(tool: StructuredTool) -> None:
    queries = ["badge", "parking", "vpn", MARS] * 4

    messages = await asyncio.gather(*(tool.ainvoke(tool_call(tool, query)) for query in queries))

    assert [message.content for message in messages] == [
        ask_tool(tool, query).content for query in queries
    ]


# D-11 What the model sees is text; D-19 A miss must end the search

REPRS = ("EvidenceBlock(", "LookupResult(", "float32", "array(", "NaN", "None", "object at 0x")


def test_d_11_a_hit_is_the_packed_context_with_its_sources(tool: StructuredTool) -> None:
    message = ask_tool(tool, "badge")

    assert isinstance(message.content, str)
    assert message.content.endswith(message.artifact["contextPack"]["text"])
    assert 'source="badge.md"' in message.content
    assert "Report it at the desk." in message.content
    assert [sign for sign in REPRS if sign in message.content] == []


def test_d_19_a_miss_states_a_fact_and_ends_the_search(tool: StructuredTool) -> None:
    message = ask_tool(tool, MARS)

    assert message.artifact["found"] is False
    assert message.artifact["evidenceBlocks"] == []
    assert message.status == "success"
    assert "The knowledge base holds no evidence on this" in message.text
    assert "Repeating the same query will not help" in message.text


SETTINGS = {
    "legacy": (LookupConfig(assemble=AssembleConfig(legacy_fields=True)), "badge", "Found"),
    "characters": (LookupConfig(pack=PackConfig(budget=150, unit="characters")), "badge", "Found"),
    "no-room": (LookupConfig(pack=PackConfig(budget=1)), "badge", "Found"),
    "weak": (LookupConfig(retrieval=RetrievalConfig(reference_threshold=1)), "badge", "weak"),
    "blank": (LookupConfig(), " \u200b", "empty"),
    "miss": (LookupConfig(), MARS, "no evidence"),
    "switched-off": (LookupConfig(retrieval=RetrievalConfig(enabled=False)), "badge", "off"),
}


@pytest.mark.parametrize(("config", "query", "says"), SETTINGS.values(), ids=SETTINGS)
def test_content_is_one_text_whatever_happened(
    front_desk: KnowledgeBase, traces: TraceStore, config: LookupConfig, query: str, says: str
) -> None:
    message = ask_tool(create_lookup_tool(front_desk, config=config, traces=traces), query)

    assert message.content_blocks == [{"type": "text", "text": message.content}]
    assert says in message.text
    assert message.artifact["contextPack"]["text"] in message.text
    assert [sign for sign in REPRS if sign in message.text] == []


# D-30 Schema handed to the model


def test_d_30_a_model_is_handed_one_described_required_text(tool: StructuredTool) -> None:
    offered = convert_to_openai_tool(tool)["function"]

    assert (offered["name"], tool.name) == ("lookup_knowledge", "lookup_knowledge")
    assert offered["description"] == tool.description
    assert "Call it before you answer" in tool.description
    assert "the documents do not answer the question" in tool.description
    assert offered["parameters"]["required"] == ["query"]
    assert [*tool.args] == [*offered["parameters"]["properties"]] == ["query"]
    assert (tool.args["query"]["type"], tool.args["query"]["description"]) == (
        "string",
        "The question, in plain words.",
    )


SCHEMAS: dict[str, Callable[[StructuredTool], Any]] = {
    "call": lambda tool: tool.tool_call_schema.model_json_schema(),  # pyright: ignore[reportAttributeAccessIssue]
    "input": lambda tool: tool.get_input_jsonschema(),
    "function": lambda tool: convert_to_openai_function(tool)["parameters"],
    "strict": lambda tool: convert_to_openai_tool(tool, strict=True)["function"]["parameters"],
}


@pytest.mark.parametrize("schema_of", SCHEMAS.values(), ids=SCHEMAS)
def test_no_schema_shows_anything_but_the_query(
    front_desk: KnowledgeBase, traces: TraceStore, schema_of: Callable[[StructuredTool], Any]
) -> None:
    tool = create_lookup_tool(
        front_desk, traces=traces, groups=["g"], name="find", description="Finds."
    )
    schema = schema_of(tool)

    assert ([*schema["properties"]], schema["required"]) == (["query"], ["query"])
    assert schema["properties"]["query"]["type"] == "string"
    assert "$defs" not in schema
    assert (tool.name, tool.description) == ("find", "Finds.")
