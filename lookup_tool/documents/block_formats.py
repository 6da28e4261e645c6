"""Read the text of a metadata block: YAML or TOML to plain values, bounded, as it was written.

To read another format, add a function here and its fence to `_STYLES` in `frontmatter`.
"""

import tomllib
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import regex
import yaml

from lookup_tool.text import fold

try:
    from yaml import CSafeLoader as YamlLoader
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as YamlLoader

MAX_BLOCK_CHARS = 64 * 1024
MAX_NODES = 10_000
"""Nodes of one block with every alias written out; an alias bomb has millions."""
MAX_DEPTH = 20
MAX_EXPANSION = 10
"""A block with every alias written out is at most so many times as long as it is."""

_DEEP_FROM = 60
# Lists and mappings in YAML: each one opens a bracket, or stands further to the right than the one
# around it (a list may stand at the same place as its key).
_INDENTED = regex.compile(rf"[ \t\-?:]{{{_DEEP_FROM}}}")
# What is no structure in TOML: strings, in keys too, and comments.
_TOML_TEXT = regex.compile(
    r"""["]{3}(?:[^"\\]|\\.|"(?!""))*+"* | '{3}(?:[^']|'(?!''))*+'*
      | "(?:[^"\\\n]|\\[^\n])*+"? | '[^'\n]*+'? | \#[^\n]*+""",
    regex.VERBOSE | regex.DOTALL,
)
_TOML_PATH = regex.compile(rf"(?<![\w\- \t.])[ \t]*+(?:[\w\-]*+[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}")
_BRACKET = regex.compile(r"[\[\]{}]")

_CORE_TAG = "tag:yaml.org,2002:"
_NULL_TAG = f"{_CORE_TAG}null"
_TEXT_TAGS = {f"{_CORE_TAG}str", f"{_CORE_TAG}value"}
_KNOWN_TAGS = _TEXT_TAGS | {
    f"{_CORE_TAG}{name}"
    for name in ("null", "bool", "int", "float", "timestamp", "merge", "map", "seq")
}


class Written(str):
    """A scalar that is no string in its format (`1.10`, `no`, a date), kept as it was written."""

    __slots__ = ()


class UnreadableError(Exception):
    """The block, or a part of it, cannot be read; the line is counted from 1 within the block."""

    def __init__(self, line: int, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.line, self.problem, self.remedy = line, problem, remedy


Reader = Callable[[str], tuple[dict[str, Any], list[UnreadableError]]]
"""Reads a block: its keys, folded, and the faults that cost a part of it; or raises."""


def read_yaml(block: str) -> tuple[dict[str, Any], list[UnreadableError]]:
    """Read YAML, as `Reader` says; no tag is obeyed and no alias may multiply."""
    _refuse_long(block)
    try:
        _refuse_deep_yaml(block)
        node = yaml.compose(block, Loader=YamlLoader)
    except yaml.MarkedYAMLError as error:
        # Where something was opened that is never closed is where to mend it.
        mark = error.context_mark or error.problem_mark
        line = mark.line + 1 if mark else 0
        remedy = "quote values that contain a colon, and indent with spaces"
        if error.context_mark:
            remedy = "close every bracket and quotation mark, and indent with spaces"
        raise UnreadableError(line, f"not valid YAML ({error.problem})", remedy) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = str(error).split("\n", 1)[0] or type(error).__name__
        remedy = "remove control characters and deep nesting"
        raise UnreadableError(0, f"not valid YAML ({reason})", remedy) from error
    if node is None and not block.strip():
        return {}, []
    if not isinstance(node, yaml.MappingNode):
        remedy = "write `key: value` lines"
        raise UnreadableError(1, "the metadata block holds no keys; it was kept as text", remedy)
    faults: list[UnreadableError] = []
    return _YamlValues(faults, MAX_EXPANSION * len(block)).mapping(node, depth=0), faults


def _refuse_deep_yaml(block: str) -> None:
    """Refuse deep nesting before anything recursive reads it: a C stack that overflows is the end.

    Almost every block is known to be flat at a glance; else its nesting is followed event by event,
    which takes no recursion, and no further than `MAX_DEPTH`.
    """
    if block.count("[") + block.count("{") < _DEEP_FROM and not _INDENTED.search(block):
        return
    depth = 0
    for event in yaml.parse(block, Loader=YamlLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH + 1:  # the block itself is a mapping
            raise _too_deep(event.start_mark.line + 1)


def _too_deep(line: int) -> UnreadableError:
    return UnreadableError(line, "the metadata nests too deep", f"nest at most {MAX_DEPTH} levels")


class _YamlValues:
    """Turns a node graph into plain values, bounded, keeping every scalar as it was written."""

    def __init__(self, faults: list[UnreadableError], longest: int) -> None:
        """Begin a block.

        Args:
            faults: Where to note what costs a part of it.
            longest: Characters of all keys and values together, and one for each value, with every
                alias written out.
        """
        self.faults = faults
        self.longest = longest
        self.nodes = 0
        self.length = 0

    def mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key_node, value_node in node.value:
            self._count(value_node, key_node)
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
        line = node.start_mark.line + 1
        if depth > MAX_DEPTH:
            raise _too_deep(line)
        if node.tag not in _KNOWN_TAGS:
            self._fault(line, f"the tag {node.tag} was ignored", "remove the tag")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, depth + 1) for item in node.value]
        if node.tag == _NULL_TAG:
            return None
        return node.value if node.tag in _TEXT_TAGS else Written(node.value)

    def _item(self, node: yaml.Node, depth: int) -> Any:
        self._count(node)
        return self.value(node, depth)

    def _count(self, value: yaml.Node, *key: yaml.Node) -> None:
        """Count a value, with its key; what an alias stands for counts each time."""
        scalars = [node for node in (value, *key) if isinstance(node, yaml.ScalarNode)]
        self.nodes += 1
        self.length += 1 + sum(len(node.value) for node in scalars)
        if self.nodes > MAX_NODES or self.length > self.longest:
            remedy = "write the values out, without aliases of aliases"
            line = value.start_mark.line + 1
            raise UnreadableError(line, "the metadata expands to too many values", remedy)

    def _fault(self, line: int, problem: str, remedy: str) -> None:
        self.faults.append(UnreadableError(line, problem, remedy))


def read_toml(block: str) -> tuple[dict[str, Any], list[UnreadableError]]:
    """Read TOML, as `Reader` says."""
    _refuse_long(block)
    _refuse_deep_toml(block)
    try:
        faults: list[UnreadableError] = []
        return _toml_values(tomllib.loads(block), faults, depth=0), faults
    except (ValueError, RecursionError) as error:  # a number may be too long to be one
        line = regex.search(r"at line (\d+)", str(error))
        remedy = "write TOML between +++ lines, or YAML between --- lines"
        raise UnreadableError(
            int(line[1]) if line else 1, f"not valid TOML ({error})", remedy
        ) from error


def _refuse_deep_toml(block: str) -> None:
    """Refuse deep nesting, and dotted keys without end, which take quadratic time to read."""
    structure = _TOML_TEXT.sub("s", block)
    steps = (1 if mark in "[{" else -1 for mark in _BRACKET.findall(structure))
    # The header of a table has a bracket, or two.
    if _TOML_PATH.search(structure) or max(accumulate(steps), default=0) > MAX_DEPTH + 1:
        raise _too_deep(0)


def _toml_values(value: Any, faults: list[UnreadableError], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise _too_deep(0)
    if isinstance(value, dict):
        fields = {fold(key): _toml_values(item, faults, depth + 1) for key, item in value.items()}
        if len(fields) < len(value):
            remedy = "remove one of the two; the last was kept"
            faults.append(UnreadableError(1, "a key is given twice, spelled differently", remedy))
        return fields
    if isinstance(value, list):
        return [_toml_values(item, faults, depth + 1) for item in value]
    if isinstance(value, str):
        return value
    return Written(value.isoformat() if hasattr(value, "isoformat") else str(value).lower())


def _refuse_long(block: str) -> None:
    if len(block) > MAX_BLOCK_CHARS:
        raise UnreadableError(0, "the metadata block is too long", "keep it under 64 KiB")
