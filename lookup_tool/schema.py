"""The values that flow through a lookup and a build; every room may import them.

They are plain and hold no logic but their own reading. What goes out of a lookup is in `contracts`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

DIGITS = 6
"""Similarities are rounded once, here, and compared only so: in float32, vectors built to lie
exactly on a threshold fall to either side of it."""


MAX_COPIES = 20
"""Passages with the same text that one search returns; more are not named as duplicates."""


GAP = "[...]"
"""Marks passages of a section that are not shown."""


# Documents


Access = frozenset[str] | None
"""Groups that may read an entry; None is everybody, the empty set nobody."""


NOBODY: Access = frozenset()
EVERYBODY: Access = None


@dataclass(frozen=True)
class Entry:
    """One document of the knowledge base."""

    source: str
    """Identity: the path relative to the folder, with forward slashes."""

    body: str
    body_line: int = 1
    """Line of the file on which the body begins."""

    title: str | None = None
    """As given; without one, the first heading or the file's name is shown."""

    category: str | None = None
    keywords: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    access: Access = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Keys that have no meaning here; strings, None, lists and dicts of those."""


@dataclass(frozen=True)
class LoadProblem:
    """Something wrong with one file."""

    path: str
    line: int | None
    level: Literal["warning", "error"]
    """`error`: the entry is not in the knowledge base, or nobody may read it."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.problem}; {self.remedy}"


@dataclass(frozen=True)
class LoadReport:
    """What was loaded, and what was wrong."""

    entries: int = 0
    problems: tuple[LoadProblem, ...] = ()


@dataclass(frozen=True, slots=True)
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

    joint: str = ""
    """What to put between the passage before and this one: the white space that stood there."""

    @property
    def embedded_text(self) -> str:
        """What is embedded."""
        return embedded_text(self.breadcrumb, self.lead + self.text)


def embedded_text(breadcrumb: Sequence[str], text: str) -> str:
    """Put title and headings in front of a passage's text."""
    return f"{' > '.join(breadcrumb)}\n\n{text}"


HintKind = Literal["title", "keyword", "entity", "category"]


@dataclass(frozen=True)
class Phrase:
    """A phrase that stands for an entry, or names a category."""

    key: str
    kind: HintKind
    text: str
    """As its author wrote it."""


@dataclass(frozen=True)
class PreparedEntry:
    """An entry, cut."""

    source: str
    title: str
    """As shown."""

    category: str | None
    access: Access
    metadata: Mapping[str, Any]
    phrases: tuple[Phrase, ...]
    """One for each key and kind, sorted."""

    passages: tuple[Passage, ...]
    """In document order."""

    digest: str
    """Hash of everything in the entry."""

    sha256: str | None = None
    """Hash of its file; None when it comes from none."""

    problems: tuple[LoadProblem, ...] = ()
    """What was wrong with its file."""


@dataclass(slots=True)
class StoredPassage:
    """A passage with what its entry says."""

    row: int
    entry: str
    """Source of its entry."""

    source: str
    title: str
    category: str | None
    breadcrumb: tuple[str, ...]
    text: str
    lead: str
    joint: str
    start_line: int
    end_line: int

    @property
    def embedded_text(self) -> str:
        """What was embedded."""
        return embedded_text(self.breadcrumb, self.lead + self.text)


@dataclass(frozen=True)
class StoredEntry:
    """An entry as it is shown to a reader."""

    source: str
    title: str
    category: str | None
    metadata: dict[str, Any]
    passages: tuple[StoredPassage, ...]


# Queries


@dataclass(frozen=True)
class QueryTerm:
    """One term of a query, in its place."""

    term: str
    """Stem or pair of characters, as indexed."""

    surface: str
    """As it stands in the query, folded."""

    weight: float
    """Inverse document frequency over the public passages; 0 for function words."""

    identifier: bool = False
    """It names few passages by a number, a code or an acronym: `1.2.3`, `E47`, `PTO`."""

    metadata_only: bool = False
    """L0 recognized it, and no text has it: no passage can mention it."""


@dataclass(frozen=True)
class HintMatch:
    """A phrase that the query contains."""

    kind: HintKind
    text: str
    """As the author wrote it."""

    key: str
    categories: tuple[str | None, ...]
    """Category keys of the permitted entries it stands for; None for entries without one."""

    names: tuple[str | None, ...] = ()
    """The same categories, as an author spelled each."""


@dataclass(frozen=True)
class QueryHints:
    """Everything that L0 recognized in one query, for one caller."""

    matches: tuple[HintMatch, ...] = ()
    titles: tuple[str, ...] = ()
    """Titles of the matched entries, at most `MAX_TITLES`."""

    entry_count: int = 0
    category: str | None = None
    """Key of the category to filter by; None when it is not certain."""

    because: str = ""
    """What the filter rests on."""

    @property
    def category_name(self) -> str | None:
        """The category to filter by, as an author spelled it."""
        return next((n for k, n in self.category_names if k == self.category), self.category)

    @property
    def category_names(self) -> tuple[tuple[str, str], ...]:
        """Key and spelling of every matched category, each once."""
        pairs = (
            pair
            for match in self.matches
            for pair in zip(match.categories, match.names, strict=False)
        )
        return tuple(dict.fromkeys((key, name) for key, name in pairs if key and name))


@dataclass(frozen=True)
class SearchRequest:
    """One search, on behalf of one caller."""

    query: str
    groups: frozenset[str] = frozenset()
    category: str | None = None
    """Key of the only category to search; None searches all that is permitted."""

    category_name: str | None = None
    """The same as an author spelled it, for the trace."""

    candidates: int = 50
    """Different texts from the vector search."""

    lexical_candidates: int = 50
    """Different texts from BM25 beside them."""

    hints: tuple[HintMatch, ...] = ()
    """Phrases to look for in the candidates' metadata."""

    hidden: str | None = None
    """Source of an entry that is left out as if it were not there, to measure what then comes."""

    probe: bool = False
    """Measure the best similarity without the category too."""

    also: tuple[int, ...] = ()
    """Candidates of an earlier attempt of the same lookup, to be scored for this query too."""


@dataclass(slots=True)
class Candidate:
    """A passage that a search found.

    Not frozen: a lookup makes a hundred of them, and that would take seven times as long.
    """

    row: int
    """Number of the passage among those that the caller may see: whatever else there is does not
    move it. Neighbours in an entry have neighbouring numbers."""

    section: int
    """Number of its section among those that this search found, public ones first, then in the
    order of their sources."""

    text_id: int
    """Equal for passages with the same text."""

    similarity: float
    """Normalized similarity to the query, in [0, 1]."""

    bm25: float
    """BM25 score, 0 or more."""

    entry_similarity: float
    """Normalized similarity of its whole entry to the query, in [0, 1]."""

    found_by: tuple[str, ...]
    """`vector`, `lexical`, or both; empty for one that only an earlier attempt found."""

    in_text: frozenset[int]
    """Places of the query terms that its text mentions."""

    in_heading: frozenset[int]
    """Places of the query terms that its title or headings mention."""

    pairs: frozenset[int]
    """Places of the query terms that stand in its text with the next one beside them."""

    hints: tuple[str, ...]
    """Recognized phrases in its entry's metadata, as `kind:text`."""


@dataclass(frozen=True)
class SearchResult:
    """What one search found."""

    terms: tuple[QueryTerm, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    """Best similarity first, ties by row."""

    unfiltered_top_similarity: float | None = None
    """Best similarity without the category; None when it was not asked for, or nothing is there."""

    query_cut: bool = False
    """The embedder reads less than the query, and read its beginning and its end."""


# Judging

Share = Annotated[float, Field(ge=0, le=1)]
"""Checked where it is read from disk."""


@dataclass(frozen=True)
class AnswerabilityRule:
    """Weights of the logistic rule that estimates whether a block answers a question.

    Source:
        Fitted on the answerable and unanswerable development questions of three document sets with
        wordllama and all-MiniLM-L6-v2, leaving one set out at a time, under the condition that
        similarity alone can be enough.
    """

    midpoint: float = 0.81
    """Similarity that, without a word of the question, speaks neither for nor against an answer
    among 3,000 passages."""

    similarity: float = 5.2
    """Weight of similarity beyond the midpoint."""

    coverage: float = 2.0
    """Weight of the share of the question's terms that are mentioned."""

    heading: float = 1.4
    """Weight of the share that title and headings mention."""

    phrase: float = 0.8
    """Weight of neighbouring terms that are neighbours in the text too, times the coverage."""


@dataclass(frozen=True)
class Thresholds:
    """What belongs to an embedder, and to a corpus once calibrated; similarities in [0, 1]."""

    reference_threshold: Share
    """Under it, a filtered search is repeated without its filter."""

    evidence_floor: Share
    """Under it, a candidate is not evidence."""

    rule: AnswerabilityRule = AnswerabilityRule()
    """Decides what is usable."""
