"""From candidates to evidence: one block a section, no text twice, and is it enough?

Passages of one section become one block; equal texts in different sources become one block that
names the others. Then one rule decides, once, whether what is left can answer the question. To
change that rule, change `answerability`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, log, sqrt
from typing import NamedTuple, Self

from lookup_tool.embeddings import AnswerabilityRule
from lookup_tool.knowledge.lexical import QueryTerm
from lookup_tool.knowledge.passage_store import StoredPassage
from lookup_tool.knowledge.passages import GAP
from lookup_tool.knowledge.search import MAX_COPIES, Candidate
from lookup_tool.knowledge.tokens import terms as terms_of

NOISE = 0.3
"""A block whose answerability is under this share of the best one's is noise beside it: measured on
three document sets, leaving it out costs about .005 nDCG@10 on questions that are answered."""

CHANCE = 0.1
"""Standard deviation of the similarity between a question and unrelated passages: measured as .08
to .10 on four document sets with two embedders."""

USUAL = 3000
"""Passages among which the rule's midpoint holds."""

BARELY_USABLE = 0.1
LEAST_NAMED = 0.2
"""Share of a question that its identifiers must make up to speak for it."""


class Section(NamedTuple):
    """What was found of one section, before its text is read."""

    found: tuple[Candidate, ...]
    """Its passages, in document order."""

    best: Candidate
    """The nearest of them to the question."""

    found_by: tuple[str, ...]
    in_text: frozenset[int]
    in_heading: frozenset[int]
    pairs: frozenset[int]
    hints: tuple[str, ...]
    text_ids: tuple[int, ...]
    """Equal for sections with the same text."""

    copies: tuple[Candidate, ...] = ()
    """The best passages of other sections with the same text."""


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


Places = tuple[frozenset[int], frozenset[int], frozenset[int]]
"""Of the query terms that a text and its headings mention, and of neighbours in the text."""


@dataclass(frozen=True)
class Asked:
    """The terms of a question, and what each is good for."""

    terms: tuple[QueryTerm, ...]
    shares: tuple[float, ...]
    """What each term is worth, adding up to 1; a repetition is worth nothing."""

    counted: tuple[int, ...]
    """Places of the terms that a text can mention."""

    named: tuple[int, ...]
    """Places of the identifiers, or of the single word, that the question goes by."""

    identifiers: bool
    neighbours: tuple[int, ...]
    """Places of the terms that tell something together with the next one."""

    _shown: dict[Places, tuple[float, float, float]] = field(
        default_factory=dict[Places, tuple[float, float, float]], compare=False, repr=False
    )
    """What `shown` has returned: many sections mention the same."""

    @classmethod
    def with_terms(cls, terms: Sequence[QueryTerm]) -> Self:
        """Look at the terms of a question."""
        said: set[str] = set()
        weights: list[float] = []
        for term in terms:
            weights.append(0.0 if term.term in said else term.weight)
            said.add(term.term)
        whole = sum(weights) or 1.0
        counted = tuple(
            place
            for place, (weight, term) in enumerate(zip(weights, terms, strict=True))
            if weight and not term.metadata_only
        )
        identifiers = tuple(place for place, term in enumerate(terms) if term.identifier)
        return cls(
            terms=tuple(terms),
            shares=tuple(weight / whole for weight in weights),
            counted=counted,
            named=identifiers or (counted if len(counted) == 1 else ()),
            identifiers=bool(identifiers),
            neighbours=tuple(
                place
                for place in range(len(terms) - 1)
                if terms[place].weight or terms[place + 1].weight
            ),
        )

    def coverage(self, places: Iterable[int]) -> float:
        """Return the share of the question that stands at these places, in [0, 1]."""
        return sum(map(self.shares.__getitem__, places))

    def shown(
        self, in_text: frozenset[int], in_heading: frozenset[int], pairs: frozenset[int]
    ) -> tuple[float, float, float]:
        """Return the coverage, heading and phrase of `Signs` for what a section mentions."""
        places = (in_text, in_heading, pairs)
        if places not in self._shown:
            covered = self.coverage(in_text | in_heading)
            beside = len(pairs.intersection(self.neighbours)) / max(1, len(self.neighbours))
            self._shown[places] = covered, self.coverage(in_heading), covered * beside
        return self._shown[places]


class Signs(NamedTuple):
    """What speaks for a block as an answer, each in [0, 1]."""

    similarity: float
    coverage: float
    """Share of the question that it mentions."""

    heading: float
    """Share of the question that its title and headings mention."""

    phrase: float
    """Share of neighbours in the question that are neighbours in its text, times the coverage."""

    named: bool
    """It mentions the identifiers, or the single word, that the question goes by."""


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
    read: Callable[[Sequence[int]], Mapping[int, StoredPassage]],
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
    by_section: dict[int, list[Candidate]] = {}
    for found in candidates:
        if found.similarity >= evidence_floor:
            by_section.setdefault(found.section, []).append(found)
    sections = [_section(found) for found in by_section.values()]
    sections.sort(key=lambda section: (-section.best.similarity, section.best.section))
    asked = Asked.with_terms(terms)
    rated = [
        (answerability(section, asked, rule, passages), section)
        for section in _without_repetition(sections)
    ]
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


def _with_texts(
    sections: Sequence[Section], read: Callable[[Sequence[int]], Mapping[int, StoredPassage]]
) -> tuple[Evidence, ...]:
    texts = read([found.row for each in sections for found in (*each.found, *each.copies)])
    return tuple(
        Evidence(
            section,
            tuple(texts[found.row] for found in section.found),
            tuple(texts[copy.row].source for copy in section.copies),
        )
        for section in sections
    )


def answerability(section: Section, asked: Asked, rule: AnswerabilityRule, passages: int) -> float:
    """Estimate the probability that a section answers the question, in [0, 1].

    A logistic over its similarity, the share of the question's terms, weighted by their rarity,
    that it mentions, the same in its headings, and how many of them stand side by side as they do
    in the question. Words add to similarity, so that a section without one of them needs to be
    nearer than the midpoint, and one that has them all may be far below it. The more passages
    there are, the nearer the nearest unrelated one is, and the midpoint moves with it. A question
    that names an identifier, or is a single word beside what only metadata know, goes by its words
    more than by its vector: a section that mentions them is at least barely usable. An identifier
    may stand in the entry's metadata instead, as a house acronym does.
    """
    return probability(signs_of(section, asked), rule, passages)


def signs_of(section: Section, asked: Asked) -> Signs:
    """Return what speaks for a section as an answer."""
    shown = asked.shown(section.in_text, section.in_heading, section.pairs)
    return Signs(
        section.best.similarity, *shown, named=bool(asked.named) and _names(section, asked)
    )


def _names(section: Section, asked: Asked) -> bool:
    """Tell whether a section mentions what the question goes by, and enough of it."""
    mentioned = section.in_text | section.in_heading
    if asked.identifiers:
        mentioned |= _hinted(section, asked.terms)
    enough = asked.named == asked.counted or asked.coverage(mentioned) >= LEAST_NAMED
    return enough and mentioned.issuperset(asked.named)


def probability(signs: Signs, rule: AnswerabilityRule, passages: int) -> float:
    """Estimate from its signs the probability that a block answers the question, in [0, 1]."""
    value = rule.similarity * (signs.similarity - rule.midpoint - _by_chance(passages))
    value += _words(signs, rule)
    if signs.named:
        value = max(value, BARELY_USABLE)
    return round(1.0 / (1.0 + exp(-value)), 6)


def reach(signs: Signs, rule: AnswerabilityRule, passages: int) -> float:
    """Return the midpoint up to which a block is usable by its signs, whatever it names."""
    return signs.similarity - _by_chance(passages) + _words(signs, rule) / rule.similarity


def _words(signs: Signs, rule: AnswerabilityRule) -> float:
    """Return what the words say for a block, in logits."""
    return (
        rule.coverage * signs.coverage + rule.heading * signs.heading + rule.phrase * signs.phrase
    )


@lru_cache
def _by_chance(passages: int) -> float:
    """Return how much nearer the nearest unrelated passage is than among the usual number.

    The maximum of n normal variables is expected about sqrt(2 ln n) standard deviations above
    their mean.
    """
    return CHANCE * (sqrt(2 * log(max(passages, 2))) - sqrt(2 * log(USUAL)))


def _hinted(section: Section, terms: Sequence[QueryTerm]) -> frozenset[int]:
    """Return the places of the query terms that stand in phrases of its entry."""
    phrases = (hint.partition(":")[2] for hint in section.hints)
    known = {term for phrase in phrases for term in terms_of(phrase)}
    return frozenset(place for place, term in enumerate(terms) if term.term in known)


def _section(found: Sequence[Candidate]) -> Section:
    """Join what was found of one section."""
    if len(found) == 1:  # most sections: nothing to unite
        (only,) = found
        return Section(
            (only,),
            only,
            only.found_by,
            only.in_text,
            only.in_heading,
            only.pairs,
            only.hints,
            (only.text_id,),
        )
    nothing: frozenset[int] = frozenset()
    in_order = tuple(sorted(found, key=lambda each: each.row))
    best = max(in_order, key=lambda each: each.similarity)
    return Section(
        found=in_order,
        best=best,
        found_by=_united(each.found_by for each in in_order),
        in_text=nothing.union(*(each.in_text for each in in_order)),
        in_heading=nothing.union(*(each.in_heading for each in in_order)),
        pairs=nothing.union(*(each.pairs for each in in_order)),
        hints=best.hints,
        text_ids=tuple(each.text_id for each in in_order),
    )


def _joint(before: StoredPassage | None, passage: StoredPassage) -> str:
    """Return what stands between two passages of a section: what was there, or a gap mark."""
    if before is None:
        return passage.lead
    if passage.row != before.row + 1:
        return f"\n\n{GAP}\n\n{passage.lead}"
    return passage.joint


def _without_repetition(sections: Sequence[Section]) -> list[Section]:
    """Keep the best section of each text, with the reasons of the others."""
    kept: dict[tuple[int, ...], Section] = {}
    for section in sections:
        first = kept.get(section.text_ids)
        if first is None:
            kept[section.text_ids] = section
            continue
        kept[section.text_ids] = first._replace(
            found_by=_united((first.found_by, section.found_by)),
            hints=_united((first.hints, section.hints)),
            copies=(*first.copies, section.best)[:MAX_COPIES],
        )
    return list(kept.values())


def _united(reasons: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for some in reasons for reason in some))
