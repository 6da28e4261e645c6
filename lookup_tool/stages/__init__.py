"""One module a stage: values in, values out; nothing here knows LangGraph."""
