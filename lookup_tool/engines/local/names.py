"""What entries and sections are called: nothing in a name tells of what its reader may not see.

An entry's name is its source: the path of its file, the `source` or the id of its document, else
`document-` and a hash of its content. Documents of equal source and equal access are one entry. So
two entries claim one name only where their access differs, or where one is named as a section of
another is (`a.md#b`). Then names are settled for each reader, among what that reader may see:

- a restricted entry never takes a name from a public one;
- else a section yields to an entry that has the name itself;
- where neither decides, all of them yield.

What yields is shown with a hash of its entry's content and access behind its name, and an entry's
sections follow it. A reader who sees the `notes.md` of group b alone sees `notes.md`; one who may
see that of group c too sees `notes.md~6a0f3b1c92d4` and `notes.md~e91b7720f5aa`; beside a public
`notes.md`, which keeps the name, both do in any case.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import regex

_HASH_DIGITS = 12
_HASH = regex.compile(rf"~[0-9a-f]{{{_HASH_DIGITS}}}(?=#|-|\Z)")


@dataclass(frozen=True)
class Claim:
    """One entry that has a name, or a section of that name."""

    entry: int
    """Number of the entry."""

    weight: int
    """The lowest keeps the name: 2 for a restricted entry, and 1 more for a section."""

    digest: str
    """Hash of everything in the entry, as hexadecimal digits."""


class Names:
    """Names as one reader sees them."""

    def __init__(self, contested: frozenset[str], claims: Callable[[str], list[Claim]]) -> None:
        """Bind what there is to settle.

        Args:
            contested: Names that several entries claim, whoever may see them; mostly none.
            claims: Returns the claims to a name that this reader may see.
        """
        self._contested = contested
        self._claims = cache(claims)

    def entry(self, number: int, source: str) -> str:
        """Return the name of an entry."""
        return self._settled(number, source)

    def section(self, number: int, source: str, name: str) -> str:
        """Return the name of a section of an entry, or of the entry where they have one name."""
        own = self.entry(number, source)
        if own != source:
            return own + name[len(source) :]
        return own if name == source else self._settled(number, name)

    def _settled(self, number: int, name: str) -> str:
        if name not in self._contested:
            return name
        claims = {claim.entry: claim for claim in self._claims(name)}
        mine = claims.pop(number, None)
        if mine is None or all(other.weight > mine.weight for other in claims.values()):
            return name
        return f"{name}~{mine.digest[:_HASH_DIGITS]}"


def as_claimed(name: str) -> str:
    """Return a name without the hash that it may be shown with."""
    return _HASH.sub("", name, count=1)
