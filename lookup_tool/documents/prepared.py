"""An entry as a generation takes it up: cut into passages, with everything else that is stored.

What this costs depends on the entry alone, so an entry whose file has not changed is taken from the
generation before, as it was prepared then.
"""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from unicodedata import unidata_version

from lookup_tool.config import PassageConfig
from lookup_tool.documents.entries import groups_named
from lookup_tool.documents.passages import cut
from lookup_tool.documents.phrases import phrases_of
from lookup_tool.schema import EVERYBODY, Access, Entry, LoadProblem, Phrase, PreparedEntry

_json = json.JSONEncoder(sort_keys=True).encode  # made once: there are many entries
_LIBRARIES = ("lookup-tool", "markdown-it-py", "PyStemmer", "PyYAML", "regex")


def prepare(
    entry: Entry,
    settings: PassageConfig,
    sha256: str | None = None,
    problems: Sequence[LoadProblem] = (),
) -> PreparedEntry:
    """Cut an entry into passages, and gather what is stored of it."""
    title, passages = cut(entry, settings)
    phrases: dict[tuple[str, str], Phrase] = {}
    for phrase in phrases_of(entry, title):
        phrases.setdefault((phrase.key, phrase.kind), phrase)
    return PreparedEntry(
        source=entry.source,
        title=title,
        category=entry.category,
        access=entry.access,
        metadata=entry.metadata,
        phrases=tuple(phrases[key] for key in sorted(phrases)),
        passages=tuple(passages),
        digest=_digest(entry),
        sha256=sha256,
        problems=tuple(problems),
    )


def access_by_default(settings: PassageConfig) -> Access:
    """Return who may read an entry that does not say it."""
    return EVERYBODY if settings.default_access is None else groups_named(settings.default_access)


def made_by() -> str:
    """Name everything that decides how a file is read and cut, but for the settings."""
    return ", ".join(
        [*(f"{name} {version(name)}" for name in _LIBRARIES), f"Unicode {unidata_version}"]
    )


def _digest(entry: Entry) -> str:
    access = None if entry.access is None else sorted(entry.access)
    fields = {**vars(entry), "access": access}
    return hashlib.sha256(_json(fields).encode()).hexdigest()
