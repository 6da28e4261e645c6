"""The knowledge base: from documents to searchable generations on disk."""
