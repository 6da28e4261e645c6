"""Open an embedder by name, and make what it returns safe to search."""
