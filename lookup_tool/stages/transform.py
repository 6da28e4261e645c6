"""Prepare a query: clean it, bound it, and decide whether and how to search first."""

from dataclasses import dataclass
from typing import Literal

from lookup_tool.config import LookupConfig, QueryConfig
from lookup_tool.knowledge.hints import QueryHints
from lookup_tool.knowledge.tokens import visible

Plan = Literal["category_filter", "no_filter", "no_search"]
_GAP = " ... "


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


def transform(query: str, config: QueryConfig, readable: int | None = None) -> TransformedQuery:
    """Normalize a query (NFKC, no invisible characters, single spaces) and bound its length.

    Args:
        query: As given.
        config: Its limit, and a function that rewrites it.
        readable: Characters that the embedder reads; a smaller limit than the configured one.
    """
    limit = min(config.max_length, readable or config.max_length)
    # A lone surrogate, half of a broken emoji, cannot be encoded by anything that comes later.
    whole = query.encode("utf-8", "replace").decode()
    raw = bound(whole, limit)
    text = bound(" ".join(visible(raw).split()), limit)
    if text and config.transform is not None:
        text = bound(" ".join(config.transform(text).split()), limit)
    return TransformedQuery(raw=raw, text=text, length=len(query), cut=raw != whole)


def bound(text: str, longest: int) -> str:
    """Cut the middle out of a text: a question stands at an end of a long paste."""
    if len(text) <= longest:
        return text
    kept = longest - len(_GAP)
    return f"{text[: kept - kept // 2]}{_GAP}{text[len(text) - kept // 2 :]}"


def plan(query: TransformedQuery, hints: QueryHints, config: LookupConfig) -> Plan:
    """Decide how to search first."""
    if not query.text or not config.retrieval.enabled:
        return "no_search"
    return "no_filter" if hints.category is None else "category_filter"
