"""From markdown text, or LangChain documents, to entries: text with metadata and access.

One bad file never stops the others. What is wrong is listed in the load report with file, line
and remedy. `access` fails closed: whatever cannot be understood is readable by nobody.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, time
from pathlib import PurePosixPath
from typing import Any

import regex
from langchain_core.documents import Document

from lookup_tool.config import PUBLIC
from lookup_tool.documents.block_formats import MAX_DEPTH, Written
from lookup_tool.documents.frontmatter import Frontmatter, read_frontmatter
from lookup_tool.schema import EVERYBODY, NOBODY, Access, Entry, LoadProblem
from lookup_tool.text import encodable, fold, printable

UNNAMED = "document"
"""What a document without source is called, with a hash behind it where it needs a name."""

_UNNAMED = regex.compile(rf"{UNNAMED}-[0-9a-f]{{12}}")
MAX_VALUE_CHARS = 500
MAX_VALUES = 10_000
"""Values of one document's metadata, nested ones included."""
# One letter too many, too few or another one; two that are swapped are looked for beside it.
_SLIP = regex.compile(r"(?:access){e<=1}")
_LONGEST_SLIP = 7
_WORD = regex.compile(r"[\p{L}\p{N}]++")
_SEPARATORS = regex.compile(r"[,;\n\uFF0C\u3001\uFF1B\u060C]")
_MODULES = regex.compile(
    r"""\A (?: \s*+
      (?: import\s(?:[^;'"]*+(?<=\sfrom\s*+))?+ (?:'[^'\n]++'|"[^"\n]++") ;?+ [ \t]*+
      | export\s++(?:const|let|default|function)\s[^\n]*+ ) (?:\n|\Z) )++""",
    regex.VERBOSE,
)
"""The statements at the top of an MDX file, which are code and no text."""


class Problems:
    """Collects the problems of one load."""

    def __init__(self) -> None:
        self.found: list[LoadProblem] = []

    def warn(self, path: str, line: int | None, problem: str, remedy: str) -> None:
        """Note something that costs metadata at most."""
        self.found.append(LoadProblem(path, line, "warning", problem, remedy))

    def error(self, path: str, line: int | None, problem: str, remedy: str) -> None:
        """Note something that costs the entry, or closes it."""
        self.found.append(LoadProblem(path, line, "error", problem, remedy))


def parse_entry(text: str, source: str, problems: Problems, default: Access = EVERYBODY) -> Entry:
    """Turn the text of one markdown file into an entry; by default, `default` may read it."""
    block = read_frontmatter(text.replace("\r\n", "\n").replace("\r", "\n"))
    for fault in block.problems:
        problems.warn(source, fault.line, fault.problem, fault.remedy)
    if source.lower().endswith(".mdx"):
        block = replace(block, body=_MODULES.sub(_blank, block.body))
    return _entry(source, block, problems, default)


def _blank(found: "regex.Match[str]") -> str:
    return "\n" * found[0].count("\n")


def entries_from_documents(
    documents: Iterable[Document], problems: Problems, default: Access = EVERYBODY
) -> list[Entry]:
    """Turn LangChain documents into entries.

    The source is the metadata's `source`, else the document's id, else a hash of its content. It
    is looked at beside the access: documents of equal source and equal access, such as the pages of
    a file or the rows of a table, are one entry, with their texts one after the other and the
    metadata of the first. `names.py` says what entries of equal source and other access are called.
    `default` may read a document where neither its metadata nor its content says who may.
    """
    alike: dict[tuple[str, Access], list[Entry]] = {}
    for document in documents:
        metadata = _metadata(document.metadata)
        text = encodable(document.page_content)
        given = _text(metadata.get("source")) or document.id
        source = given.replace("\\", "/") if given else _name_of(text, metadata)
        unsaid = EVERYBODY if "access" in metadata else default  # both restrict
        entry = parse_entry(text, source, problems, unsaid)
        keys = [fold(_written(key)) for key in document.metadata]
        twice = keys.count("access") > 1  # spelled differently: which one is meant?
        outside = _entry(source, Frontmatter(fields=metadata, seals=twice), problems, EVERYBODY)
        entry = _merged(entry, outside)
        same = alike.setdefault((source, entry.access), [])
        if given or not same:  # the same content twice is one document
            same.append(entry)
    return [
        replace(same[0], body="\n\n".join(entry.body for entry in same)) for same in alike.values()
    ]


def _name_of(text: str, metadata: Mapping[str, Any]) -> str:
    """Name a document by its content, whoever may read it."""
    content = [text, {key: value for key, value in metadata.items() if key != "access"}]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return f"{UNNAMED}-{digest[:12]}"


def name_shown(source: str) -> str:
    """Return what an entry without title and heading is called: its file's name, without suffix."""
    return UNNAMED if _UNNAMED.fullmatch(source) else PurePosixPath(source).stem


def category_key(category: str) -> str:
    """Return what makes two spellings of a category one category."""
    return fold(category)


def groups_named(names: Iterable[str]) -> Access:
    """Return who may read what names these groups: everybody, if one of them is `public`."""
    groups = frozenset(name.strip() for name in names)
    return EVERYBODY if PUBLIC in map(fold, groups) else groups


def _entry(source: str, block: Frontmatter, problems: Problems, default: Access) -> Entry:
    fields = block.fields
    known = {"title", "category", "domain", "keywords", "aliases", "entities", "access"}
    return Entry(
        source=source,
        body=block.body.replace("\ufeff", "").replace("\x00", ""),
        body_line=block.body_line,
        title=_text(fields.get("title")),
        category=_text(fields.get("category")) or _text(fields.get("domain")),
        keywords=_texts(fields.get("keywords")),
        aliases=_texts(fields.get("aliases")),
        entities=_texts(fields.get("entities")),
        access=_access(source, block, problems, default),
        metadata={key: value for key, value in fields.items() if key not in known},
    )


def _merged(inside: Entry, outside: Entry) -> Entry:
    """Complete what a document's own block says by its metadata, which win; both restrict."""
    accesses = [access for access in (inside.access, outside.access) if access is not None]
    return replace(
        inside,
        title=outside.title or inside.title,
        category=outside.category or inside.category,
        keywords=outside.keywords or inside.keywords,
        aliases=outside.aliases or inside.aliases,
        entities=outside.entities or inside.entities,
        access=frozenset.intersection(*accesses) if accesses else None,
        metadata={**inside.metadata, **outside.metadata},
    )


def _access(source: str, block: Frontmatter, problems: Problems, default: Access) -> Access:
    """Decide who may read an entry; whatever cannot be understood means nobody."""
    fields = block.fields
    if block.seals:
        remedy = "nobody can read this entry until its metadata block is mended"
        problems.error(source, None, "`access` stands in a block that cannot be read", remedy)
        return NOBODY
    if any(_looks_like_access(key) or _nested_access(value) for key, value in fields.items()):
        remedy = "nobody can read this entry until it is a key of its own, at the top level"
        problems.error(source, None, "`access` is misspelt or stands inside another key", remedy)
        return NOBODY
    if "access" not in fields:
        return default
    value = fields["access"]
    groups = [value] if isinstance(value, str) else value
    if groups is None or groups == []:
        return NOBODY
    if not isinstance(groups, list) or not all(
        isinstance(group, str) and not isinstance(group, Written) and group.strip()
        for group in groups
    ):
        remedy = "nobody can read this entry; write `access: [group, ...]`, names in quotes"
        problems.error(source, None, "`access` is not a list of group names", remedy)
        return NOBODY
    return groups_named(groups)


def _looks_like_access(key: str) -> bool:
    """Tell whether a key has `access` as one of its words (`access_groups`), or is one slip away.

    No further guesses: a folder where a misspelt key must not open an entry has a default access.
    """
    if key == "access":
        return False
    slip = len(key) <= _LONGEST_SLIP and (
        _SLIP.fullmatch(key) is not None or sorted(key) == sorted("access")
    )
    return slip or "access" in _WORD.findall(key)


def _nested_access(value: Any) -> bool:
    if isinstance(value, dict):
        return any(
            key == "access" or _looks_like_access(key) or _nested_access(item)
            for key, item in value.items()
        )
    return isinstance(value, list) and any(_nested_access(item) for item in value)


def _text(value: Any) -> str | None:
    """Return a one-line text; the first one of a list; None when there is none."""
    if isinstance(value, list):
        return next((text for item in value if (text := _text(item))), None)
    if not isinstance(value, str):
        return None
    return printable(value) or None


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a list, or of one string with separators, without repetitions."""
    items = _SEPARATORS.split(value) if isinstance(value, str) else value
    if not isinstance(items, list):
        return ()
    texts = (_text(item) for item in items if isinstance(item, str))
    return tuple(dict.fromkeys(text for text in texts if text))


def _metadata(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Turn any Python mapping into strings, None, lists and dicts of those, bounded."""
    plain = _PlainValues().value(values, depth=0)
    return plain if isinstance(plain, dict) else {}


class _PlainValues:
    """Turns Python values into plain ones; too many of them become their type's name."""

    def __init__(self) -> None:
        self._seen = 0

    def value(self, value: Any, depth: int) -> Any:
        self._seen += 1
        if value is None:
            return None
        if isinstance(value, str):
            return encodable(value)
        if depth > MAX_DEPTH or self._seen > MAX_VALUES:
            return Written(type(value).__name__)
        if isinstance(value, Mapping):
            return {
                encodable(fold(_written(key))): self.value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            items = [self.value(item, depth + 1) for item in value]
            return sorted(items, key=str) if isinstance(value, set | frozenset) else items
        return Written(_written(value))


def _written(value: object) -> str:
    """Write a value as short text; one that cannot be written becomes its type's name."""
    try:
        text = value.isoformat() if isinstance(value, date | time) else str(value)
    except Exception:  # noqa: BLE001 - `__str__` is somebody's code
        text = type(value).__name__
    return encodable(text[:MAX_VALUE_CHARS])
