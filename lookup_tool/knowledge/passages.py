"""From entries to passages: cut at headings, then where a long section can best be cut.

Nothing of a body is lost: the passages of an entry, with its headings, are its whole text. Only
block structure is parsed (headings, fences, tables); text is never rewritten.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath

import regex
from markdown_it import MarkdownIt
from markdown_it.token import Token

from lookup_tool.config import PassageConfig
from lookup_tool.knowledge.documents import Entry
from lookup_tool.knowledge.tokens import TOKEN, approximate_tokens, fold, visible

_BLOCKS = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
_INLINE = MarkdownIt("commonmark")
_HEADING_ID = regex.compile(r"\s*\{#[^}\s]*\}\s*$")
_SENTENCE_END = regex.compile(r"(?<=[.!?\u2026][\"')\]]?)\s+(?=\S)|(?<=[\u3002\uFF01\uFF1F\uFF1B])")
_LINE_END = regex.compile(r"\n")
_SPACE = regex.compile(r"\s+")
_BY_LINE = frozenset({"fence", "code_block", "table_open", "bullet_list_open", "ordered_list_open"})
_MAX_CRUMB_CHARS = 200


@dataclass(frozen=True)
class Passage:
    """A piece of one section: what is embedded, indexed and found."""

    source: str
    """Identity of its section."""

    breadcrumb: tuple[str, ...]
    """Title and headings that lead to it."""

    text: str
    start_line: int
    end_line: int
    lead: str = ""
    """Header of the table that the text goes on with; shown when the table's start is not."""

    @property
    def embedded_text(self) -> str:
        """What is embedded."""
        return embedded_text(self.breadcrumb, self.lead + self.text)


def embedded_text(breadcrumb: Sequence[str], text: str) -> str:
    """Put title and headings in front of a passage's text."""
    return f"{' > '.join(breadcrumb)}\n\n{text}"


@dataclass
class _Section:
    """The lines under one heading."""

    heading: str | None
    path: tuple[str, ...]
    first: int
    last: int = 0
    blocks: list[Token] = field(default_factory=list)


def display_title(entry: Entry) -> str:
    """Return the entry's title, else its first heading, else its file name."""
    if entry.title:
        return entry.title
    heading = next((s.heading for s in _sections(entry.body) if s.heading), None)
    return heading or PurePosixPath(entry.source).stem


def cut(entry: Entry, title: str, config: PassageConfig) -> list[Passage]:
    """Cut an entry into passages, in document order.

    Args:
        entry: The entry.
        title: What `display_title` gives; the first element of every breadcrumb.
        config: Sizes.

    Returns:
        Passages; none for an entry without text.
    """
    lines = entry.body.split("\n")
    sections = _sections(entry.body)
    slugs = _Slugs()
    headings = 0
    passages: list[Passage] = []
    for number, section in enumerate(sections):
        source = entry.source
        if section.heading is not None:
            headings += 1
            slug = slugs.take(section.heading)
            if headings > 1:
                separator = "-" if "#" in entry.source else "#"
                source = f"{entry.source}{separator}{slug}"
        text = "\n".join(lines[section.first : section.last])
        if not text.strip():
            following = sections[number + 1] if number + 1 < len(sections) else None
            if section.heading is None or (following and len(following.path) > len(section.path)):
                continue  # nothing, or a heading that only opens others
            text, section.blocks = lines[section.first - 1], []
        path = section.path
        if path and fold(path[0]) == fold(title):
            path = path[1:]
        crumbs = (title, *path)
        for piece in _pieces(text, section, config):
            first = entry.body_line + section.first + text.count("\n", 0, piece.start)
            passages.append(
                Passage(
                    source=source,
                    breadcrumb=crumbs,
                    text=piece.text,
                    start_line=first,
                    end_line=first + piece.text.count("\n"),
                    lead=piece.lead,
                )
            )
    return passages


def _sections(body: str) -> list[_Section]:
    """Find the headings of a body and the lines under each."""
    lines = body.count("\n") + 1
    sections = [_Section(heading=None, path=(), first=0)]
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
        sections[-1].last = token.map[0]
        path = tuple(text for _, text in stack if text)
        sections.append(_Section(heading=heading, path=path, first=token.map[1]))
    sections[-1].last = lines
    return sections


def _heading_text(markdown: str) -> str:
    """Return what a reader sees of a heading: no ids, marks or link targets."""
    inline = _INLINE.parseInline(_HEADING_ID.sub("", markdown))[0]
    seen = "".join(
        child.content if child.type in {"text", "code_inline", "image"} else " "
        for child in inline.children or ()
        if child.type in {"text", "code_inline", "image", "softbreak", "hardbreak"}
    )
    return " ".join(visible(seen).split())[:_MAX_CRUMB_CHARS]


class _Slugs:
    """Gives each heading of an entry its anchor, as GitHub does: repeats get `-1`, `-2`."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def take(self, heading: str) -> str:
        base = regex.sub(r"[^\p{L}\p{M}\p{N}\p{Pc}\- ]", "", heading.lower()).replace(" ", "-")
        slug = base or "section"
        while slug in self._taken:
            self._taken[base] = self._taken.get(base, 0) + 1
            slug = f"{base}-{self._taken[base]}"
        self._taken.setdefault(slug, 0)
        return slug


@dataclass(frozen=True)
class _Piece:
    start: int
    text: str
    lead: str = ""


def _pieces(text: str, section: _Section, config: PassageConfig) -> Iterator[_Piece]:
    """Cut the text of a section; each piece is stripped of blank lines around it."""
    ends = [0, *_ends(text, section, config), len(text)]
    table_heads = _table_heads(text, section)
    for start, end in pairwise(ends):
        raw = text[start:end]
        kept = raw.strip("\n").rstrip()
        if TOKEN.search(kept):  # rules and other marks alone say nothing
            offset = start + len(raw) - len(raw.lstrip("\n"))
            lead = next((head for a, b, head in table_heads if a < offset < b), "")
            yield _Piece(start=offset, text=kept, lead=lead)


def _ends(text: str, section: _Section, config: PassageConfig) -> list[int]:
    """Return the offsets at which a section is cut; none when it is short enough."""
    size = approximate_tokens(text)
    if size <= config.max_tokens:
        return []
    longest = max(16, len(text) * config.max_tokens // size)  # in characters of this text
    shortest = len(text) * config.min_tokens // size
    cuts = _possible_cuts(text, section)
    ends: list[int] = []
    start = 0
    while len(text) - start > longest + shortest:
        start = _best_cut(text, cuts, start, longest)
        ends.append(start)
    return ends


def _best_cut(text: str, cuts: Sequence[list[int]], start: int, longest: int) -> int:
    """Return the last cut within reach of the best kind that there is."""
    for offsets in cuts:
        at = bisect_right(offsets, start + longest) - 1
        if at >= 0 and offsets[at] > start + longest // 4:
            return offsets[at]
    spaces = [match.end() for match in _SPACE.finditer(text, start + longest // 2, start + longest)]
    return spaces[-1] if spaces else start + longest


def _possible_cuts(text: str, section: _Section) -> tuple[list[int], list[int]]:
    """Return offsets of block starts, and of line or sentence ends inside blocks."""
    line_starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

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


def _table_heads(text: str, section: _Section) -> list[tuple[int, int, str]]:
    """Return (offset of the first row, offset of the end, header) of each table."""
    lines = text.split("\n")
    heads: list[tuple[int, int, str]] = []
    for token in section.blocks:
        if token.type == "table_open" and token.map is not None:
            first, last = (line - section.first for line in token.map)
            rows = sum(len(line) + 1 for line in lines[: first + 2])
            end = sum(len(line) + 1 for line in lines[:last])
            heads.append((rows - 1, end, "\n".join(lines[first : first + 2]) + "\n"))
    return heads
