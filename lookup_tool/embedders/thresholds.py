"""The thresholds that are shipped for each known embedder."""

from lookup_tool.schema import Thresholds

# The reference threshold is a first value. No floor: a right hit by a keyword may be at .02.
_KNOWN = {"wordllama": Thresholds(0.45, 0.0)}
_UNKNOWN = Thresholds(reference_threshold=0.45, evidence_floor=0.15)


def thresholds_of(embedder: str) -> Thresholds:
    """Return what is shipped for an embedder: cautious values for one that is not known."""
    return _KNOWN.get(embedder, _UNKNOWN)
