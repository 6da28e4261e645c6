"""What nobody can take for access groups."""

from types import MappingProxyType
from typing import Any

UNREADABLE: dict[str, Any] = {
    "mapping": {"people-team": False},
    "mapping proxy": MappingProxyType({"people-team": True}),
    "keys": {"people-team": 1}.keys(),
    "generator": (name for name in ("people-team",)),
    "iterator": iter(["people-team"]),
    "number": 7,
    "truth": True,
    "bytes": b"people-team",
    "object": object(),
    "type": list,
    "empty name": "",
    "blank name": " ",
    "empty name inside": ["people-team", ""],
    "nothing inside": ["people-team", None],
    "number inside": ["people-team", 7],
    "bytes inside": [b"people-team"],
    "list inside": [["people-team"]],
}
