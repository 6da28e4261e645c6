"""From candidates to evidence: usable sections, with their texts.

Which sections are usable, `answerability.py` decides; texts are read only of those.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lookup_tool.embeddings import AnswerabilityRule
from lookup_tool.knowledge.lexical import QueryTerm
from lookup_tool.knowledge.passage_store import StoredPassage
from lookup_tool.knowledge.passages import GAP
from lookup_tool.knowledge.search import Candidate
from lookup_tool.stages.answerability import Asked, answerability
from lookup_tool.stages.sections import Section, sections_of

Read = Callable[[Sequence[int]], Mapping[int, StoredPassage]]

NOISE = 0.3
"""A block whose answerability is under this share of the best one's is noise beside it: measured on
three document sets, leaving it out costs about .005 nDCG@10 on questions that are answered."""


class Evidence(NamedTuple):
    """One section that may support an answer, not yet ranked."""

    section: Section
    passages: tuple[StoredPassage, ...]
    """What was found of it, in document order."""

    duplicates: tuple[str, ...] = ()
    """Sources of other sections with the same text."""

    @property
    def source(self) -> str:
        """Name of the section."""
        return self.passages[0].source

    @property
    def entry(self) -> str:
        """Source of its entry."""
        return self.passages[0].entry

    @property
    def similarity(self) -> float:
        """Of its best passage."""
        return self.section.best.similarity

    @property
    def bm25(self) -> float:
        """Of the passage with the best score."""
        return max(found.bm25 for found in self.section.found)

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line in its file."""
        return (
            min(passage.start_line for passage in self.passages),
            max(passage.end_line for passage in self.passages),
        )

    @property
    def content(self) -> str:
        """Text of the passages, with gaps marked."""
        content = ""
        before = None
        for passage in self.passages:
            content += _joint(before, passage) + passage.text
            before = passage
        return content


@dataclass(frozen=True)
class EvidenceSet:
    """The blocks of one lookup, and what they are worth."""

    blocks: tuple[Evidence, ...] = ()
    """Best similarity first; empty when nothing is usable."""

    answerability: float = 0.0
    """Estimated probability that the blocks answer the question, in [0, 1]."""


def build_evidence(  # noqa: PLR0913 - the thresholds are named
    candidates: Sequence[Candidate],
    terms: Sequence[QueryTerm],
    read: Read,
    *,
    evidence_floor: float,
    rule: AnswerabilityRule,
    passages: int,
    minimum_answerability: float,
    good_enough: float | None = None,
) -> EvidenceSet:
    """Turn candidates into blocks, and decide whether they are usable.

    Args:
        candidates: What the searches found.
        terms: The query's terms.
        read: Returns passages by row.
        evidence_floor: Similarity under which a candidate is not evidence.
        rule: Estimates whether a block answers the question.
        passages: How many passages the caller may see.
        minimum_answerability: Answerability of the best block from which evidence is usable; 0
            lets every block pass.
        good_enough: Similarity that the operator declared good enough; a block that reaches it is
            usable whatever the rule says.
    """
    sections = sections_of(found for found in candidates if found.similarity >= evidence_floor)
    asked = Asked.with_terms(terms)
    rated = [(answerability(section, asked, rule, passages), section) for section in sections]
    best = max((probability for probability, _ in rated), default=0.0)
    if good_enough is not None and any(s.best.similarity >= good_enough for s in sections):
        best = max(best, minimum_answerability)
    if best < minimum_answerability:
        return EvidenceSet(answerability=best)
    least = min(NOISE * best, minimum_answerability)
    usable = [
        section
        for probability, section in rated
        if probability >= least
        or (good_enough is not None and section.best.similarity >= good_enough)
    ]
    return EvidenceSet(_with_texts(usable, read), best)


def _with_texts(sections: Sequence[Section], read: Read) -> tuple[Evidence, ...]:
    texts = read([found.row for each in sections for found in (*each.found, *each.copies)])
    return tuple(
        Evidence(
            section,
            tuple(texts[found.row] for found in section.found),
            tuple(texts[copy.row].source for copy in section.copies),
        )
        for section in sections
    )


def _joint(before: StoredPassage | None, passage: StoredPassage) -> str:
    """Return what stands between two passages of a section: what was there, or a gap mark."""
    if before is None:
        return passage.lead
    if passage.row != before.row + 1:
        return f"\n\n{GAP}\n\n{passage.lead}"
    return passage.joint
