"""The conditional edges: each looks at its part of the state and returns the reason for its way."""

from typing import Literal

from lookup_tool.graph.state import Attempted, Judged, Planned
from lookup_tool.stages.transform import Plan


def after_transform(state: Planned) -> Plan:
    """Search with the category that the hints agree on, without a filter, or not at all."""
    return state["plan"]


def after_filtered(
    state: Attempted,
) -> Literal["accepted", "filtered_vector_low_quality", "retrieval_error"]:
    """Search again without the filter when the best candidate is below the threshold."""
    match state["attempts"][-1].outcome:
        case "error":
            return "retrieval_error"
        case "low_quality":
            return "filtered_vector_low_quality"
        case _:
            return "accepted"


def after_unfiltered(state: Attempted) -> Literal["searched", "retrieval_error"]:
    """Go on with what was found, unless the search failed."""
    return "retrieval_error" if state["attempts"][-1].outcome == "error" else "searched"


def after_evidence(
    state: Judged,
) -> Literal["usable_evidence", "filtered_vector_no_evidence", "nothing_usable"]:
    """Search again without the filter when the filtered search left nothing usable."""
    if state["evidence"].blocks:
        return "usable_evidence"
    last = state["attempts"][-1]
    if last.strategy == "filtered" and last.outcome != "error":
        return "filtered_vector_no_evidence"
    return "nothing_usable"
