"""Evidence-first retrieval for LangChain and LangGraph agents.

Names are imported at their first use, so that `import lookup_tool` loads no model, no graph and no
database.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookup_tool.calibration.calibrate import calibrate
    from lookup_tool.config import LookupConfig, LookupContext
    from lookup_tool.contracts import EvidenceBlock, LookupResult
    from lookup_tool.errors import LookupToolError, LookupUnavailableError
    from lookup_tool.evaluation.evaluate import evaluate
    from lookup_tool.evaluation.questions import read_questions
    from lookup_tool.graph.app import build_lookup_graph
    from lookup_tool.knowledge_base import KnowledgeBase
    from lookup_tool.retriever import LookupRetriever
    from lookup_tool.tool import create_lookup_tool
    from lookup_tool.traces import TraceStore

__version__ = "0.1.0"

_HOMES = {
    "EvidenceBlock": "contracts",
    "KnowledgeBase": "knowledge_base",
    "LookupConfig": "config",
    "LookupContext": "config",
    "LookupResult": "contracts",
    "LookupRetriever": "retriever",
    "LookupToolError": "errors",
    "LookupUnavailableError": "errors",
    "TraceStore": "traces",
    "build_lookup_graph": "graph.app",
    "calibrate": "calibration.calibrate",
    "create_lookup_tool": "tool",
    "evaluate": "evaluation.evaluate",
    "read_questions": "evaluation.questions",
}

__all__ = [
    "EvidenceBlock",
    "KnowledgeBase",
    "LookupConfig",
    "LookupContext",
    "LookupResult",
    "LookupRetriever",
    "LookupToolError",
    "LookupUnavailableError",
    "TraceStore",
    "build_lookup_graph",
    "calibrate",
    "create_lookup_tool",
    "evaluate",
    "read_questions",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*globals(), *__all__])
