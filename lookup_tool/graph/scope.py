"""Who asks, and whether a run that goes on from a checkpoint was begun for them.

Whoever may use a thread reads its state, so the state names no group: it holds hashes, keyed with
the generation's own. No caller sees that one; with a key that is known, a group could be guessed.
"""

import hmac
import json
from dataclasses import fields
from typing import Any, Protocol

from langgraph.runtime import Runtime

from lookup_tool.config import LookupContext, WhoAsks
from lookup_tool.errors import CallerChangedError, KnowledgeChangedError
from lookup_tool.graph.progress import Node
from lookup_tool.graph.state import LookupState
from lookup_tool.knowledge_base import KnowledgeBase

_WHOLE = tuple(field.name for field in fields(LookupContext))


class Work(Protocol):
    """What a node does for a caller."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, state: LookupState, caller: LookupContext) -> LookupState:
        """Return the keys that it wrote."""
        ...


def hash_generation(generation: str, invocation_id: object) -> str:
    """Return a hash of a generation's hash, another one in each run."""
    return _keyed(generation, [invocation_id])


def hash_scope(caller: LookupContext, generation: str, invocation_id: object) -> str:
    """Return a hash of all that says what a caller may see, another one in each run."""
    return _keyed(generation, [invocation_id, *(getattr(caller, name) for name in _WHOLE)])


def _keyed(generation: str, said: list[object]) -> str:
    return hmac.digest(generation.encode(), json.dumps(said).encode(), "sha256").hex()


def begins(work: Work, who_asks: WhoAsks) -> Node:
    """Make the first node of a run: it is told who asks."""

    def run(state: LookupState, *, runtime: Runtime[LookupContext]) -> LookupState:
        return work(state, who_asks(runtime))

    return _named(run, work)


def goes_on(work: Work, who_asks: WhoAsks, knowledge: KnowledgeBase) -> Node:
    """Make a later node of a run: it is told who asks, and finds the generation in the state.

    The node raises:
        KnowledgeChangedError: It goes on from a checkpoint, and there is another generation now:
            rows of the one mean nothing in the other.
        CallerChangedError: The run was begun for another caller.
    """

    def run(state: LookupState, *, runtime: Runtime[LookupContext]) -> LookupState:
        caller = who_asks(runtime)
        view = state["view"] if "view" in state else knowledge.view()
        begun = state.get("invocation_id")
        if state.get("scope") != hash_scope(caller, view.generation, begun):
            if state.get("generation") != hash_generation(view.generation, begun):
                raise KnowledgeChangedError(knowledge.path)
            raise CallerChangedError
        return work({**state, "view": view}, caller)

    return _named(run, work)


def _named(run: Any, work: Work) -> Node:
    # Not `wraps`: LangGraph would take the signature of the work for that of the node.
    run.__name__, run.__doc__ = work.__name__, work.__doc__
    return run
