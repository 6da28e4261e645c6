"""The machine, as LangGraph Studio and `langgraph dev` open it: `lookup_tool.studio:graph`.

It looks into the knowledge base that `LOOKUP_KB` names; without that, where the server is started
in a clone, into the example handbook, which is built at the first run. Nothing is opened at import,
where the server draws the graph. A module of the package, not a file: any `langgraph.json` can name
it.

Whoever reaches the server writes a run's context, so that decides nothing about access: groups are
those of the operator, `LOOKUP_GROUPS`, and of the user that the server has authenticated.
"""

import os
import threading
from pathlib import Path
from typing import Any, cast

from langchain_core.runnables import ensure_config

from lookup_tool.config import as_groups, groups_of
from lookup_tool.errors import ConfigurationError
from lookup_tool.graph.app import build_lookup_graph
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.traces import TraceStore

_REFRESH = 5.0
"""Seconds after which a lookup looks for what a sync has written meanwhile."""

_HANDBOOK = Path("examples", "handbook").absolute()
_GIVEN = os.environ.get("LOOKUP_KB")
_OPERATORS = as_groups(
    [name for name in os.environ.get("LOOKUP_GROUPS", "").split(",") if name.strip()]
)
_TRUSTS_CONTEXT = os.environ.get("LOOKUP_TRUST_CONTEXT") == "1"
PATH = Path(_GIVEN or Path(".demo", "handbook").absolute())


class OpenedAtFirstUse:
    """Stands for the knowledge base until something is asked of it."""

    def __init__(self) -> None:
        self._opened: KnowledgeBase | None = None
        self._opening = threading.Lock()

    def __getattr__(self, name: str) -> object:
        with self._opening:
            if self._opened is None:
                self._opened = _open()
        return getattr(self._opened, name)


def _open() -> KnowledgeBase:
    if not _GIVEN:
        if not _HANDBOOK.is_dir():
            raise ConfigurationError("set LOOKUP_KB to the folder of a knowledge base")
        if not (PATH / "CURRENT").exists():
            KnowledgeBase.build(_HANDBOOK, PATH).close()
    return KnowledgeBase.open(PATH, refresh_every=_REFRESH)


def groups_on_server(runtime: Any) -> frozenset[str]:
    """Return the access groups of the operator and of the authenticated user.

    To try things, `LOOKUP_TRUST_CONTEXT=1` adds those that the request's own context names.

    Args:
        runtime: That of the run or of the tool; None outside a run.

    Raises:
        ConfigurationError: Some cannot be read.
    """
    # The server writes this key itself, and takes it out of what a client sends.
    user = ensure_config().get("configurable", {}).get("langgraph_auth_user")
    said = getattr(runtime, "context", None) if _TRUSTS_CONTEXT else None
    return _OPERATORS | groups_of(user) | groups_of(said)


knowledge = cast("KnowledgeBase", OpenedAtFirstUse())
traces = TraceStore(PATH / "traces.sqlite", lazy=True)
_machine = build_lookup_graph(knowledge, traces=traces, groups=groups_on_server)
graph = _machine.copy({"output_channels": _machine.stream_channels})
"""The server streams the output alone: here that is what every stage writes."""
