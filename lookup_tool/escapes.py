"""Text for a terminal or a log: what either would obey is escaped, so that it can be seen.

Texts, titles and file names are written by strangers. They may hold sequences that clear the screen
or hide a link, marks that turn the rest of a line round, and breaks that begin a line of their own.
"""

import re

# Controls but tab and line feed, separators of lines, marks that reorder text, lone surrogates.
_OBEYED = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_OBEYED}]")
_IN_LINE = re.compile(rf"[{_OBEYED}\t\n]")
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def escaped(text: str) -> str:
    """Return a text of several lines with nothing in it that a terminal obeys.

    Escapes are those of JSON: what is JSON stays so, with the same meaning.
    """
    return _IN_TEXT.sub(_escape, text)


def one_line(text: str) -> str:
    """Return a text as one line: its tabs and line breaks are escaped as well."""
    return _IN_LINE.sub(_escape, text)


def _escape(found: "re.Match[str]") -> str:
    return _SHORT.get(found[0], f"\\u{ord(found[0]):04x}")
