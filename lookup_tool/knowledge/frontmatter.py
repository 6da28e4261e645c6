"""Read the metadata block at the top of a markdown file.

Nothing here raises on bad input and no body text is lost; a value that cannot be read is named in
a problem, with its line and the remedy. The access wall fails closed: `seals` is true when a
block that cannot be read completely, or something that looks like one, mentions `access`.

YAML (`---`) and TOML (`+++`) are read. To read another style, add it to `_STYLES`.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Any

import regex
import yaml

from lookup_tool.knowledge.tokens import fold

try:
    from yaml import CSafeLoader as YamlLoader
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as YamlLoader

MAX_BLOCK_CHARS = 64 * 1024
MAX_NODES = 10_000
"""Nodes of one block with every alias written out; an alias bomb has millions."""
MAX_DEPTH = 20

_CORE_TAG = "tag:yaml.org,2002:"
_NULL_TAG = f"{_CORE_TAG}null"
_TEXT_TAGS = {f"{_CORE_TAG}str", f"{_CORE_TAG}value"}
_KNOWN_TAGS = _TEXT_TAGS | {
    f"{_CORE_TAG}{name}"
    for name in ("null", "bool", "int", "float", "timestamp", "merge", "map", "seq")
}

_BLANK = r"[\s\u200B-\u200F\u2060\uFEFF\x00]*"
# What an author may have meant as a fence, folded; only those in `_STYLES` are read.
_FENCE = regex.compile(
    r"""(?: [-\u2010-\u2015\u2212]{2,} | [\u2014\u2015] | ([+;~=*_])\1{2,} )\s*(?:\w*|\#.*)
      | `{3,}\s*\w*""",
    regex.VERBOSE,
)
# `access` meant as a key: at the start of a line or after a bracket or comma, or before a list.
# A keyword `access card`, or a title `Remote access: how to`, is none.
_ACCESS_KEY = regex.compile(
    r"""(?m)(?:^|[-{,?;>*\[])\s*["']?access["']?\s*[:=] | ^\s*["'?{]*\s*access\b
      | \baccess["']?\s*[:=]\s*["'\[{&*!]""",
    regex.VERBOSE,
)
_KEY_LINE = regex.compile(r"""["']?\w[\w .\-]*+["']?\s*[:=]|-\s""")
_NO_PROSE = regex.compile(r"""\s|\#|-(?:\s|$)|["'\[\]{}?|>]""")
# A line that may be metadata above the text: `access`, with any marks around it, and a value that
# is no sentence.
_ACCESS_AT_START = regex.compile(r"""(?i)["']?access["']?\s*:""")
_GROUP = r"[\w\-/.@:+]+"
_ACCESS_LINE = regex.compile(
    rf"""[^\w\#]*access[^\w:=]*[:=]+\s*(?:["'\[{{&*!|>].*|(?:{_GROUP}[,;\s]*){{0,3}}
      |{_GROUP}(?:\s*[,;]\s*{_GROUP})*)[^\w]*""",
    regex.VERBOSE,
)
# The same below a heading or prose, where only a list or a quoted name can be no sentence.
_ACCESS_LIST = regex.compile(r"""[^\w\#]*access[^\w:=]*[:=]+\s*["'\[{].*""")

_Reader = Callable[[str], "tuple[dict[str, Any], list[_UnreadableError]]"]


class Written(str):
    """A scalar that is no string in its format (`1.10`, `no`, a date), kept as it was written."""

    __slots__ = ()


@dataclass(frozen=True)
class BlockProblem:
    """Something wrong in a block."""

    line: int
    """Line of the file, counted from 1."""

    problem: str
    remedy: str


@dataclass(frozen=True)
class Frontmatter:
    """What stands at the top of a file, and the rest of it."""

    fields: dict[str, Any] = field(default_factory=dict)
    """Top-level keys, folded; values are strings, None, lists and dicts of those."""

    body: str = ""
    body_line: int = 1
    """Line of the file on which the body begins, counted from 1."""

    problems: tuple[BlockProblem, ...] = ()
    seals: bool = False
    """Access may have been meant and cannot be read: nobody may read this entry."""


class _UnreadableError(Exception):
    """The block, or a part of it, cannot be read."""

    def __init__(self, line: int, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.line, self.problem, self.remedy = line, problem, remedy


def read_frontmatter(text: str) -> Frontmatter:
    r"""Split a file's text into metadata and body.

    Args:
        text: The whole file, with `\n` line ends.
    """
    lines = text.split("\n")
    opening = next((i for i, line in enumerate(lines) if not regex.fullmatch(_BLANK, line)), None)
    if opening is None:
        return Frontmatter(body="")
    fence = regex.sub(rf"\A{_BLANK}", "", lines[opening]).rstrip()
    style = _STYLES.get(fence)
    if style is None:
        return _no_block(lines, opening)
    read, endings = style
    closing = next(
        (i for i in range(opening + 1, len(lines)) if lines[i].rstrip() in endings), None
    )
    if closing is None:
        return _unterminated(lines, opening, fence)
    block = "\n".join(lines[opening + 1 : closing])
    return _closed_block(lines, opening, closing, block, read)


def _closed_block(
    lines: list[str],
    opening: int,
    closing: int,
    block: str,
    read: _Reader,
) -> Frontmatter:
    body = "\n".join(lines[closing + 1 :])
    try:
        fields, faults = read(block)
    except _UnreadableError as fault:
        if not _key_lines(block):
            # Two rules around prose, or a list: text of the author's, not metadata.
            kept = "\n".join(lines[opening:])
            return Frontmatter(
                body=kept,
                body_line=opening + 1,
                problems=(BlockProblem(opening + 1 + fault.line, fault.problem, fault.remedy),),
                seals=_names_access(block),
            )
        prose = _first_prose(lines, opening + 1, closing)
        fields, faults = _recover("\n".join(lines[opening + 1 : prose]), read, fault)
        if prose < closing:
            # A fence is missing or wrong, and a rule further down was taken for it.
            body, closing = "\n".join(lines[prose:]), prose - 1
    if "access" not in fields and any(map(_ACCESS_AT_START.match, block.split("\n"))):
        remedy = "close the quotes of the value above it"
        faults.append(_UnreadableError(1, "`access` is part of another value", remedy))
    problems = [BlockProblem(opening + 1 + f.line, f.problem, f.remedy) for f in faults]
    return Frontmatter(
        fields=fields,
        body=body,
        body_line=closing + 2,
        problems=tuple(problems),
        seals=(bool(faults) and _names_access(block)) or _goes_on(body),
    )


def _first_prose(lines: list[str], start: int, stop: int) -> int:
    """Return the first line that is neither a key nor part of a value; `stop` if there is none."""
    for number in range(start, stop):
        line = lines[number]
        if line.strip() and not _NO_PROSE.match(line) and not _KEY_LINE.match(line):
            return number
    return stop


def _no_block(lines: list[str], opening: int) -> Frontmatter:
    """Keep everything as body; notice metadata whose fence is wrong, missing or not at the top."""
    body = "\n".join(lines)
    remedy = "put the metadata between two lines of three hyphens, at the top of the file"
    top = _top(lines[opening:])
    if _metadata_names_access(top) or _line_names_access(top):
        problem = BlockProblem(opening + 1, "`access` stands outside a readable block", remedy)
        return Frontmatter(body=body, problems=(problem,), seals=True)
    run = list(takewhile(str.strip, lines[opening:]))
    strange = _FENCE.fullmatch(fold(run[0])) or run[0].lstrip().startswith(("{", "---"))
    unopened = _KEY_LINE.match(run[0]) and any(_FENCE.fullmatch(fold(line)) for line in run)
    if (strange and any(map(_KEY_LINE.search, run[1:]))) or unopened:
        problem = BlockProblem(
            opening + 1, "metadata without a readable fence, kept as text", remedy
        )
        return Frontmatter(body=body, problems=(problem,))
    return Frontmatter(body=body)


def _top(lines: list[str]) -> list[str]:
    """Return the lines above the first section, without code blocks: they are examples.

    A code block with which the file begins may be meant as metadata.
    """
    marks = ("```", "~~~")
    if lines[0].lstrip().startswith(marks):
        return lines
    kept: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        start = line.lstrip()
        if start.startswith(marks):
            inside = not inside
        elif start.startswith("##") and number and not inside:
            break
        elif not inside:
            kept.append(line)
    return kept


def _metadata_names_access(lines: list[str]) -> bool:
    """Tell whether a run of lines that look like metadata names access, whatever its value."""
    for is_metadata, run in groupby(lines, _looks_like_metadata):
        block = list(run)
        keys = sum(1 for line in block if _KEY_LINE.match(line) and not line.startswith("-"))
        # A fence, a comment or a bracket says that it is meant as metadata.
        marked = any(line[:1] not in (" ", "\t") and not _KEY_LINE.match(line) for line in block)
        if is_metadata and (keys > 1 or marked) and _names_access("\n".join(block)):
            return True
    return False


def _looks_like_metadata(line: str) -> bool:
    """Tell whether a line is a fence, opens a key or a bracket, or goes on with a value."""
    start = line.lstrip("> ")
    return bool(start) and (
        _FENCE.fullmatch(fold(line)) is not None
        or _KEY_LINE.match(start) is not None
        or start.startswith(("{", "}", '"', "<!--", "-->"))
        or line[0] in " \t"
    )


def _line_names_access(lines: list[str]) -> bool:
    """Tell whether a single line names access as metadata do: most strictly at the very top."""
    at_top = True
    for line in lines:
        pattern = _ACCESS_LINE if at_top else _ACCESS_LIST
        if pattern.fullmatch(fold(line.replace("\x00", ""))):
            return True
        at_top = at_top and (not line.strip() or _looks_like_metadata(line))
    return False


def _unterminated(lines: list[str], opening: int, fence: str) -> Frontmatter:
    text = "\n".join(lines[opening:])
    seals = _names_access(text)
    if not seals and not _KEY_LINE.match(lines[opening + 1] if opening + 1 < len(lines) else ""):
        return Frontmatter(body=text, body_line=opening + 1)  # a horizontal rule
    problem = BlockProblem(
        opening + 1,
        f"the metadata block that opens with {fence} is never closed; it was kept as text",
        f"add a line {fence} after the metadata",
    )
    return Frontmatter(
        body="\n".join(lines[opening + 1 :]),
        body_line=opening + 2,
        problems=(problem,),
        seals=seals,
    )


def _goes_on(body: str) -> bool:
    """Tell whether the body begins with more metadata that name access."""
    lines = body.strip("\n").split("\n")
    top = list(takewhile(lambda line: not line.strip() or _looks_like_metadata(line), lines))
    while top and not top[-1].strip():
        top.pop()
    return bool(top) and (_metadata_names_access(top) or _line_names_access(top))


def _names_access(block: str) -> bool:
    return _ACCESS_KEY.search(_folded(block)) is not None


def _folded(block: str) -> str:
    return "\n".join(fold(line.replace("\x00", "")) for line in block.split("\n"))


def _key_lines(block: str) -> list[int]:
    """Return the indices of lines that open a top-level key."""
    return [
        i for i, line in enumerate(block.split("\n")) if regex.match(r"\w[\w\-. ]*+\s*[:=]", line)
    ]


def _recover(
    block: str, read: _Reader, fault: _UnreadableError
) -> tuple[dict[str, Any], list[_UnreadableError]]:
    """Read a broken block key by key, taking a value that is no valid YAML as it was written."""
    lines = block.split("\n")
    starts = _key_lines(block)
    fields: dict[str, Any] = {}
    faults = [fault]
    if not starts:
        return fields, faults
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        try:
            found = read("\n".join(lines[start:end]))[0]
        except _UnreadableError:
            key, _, value = lines[start].replace("=", ":", 1).partition(":")
            text = value.strip().strip("'\"")
            plain = end == start + 1 and text and text[0] not in "&*!{[|>"
            found = {fold(key): text} if plain else {}
        for key, value in found.items():
            if key in fields:
                remedy = "remove one of the two; the first was kept"
                problem = f"the key {key!r} is given twice"
                faults.append(_UnreadableError(start + 1, problem, remedy))
            fields.setdefault(key, value)
    return fields, faults


def _read_yaml(block: str) -> tuple[dict[str, Any], list[_UnreadableError]]:
    if len(block) > MAX_BLOCK_CHARS:
        raise _UnreadableError(0, "the metadata block is too long", "keep it under 64 KiB")
    try:
        node = yaml.compose(block, Loader=YamlLoader)
    except yaml.MarkedYAMLError as error:
        # Where something was opened that is never closed is where to mend it.
        mark = error.context_mark or error.problem_mark
        line = mark.line + 1 if mark else 0
        remedy = "quote values that contain a colon, and indent with spaces"
        if error.context_mark:
            remedy = "close every bracket and quotation mark, and indent with spaces"
        raise _UnreadableError(line, f"not valid YAML ({error.problem})", remedy) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = str(error).split("\n", 1)[0] or type(error).__name__
        remedy = "remove control characters and deep nesting"
        raise _UnreadableError(0, f"not valid YAML ({reason})", remedy) from error
    if node is None and not block.strip():
        return {}, []
    if not isinstance(node, yaml.MappingNode):
        remedy = "write `key: value` lines"
        raise _UnreadableError(1, "the metadata block holds no keys; it was kept as text", remedy)
    faults: list[_UnreadableError] = []
    return _YamlValues(faults).mapping(node, depth=0), faults


class _YamlValues:
    """Turns a node graph into plain values, bounded, keeping every scalar as it was written."""

    def __init__(self, faults: list[_UnreadableError]) -> None:
        self.faults = faults
        self.nodes = 0

    def mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(line, "a key is a list or a mapping", "use plain words as keys")
                continue
            key = fold(key_node.value)
            if key in fields:
                remedy = "remove one of the two; the first was kept"
                self._fault(line, f"the key {key!r} is given twice", remedy)
                continue
            fields[key] = self.value(value_node, depth + 1)
        return fields

    def value(self, node: yaml.Node, depth: int) -> Any:
        self.nodes += 1
        line = node.start_mark.line + 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            remedy = "write the values out, without aliases of aliases"
            raise _UnreadableError(line, "the metadata expands to too many values", remedy)
        if node.tag not in _KNOWN_TAGS:
            self._fault(line, f"the tag {node.tag} was ignored", "remove the tag")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        if node.tag == _NULL_TAG:
            return None
        return node.value if node.tag in _TEXT_TAGS else Written(node.value)

    def _fault(self, line: int, problem: str, remedy: str) -> None:
        self.faults.append(_UnreadableError(line, problem, remedy))


def _read_toml(block: str) -> tuple[dict[str, Any], list[_UnreadableError]]:
    if len(block) > MAX_BLOCK_CHARS:
        raise _UnreadableError(0, "the metadata block is too long", "keep it under 64 KiB")
    try:
        faults: list[_UnreadableError] = []
        return _toml_values(tomllib.loads(block), faults), faults
    except (ValueError, RecursionError) as error:  # a number may be too long to be one
        line = regex.search(r"at line (\d+)", str(error))
        remedy = "write TOML between +++ lines, or YAML between --- lines"
        raise _UnreadableError(
            int(line[1]) if line else 1, f"not valid TOML ({error})", remedy
        ) from error


def _toml_values(value: Any, faults: list[_UnreadableError]) -> Any:
    if isinstance(value, dict):
        fields = {fold(key): _toml_values(item, faults) for key, item in value.items()}
        if len(fields) < len(value):
            remedy = "remove one of the two; the last was kept"
            faults.append(_UnreadableError(1, "a key is given twice, spelled differently", remedy))
        return fields
    if isinstance(value, list):
        return [_toml_values(item, faults) for item in value]
    if isinstance(value, str):
        return value
    return Written(value.isoformat() if hasattr(value, "isoformat") else str(value).lower())


_STYLES: dict[str, tuple[_Reader, tuple[str, ...]]] = {
    "---": (_read_yaml, ("---", "...")),
    "---yaml": (_read_yaml, ("---", "...")),
    "--- yaml": (_read_yaml, ("---", "...")),
    "+++": (_read_toml, ("+++",)),
    "---toml": (_read_toml, ("---",)),
}
