"""Measures the thresholds that fit a corpus and an embedder."""
