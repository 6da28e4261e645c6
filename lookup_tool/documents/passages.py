"""From entries to passages: cut at headings, then where a long section can best be cut.

No words of a body are lost: the passages of an entry, with its headings, are its whole text, but
for rules and comments that stand alone. Only block structure is parsed (headings, fences, tables);
text is never rewritten.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import regex
from markdown_it import MarkdownIt
from markdown_it.token import Token
from numpy.typing import NDArray

from lookup_tool.config import PassageConfig
from lookup_tool.documents.entries import name_shown
from lookup_tool.schema import Entry, Passage
from lookup_tool.text import TOKEN, approximate_tokens, fold, printable

_BLOCKS = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
_INLINE = MarkdownIt("commonmark")
_ATTRIBUTES = regex.compile(r"\s*+\{(?::?\s*+[#.][^{}]*+|/\*[^{}]*+(?<=\*/))\}\s*+\Z")
_MAX_ATTRIBUTES_CHARS = 200
_MAX_HEADING_CHARS = 1000
"""From here on, a heading is shown as it was written: the time to find its marks and links grows
with the square of its length."""

_PLAIN = regex.compile(r"[\p{L}\p{N} .,;:?()'/\-]*+")
"""Headings without anything that could be a mark: most of them."""
_SENTENCE_END = regex.compile(
    r"(?<=[.!?\u2026][\"')\]]?)\s++(?=\S)|(?<=[\u3002\uFF01\uFF1F\uFF1B])"
)
_COMMENT = regex.compile(r"<!--.*?-->", regex.DOTALL)
_LINE_END = regex.compile(r"\n")
_SPACE = regex.compile(r"\s++")
_BY_LINE = frozenset({"fence", "code_block", "table_open", "bullet_list_open", "ordered_list_open"})
_MAX_CRUMB_CHARS = 200
_MAX_TITLE_CHARS = 500
"""Every passage of an entry begins with its title."""
_WHOLE = 2
"""Ends of a section that is one piece: its own."""
GAP = "[...]"
"""Marks passages of a section that are not shown."""
_WIDER_FROM = (0x80, 0x800, 0x10000)
"""Code points from which UTF-8 takes one more byte."""


_NO_ANCHOR = regex.compile(r"[^\p{L}\p{M}\p{N}\p{Pc}\- ]")


@dataclass
class _Section:
    """The lines under one heading."""

    heading: str | None
    path: tuple[str, ...]
    above: int
    """Its heading's first line, counted from 0."""

    first: int
    """The first line under its heading."""

    last: int = 0
    """The line after it."""

    blocks: list[Token] = field(default_factory=list)

    def text(self, lines: Sequence[str]) -> str:
        """Return its lines, as one text."""
        return "\n".join(lines[self.first : self.last])

    def is_under(self, other: "_Section") -> bool:
        """Tell whether its breadcrumb names the other's heading."""
        return self.path[: len(other.path)] == other.path

    def with_heading(self, lines: Sequence[str]) -> str:
        """Let its text begin with the heading, which says something that nothing else does."""
        self.first = self.above
        return self.text(lines)


def cut(entry: Entry, config: PassageConfig) -> tuple[str, list[Passage]]:
    """Cut an entry into passages.

    Returns:
        The title that is shown, which is the first element of every breadcrumb: the entry's own,
        else its first heading, else its file name. And the passages in document order; none for an
        entry without text.
    """
    lines = entry.body.split("\n")
    sections = _sections(entry.body)
    heading = next((section.heading for section in sections if section.heading), None)
    title = (entry.title or heading or name_shown(entry.source))[:_MAX_TITLE_CHARS]
    folded_title = fold(title)
    sources = _sources(entry.source, sections)
    if not any(_says_something(section.text(lines)) for section in sections):
        return title, []  # headings alone are hints
    passages: list[Passage] = []
    for source, section, following in zip(sources, sections, [*sections[1:], None], strict=True):
        text = section.text(lines)
        if not TOKEN.search(text):
            if following and following.heading and following.is_under(section):
                continue  # a heading that only opens others
            text = section.with_heading(lines)
        elif section.heading and len(section.heading) >= _MAX_CRUMB_CHARS:
            text = section.with_heading(lines)
        path = section.path
        if path and fold(path[0]) == folded_title:
            path = path[1:]
        for piece in _pieces(text, section, config):
            first = entry.body_line + section.first + piece.line
            passages.append(
                Passage(
                    source=source,
                    breadcrumb=(title, *path),
                    text=piece.text,
                    start_line=first,
                    end_line=first + piece.text.count("\n"),
                    lead=piece.lead,
                    joint=piece.joint,
                )
            )
    return title, passages


def _says_something(text: str) -> bool:
    """Tell whether a text has words; rules and comments, but in code, say nothing."""
    shown = text if "`" in text or "~~~" in text else _without_comments(text)
    return TOKEN.search(shown) is not None


def _without_comments(text: str) -> str:
    last = text.rfind("-->") + 3
    # Only where an end follows: comments that are never closed are each looked through to the end.
    return _COMMENT.sub("", text[:last]) + text[last:]


def _sources(entry: str, sections: Sequence[_Section]) -> list[str]:
    """Return the identity of each section: the entry's up to the second heading, then anchors."""
    slugs = _Slugs()
    separator = "-" if "#" in entry else "#"
    sources: list[str] = []
    for number, section in enumerate(sections):
        slug = "" if section.heading is None else slugs.take(section.heading)
        sources.append(f"{entry}{separator}{slug}" if number > 1 else entry)
    return sources


def _sections(body: str) -> list[_Section]:
    """Find the headings of a body and the lines under each; the first section has no heading."""
    sections = [_Section(heading=None, path=(), above=0, first=0)]
    stack: list[tuple[int, str]] = []
    tokens = _BLOCKS.parse(body)
    for position, token in enumerate(tokens):
        if token.level != 0 or token.map is None:
            continue
        if token.type != "heading_open":
            sections[-1].blocks.append(token)
            continue
        level = int(token.tag[1])
        heading = _heading_text(tokens[position + 1].content)
        stack = [*(above for above in stack if above[0] < level), (level, heading)]
        above, first = token.map
        sections[-1].last = above
        path = tuple(text for _, text in stack if text)
        sections.append(_Section(heading=heading, path=path, above=above, first=first))
    sections[-1].last = body.count("\n") + 1
    return sections


def _heading_text(markdown: str) -> str:
    """Return what a reader sees of a heading: no ids, marks or link targets."""
    if len(markdown) > _MAX_HEADING_CHARS or _PLAIN.fullmatch(markdown):
        return printable(markdown)[:_MAX_CRUMB_CHARS]
    head, tail = markdown[:-_MAX_ATTRIBUTES_CHARS], markdown[-_MAX_ATTRIBUTES_CHARS:]
    inline = _INLINE.parseInline(head + _ATTRIBUTES.sub("", tail))[0]
    seen = "".join(
        child.content if child.type in {"text", "code_inline", "image"} else " "
        for child in inline.children or ()
        if child.type in {"text", "code_inline", "image", "softbreak", "hardbreak"}
    )
    return printable(seen)[:_MAX_CRUMB_CHARS]


def slug_of(heading: str) -> str:
    """Return the anchor of a heading that no other heading of its entry shares, as GitHub does."""
    kept = _NO_ANCHOR.sub("", heading.lower())
    return kept.replace(" ", "-") or "section"


class _Slugs:
    """Gives each heading of an entry its anchor, as GitHub does: repeats get `-1`, `-2`."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def take(self, heading: str) -> str:
        base = slug = slug_of(heading)
        while slug in self._taken:
            self._taken[base] = self._taken.get(base, 0) + 1
            slug = f"{base}-{self._taken[base]}"
        self._taken.setdefault(slug, 0)
        return slug


@dataclass(frozen=True)
class _Piece:
    line: int
    """Of its section, counted from 0."""

    text: str
    lead: str
    joint: str


def _pieces(text: str, section: _Section, config: PassageConfig) -> Iterator[_Piece]:
    """Cut the text of a section; each piece is stripped of blank lines around it."""
    ends = [0, *_ends(text, section, config), len(text)]
    # In one piece, everything is there.
    table_heads = _table_heads(text, section, config) if len(ends) > _WHOLE else []
    before = line = counted = 0
    for start, end in pairwise(ends):
        raw = text[start:end]
        if not _says_something(raw):
            continue
        first = start + len(raw) - len(raw.lstrip("\n"))
        last = start + len(raw.rstrip())
        at = bisect_left(table_heads, (first,)) - 1
        lead = table_heads[at][2] if at >= 0 and first < table_heads[at][1] else ""
        line += text.count("\n", counted, first)
        counted = first
        between = text[before:first]
        joint = between if before and not between.strip() else "\n\n"
        yield _Piece(line=line, text=text[first:last], lead=lead, joint=joint)
        before = last


def _ends(text: str, section: _Section, config: PassageConfig) -> list[int]:
    """Return the offsets at which a section is cut; none when it is short enough."""
    if approximate_tokens(text) <= config.max_tokens:
        return []
    sizes = _sizes(text)
    cuts = _possible_cuts(text, section)
    ends: list[int] = []
    start = 0
    while sizes[-1] - sizes[start] > 4 * (config.max_tokens + config.min_tokens):
        within = int(np.searchsorted(sizes, sizes[start] + 4 * config.max_tokens, "right")) - 1
        start = _best_cut(text, cuts, start, max(within, start + 1))
        ends.append(start)
    return ends


def _sizes(text: str) -> NDArray[np.int64]:
    """Return how many UTF-8 bytes stand before each character, and before the end."""
    points = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
    widths = 1 + np.searchsorted(_WIDER_FROM, points, side="right")
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(widths)])


def _best_cut(text: str, cuts: Sequence[list[int]], start: int, within: int) -> int:
    """Return the last cut up to `within` of the best kind that there is."""
    for offsets in cuts:
        at = bisect_right(offsets, within) - 1
        if at >= 0 and offsets[at] > start + (within - start) // 4:
            return offsets[at]
    spaces = [match.end() for match in _SPACE.finditer(text, (start + within) // 2, within)]
    return spaces[-1] if spaces else within


def _possible_cuts(text: str, section: _Section) -> tuple[list[int], list[int]]:
    """Return offsets of block starts, and of line or sentence ends inside blocks."""
    line_starts = _line_starts(text)

    def offset(line: int) -> int:
        return line_starts[min(max(line - section.first, 0), len(line_starts) - 1)]

    starts: list[int] = []
    inner: list[int] = []
    for token in section.blocks:
        first, last = token.map or (0, 0)
        starts.append(offset(first))
        pattern = _LINE_END if token.type in _BY_LINE else _SENTENCE_END
        end = offset(last) if last < section.last else len(text)
        inner.extend(match.end() for match in pattern.finditer(text, offset(first), end))
    return starts, inner


def _table_heads(text: str, section: _Section, config: PassageConfig) -> list[tuple[int, int, str]]:
    """Return (offset of the first row, offset of the end, header) of each table.

    A header that would take a good part of a passage is not repeated.
    """
    tables = [token.map for token in section.blocks if token.type == "table_open" and token.map]
    starts = [*_line_starts(text), len(text) + 1] if tables else []
    heads: list[tuple[int, int, str]] = []
    for first, last in tables:
        start, rows = starts[first - section.first], starts[first - section.first + 2]
        header = f"{text[start : rows - 1]}\n"
        if approximate_tokens(header) <= config.max_tokens // 4:
            heads.append((rows - 1, starts[last - section.first], header))
    return heads


def _line_starts(text: str) -> list[int]:
    """Return the offset of each line."""
    return [0, *(match.end() for match in _LINE_END.finditer(text))]
