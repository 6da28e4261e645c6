"""Read the metadata block at the top of a markdown file.

Nothing here raises on bad input and no body text is lost; a value that cannot be read is named in
a problem, with its line and the remedy. The access wall fails closed: `seals` is true when a
block that cannot be read completely, or something that looks like one, mentions `access`.

YAML (`---`) and TOML (`+++`) are read, by `block_formats`. Another style is a line in `_STYLES`.
"""

from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Any

import regex

from lookup_tool.documents.block_formats import Reader, UnreadableError, read_toml, read_yaml
from lookup_tool.text import fold

# No two neighbouring parts of a pattern match the same characters, and what repeats is possessive:
# the time of each grows with the line that it reads, and no faster.
_PATIENCE = 60.0
"""Seconds of processor time after which a pattern is given up all the same."""

_BLANK = regex.compile(r"[\s\u200B-\u200F\u2060\uFEFF\x00]*+")
# What an author may have meant as a fence, folded; only those in `_STYLES` are read.
_FENCE = regex.compile(
    r"""(?: [-\u2010-\u2015\u2212]{2,}+ | [\u2014\u2015] | ([+;~=*_])\1{2,}+ )
        \s?(?:\w*+|\#.*+)
      | `{3,}+\s?\w*+""",
    regex.VERBOSE,
)
# `access` meant as a key, in folded lines: at the start of one or after a bracket or comma, or
# before a list. A keyword `access card`, or a title `Remote access: how to`, is none.
_ACCESS_KEY = regex.compile(
    r"""(?m)(?:^|[-{,?;>*\[])[\ \n]?["']?access["']?[\ \n]?[:=]
      | ^["'?{\ ]*+access\b
      | \baccess["']?[\ \n]?[:=][\ \n]?["'\[{&*!]""",
    regex.VERBOSE,
)
_KEY_LINE = regex.compile(r"""["']?\w[\w .\-]*+["']?\s*+[:=]|-\s""")
_NO_PROSE = regex.compile(r"""\s|\#|-(?:\s|$)|["'\[\]{}?|>]""")
_ACCESS_AT_START = regex.compile(r"""(?i)["']?access["']?\s*+:""")
# A folded line that may be metadata above the text: `access`, with any marks around it, and a value
# that is no sentence: a list, a quoted text, names between commas, or three words at most.
_NAME = r"[\w\-/.@:+]++"
_ACCESS_LINE = regex.compile(
    rf"""[^\w\#]*+access[^\w:=]*+[:=]++\s?(?:["'\[{{&*!|>]
      | (?:{_NAME}(?:\s?[,;]\s?{_NAME})*+)?+[^\w]*+\Z
      | {_NAME}(?:[\s,;]++{_NAME}){{0,2}}+[^\w]*+\Z)""",
    regex.VERBOSE,
)
# The same below a heading or prose, where only a list or a quoted name can be no sentence.
_ACCESS_LIST = regex.compile(r"""[^\w\#]*+access[^\w:=]*+[:=]++\s?["'\[{]""")


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


def read_frontmatter(text: str) -> Frontmatter:
    r"""Split a file's text into metadata and body.

    Args:
        text: The whole file, with `\n` line ends.
    """
    try:
        return _split(text.split("\n"))
    except TimeoutError:
        remedy = "nobody can read this entry until its first lines are plain text, or metadata"
        problem = BlockProblem(1, "what stands at the top takes too long to understand", remedy)
        return Frontmatter(body=text, problems=(problem,), seals=True)


def _split(lines: list[str]) -> Frontmatter:
    opening = next((i for i, line in enumerate(lines) if not _BLANK.fullmatch(line)), None)
    if opening is None:
        return Frontmatter(body="")
    fence = _BLANK.sub("", lines[opening], count=1).rstrip()
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
    read: Reader,
) -> Frontmatter:
    body = "\n".join(lines[closing + 1 :])
    try:
        fields, faults = read(block)
    except UnreadableError as fault:
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
        faults.append(UnreadableError(1, "`access` is part of another value", remedy))
    problems = [BlockProblem(opening + 1 + f.line, f.problem, f.remedy) for f in faults]
    return Frontmatter(
        fields=fields,
        body=body,
        body_line=closing + 2,
        problems=tuple(problems),
        seals=(bool(faults) and _names_access(block)) or _goes_on(lines[closing + 1 :]),
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
    if _mentions_access("\n".join(top)) and (
        _metadata_names_access(top) or _line_names_access(top)
    ):
        problem = BlockProblem(opening + 1, "`access` stands outside a readable block", remedy)
        return Frontmatter(body=body, problems=(problem,), seals=True)
    run = list(takewhile(str.strip, lines[opening:]))
    strange = _FENCE.fullmatch(fold(run[0])) or run[0].lstrip().startswith(("{", "---"))
    unopened = _KEY_LINE.match(run[0]) and any(_FENCE.fullmatch(fold(line)) for line in run)
    keys = (_KEY_LINE.match(line.lstrip(" \t{>")) for line in run[1:])
    if (strange and any(keys)) or unopened:
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
        if pattern.match(_folded(line), timeout=_PATIENCE):
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


def _goes_on(lines: list[str]) -> bool:
    """Tell whether the body begins with more metadata that name access."""
    top = list(takewhile(lambda line: not line.strip() or _looks_like_metadata(line), lines))
    while top and not top[-1].strip():
        top.pop()
    return bool(top) and (_metadata_names_access(top) or _line_names_access(top))


def _names_access(block: str) -> bool:
    if not _mentions_access(block):
        return False
    folded = "\n".join(filter(None, map(_folded, block.split("\n"))))
    return _ACCESS_KEY.search(folded, timeout=_PATIENCE) is not None


def _mentions_access(text: str) -> bool:
    """Tell whether the word occurs: most texts are done with here."""
    return "access" in _folded(text)


def _folded(text: str) -> str:
    return fold(text.replace("\x00", ""))


def _key_lines(block: str) -> list[int]:
    """Return the indices of lines that open a top-level key."""
    return [
        i for i, line in enumerate(block.split("\n")) if regex.match(r"\w[\w\-. ]*+\s*[:=]", line)
    ]


def _recover(
    block: str, read: Reader, fault: UnreadableError
) -> tuple[dict[str, Any], list[UnreadableError]]:
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
        except UnreadableError:
            key, _, value = lines[start].replace("=", ":", 1).partition(":")
            text = value.strip().strip("'\"")
            plain = end == start + 1 and text and text[0] not in "&*!{[|>"
            found = {fold(key): text} if plain else {}
        for key, value in found.items():
            if key in fields:
                remedy = "remove one of the two; the first was kept"
                problem = f"the key {key!r} is given twice"
                faults.append(UnreadableError(start + 1, problem, remedy))
            fields.setdefault(key, value)
    return fields, faults


_STYLES: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "---": (read_yaml, ("---", "...")),
    "---yaml": (read_yaml, ("---", "...")),
    "--- yaml": (read_yaml, ("---", "...")),
    "+++": (read_toml, ("+++",)),
    "---toml": (read_toml, ("---",)),
}
