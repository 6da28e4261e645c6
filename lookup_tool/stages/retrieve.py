"""Search once, and judge what came back."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from lookup_tool.contracts import AttemptOutcome, FallbackReason, RetrievalAttempt
from lookup_tool.schema import DIGITS, Candidate, SearchRequest, SearchResult

logger = logging.getLogger(__name__)

FALLBACKS: dict[AttemptOutcome, FallbackReason] = {
    "low_quality": "filtered_vector_low_quality",
    "no_evidence": "filtered_vector_no_evidence",
}


@dataclass(frozen=True)
class Retrieved:
    """What one attempt found, and how it went."""

    attempt: RetrievalAttempt
    found: SearchResult


def retrieve(  # noqa: PLR0913, PLR0917 - one search and what it is measured by
    search: Callable[[SearchRequest], SearchResult],
    request: SearchRequest,
    reason: str,
    reference_threshold: float,
    earlier: Sequence[Candidate] = (),
    reference_ratio: float | None = None,
) -> Retrieved:
    """Search once; an error becomes the attempt's outcome.

    Args:
        search: Runs a request.
        request: What to search, with or without a category.
        reason: Why this search is made.
        reference_threshold: A filtered search whose best similarity is under it is of low quality;
            one exactly at it is good enough.
        earlier: Candidates of the attempt before; scored for this query too, and kept.
        reference_ratio: When given, the threshold of a filtered search is this share of the best
            similarity without its filter instead.

    Returns:
        The attempt and its candidates, best similarity first.
    """
    started = perf_counter()
    error = None
    try:
        probe = reference_ratio is not None and request.category is not None
        also = tuple(candidate.row for candidate in earlier)
        found = search(replace(request, also=also, probe=probe))
    except Exception as problem:  # an embedder may raise anything
        logger.warning("the search failed", exc_info=problem)
        found, error = SearchResult(), type(problem).__name__
    top = found.candidates[0].similarity if found.candidates else None
    unfiltered_top = found.unfiltered_top_similarity
    if reference_ratio is not None and unfiltered_top is not None:
        reference_threshold = round(reference_ratio * unfiltered_top, DIGITS)
    outcome: AttemptOutcome = "accepted"
    if error is not None:
        outcome = "error"
    elif request.category is not None and top is not None and top < reference_threshold:
        outcome = "low_quality"
    attempt = RetrievalAttempt(
        strategy="unfiltered" if request.category is None else "filtered",
        query=request.query,
        filter=None
        if request.category is None
        else {"category": request.category_name or request.category},
        candidate_count=count_texts(c for c in found.candidates if c.found_by),
        top_similarity=top,
        reference_threshold=reference_threshold,
        unfiltered_top_similarity=unfiltered_top,
        outcome=outcome,
        reason=reason,
        error=error,
        duration_ms=round((perf_counter() - started) * 1000, 3),
    )
    return Retrieved(attempt, replace(found, candidates=_join(found.candidates, earlier)))


def count_texts(candidates: Iterable[Candidate]) -> int:
    """Count candidates; copies of one text are one."""
    return len({candidate.text_id for candidate in candidates})


def _join(found: Sequence[Candidate], earlier: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Give candidates that the attempt before found too its reasons as well."""
    before = {candidate.row: candidate.found_by for candidate in earlier}
    return tuple(
        replace(candidate, found_by=tuple(dict.fromkeys((*candidate.found_by, *reasons))))
        if (reasons := before.get(candidate.row))
        else candidate
        for candidate in found
    )
