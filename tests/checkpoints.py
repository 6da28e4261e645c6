"""Which types LangGraph restores from a checkpoint."""

import pytest

_READ_AT_IMPORT = ("langgraph.checkpoint.serde._msgpack", "langgraph._internal._serde")


def restore_only_known_types(monkeypatch: pytest.MonkeyPatch, *, strict: bool = True) -> None:
    """Set what `LANGGRAPH_STRICT_MSGPACK` sets: LangGraph reads it once, when it is imported."""
    for module in _READ_AT_IMPORT:
        monkeypatch.setattr(f"{module}.STRICT_MSGPACK_ENABLED", strict)
