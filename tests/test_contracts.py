"""The result contract: camelCase and plain outside, frozen and strict inside."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError
from stages_builders import attempt, block, result, trace

from lookup_tool import contracts
from lookup_tool.contracts import (
    CompletenessHint,
    ContextPack,
    Contract,
    EvidenceBlock,
    HintSummary,
    IncludedSource,
    LineRange,
    LookupResult,
    OmittedSource,
    RerankEntry,
    RerankTrace,
    ScoreContribution,
    StageTiming,
)

CONTRACTS = [
    each
    for each in vars(contracts).values()
    if isinstance(each, type) and issubclass(each, Contract) and each is not Contract
]
RESULT = result(
    block("a.md", duplicates=("b.md",)),
    completeness_hint=CompletenessHint(
        level="partial", missing_terms=("x",), note="one is missing"
    ),
    context_pack=ContextPack(
        text="<evidence>",
        budget=10,
        used=3,
        included=(IncludedSource(source="a.md", truncated=True),),
        omitted=(OmittedSource(source="c.md", reason="over the budget"),),
        summary="a summary",
    ),
    retrieval_trace=trace(
        hints=HintSummary(titles=("Title",)),
        attempts=(attempt(strategy="filtered", filter={"category": "hr"}), attempt()),
        fallback_reason="filtered_vector_no_evidence",
        timings=(StageTiming(stage="framework", duration_ms=1.0),),
    ),
    rerank_trace=RerankTrace(
        entries=(
            RerankEntry(
                rank=1,
                rank_before=2,
                source="a.md",
                base_score=0.5,
                score=0.5,
                contributions=(ScoreContribution(signal="similarity", amount=0.5, detail="why"),),
            ),
        )
    ),
)
FIELDS = [
    pytest.param(contract, name, id=f"{contract.__name__}.{name}")
    for contract in CONTRACTS
    for name in contract.model_fields
]


def values_in(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from values_in(each)


def test_the_json_of_a_result_has_plain_types_and_camel_case_keys() -> None:
    dumped = RESULT.model_dump(mode="json")

    values = list(values_in(dumped))
    keys = {key for value in values if isinstance(value, dict) for key in value}
    assert {type(value) for value in values} <= {dict, list, str, int, float, bool, type(None)}
    assert [key for key in keys if not re.fullmatch("[a-z]+([A-Z][a-z]+)*", key)] == []
    assert json.loads(json.dumps(dumped, allow_nan=False)) == dumped
    assert json.loads(RESULT.model_dump_json()) == dumped


def test_the_keys_of_a_result_are_those_of_the_contract() -> None:
    dumped = RESULT.model_dump(mode="json")

    assert list(dumped) == [
        "found",
        "evidenceStatus",
        "message",
        "relevanceLevel",
        "completenessHint",
        "evidenceBlocks",
        "contextPack",
        "retrievalTrace",
        "rerankTrace",
    ]
    assert dumped["evidenceBlocks"] == [
        {
            "source": "a.md",
            "title": "Title",
            "breadcrumb": ["Title"],
            "category": "hr",
            "retrievalLayer": "L1",
            "content": "Text.",
            "similarity": 0.5,
            "score": 0.5,
            "rank": 1,
            "hitReasons": ["vector"],
            "lines": {"start": 1, "end": 1},
            "duplicates": ["b.md"],
        }
    ]


def test_a_result_can_be_read_back_from_its_json() -> None:
    assert LookupResult.model_validate(RESULT.model_dump(mode="json")) == RESULT
    assert LookupResult.model_validate_json(RESULT.model_dump_json()) == RESULT


@pytest.mark.parametrize(
    ("fields", "present"),
    [
        ({}, {}),
        ({"primary": None, "supplement": None}, {}),
        ({"primary": block(), "supplement": ()}, {"primary": "a.md", "supplement": []}),
        (
            {"primary": block(), "supplement": (block("b.md"),)},
            {"primary": "a.md", "supplement": ["b.md"]},
        ),
    ],
    ids=["not given", "none", "one block", "two blocks"],
)
def test_legacy_fields_are_absent_unless_they_are_set(
    fields: dict[str, Any], present: dict[str, Any]
) -> None:
    dumped = RESULT.model_copy(update=fields).model_dump(mode="json")

    found: dict[str, Any] = {}
    if "primary" in dumped:
        found["primary"] = dumped["primary"]["source"]
    if "supplement" in dumped:
        found["supplement"] = [each["source"] for each in dumped["supplement"]]
    assert found == present


def test_a_miss_has_an_empty_pack_and_an_empty_rerank_trace() -> None:
    dumped = result().model_dump(mode="json")

    assert dumped["evidenceBlocks"] == []
    assert dumped["rerankTrace"] == {"entries": []}
    assert dumped["contextPack"] == {
        "text": "",
        "budget": 100,
        "used": 0,
        "unit": "tokens",
        "included": [],
        "omitted": [],
        "summary": "",
    }


@pytest.mark.parametrize(("contract", "name"), FIELDS)
@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_every_field_has_a_description_in_the_schema(
    contract: type[Contract], name: str, mode: Any
) -> None:
    schema = contract.model_json_schema(mode=mode)
    alias = contract.model_fields[name].alias or name

    assert schema["description"]
    assert schema["properties"][alias].get("description")


@pytest.mark.parametrize(("contract", "name"), FIELDS)
def test_no_field_can_be_changed(contract: type[Contract], name: str) -> None:
    examples = {type(each): each for each in models_in(RESULT)}

    with pytest.raises(ValidationError, match="frozen"):
        setattr(examples[contract], name, None)


def models_in(value: object) -> Iterator[Contract]:
    if isinstance(value, Contract):
        yield value
        for name in type(value).model_fields:
            yield from models_in(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from models_in(each)


@pytest.mark.parametrize("model", list({type(m): m for m in models_in(RESULT)}.values()), ids=repr)
def test_an_unknown_field_is_refused(model: Contract) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        type(model).model_validate({**model.model_dump(), "surplus": 1})


def test_fields_may_be_given_by_name_or_by_alias() -> None:
    by_name = StageTiming(stage="pack", duration_ms=1.0)

    assert StageTiming.model_validate({"stage": "pack", "durationMs": 1.0}) == by_name
    assert by_name.model_dump() == {"stage": "pack", "durationMs": 1.0}


@pytest.mark.parametrize(
    ("similarity", "fits"),
    [(-0.000001, False), (0.0, True), (1.0, True), (1.000001, False)],
)
def test_a_similarity_lies_between_0_and_1(similarity: float, fits: bool) -> None:
    values = {**block().model_dump(), "similarity": similarity}

    if fits:
        assert EvidenceBlock.model_validate(values).similarity == similarity
    else:
        with pytest.raises(ValidationError, match="similarity"):
            EvidenceBlock.model_validate(values)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["similarity", "score"])
def test_a_number_that_json_cannot_hold_is_refused(field: str, number: float) -> None:
    with pytest.raises(ValidationError, match=field):
        EvidenceBlock.model_validate({**block().model_dump(), field: number})


@pytest.mark.parametrize(("line", "fits"), [(0, False), (1, True)])
def test_lines_are_counted_from_1(line: int, fits: bool) -> None:
    if fits:
        assert LineRange(start=line, end=line).start == 1
    else:
        with pytest.raises(ValidationError):
            LineRange(start=line, end=1)
        with pytest.raises(ValidationError):
            LineRange(start=1, end=line)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("evidence_status", "found"),
        ("relevance_level", "perfect"),
        ("found", "perhaps"),
        ("evidence_blocks", None),
        ("context_pack", None),
        ("rerank_trace", None),
    ],
)
def test_a_value_outside_the_contract_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        result(**{field: value})


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("wordllama", "wordllama"),
        ("openai:text-embedding-3-small", "openai:text-embedding-3-small"),
        ("huggingface:sentence-transformers/all-MiniLM-L6-v2", None),
        ("tests.embedders.Own(owner/model)", None),
        ("huggingface:/srv/models/minilm", "huggingface:minilm"),
        ("huggingface:/srv/models/minilm/", "huggingface:minilm"),
        ("huggingface:./models/minilm", "huggingface:minilm"),
        ("huggingface:../minilm", "huggingface:minilm"),
        ("huggingface:~/minilm", "huggingface:minilm"),
        ("huggingface:C:\\models\\minilm", "huggingface:minilm"),
        ("tests.embedders.Own(/srv/models/minilm)", "tests.embedders.Own(minilm)"),
        ("/srv/models/minilm", "minilm"),
        ("huggingface:", "huggingface:"),
    ],
)
def test_the_folder_of_a_model_on_the_server_is_not_shown(name: str, shown: str | None) -> None:
    assert trace(embedder=name).embedder == (shown or name)
