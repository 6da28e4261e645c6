"""Settings are frozen, checked once, and say what they are."""

import math
from collections.abc import Callable
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import pytest
from access import UNREADABLE
from pydantic import ValidationError

from lookup_tool.config import (
    AssembleConfig,
    EmbeddingConfig,
    EvidenceConfig,
    HintsConfig,
    LookupConfig,
    LookupContext,
    PackConfig,
    PassageConfig,
    QueryConfig,
    RecordConfig,
    RerankConfig,
    RetrievalConfig,
    Section,
    as_groups,
    groups_of,
    who_asks,
)
from lookup_tool.errors import ConfigurationError

SECTIONS = {
    "passages": PassageConfig(),
    "embedding": EmbeddingConfig(),
    "query": QueryConfig(),
    "hints": HintsConfig(),
    "retrieval": RetrievalConfig(),
    "evidence": EvidenceConfig(),
    "rerank": RerankConfig(),
    "pack": PackConfig(),
    "assemble": AssembleConfig(),
    "record": RecordConfig(),
}
WEIGHTS = [(RerankConfig, name, (-1e-9, 0.0), (None, None)) for name in RerankConfig.model_fields]
BOUNDS: list[tuple[type[Section], str, tuple[Any, Any], tuple[Any, Any]]] = [
    # section, field, (too small, smallest), (largest, too large); None: no limit
    (PassageConfig, "max_tokens", (31, 32), (8192, 8193)),
    (PassageConfig, "min_tokens", (-1, 0), (None, None)),
    (EmbeddingConfig, "query_timeout", (0.0, 1e-9), (None, None)),
    (EmbeddingConfig, "batch_timeout", (0.0, 1e-9), (None, None)),
    (EmbeddingConfig, "attempts", (0, 1), (None, None)),
    (EmbeddingConfig, "first_wait", (-1e-9, 0.0), (None, None)),
    (QueryConfig, "max_length", (15, 16), (None, None)),
    (RetrievalConfig, "candidates", (0, 1), (1000, 1001)),
    (RetrievalConfig, "lexical_candidates", (-1, 0), (1000, 1001)),
    (RetrievalConfig, "reference_threshold", (-1e-9, 0.0), (1.0, 1.000001)),
    (RetrievalConfig, "evidence_floor", (-1e-9, 0.0), (1.0, 1.000001)),
    (RetrievalConfig, "threads", (0, 1), (1000, 1001)),
    (EvidenceConfig, "max_blocks", (0, 1), (100, 101)),
    (PackConfig, "budget", (0, 1), (None, None)),
    (AssembleConfig, "high", (-1e-9, 0.0), (1.0, 1.000001)),
    (AssembleConfig, "medium", (-1e-9, 0.0), (1.0, 1.000001)),
    (RecordConfig, "excerpt_chars", (-1, 0), (500, 501)),
    (RecordConfig, "max_bytes", (1023, 1024), (None, None)),
    (RecordConfig, "keep_rows", (0, 1), (None, None)),
    (RecordConfig, "keep_days", (0.0, 1e-9), (36_500.0, 36_501.0)),
    *WEIGHTS,
]


def test_the_shipped_settings_have_one_section_for_each_stage() -> None:
    assert dict(LookupConfig()) == SECTIONS


def test_one_section_can_be_changed_by_name() -> None:
    config = LookupConfig(retrieval=RetrievalConfig(reference_threshold=0.5))

    assert dict(config) == {**SECTIONS, "retrieval": RetrievalConfig(reference_threshold=0.5)}


@pytest.mark.parametrize(
    ("section", "field", "lower", "upper"),
    [pytest.param(*row, id=f"{row[0].__name__}.{row[1]}") for row in BOUNDS],
)
def test_a_setting_outside_its_bounds_is_refused(
    section: type[Section], field: str, lower: tuple[Any, Any], upper: tuple[Any, Any]
) -> None:
    below, smallest = lower
    largest, above = upper
    for value in (smallest, largest):
        if value is not None:
            assert getattr(section.model_validate({field: value}), field) == value
    for value in (below, above):
        if value is not None:
            with pytest.raises(ValidationError, match=field):
                section.model_validate({field: value})


@pytest.mark.parametrize("weight", [math.nan, math.inf])
@pytest.mark.parametrize("signal", list(RerankConfig.model_fields))
def test_a_weight_is_a_finite_number(signal: str, weight: float) -> None:
    with pytest.raises(ValidationError, match=signal):
        RerankConfig.model_validate({signal: weight})


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        (QueryConfig, "transform", "upper"),
        (PackConfig, "count_tokens", 4),
        (PackConfig, "unit", "words"),
        (RecordConfig, "redact", "***"),
        (EvidenceConfig, "max_blocks", 1.5),
        (LookupConfig, "query", None),
    ],
)
def test_a_setting_of_another_kind_is_refused(
    section: type[Section], field: str, value: object
) -> None:
    with pytest.raises(ValidationError, match=field):
        section.model_validate({field: value})


@pytest.mark.parametrize("name", [*SECTIONS, ""], ids=[*SECTIONS, "whole"])
def test_settings_are_frozen_and_a_misspelt_one_is_refused(name: str) -> None:
    section: Section = SECTIONS[name] if name else LookupConfig()

    for field in type(section).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(section, field, None)
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        type(section).model_validate({"misspelt": 1})


@pytest.mark.parametrize("name", SECTIONS)
def test_every_setting_has_a_description(name: str) -> None:
    fields = type(SECTIONS[name]).model_fields

    assert [field for field, described in fields.items() if not described.description] == []


def test_nobody_in_particular_is_in_no_group() -> None:
    assert LookupContext() == LookupContext(groups=())


class Team(StrEnum):
    PEOPLE = "people-team"


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        pytest.param(None, set(), id="nothing"),
        pytest.param((), set(), id="none"),
        pytest.param("people-team", {"people-team"}, id="one name"),
        pytest.param(["a", "b", "a"], {"a", "b"}, id="list"),
        pytest.param(("a", "b"), {"a", "b"}, id="tuple"),
        pytest.param({"a"}, {"a"}, id="set"),
        pytest.param(frozenset({"a"}), {"a"}, id="frozen set"),
        pytest.param([" a "], {"a"}, id="white space around a name"),
        pytest.param([Team.PEOPLE], {"people-team"}, id="an enumeration of names"),
    ],
)
def test_groups_are_read_from_whatever_the_application_gives(given: Any, groups: set[str]) -> None:
    assert as_groups(given) == groups
    assert LookupContext(groups=given).groups == tuple(sorted(groups))
    for context in ({"groups": given}, SimpleNamespace(groups=given), LookupContext(groups=given)):
        assert groups_of(context) == groups


@pytest.mark.parametrize("given", UNREADABLE.values(), ids=UNREADABLE)
def test_groups_that_cannot_be_read_are_refused(given: Any) -> None:
    ways: list[Callable[[], object]] = [
        lambda: as_groups(given),
        lambda: LookupContext(groups=given),
        lambda: groups_of({"groups": given}),
        lambda: groups_of(SimpleNamespace(groups=given)),
        lambda: who_asks(lambda _: given)(None),
    ]
    for way in ways:
        with pytest.raises(ConfigurationError, match=r"access groups? must be"):
            way()


@pytest.mark.parametrize(
    "context",
    [None, {}, object(), {"user": "x"}, LookupContext()],
    ids=lambda context: type(context).__name__,
)
def test_a_context_without_groups_is_nobody_in_particular(context: object) -> None:
    assert groups_of(context) == set()


def test_a_property_that_fails_is_not_a_context_without_groups() -> None:
    class Session:
        @property
        def groups(self) -> list[str]:
            raise AttributeError("there is no user")

    with pytest.raises(AttributeError, match="there is no user"):
        groups_of(Session())
