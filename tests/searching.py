"""Searches of a knowledge base, with the passages that they find."""

from lookup_tool import KnowledgeBase
from lookup_tool.schema import Candidate, SearchRequest, StoredPassage


def search(base: KnowledgeBase, request: SearchRequest) -> list[tuple[StoredPassage, Candidate]]:
    """Return what a search finds, best similarity first."""
    view = base.view()
    candidates = view.search(request).candidates
    passages = view.passages([found.row for found in candidates], request.groups)
    return [(passages[found.row], found) for found in candidates]


def texts(base: KnowledgeBase, query: str) -> list[str]:
    """Return the texts of what a public caller's search finds."""
    return [passage.text for passage, _ in search(base, SearchRequest(query))]
