"""The engine in a folder: files that are mapped into memory."""
