"""Was this question asked before: what counts, in every shape that a history comes in."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel

from lookup_tool.conversation import LOOK_BACK, already_asked

NAME = "lookup_knowledge"
ASKED = "How many days of leave?"


def says(*queries: Any, name: str = NAME, first: int = 0) -> AIMessage:
    calls = [
        {"name": name, "args": {"query": query}, "id": str(number)}
        for number, query in enumerate(queries, first)
    ]
    return AIMessage("", tool_calls=calls)


def asked_before(state: Any, query: str = ASKED, call_id: str | None = "now") -> bool:
    runtime = ToolRuntime(
        state=state,
        context=None,
        config={},
        stream_writer=lambda _: None,
        tool_call_id=call_id,
        store=None,
    )
    return already_asked(query, NAME, runtime)


def messages(*earlier: Any) -> dict[str, Any]:
    now = AIMessage("", tool_calls=[{"name": NAME, "args": {"query": ASKED}, "id": "now"}])
    return {"messages": [HumanMessage("hello"), *earlier, now]}


def test_the_present_call_is_no_earlier_one() -> None:
    assert not asked_before(messages())


@pytest.mark.parametrize(
    ("earlier", "repeated"),
    [
        (ASKED, True),
        ("  HOW many days\nof leave", True),
        ("\uff28ow many days of le\u00adave\uff1f", True),
        ("How many days of leave...", True),
        ("How many days of sick leave?", False),
        ("", False),
        (None, False),
        (["How many days of leave?"], False),
    ],
)
def test_spelling_makes_no_difference_and_words_do(earlier: Any, repeated: bool) -> None:
    assert asked_before(messages(says(earlier))) is repeated


def test_signs_that_belong_to_a_name_are_words() -> None:
    assert not asked_before(messages(says("What is C++")), query="What is C")


def test_another_tools_question_does_not_count() -> None:
    assert not asked_before(messages(says(ASKED, name="search_web")))


def test_of_calls_made_at_once_only_the_later_one_repeats() -> None:
    state = {"messages": [says(ASKED, "something else", ASKED)]}

    assert [asked_before(state, call_id=str(n)) for n in range(3)] == [False, True, True]
    assert not asked_before(state, query="something else", call_id="1")


def test_an_id_that_comes_again_in_a_later_turn_is_another_call() -> None:
    turn = says(ASKED)

    assert asked_before({"messages": [turn, ToolMessage("x", tool_call_id="0"), turn]}, call_id="0")
    assert not asked_before({"messages": [turn]}, call_id="0")


class Held(BaseModel):
    messages: list[Any]


EARLIER = messages(says(ASKED))["messages"]
OPENAI = {"name": NAME, "arguments": json.dumps({"query": ASKED})}


@pytest.mark.parametrize(
    "state",
    [
        EARLIER,
        Held(messages=EARLIER),
        {"messages": tuple(EARLIER)},
        messages({"role": "assistant", "tool_calls": [{"name": NAME, "args": {"query": ASKED}}]}),
        messages({"role": "assistant", "tool_calls": [{"id": "1", "function": OPENAI}]}),
    ],
    ids=["list", "model", "tuple", "mapping", "openai"],
)
def test_a_history_is_read_in_every_shape(state: Any) -> None:
    assert asked_before(state)


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        [],
        "messages",
        {"messages": None},
        {"messages": ASKED},
        {"other": EARLIER},
        messages(None, 5, RemoveMessage(id="1"), {"tool_calls": None}, {"tool_calls": [ASKED]}),
        messages({"tool_calls": [{"function": {"name": NAME, "arguments": "{"}}]}),
        messages({"tool_calls": [{"name": NAME, "args": ASKED}, {"name": NAME}]}),
        messages({"tool_calls": [{"function": {"name": NAME, "arguments": "[" * 100_000}}]}),
    ],
    ids=range(11),
)
def test_what_cannot_be_read_was_not_asked(state: Any) -> None:
    assert not asked_before(state)


def test_only_the_latest_messages_are_read() -> None:
    later = [HumanMessage("next")] * (LOOK_BACK - 2)

    assert asked_before(messages(says(ASKED), *later))
    assert not asked_before(messages(says(ASKED), *later, HumanMessage("next")))


def test_a_direct_call_counts_every_call_of_the_history() -> None:
    assert asked_before({"messages": [says(ASKED)]}, call_id=None)
