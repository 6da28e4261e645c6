"""One search becomes one attempt: what was found, how it went, what is kept from before."""

from collections.abc import Callable

import pytest
from stages_builders import attempt, candidate, passage, query_terms

from lookup_tool.contracts import RetrievalAttempt
from lookup_tool.schema import Candidate, SearchRequest, SearchResult
from lookup_tool.stages.retrieve import FALLBACKS, Retrieved, retrieve

FILTERED = SearchRequest("leave", category="hr")
UNFILTERED = SearchRequest("leave")


def finding(*candidates: Candidate) -> Callable[[SearchRequest], SearchResult]:
    return lambda _request: SearchResult(candidates=candidates)


def failing(error: Exception) -> Callable[[SearchRequest], SearchResult]:
    def search(_request: SearchRequest) -> SearchResult:
        raise error

    return search


def timeless(retrieved: Retrieved) -> RetrievalAttempt:
    """Return the attempt with the duration that `attempt()` has."""
    return retrieved.attempt.model_copy(update={"duration_ms": 1.0})


@pytest.mark.parametrize(
    ("request_", "similarity", "outcome"),
    [
        pytest.param(FILTERED, 0.449999, "low_quality", id="filtered, just under"),
        pytest.param(FILTERED, 0.45, "accepted", id="filtered, exactly at"),
        pytest.param(FILTERED, 0.450001, "accepted", id="filtered, just over"),
        pytest.param(UNFILTERED, 0.449999, "accepted", id="unfiltered, under"),
        pytest.param(UNFILTERED, 0.0, "accepted", id="unfiltered, nothing alike"),
    ],
)
def test_only_a_filtered_search_under_the_threshold_is_of_low_quality(
    request_: SearchRequest, similarity: float, outcome: str
) -> None:
    found = retrieve(finding(candidate(passage(), similarity)), request_, "why", 0.45)

    assert (found.attempt.outcome, found.attempt.top_similarity) == (outcome, similarity)


def test_a_filtered_attempt_names_its_filter_and_the_best_similarity() -> None:
    best = candidate(passage("a.md", text="One."), 0.8)
    second = candidate(passage("b.md", row=1, text="Two."), 0.2)

    found = retrieve(finding(best, second), FILTERED, "category_filter: keyword:leave", 0.45)

    assert found.found.candidates == (best, second)
    assert found.attempt.duration_ms >= 0
    assert timeless(found) == attempt(
        strategy="filtered",
        query="leave",
        filter={"category": "hr"},
        candidate_count=2,
        top_similarity=0.8,
        reason="category_filter: keyword:leave",
    )


@pytest.mark.parametrize(
    ("request_", "strategy"), [(FILTERED, "filtered"), (UNFILTERED, "unfiltered")]
)
def test_a_search_without_candidates_is_left_to_the_next_stage(
    request_: SearchRequest, strategy: str
) -> None:
    found = retrieve(finding(), request_, "why", 0.45)

    assert (found.attempt.strategy, found.attempt.outcome) == (strategy, "accepted")
    assert (found.attempt.candidate_count, found.attempt.top_similarity) == (0, None)


@pytest.mark.parametrize("error", [RuntimeError("secret"), ValueError(""), KeyError("row")])
@pytest.mark.parametrize("earlier", [(), (candidate(passage()),)], ids=["first", "retry"])
def test_an_error_becomes_the_outcome_by_its_class_alone(
    error: Exception, earlier: tuple[Candidate, ...]
) -> None:
    found = retrieve(failing(error), UNFILTERED, "no_filter", 0.45, earlier)

    assert found.found == SearchResult()
    assert timeless(found) == attempt(query="leave", outcome="error", error=type(error).__name__)


def test_the_rows_of_an_earlier_attempt_are_scored_again() -> None:
    asked: list[SearchRequest] = []

    def search(request: SearchRequest) -> SearchResult:
        asked.append(request)
        return SearchResult()

    earlier = [candidate(passage(row=7)), candidate(passage(row=3))]
    retrieve(search, UNFILTERED, "filtered_vector_low_quality", 0.45, earlier)

    assert asked == [SearchRequest("leave", also=(7, 3))]


def test_a_candidate_of_both_attempts_has_the_reasons_of_both() -> None:
    shared, only_before = passage(row=1), passage("b.md", row=2)
    now = (
        candidate(shared, 0.9, found_by=("vector",)),
        candidate(only_before, 0.3, found_by=()),
    )
    before = (
        candidate(shared, 0.4, found_by=("vector", "lexical")),
        candidate(only_before, 0.2, found_by=("lexical",)),
    )

    found = retrieve(finding(*now), UNFILTERED, "filtered_vector_low_quality", 0.45, before)

    assert found.found.candidates == (
        candidate(shared, 0.9, found_by=("vector", "lexical")),
        candidate(only_before, 0.3, found_by=("lexical",)),
    )
    assert found.attempt.candidate_count == 1  # what this search returned by itself


def test_the_terms_of_the_query_come_back_with_the_candidates() -> None:
    terms = query_terms("leave")

    found = retrieve(lambda _request: SearchResult(terms=terms), UNFILTERED, "no_filter", 0.45)

    assert found.found == SearchResult(terms=terms)


def test_each_way_to_fall_short_has_its_fallback_reason() -> None:
    assert FALLBACKS == {
        "low_quality": "filtered_vector_low_quality",
        "no_evidence": "filtered_vector_no_evidence",
    }
