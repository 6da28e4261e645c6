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
      (?P<possessive> (?<=\p{{L}})['\u2019]s(?!{_WORD}) )      # dropped
    | (?<!{_WORD})v?(?P<version> \p{{Nd}}+(?:[.:]\p{{Nd}}+)+ )  # 1.2.3, v1.2.3, 12:30
    | (?<![\p{{L}}\p{{N}}.])(?P<dotted> \.\p{{L}}{_WORD}* )     # .NET
    | (?P<word> {_WORD}+(?:\+\+|[+\#](?!{_WORD}))? )            # C++, C#
    | (?P<unspaced> [{_UNSPACED}]+ )
    | (?P<symbol> [\p{{S}}--[+<=>|~\^`$]] )                     # emoji, arrows, currency
    """,
    regex.VERBOSE | regex.VERSION1,
)

# Joiners, soft hyphen, marks of direction, variation selectors, byte-order mark.
_INVISIBLE = regex.compile(
    r"[\u00AD\u180E\u200B-\u200F\u202A-\u202E\u2060-\u2064\uFE0E\uFE0F\uFEFF]"
)

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

_stemmers = threading.local()  # a Stemmer keeps a cache and must not be shared between threads


def visible(text: str) -> str:
    """Strip invisible characters, and compose what is left (NFKC)."""
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))


def fold(text: str) -> str:
    """Make spellings equal: width, case, ligatures, invisible characters, runs of white space."""
    return " ".join(unicodedata.normalize("NFKC", visible(text).casefold()).split())


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
    pairs: list[tuple[str, str]] = []
    words: list[int] = []
    for match in TOKEN.finditer(fold(text)):
        kind, token = match.lastgroup, match[0]
        if kind == "unspaced":
            bigrams = [token[i : i + 2] for i in range(len(token) - 1)] or [token]
            pairs.extend((bigram, bigram) for bigram in bigrams)
        elif kind == "version":
            pairs.append((match["version"], match["version"]))
        elif kind == "symbol":
            pairs.append((token, token))
        elif kind != "possessive":
            words.append(len(pairs))
            pairs.append((token, token.lstrip(".")))
    stems = _stemmer().stemWords([pairs[i][1] for i in words])
    for i, stem in zip(words, stems, strict=True):
        pairs[i] = (pairs[i][0], stem)
    return pairs


def approximate_tokens(text: str) -> int:
    """Estimate what a language model counts: four UTF-8 bytes are about one token."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def _stemmer() -> "Stemmer.Stemmer":
    if not hasattr(_stemmers, "english"):
        _stemmers.english = Stemmer.Stemmer("english")
    return _stemmers.english
