"""Every scenario of the modular pipeline's requirements, through the compiled graph or the tool.

Two categories, `billing` and `travel`, and fixed two-dimensional vectors: the query lies at [1, 0],
so a passage's similarity is its first coordinate.
"""

import json
from typing import Any

import pytest
from conftest import Make
from embedders import TableEmbedder, at_similarity
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from lookup_tool import (
    KnowledgeBase,
    LookupConfig,
    LookupResult,
    TraceStore,
    build_lookup_graph,
    create_lookup_tool,
)
from lookup_tool.config import (
    AssembleConfig,
    HintsConfig,
    PackConfig,
    QueryConfig,
    RerankConfig,
    RetrievalConfig,
)

QUERY = "How is the invoice paid?"
FILES = {
    "billing/invoice.md": (
        "---\ntitle: Supplier papers\ncategory: billing\nkeywords: [invoice]\n"
        "entities: [PayDesk]\n---\n# Supplier papers\nBILLING text.\n"
    ),
    "travel/trips.md": "---\ntitle: Trips\ncategory: travel\n---\n# Trips\nTRAVEL text.\n",
}
THRESHOLD = 0.6


def knowledge_base(make: Make, billing: float, travel: float, **more: float) -> KnowledgeBase:
    """Build the two categories with these similarities to every query."""
    table = {"BILLING": at_similarity(billing), "TRAVEL": at_similarity(travel), "": [1.0, 0.0]}
    table |= {text: at_similarity(similarity) for text, similarity in more.items()}
    return make(FILES, TableEmbedder(table))


def look_up(
    knowledge: KnowledgeBase, traces: TraceStore, text: str = QUERY, /, **sections: Any
) -> LookupResult:
    """Run the compiled graph."""
    sections.setdefault("retrieval", RetrievalConfig(reference_threshold=THRESHOLD))
    graph = build_lookup_graph(knowledge, config=LookupConfig(**sections), traces=traces)
    return graph.invoke({"query": text})["result"]


def details(traces: TraceStore) -> dict[str, Any]:
    """Return the details of the only row."""
    (row,) = traces.rows()
    return row.retrieval_details


# Requirement: Knowledge retrieval SHALL use a modular RAG pipeline


def test_pipeline_components_execute_in_order(make: Make, traces: TraceStore) -> None:
    graph = build_lookup_graph(knowledge_base(make, 0.9, 0.2), traces=traces)

    stages = [next(iter(step)) for step in graph.stream({"query": QUERY}, stream_mode="updates")]

    assert stages == [
        "transform_query",
        "retrieve_filtered",
        "build_evidence",
        "rerank_evidence",
        "pack_context",
        "assemble_result",
        "record_trace",
    ]


class ScriptedModel(GenericFakeChatModel):
    """A chat model that says what it is told to say."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self


def run_agent(knowledge: KnowledgeBase, traces: TraceStore, *says: AIMessage) -> list[Any]:
    agent: Any = create_agent(
        ScriptedModel(messages=iter(says)), tools=[create_lookup_tool(knowledge, traces=traces)]
    )
    return agent.invoke({"messages": [("user", QUERY)]})["messages"]


def test_tool_boundary_remains_explicit(make: Make, traces: TraceStore) -> None:
    call = {"name": "lookup_knowledge", "args": {"query": QUERY}, "id": "1"}

    messages = run_agent(
        knowledge_base(make, 0.9, 0.2),
        traces,
        AIMessage("", tool_calls=[call]),
        AIMessage("By transfer."),
    )

    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert messages[2].artifact["evidenceBlocks"][0]["source"] == "billing/invoice.md"
    assert traces.count() == 1


def test_nothing_is_injected_into_a_chat_without_a_tool_call(
    make: Make, traces: TraceStore
) -> None:
    messages = run_agent(knowledge_base(make, 0.9, 0.2), traces, AIMessage("I do not know."))

    assert [message.content for message in messages] == [QUERY, "I do not know."]
    assert traces.count() == 0


# Requirement: Knowledge retrieval SHALL retry without L0 filter when filtered L1 is low quality


@pytest.mark.parametrize("billing", [0.9, THRESHOLD], ids=["above", "exactly at the threshold"])
def test_filtered_retrieval_succeeds(make: Make, traces: TraceStore, billing: float) -> None:
    knowledge = knowledge_base(make, billing, 0.95)

    result = look_up(knowledge, traces)

    (attempt,) = result.retrieval_trace.attempts
    assert (attempt.strategy, attempt.filter) == ("filtered", {"category": "billing"})
    assert (attempt.outcome, attempt.top_similarity) == ("accepted", billing)
    assert result.retrieval_trace.fallback_reason is None
    assert [block.source for block in result.evidence_blocks] == ["billing/invoice.md"]
    assert result.evidence_status == "sufficient"


def test_filtered_retrieval_makes_one_search(make: Make, traces: TraceStore) -> None:
    embedder = TableEmbedder({"BILLING": at_similarity(0.9), "": [1.0, 0.0]})

    look_up(make(FILES, embedder), traces)

    assert embedder.queries == [QUERY]


def test_filtered_retrieval_returns_no_evidence(make: Make, traces: TraceStore) -> None:
    """Every candidate of the category is below the evidence floor."""
    retrieval = RetrievalConfig(reference_threshold=0.2, evidence_floor=0.5)

    result = look_up(knowledge_base(make, 0.3, 0.9), traces, retrieval=retrieval)

    filtered, unfiltered = result.retrieval_trace.attempts
    assert (filtered.candidate_count, filtered.evidence_count) == (1, 0)
    assert filtered.outcome == "no_evidence"
    assert (unfiltered.strategy, unfiltered.query, unfiltered.filter) == ("unfiltered", QUERY, None)
    assert result.retrieval_trace.fallback_reason == "filtered_vector_no_evidence"
    assert details(traces)["fallbackReason"] == "filtered_vector_no_evidence"
    assert [block.source for block in result.evidence_blocks] == ["travel/trips.md"]


def test_filtered_retrieval_returns_no_candidates(make: Make, traces: TraceStore) -> None:
    """The category has an entry, whose metadata match, but no text."""
    files = {**FILES, "billing/invoice.md": FILES["billing/invoice.md"].partition("# ")[0]}
    embedder = TableEmbedder({"TRAVEL": at_similarity(0.9), "": [1.0, 0.0]})

    result = look_up(make(files, embedder), traces)

    filtered, unfiltered = result.retrieval_trace.attempts
    assert (filtered.candidate_count, filtered.top_similarity) == (0, None)
    assert unfiltered.candidate_count == 1
    assert result.retrieval_trace.fallback_reason == "filtered_vector_no_evidence"


def test_filtered_retrieval_is_below_reference_quality(make: Make, traces: TraceStore) -> None:
    knowledge = knowledge_base(make, 0.599999, 0.9)

    result = look_up(knowledge, traces, "How  is the\u200b invoice paid?")

    filtered, unfiltered = result.retrieval_trace.attempts
    assert (filtered.outcome, filtered.top_similarity) == ("low_quality", 0.599999)
    assert (filtered.query, unfiltered.query) == (QUERY, "How  is the\u200b invoice paid?")
    assert unfiltered.reason == "filtered_vector_low_quality"
    assert result.retrieval_trace.fallback_reason == "filtered_vector_low_quality"
    assert details(traces)["fallbackReason"] == "filtered_vector_low_quality"
    assert result.evidence_blocks[0].source == "travel/trips.md"


def test_both_retrieval_attempts_fail(make: Make, traces: TraceStore) -> None:
    result = look_up(knowledge_base(make, 0.1, 0.12), traces)

    assert result.found is False
    assert result.evidence_status == "no_evidence"
    assert result.evidence_blocks == ()
    assert result.retrieval_trace.hints.titles == ("Supplier papers",)
    assert "Supplier papers" not in result.message
    assert [attempt.strategy for attempt in result.retrieval_trace.attempts] == [
        "filtered",
        "unfiltered",
    ]


# Requirement: Knowledge retrieval SHALL return an evidence-first result contract


def test_evidence_result_contains_context_and_traces(make: Make, traces: TraceStore) -> None:
    knowledge = knowledge_base(make, 0.9, 0.2)
    tool = create_lookup_tool(knowledge, traces=traces)

    call = {"name": tool.name, "args": {"query": QUERY}, "id": "1", "type": "tool_call"}
    artifact = tool.invoke(call).artifact

    assert json.loads(json.dumps(artifact, allow_nan=False)) == artifact
    assert [block["source"] for block in artifact["evidenceBlocks"]] == ["billing/invoice.md"]
    assert artifact["contextPack"]["included"] == [
        {"source": "billing/invoice.md", "truncated": False}
    ]
    assert len(artifact["retrievalTrace"]["attempts"]) == 1
    assert [entry["source"] for entry in artifact["rerankTrace"]["entries"]] == [
        "billing/invoice.md"
    ]
    assert artifact["relevanceLevel"] in {"high", "medium", "low"}
    assert artifact["completenessHint"]["level"] == "partial"
    assert artifact["completenessHint"]["missingTerms"] == ["invoice", "paid"]


def test_no_evidence_result_keeps_traceability(make: Make, traces: TraceStore) -> None:
    result = look_up(knowledge_base(make, 0.1, 0.12), traces)

    assert result.found is False
    assert "no evidence" in result.message
    filtered, unfiltered = result.retrieval_trace.attempts
    assert (filtered.candidate_count, filtered.top_similarity) == (1, 0.1)
    assert (unfiltered.candidate_count, unfiltered.top_similarity) == (2, 0.12)
    assert (result.context_pack.text, result.rerank_trace.entries) == ("", ())


# Requirement: Knowledge retrieval SHALL pack evidence context for Agent consumption


def test_context_pack_preserves_source_metadata(make: Make, traces: TraceStore) -> None:
    result = look_up(knowledge_base(make, 0.9, 0.2), traces)

    assert result.context_pack.text == (
        '<evidence source="billing/invoice.md" title="Supplier papers" '
        'breadcrumb="Supplier papers" hits="vector, keyword:invoice">\nBILLING text.\n</evidence>'
    )


def test_context_pack_respects_budget(make: Make, traces: TraceStore) -> None:
    """Three long entries, room for one and a part of the next."""
    files = {
        f"{name}.md": f"# {name.title()}\n{name.upper()} " + "A sentence of some length. " * 40
        for name in ("one", "two", "three")
    }
    table = {
        "ONE": at_similarity(0.9),
        "TWO": at_similarity(0.8),
        "THREE": at_similarity(0.7),
        "": [1.0, 0.0],
    }
    pack = PackConfig(budget=2000, unit="characters")

    packed = look_up(make(files, TableEmbedder(table)), traces, "anything", pack=pack).context_pack

    assert [(part.source, part.truncated) for part in packed.included] == [
        ("one.md", False),
        ("two.md", True),
    ]
    assert [(part.source, part.reason) for part in packed.omitted] == [
        ("three.md", "over the budget")
    ]
    assert packed.used == len(packed.text) <= packed.budget == 2000
    assert '<evidence source="two.md" title="Two" breadcrumb="Two" hits="vector">' in packed.text
    assert packed.summary == (
        "included 2 of 3 blocks; cut two.md; left out three.md (over the budget)"
    )


# Requirement: Knowledge retrieval SHALL rerank evidence with traceable rule signals


def test_rerank_trace_records_score_contributions(make: Make, traces: TraceStore) -> None:
    rerank = RerankConfig(similarity=1.0, keyword_hint=0.25, bm25=0, coverage=0, entry=0)

    result = look_up(knowledge_base(make, 0.9, 0.2), traces, rerank=rerank)

    (entry,) = result.rerank_trace.entries
    assert (entry.rank, entry.source, entry.base_score) == (1, "billing/invoice.md", 0.9)
    assert [(part.signal, part.amount) for part in entry.contributions] == [
        ("similarity", 0.9),
        ("keyword_hint", 0.25),
    ]
    assert entry.score == result.evidence_blocks[0].score == 1.15


@pytest.mark.parametrize(
    ("query", "reason", "signal"),
    [
        ("invoice", "keyword:invoice", "keyword_hint"),
        ("supplier papers", "title:Supplier papers", "title_hint"),
        ("paydesk", "entity:PayDesk", "entity_hint"),
        ("billing", "category:billing", "category_hint"),
    ],
)
def test_query_hints_that_match_metadata_boost_without_becoming_evidence(
    make: Make, traces: TraceStore, query: str, reason: str, signal: str
) -> None:
    result = look_up(knowledge_base(make, 0.9, 0.2), traces, query)

    (block,) = result.evidence_blocks
    assert block.hit_reasons[0] == "vector"
    assert reason in block.hit_reasons
    assert signal in {part.signal for part in result.rerank_trace.entries[0].contributions}
    assert {block.retrieval_layer for block in result.evidence_blocks} == {"L1"}


def test_query_hints_that_match_content_boost_without_becoming_evidence(
    make: Make, traces: TraceStore
) -> None:
    """The keyword is billing's; travel's text says it too, and is found after the filter fell."""
    files = {**FILES, "travel/trips.md": FILES["travel/trips.md"].replace("text", "invoice")}
    table = {"BILLING": at_similarity(0.3), "TRAVEL": at_similarity(0.9), "": [1.0, 0.0]}

    result = look_up(make(files, TableEmbedder(table)), traces)

    best = result.evidence_blocks[0]
    assert (best.source, best.hit_reasons) == (
        "travel/trips.md",
        ("vector", "lexical", "content:invoice"),
    )
    assert "content_hint" in {part.signal for part in result.rerank_trace.entries[0].contributions}


# Requirement: Knowledge retrieval SHALL keep L0 as a hint provider


def test_l0_produces_traceable_hint_data(make: Make, traces: TraceStore) -> None:
    result = look_up(knowledge_base(make, 0.9, 0.2), traces, "invoice of PayDesk")

    hints = result.retrieval_trace.hints
    assert hints.titles == ("Supplier papers",)
    assert hints.keywords == ("invoice",)
    assert hints.entities == ("PayDesk",)
    assert hints.categories == ("billing",)
    assert details(traces)["hints"] == hints.model_dump(mode="json")


def test_l0_does_not_bypass_semantic_retrieval(make: Make, traces: TraceStore) -> None:
    """L0 has exactly one match; L1 is asked all the same."""
    result = look_up(knowledge_base(make, 0.9, 0.2), traces)

    assert result.retrieval_trace.hints.entry_count == 1
    assert [attempt.candidate_count for attempt in result.retrieval_trace.attempts] == [1]
    assert "vector" in result.evidence_blocks[0].hit_reasons


def test_l1_disabled_by_configuration_is_unavailable(make: Make, traces: TraceStore) -> None:
    retrieval = RetrievalConfig(enabled=False)

    result = look_up(knowledge_base(make, 0.9, 0.2), traces, retrieval=retrieval)

    assert (result.found, result.evidence_status) == (False, "unavailable")
    assert result.retrieval_trace.attempts == ()
    assert result.retrieval_trace.hints.titles == ("Supplier papers",)
    assert details(traces)["hints"]["titles"] == ["Supplier papers"]


def test_l0_hints_do_not_become_normal_evidence(make: Make, traces: TraceStore) -> None:
    result = look_up(knowledge_base(make, 0.05, 0.05), traces)

    assert result.evidence_blocks == ()
    assert details(traces)["hints"]["titles"] == ["Supplier papers"]
    assert details(traces)["evidence"] == []


def test_hints_can_be_switched_off(make: Make, traces: TraceStore) -> None:
    result = look_up(knowledge_base(make, 0.9, 0.8), traces, hints=HintsConfig(enabled=False))

    assert result.retrieval_trace.hints.entry_count == 0
    assert [attempt.reason for attempt in result.retrieval_trace.attempts] == ["no_filter"]


# Requirement: Knowledge retrieval SHALL return structured evidence blocks


def test_evidence_block_contains_source_metadata(make: Make, traces: TraceStore) -> None:
    rerank = RerankConfig(similarity=1.0, keyword_hint=0.25, bm25=0, coverage=0, entry=0)

    (block,) = look_up(knowledge_base(make, 0.9, 0.2), traces, rerank=rerank).evidence_blocks

    assert block.model_dump(mode="json") == {
        "source": "billing/invoice.md",
        "title": "Supplier papers",
        "breadcrumb": ["Supplier papers"],
        "category": "billing",
        "retrievalLayer": "L1",
        "content": "BILLING text.",
        "similarity": 0.9,
        "score": 1.15,
        "rank": 1,
        "hitReasons": ["vector", "keyword:invoice"],
        "lines": {"start": 8, "end": 8},
        "duplicates": [],
    }


def test_evidence_blocks_are_the_primary_evidence_contract(make: Make, traces: TraceStore) -> None:
    tool = create_lookup_tool(knowledge_base(make, 0.9, 0.2), traces=traces)

    call = {"name": tool.name, "args": {"query": QUERY}, "id": "1", "type": "tool_call"}
    message = tool.invoke(call)

    assert message.content.endswith(message.artifact["contextPack"]["text"])
    assert "BILLING text." in message.content
    assert not {"primary", "supplement"} & message.artifact.keys()


def test_legacy_views_carry_no_meaning_of_layers(make: Make, traces: TraceStore) -> None:
    result = look_up(
        knowledge_base(make, 0.5, 0.9), traces, assemble=AssembleConfig(legacy_fields=True)
    )

    assert result.primary == result.evidence_blocks[0]
    assert result.supplement == result.evidence_blocks[1:]


# The query's own rules


def test_a_configured_transform_rewrites_the_first_search_only(
    make: Make, traces: TraceStore
) -> None:
    rewriting = QueryConfig(transform=lambda text: f"{text} please")

    result = look_up(knowledge_base(make, 0.3, 0.9), traces, QUERY, query=rewriting)

    assert [attempt.query for attempt in result.retrieval_trace.attempts] == [
        f"{QUERY} please",
        QUERY,
    ]
    assert result.retrieval_trace.transformed_query == f"{QUERY} please"


@pytest.mark.parametrize("query", ["", " ", "\n\t \n", "\u200b\ufeff"])
def test_a_blank_query_is_a_result_without_a_search(
    make: Make, traces: TraceStore, query: str
) -> None:
    result = look_up(knowledge_base(make, 0.9, 0.2), traces, query)

    assert (result.found, result.evidence_status) == (False, "no_evidence")
    assert "query is empty" in result.message
    assert result.retrieval_trace.attempts == ()
    assert traces.count() == 1
