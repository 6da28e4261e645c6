"""The conditional edges: each looks at the state and returns the reason for the way it takes."""

from typing import Literal

from lookup_tool.graph.state import LookupState
from lookup_tool.stages.transform import Plan


def after_transform(state: LookupState) -> Plan:
    """Search with the category that the hints agree on, without a filter, or not at all."""
    return state["plan"]


def after_filtered(
    state: LookupState,
) -> Literal["accepted", "filtered_vector_low_quality", "retrieval_error"]:
    """Search again without the filter when the best candidate is below the threshold."""
    match state["attempts"][-1].outcome:
        case "error":
            return "retrieval_error"
        case "low_quality":
            return "filtered_vector_low_quality"
        case _:
            return "accepted"


def after_unfiltered(state: LookupState) -> Literal["searched", "retrieval_error"]:
    """Go on with what was found, unless the search failed."""
    return "retrieval_error" if state["attempts"][-1].outcome == "error" else "searched"


def after_evidence(
    state: LookupState,
) -> Literal["usable_evidence", "filtered_vector_no_evidence", "nothing_usable"]:
    """Search again without the filter when the filtered search left nothing usable."""
    if state["evidence"].blocks:
        return "usable_evidence"
    if state["attempts"][-1].strategy == "filtered":
        return "filtered_vector_no_evidence"
    return "nothing_usable"
