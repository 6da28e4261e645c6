"""From candidates to evidence: usable sections, with their texts.

Which sections are usable, `answerability.py` decides; texts are read only of those.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lookup_tool.schema import GAP, AnswerabilityRule, Candidate, QueryTerm, StoredPassage
from lookup_tool.stages.answerability import Asked, answerability
from lookup_tool.stages.sections import Section, sections_of

NOISE = 0.3
"""A block whose answerability is under this share of the best one's is noise beside it: measured on
three document sets, leaving it out costs about .005 nDCG@10 on questions that are answered."""


@dataclass(slots=True)
class Evidence:
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


@dataclass(frozen=True)
class Criteria:
    """What sections have to meet to be usable."""

    rule: AnswerabilityRule
    """Estimates whether a section answers the question."""

    passages: int
    """How many passages the caller may see."""

    minimum_answerability: float
    """Answerability of the best section from which evidence is usable; 0 lets every one pass."""

    evidence_floor: float = 0.0
    """Similarity under which a candidate is not evidence."""

    good_enough: float | None = None
    """Similarity that the operator declared good enough; a section that reaches it is usable
    whatever the rule says."""


def usable_sections(
    candidates: Sequence[Candidate], terms: Sequence[QueryTerm], criteria: Criteria
) -> tuple[list[Section], float]:
    """Gather candidates into sections, and decide which are usable.

    Returns:
        The usable sections, best similarity first, and the answerability of the best one.
    """
    sections = sections_of(c for c in candidates if c.similarity >= criteria.evidence_floor)
    asked = Asked.with_terms(terms)
    rated = [
        (answerability(section, asked, criteria.rule, criteria.passages), section)
        for section in sections
    ]
    best = max((probability for probability, _ in rated), default=0.0)
    if any(_is_good_enough(section, criteria) for section in sections):
        best = max(best, criteria.minimum_answerability)
    if best < criteria.minimum_answerability:
        return [], best
    least = min(NOISE * best, criteria.minimum_answerability)
    usable = [
        section
        for probability, section in rated
        if probability >= least or _is_good_enough(section, criteria)
    ]
    return usable, best


def _is_good_enough(section: Section, criteria: Criteria) -> bool:
    declared = criteria.good_enough
    return declared is not None and section.best.similarity >= declared


def read_evidence(
    sections: Sequence[Section], read: Callable[[Sequence[int]], Mapping[int, StoredPassage]]
) -> tuple[Evidence, ...]:
    """Read the texts of sections.

    Args:
        sections: What is usable.
        read: Returns passages by row.
    """
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
