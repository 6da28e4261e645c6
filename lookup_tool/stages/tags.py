"""Neutralize what a model could read as the beginning or the end of an `<evidence>` element.

Models read look-alikes and escapes as what they stand for: full-width brackets, `&lt;`, Cyrillic
letters, letters with zero-width characters between them. Only the bracket is replaced, and only
before what reads as `evidence`: `《Tea》`, `a < b` and `<b>` stay as they are.
"""

import re
import unicodedata
from functools import lru_cache
from html import unescape

import regex

_WORD = "evidence"

_OPENING = (
    "<\u00ab\u02c2\u1438\u16b2\u2039\u226a\u227a\u22d6\u2329\u276c\u276e\u2770\u27e8\u27ea\u2991"
    "\u2993\u29fc\u2a79\u2aa1\u2af7\u22d8\u3008\u300a\ufe3d\ufe3f\ufe64\uff1c\U0001d236"
)
"""Angle brackets, single and double, and what looks like one."""

_LOOK_ALIKES = str.maketrans(
    {
        letter: plain
        for plain, letters in {
            "e": "\u0435\u04bd\u0454\u03b5\u025b\u212f\u1d07\uab32\u2c89\u0259\u01dd\u13ac\ua4f0"
            "\u22ff3",
            "v": "\u03bd\u0475\u1d20\u2c71\u028b\u13d9\u2228\u22c1\ua4e6\u142f\u0667",
            "i": "\u0456\u0131\u0269\u026a\u03b9\u04cf\u13a5\ua4f2\u2223\u01c0\u05d5\u2c93\u0268"
            "l1|!",
            "d": "\u0501\u0257\u0111\u1d05\ua4d2\u13a0\u056a\u15de",
            "n": "\u043f\u0578\u057c\u03b7\u0274\ua4e0\u0272\u019e\u014b\u1d0e\u2c9b",
            "c": "\u0441\u03f2\u1d04\u2ca5\ua4da\u13df\u0188\u00a2\u1455\u2282",
        }.items()
        for letter in letters
    }
)
"""Letters of other scripts that read as one of the word's (Unicode Technical Standard 39)."""

_SLASHES = frozenset("/\\\u2044\u2215\u29f8\u2571\u27cb\ufe68\uff0f\uff3c")
# Not seen, although they are letters and symbols: fillers, and a braille cell without dots.
_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")

_NOTHING = "\u200b"

_ENTITY = regex.compile(
    r"&(?:amp;)*+(?:(?P<number>\#(?:x0*+[0-9a-f]{1,6}+|0*+[0-9]{1,7}+));?+"
    r"|(?P<name>lt|laquo|(?=[a-z0-9]{2,31};)[a-z0-9]++);?+)",
    regex.IGNORECASE,
)


def without_tags(text: str) -> str:
    """Replace each bracket that a model could read as one of an `evidence` tag by `[`.

    Takes time in proportion to the text.
    """
    kept: list[str] = []
    done = 0
    # A search for a few characters that are there is several times as fast as one for them all.
    there = "".join(character for character in f"{_OPENING}&" if character in text)
    for found in _candidates(there).finditer(text) if there else ():
        character, end = _character(text, found.start())
        if character in _OPENING and _reads_as_word(text, end):
            kept += (text[done : found.start()], "[")
            done = end
    return "".join((*kept, text[done:]))


@lru_cache
def _candidates(openings: str) -> "re.Pattern[str]":
    """Find these characters, but for brackets before another word and ampersands before none."""
    brackets = re.escape(openings.replace("&", ""))
    bracket = rf"[{brackets}](?!/?[A-Da-df-zF-Z0-24-9=\u4E00-\u9FFF])" if brackets else ""
    entity = r"&(?=[#A-Za-z])" if "&" in openings else ""
    return re.compile("|".join(filter(None, (bracket, entity))))


def _character(text: str, at: int) -> tuple[str, int]:
    """Return the character that stands here, or that an entity here stands for, and its end."""
    found = _ENTITY.match(text, at) if text[at] == "&" else None
    if found is None:
        return text[at], at + 1
    # Entities of characters that no text may hold stand for nothing.
    return (unescape(f"&{found['number'] or found['name']};") or _NOTHING)[0], found.end()


def _reads_as_word(text: str, at: int) -> bool:
    """Tell whether a tag's slash, if any, and its name stand here, however they are spelled."""
    left = _WORD
    while left and at < len(text):
        character, at = _character(text, at)
        if left == _WORD and character in _SLASHES:
            continue
        letters = _letters(character)
        if not left.startswith(letters):
            return False
        left = left[len(letters) :]
    return not left


@lru_cache(maxsize=4096)
def _letters(character: str) -> str:
    """Return what a character reads as; nothing for one that is not seen, or is white space."""
    if character.isspace() or character in _BLANKS or unicodedata.category(character)[0] in "CM":
        return ""
    parts = unicodedata.normalize("NFKD", character).casefold().translate(_LOOK_ALIKES)
    letters = "".join(part for part in parts if part.isalpha())
    return letters or character
