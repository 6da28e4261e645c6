"""The picture of the machine: every node, then every edge, nothing else."""

from langgraph.graph import END, START, StateGraph

from lookup_tool.config import LookupContext
from lookup_tool.graph.edges import (
    after_evidence,
    after_filtered,
    after_transform,
    after_unfiltered,
)
from lookup_tool.graph.nodes import LookupNodes, timed
from lookup_tool.graph.progress import Node, reported
from lookup_tool.graph.scope import Work, begins, goes_on
from lookup_tool.graph.state import BEGUN, LookupInput, LookupOutput, LookupState, reads

LookupStateGraph = StateGraph[LookupState, LookupContext, LookupInput, LookupOutput]


def draw(nodes: LookupNodes) -> LookupStateGraph:
    """Lay out the machine; `compile` it where it runs."""
    graph = StateGraph(
        LookupState,
        context_schema=LookupContext,
        input_schema=LookupInput,
        output_schema=LookupOutput,
    )

    def later(work: Work) -> Node:
        return reported(goes_on(work, nodes.who_asks, nodes.knowledge))

    graph.add_node(
        "transform_query",
        reported(begins(timed(nodes.transform_query), nodes.who_asks)),
        input_schema=reads("query"),
    )
    graph.add_node(
        "retrieve_filtered",
        later(timed(nodes.retrieve_filtered)),
        input_schema=reads(*BEGUN, "transformed", "hints", "found", "attempts"),
    )
    graph.add_node(
        "retrieve_unfiltered",
        later(timed(nodes.retrieve_unfiltered)),
        input_schema=reads(*BEGUN, "transformed", "hints", "found", "attempts"),
    )
    graph.add_node(
        "build_evidence",
        later(timed(nodes.build_evidence)),
        input_schema=reads(*BEGUN, "found", "attempts"),
    )
    graph.add_node(
        "rerank_evidence",
        later(timed(nodes.rerank_evidence)),
        input_schema=reads(*BEGUN, "evidence", "terms", "hints"),
    )
    graph.add_node(
        "pack_context",
        later(timed(nodes.pack_context)),
        input_schema=reads(*BEGUN, "blocks"),
    )
    graph.add_node(
        "assemble_result",
        later(timed(nodes.assemble_result)),
        input_schema=reads(
            *BEGUN,
            *("transformed", "hints", "terms", "candidate_count", "query_cut", "attempts"),
            *("evidence", "blocks", "rerank_trace", "pack"),
        ),
    )
    graph.add_node(
        "record_trace",
        later(nodes.record_trace),
        input_schema=reads(*BEGUN, "started", "result"),
    )

    graph.add_edge(START, "transform_query")
    graph.add_conditional_edges(
        "transform_query",
        after_transform,
        {
            "category_filter": "retrieve_filtered",
            "no_filter": "retrieve_unfiltered",
            "no_search": "assemble_result",
        },
    )
    graph.add_conditional_edges(
        "retrieve_filtered",
        after_filtered,
        {
            "accepted": "build_evidence",
            "filtered_vector_low_quality": "retrieve_unfiltered",
            "retrieval_error": "assemble_result",
        },
    )
    graph.add_conditional_edges(
        "retrieve_unfiltered",
        after_unfiltered,
        {"searched": "build_evidence", "retrieval_error": "assemble_result"},
    )
    graph.add_conditional_edges(
        "build_evidence",
        after_evidence,
        {
            "usable_evidence": "rerank_evidence",
            "filtered_vector_no_evidence": "retrieve_unfiltered",
            "nothing_usable": "assemble_result",
        },
    )
    graph.add_edge("rerank_evidence", "pack_context")
    graph.add_edge("pack_context", "assemble_result")
    graph.add_edge("assemble_result", "record_trace")
    graph.add_edge("record_trace", END)
    return graph
