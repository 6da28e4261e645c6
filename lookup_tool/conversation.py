"""What an agent's messages say about earlier calls: was this question asked before?

Read from the messages at each call; nothing is kept here. Messages may be trimmed, missing, or
plain dictionaries: what cannot be read was not asked.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.prebuilt import ToolRuntime

from lookup_tool.contracts import EvidenceStatus, LookupResult
from lookup_tool.text import fold

LOOK_BACK = 1000
"""Latest messages that are read: an agent that goes in a circle does so soon."""

_NEXT: Mapping[EvidenceStatus, str] = {
    "sufficient": "answer from the evidence",
    "weak": "answer from the evidence, or say that it does not answer the question",
    "no_evidence": "use other words, or tell the user that the documents do not answer it",
    "unavailable": "tell the user that the knowledge base is unavailable",
}


def already_asked(query: str, tool_name: str, runtime: ToolRuntime[Any, Any]) -> bool:
    """Tell whether an earlier call of this tool in the conversation had the same question.

    Case, width, white space and closing punctuation make no difference. Of the calls that a model
    makes at once, the later ones repeat the earlier.
    """
    own, asked = runtime.tool_call_id, _folded(query)
    for calls in _calls(runtime.state):
        earlier = calls
        if own is not None and own in (ids := [call.get("id") for call in calls]):
            earlier, own = calls[: ids.index(own)], None  # an id may come again in another turn
        queries = (_query(call, tool_name) for call in earlier)
        if any(_folded(text) == asked for text in queries if text is not None):
            return True
    return False


def as_repeated(result: LookupResult) -> LookupResult:
    """Say first that the question was already asked, and what to do instead."""
    step = _NEXT[result.evidence_status]
    again = f"This question was already asked in this conversation. Do not ask it again: {step}."
    return result.model_copy(update={"message": f"{again} {result.message}"})


def _calls(state: object) -> Iterator[list[dict[str, Any]]]:
    """Yield the tool calls of each message that has some, latest first."""
    if isinstance(state, dict):
        messages = state.get("messages")
    else:
        messages = state if isinstance(state, list) else getattr(state, "messages", None)
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return
    for message in islice(reversed(messages), LOOK_BACK):
        calls: Any = None  # a provider's messages may hold anything
        if isinstance(message, AIMessage):
            calls = message.tool_calls
        elif isinstance(message, dict):
            calls = message.get("tool_calls")
        if isinstance(calls, list) and calls:
            yield [call for call in calls if isinstance(call, dict)]


def _query(call: dict[str, Any], tool_name: str) -> str | None:
    """Return the question of a call of this tool, in LangChain's form or in OpenAI's."""
    function = call.get("function")
    if isinstance(function, dict):
        name, args = function.get("name"), _parsed(function.get("arguments"))
    else:
        name, args = call.get("name"), call.get("args")
    query = args.get("query") if name == tool_name and isinstance(args, dict) else None
    return query if isinstance(query, str) else None


def _parsed(arguments: object) -> object:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):  # brackets without end
        return None


def _folded(query: str) -> str:
    # For ASCII this is what `fold` gives, at a tenth of its price: a history may be long.
    text = " ".join(query.casefold().split()) if query.isascii() else fold(query)
    return text.rstrip("?!. \u2026\u3002\uff01\uff1f\u061f")
