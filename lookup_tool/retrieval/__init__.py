"""Searching a generation: hints, candidates, and the view of one caller."""
