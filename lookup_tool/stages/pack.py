"""Pack evidence into one text for the agent, within a budget.

Each block is an `<evidence>` element: a header that is never cut, then the content. Content cannot
open or close an element (`tags.py`), so it cannot pass itself off as another source.
"""

from collections.abc import Callable, Sequence
from math import ceil
from xml.sax.saxutils import quoteattr

import regex

from lookup_tool.config import PackConfig
from lookup_tool.contracts import ContextPack, EvidenceBlock, IncludedSource, OmittedSource
from lookup_tool.stages.tags import without_tags
from lookup_tool.text import approximate_tokens

CUT = " [cut]"
"""Marks content that was cut to fit."""

_END = "\n</evidence>"
_ATTRIBUTES = ("source", "title", "breadcrumb", "hits")
_QUOTES = {'"': "&quot;"}
_FORGED = regex.compile(
    rf"[\p{{Quotation_Mark}}\u02BA\u02DD\u02EE\u2033\u2036](?=\s*+(?:{'|'.join(_ATTRIBUTES)})\s*+[=\uFE66\uFF1D])",
    regex.IGNORECASE,
)
"""A quotation mark, or what looks like one, before what reads as another attribute."""
_SENTENCE_END = regex.compile(r"[.!?\u2026\u3002\uFF01\uFF1F][\"')\]]?(?=\s|\Z|[\u4E00-\u9FFF])|\n")
_GRAPHEME = regex.compile(r"\X")
_LONGEST_CHARACTER = 64
"""Code points of one character as a reader sees it; longer ones are made to harm."""


def pack(blocks: Sequence[EvidenceBlock], config: PackConfig) -> ContextPack:
    """Pack blocks, best first, until the budget is used up.

    Args:
        blocks: Ranked evidence.
        config: Budget and how it is counted.

    Returns:
        The text; which blocks are in it, cut or whole, and which are not, and why. `used` never
        exceeds `budget`, and a block is included only if some of its content is there.
    """
    count = _counter(config)
    text, used = "", 0
    included: list[IncludedSource] = []
    omitted: list[OmittedSource] = []
    for block in blocks:
        before = f"{text}\n\n{_start(block)}" if text else _start(block)

        def cost(content: str, before: str = before) -> int:
            return count(before + content + _END)

        content = without_tags(block.content)
        kept, spent = _longest(content, cost, config.budget)
        if kept:
            text, used = before + kept + _END, spent
            truncated = kept != content
            included.append(IncludedSource(source=block.source, truncated=truncated))
        else:
            omitted.append(OmittedSource(source=block.source, reason="over the budget"))
    return ContextPack(
        text=text,
        budget=config.budget,
        used=used,
        unit=config.unit,
        included=tuple(included),
        omitted=tuple(omitted),
        summary=_summary(included, omitted) if blocks else "",
    )


def element(block: EvidenceBlock, content: str) -> str:
    """Write one block with its header."""
    return _start(block) + without_tags(content) + _END


def _start(block: EvidenceBlock) -> str:
    texts = (block.source, block.title, " > ".join(block.breadcrumb), ", ".join(block.hit_reasons))
    header = " ".join(
        f"{name}={quoteattr(_value(text), _QUOTES)}"
        for name, text in zip(_ATTRIBUTES, texts, strict=True)
        if text
    )
    return f"<evidence {header}>\n"


def _value(text: str) -> str:
    return _FORGED.sub("'", without_tags(" ".join(text.split())))


def elements(text: str) -> list[str]:
    """Cut a packed text into its elements again; no content can hold an end of its own."""
    return [part + _END for part in text.split(_END)[:-1]]


def contents(text: str) -> list[str]:
    """Return the contents in a packed text, without headers and cut marks."""
    bodies = (part.lstrip("\n").partition("\n")[2] for part in elements(text))
    return [body.removesuffix(_END).removesuffix(CUT) for body in bodies]


def _counter(config: PackConfig) -> Callable[[str], int]:
    if config.unit == "characters":
        return len
    count = config.count_tokens or approximate_tokens
    return lambda text: max(0, ceil(count(text)))


def _longest(content: str, cost: Callable[[str], int], budget: int) -> tuple[str, int]:
    """Return the longest beginning of a content that fits, cut at a sentence if one is near.

    Args:
        content: The content.
        cost: Counts what is used with a content.
        budget: Most that may be used.

    Returns:
        The beginning, empty if none fits, and what it cost when it was counted last: a counter need
        not say the same twice.
    """
    whole = cost(content)
    if whole <= budget:
        return content, whole
    low, high = 0, 1  # the first `low` characters fit
    while high < len(content) and cost(content[:high].rstrip() + CUT) <= budget:
        low, high = high, 2 * high  # so that what is counted is no more than twice what fits
    high = min(high, len(content))
    if not low:
        return "", 0
    while low < high:
        middle = (low + high + 1) // 2
        if cost(content[:middle].rstrip() + CUT) <= budget:
            low = middle
        else:
            high = middle - 1
    kept = content[: _character_end(content, low)]
    sentences = [match.end() for match in _SENTENCE_END.finditer(kept)]
    at_sentence = kept[: sentences[-1]] if sentences and sentences[-1] >= len(kept) // 2 else kept
    # Counted again: a counter of tokens may find a shorter text dearer.
    shown = (beginning.rstrip() + CUT for beginning in (at_sentence, kept) if beginning.strip())
    costs = ((beginning, cost(beginning)) for beginning in shown)
    return next((each for each in costs if each[1] <= budget), ("", 0))


def _character_end(content: str, end: int) -> int:
    """Return the last place up to `end` that cuts no character: no accent or emoji in two."""
    start = max(0, end - _LONGEST_CHARACTER)
    window = _GRAPHEME.finditer(content, start, end + _LONGEST_CHARACTER)
    return max((match.end() for match in window if match.end() <= end), default=0)


def _summary(included: Sequence[IncludedSource], omitted: Sequence[OmittedSource]) -> str:
    cut = [part.source for part in included if part.truncated]
    parts = [f"included {len(included)} of {len(included) + len(omitted)} blocks"]
    parts += [f"cut {', '.join(cut)}"] if cut else []
    if omitted:
        parts.append(f"left out {', '.join(part.source for part in omitted)} (over the budget)")
    return "; ".join(parts)
