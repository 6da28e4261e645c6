"""An agent with the tool, as LangGraph Studio and `langgraph dev` open it.

`LOOKUP_MODEL` names its chat model, as `anthropic:MODEL` for instance, whose provider's package and
key are needed then. Without it a script stands in for one: that takes no key, and says so.
"""

import os

from lookup_tool.studio_agent import build_agent

graph = build_agent(os.environ.get("LOOKUP_MODEL"))
