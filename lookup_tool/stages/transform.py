"""Prepare a query: clean it, bound it, and decide whether and how to search first."""

from dataclasses import dataclass
from typing import Literal

from lookup_tool.config import LookupConfig, QueryConfig
from lookup_tool.schema import QueryHints
from lookup_tool.text import bound, encodable, visible

Plan = Literal["category_filter", "no_filter", "no_search"]


@dataclass(frozen=True)
class TransformedQuery:
    """A query, as given and as searched for."""

    raw: str
    """As given; its middle is cut out when it was over the limit."""

    text: str
    """Normalized, and rewritten where a transform is configured."""

    length: int
    """Characters as given."""

    cut: bool


def transform(query: str, config: QueryConfig) -> TransformedQuery:
    """Normalize a query (NFKC, no invisible characters, single spaces) and bound its length."""
    # A lone surrogate, half of a broken emoji, cannot be encoded by anything that comes later.
    whole = encodable(query)
    raw = bound(whole, config.max_length)
    text = bound(" ".join(visible(whole).split()), config.max_length)
    if text and config.transform is not None:
        rewritten = " ".join(encodable(config.transform(text) or "").split())
        text = bound(rewritten, config.max_length) or text
    return TransformedQuery(raw=raw, text=text, length=len(query), cut=raw != whole)


def plan(query: TransformedQuery, hints: QueryHints, config: LookupConfig) -> Plan:
    """Decide how to search first."""
    if not query.text or not config.retrieval.enabled:
        return "no_search"
    filtered = config.hints.filter and hints.category is not None
    return "category_filter" if filtered else "no_filter"
