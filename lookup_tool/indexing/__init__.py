"""From a folder of documents to a new generation."""
