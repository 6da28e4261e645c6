"""The machine, as LangGraph Studio and `langgraph dev` open it."""

from lookup_tool.studio import graph

__all__ = ["graph"]
