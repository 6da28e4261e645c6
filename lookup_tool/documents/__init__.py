"""From files and LangChain documents to entries, cut into passages."""
