"""The machine, as LangGraph Studio and `langgraph dev` open it: `lookup_tool.studio:graph`.

It looks into the knowledge base that `LOOKUP_KB` names; without that, where the server is started
in a clone, into the example handbook, which is built at the first run. Nothing is opened at import,
where the server draws the graph. A module of the package, not a file: any `langgraph.json` can name
it.
"""

import os
import threading
from pathlib import Path
from typing import cast

from lookup_tool.errors import ConfigurationError
from lookup_tool.graph.app import build_lookup_graph
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.traces import TraceStore

_REFRESH = 5.0
"""Seconds after which a lookup looks for what a sync has written meanwhile."""

_HANDBOOK = Path("examples", "handbook").absolute()
_GIVEN = os.environ.get("LOOKUP_KB")
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


knowledge = cast("KnowledgeBase", OpenedAtFirstUse())
traces = TraceStore(PATH / "traces.sqlite", lazy=True)
_machine = build_lookup_graph(knowledge, traces=traces)
graph = _machine.copy({"output_channels": _machine.stream_channels})
"""The server streams the output alone: here that is what every stage writes."""
