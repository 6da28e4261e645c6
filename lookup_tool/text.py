"""How text is cut into tokens: one way for hints, BM25 and reranking.

`fold` makes spellings equal, `atoms` are the units that hints are matched in, `terms` the units
that are counted and ranked. To change what counts as a word, change `TOKEN`.
"""

import threading
import unicodedata

import regex
import Stemmer

# Scripts that are written without spaces between words, or that attach endings to them (Hangul).
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\u30FC\u3005"
)
_WORD = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_UNSPACED}]]"

TOKEN = regex.compile(
    rf"""
      (?P<possessive> (?<=\p{{L}})['\u2019]s(?!{_WORD}) )  # dropped
    | (?<!{_WORD}|\p{{N}}[.:])v?                              # v1.2.3, 12:30
      (?P<version> \p{{Nd}}+(?:(?:\.\p{{Nd}}+)+|(?::\p{{Nd}}+)+) )
    | (?<![\p{{L}}\p{{N}}.])(?P<dotted> \.\p{{L}}{_WORD}* )     # .NET
    | (?P<paired> (?<!{_WORD})\p{{L}}{{1,3}}&\p{{L}}{{1,3}}(?!{_WORD}) )  # AT&T, R&D
    | (?P<acronym> (?<!{_WORD})(?:\p{{L}}\.){{2,}}(?:\p{{L}}(?!{_WORD}))? )  # P.T.O., p.t.o
    | (?P<word> {_WORD}+(?:\+\+|[+\#](?!{_WORD}))? )            # C++, C#
    | (?P<unspaced> [{_UNSPACED}]+ )
    | (?P<symbol> [[\p{{S}}\u00A7]--[+<=>|~\^`$\u2212\u2044]] )  # emoji, arrows, currency, section
    """,
    regex.VERBOSE | regex.VERSION1,
)

PAIR = regex.compile(rf"[{_UNSPACED}]{{2}}")
"""Two characters of an unspaced script."""

# What no reader sees: joiners, soft hyphens, marks of direction, variation selectors, tags.
_INVISIBLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
_CONTROLS = regex.compile(r"[^\P{C}\s\u200C\u200D]")
# Marks of ownership are no part of a name.
_TRADE_MARKS = "\u00a9\u00ae\u2120\u2122"
# Marks on one letter, and what is stripped between them, after the first thirty: no script has so
# many, and normalizing sorts them in quadratic time.
_STACK = rf"[\p{{M}}\uFF9E\uFF9F\p{{Default_Ignorable_Code_Point}}{_TRADE_MARKS}]"
_STACKED = regex.compile(rf"(\p{{M}}{_STACK}{{29}}){_STACK}++")
# Turkish writes two letters i, of which folding keeps one apart; U+02BC is typed as apostrophe.
_SPELLINGS = str.maketrans({"\u0131": "i", "\u02bc": "'"})

# Function words carry no content: a question is not answered by a text that has only these.
# fmt: off
STOP_WORDS = frozenset((
    "a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "because", "been",
    "before", "being", "both", "but", "by", "can", "cannot", "could", "d", "did", "do", "does",
    "doing", "don", "done", "during", "each", "else", "ever", "for", "from", "further", "get",
    "gets", "getting", "give", "given", "had", "has", "have", "having", "he", "her", "here",
    "hers", "him", "his", "how", "however", "i", "if", "in", "into", "is", "it", "its", "itself",
    "just", "let", "like", "ll", "m", "many", "may", "me", "might", "more", "most", "much",
    "must", "my", "no", "nor", "not", "of", "off", "on", "once", "only", "or", "other", "our",
    "ours", "out", "over", "own", "please", "re", "s", "same", "shall", "she", "should", "since",
    "so", "some", "such", "t", "than", "that", "the", "their", "theirs", "them", "then", "there",
    "these", "they", "this", "those", "through", "to", "too", "under", "until", "up", "upon",
    "us", "use", "used", "using", "ve", "very", "was", "we", "were", "what", "when", "where",
    "whether", "which", "while", "who", "whom", "whose", "why", "will", "with", "within",
    "without", "would", "you", "your", "yours",
))
# fmt: on

_GAP = " ... "
_LONGEST_WORD = 30
_stemmers = threading.local()  # a Stemmer keeps a cache and must not be shared between threads


def encodable(text: str) -> str:
    """Replace lone surrogates, which no file, no database and no model can hold."""
    return text.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """Strip what disturbs a line of text and is not seen; joined emoji and letters stay joined."""
    return " ".join(_CONTROLS.sub("", encodable(text)).split())


def visible(text: str) -> str:
    """Strip invisible characters and marks of ownership, and compose what is left (NFKC)."""
    for mark in _TRADE_MARKS:
        text = text.replace(mark, "")
    composed = unicodedata.normalize("NFKC", _STACKED.sub(r"\1", text))
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", composed))


def fold(text: str) -> str:
    """Make spellings equal: width, case, ligatures, invisible characters, runs of white space."""
    if text.isascii():  # nothing else to make equal
        return " ".join(text.casefold().split())
    folded = visible(text).casefold().replace("i\u0307", "i")
    return " ".join(unicodedata.normalize("NFKC", folded).translate(_SPELLINGS).split())


def atoms(text: str) -> list[str]:
    """Cut text into the units that hint phrases are made of.

    Returns:
        Folded words (`c++`, `.net` and `1.2.3` are one each), single characters of unspaced
        scripts and symbols, in order.
    """
    found: list[str] = []
    for match in TOKEN.finditer(fold(text)):
        kind, token = match.lastgroup, match[0]
        if kind == "unspaced":
            found.extend(token)
        elif kind == "version":
            found.append(match["version"])
        elif kind == "acronym":
            found.append(token.replace(".", ""))
        elif kind != "possessive":
            found.append(token)
    return found


def terms(text: str) -> list[str]:
    """Cut text into the units that are indexed and ranked.

    Returns:
        Stems of folded words and pairs of neighbouring characters of unspaced scripts (a single
        one stays itself), in order, with repetitions.
    """
    return [term for _, term in surface_terms(text)]


def surface_terms(text: str) -> list[tuple[str, str]]:
    """Cut text into (form as written after folding, term) pairs, as `terms` does."""
    return _cut(fold(text))


def word_terms(word: str) -> list[str]:
    """Cut one word of a folded text as `terms` does.

    No token reaches over white space, so a text's terms are those of its words.
    """
    if word.isascii() and word.isalnum():  # most words: one token
        return [_stemmer().stemWord(word)]
    return [term for _, term in _cut(word)]


def _cut(folded: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    words: list[int] = []
    for match in TOKEN.finditer(folded):
        kind, token = match.lastgroup, match[0]
        if kind == "unspaced":
            bigrams = [token[i : i + 2] for i in range(len(token) - 1)] or [token]
            pairs.extend((bigram, bigram) for bigram in bigrams)
        elif kind == "version":
            pairs.append((match["version"], match["version"]))
        elif kind == "acronym":
            joined = token.replace(".", "")
            pairs.append((joined, joined))
        elif kind in {"symbol", "paired"}:
            pairs.append((token, token))
        elif kind != "possessive":
            words.append(len(pairs))
            pairs.append((token, token.lstrip(".")))
    stems = _stemmer().stemWords([pairs[i][1] for i in words])
    for i, stem in zip(words, stems, strict=True):
        pairs[i] = (pairs[i][0], stem)
    return pairs


def bound(text: str, longest: int) -> str:
    """Cut the middle out of a text: a question stands at an end of a long paste."""
    if len(text) <= longest:
        return text
    kept = max(longest - len(_GAP), 0)
    head, tail = text[: kept - kept // 2], text[len(text) - kept // 2 :]
    # Whole words, as far as they are words.
    if 0 <= len(head) - head.rfind(" ") - 1 < min(_LONGEST_WORD, len(head)):
        head = head[: head.rfind(" ")]
    if 0 <= tail.find(" ") < _LONGEST_WORD:
        tail = tail[tail.find(" ") + 1 :]
    return f"{head}{_GAP}{tail}"


def approximate_tokens(text: str) -> int:
    """Estimate what a language model counts: four UTF-8 bytes are about one token."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def _stemmer() -> "Stemmer.Stemmer":
    if not hasattr(_stemmers, "english"):
        _stemmers.english = Stemmer.Stemmer("english")
    return _stemmers.english


def category_key(category: str) -> str:
    """Return what makes two spellings of a category one category."""
    return fold(category)
