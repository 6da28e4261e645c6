"""Is it enough? What speaks for a section as an answer, and how likely it is one.

One rule decides, and only here. To change it, change `answerability`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, log, sqrt
from typing import NamedTuple, Self

from lookup_tool.schema import AnswerabilityRule, QueryTerm
from lookup_tool.stages.sections import Section
from lookup_tool.text import terms as terms_of

CHANCE = 0.1
"""Standard deviation of the similarity between a question and unrelated passages: measured as .08
to .10 on four document sets with two embedders."""

USUAL = 3000
"""Passages among which the rule's midpoint holds."""

BARELY_USABLE = 0.1
LEAST_NAMED = 0.2
"""Share of a question that its identifiers must make up to speak for it."""

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
