"""What a search shows of a question: signs of an answer, and how near the right and wrong ones are.

No filter, no ranking: the rule decides over blocks, and a filter would only take some away.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lookup_tool.calibration.sentences import Sentence
from lookup_tool.config import LookupConfig
from lookup_tool.evaluation.questions import GoldFinder, Question
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import SearchRequest, StoredPassage
from lookup_tool.stages.answerability import Asked, Signs, signs_of
from lookup_tool.stages.evidence import Criteria, usable_sections
from lookup_tool.stages.transform import transform
from lookup_tool.text import category_key

_SAME_WORDS = 0.95
"""Coverage and phrase from which a block says the whole sentence again."""


@dataclass(frozen=True)
class Sighting:
    """What one search showed."""

    signs: tuple[Signs, ...]
    """Of every block."""

    top: float
    """Best similarity; 0 when nothing was found."""

    right: float | None = None
    """Best similarity in the right category; without categories, in an entry that answers."""

    wrong: float | None = None
    """Best similarity outside of it."""

    answer: float | None = None
    """Best similarity of an entry that answers."""

    @property
    def repeats(self) -> bool:
        """Whether a block says the whole question."""
        return any(min(s.coverage, s.phrase) >= _SAME_WORDS for s in self.signs)


class Looker:
    """Looks questions up for one caller."""

    def __init__(
        self, knowledge: KnowledgeBase, config: LookupConfig, groups: frozenset[str]
    ) -> None:
        self._view = knowledge.view()
        self._config = config
        self._groups = groups
        self._finder = GoldFinder(knowledge, groups)
        self._categorized = len(self._view.manifest.categories) > 1

    def question(self, question: Question) -> Sighting:
        """Look a question up."""
        if not question.answerable:
            return self._look(question.query)
        gold = self._finder.find(question)
        return self._look(question.query, frozenset(gold.documents), gold.categories)

    def sentence(self, sentence: Sentence) -> Sighting:
        """Look a sentence up."""
        category = {category_key(sentence.category)} if sentence.category else set[str]()
        return self._look(sentence.text, frozenset({sentence.entry}), frozenset(category))

    def without_its_entry(self, sentence: Sentence) -> Sighting:
        """Look a sentence up as if its entry were not there."""
        return self._look(sentence.text, hidden=sentence.entry)

    def _look(
        self,
        query: str,
        answers: frozenset[str] = frozenset(),
        categories: frozenset[str] = frozenset(),
        hidden: str | None = None,
    ) -> Sighting:
        text = transform(query, self._config.query).text
        hints = self._view.hints(text, self._groups)
        found = self._view.search(
            SearchRequest(
                text,
                self._groups,
                candidates=self._config.retrieval.candidates,
                lexical_candidates=self._config.retrieval.lexical_candidates,
                hints=hints.matches,
                hidden=hidden,
            )
        )
        criteria = Criteria(
            self._view.thresholds.rule,
            passages=self._view.count(self._groups),
            minimum_answerability=0.0,
        )
        sections, _ = usable_sections(found.candidates, found.terms, criteria)
        asked = Asked.with_terms(found.terms)

        passages = self._view.passages([each.row for each in found.candidates], self._groups)

        def best(counts: Callable[[StoredPassage], bool]) -> float | None:
            those = (f.similarity for f in found.candidates if counts(passages[f.row]))
            return max(those, default=None)

        def is_right(passage: StoredPassage) -> bool:
            if not self._categorized:
                return passage.entry in answers
            return passage.category is not None and category_key(passage.category) in categories

        known = bool(categories if self._categorized else answers)
        return Sighting(
            signs=tuple(signs_of(section, asked) for section in sections),
            top=best(lambda _: True) or 0.0,
            right=best(is_right) if known else None,
            wrong=best(lambda passage: not is_right(passage)) if known else None,
            answer=best(lambda passage: passage.entry in answers),
        )


def known(values: Iterable[float | None]) -> list[float]:
    """Return the values that are there."""
    return [value for value in values if value is not None]
