"""Calibrate a knowledge base: thresholds that fit its documents and its embedder.

What is fitted, and how, stands in `fit`.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import count

import numpy as np

from lookup_tool.calibration.fit import Seen, filter_rates, fit, rates, reaches
from lookup_tool.calibration.observations import Looker, Sighting
from lookup_tool.calibration.report import Calibration, CurvePoint, State
from lookup_tool.calibration.sentences import sentences
from lookup_tool.config import LookupConfig, as_groups
from lookup_tool.embedders.thresholds import thresholds_of
from lookup_tool.errors import ConfigurationError
from lookup_tool.evaluation.questions import Question
from lookup_tool.knowledge_base import KnowledgeBase
from lookup_tool.schema import AnswerabilityRule, Thresholds

SENTENCES = 300
CURVE_POINTS = 41

Progress = Callable[[int, int], None]


def calibrate(  # noqa: PLR0913 - the options of the one way in
    knowledge: KnowledgeBase,
    questions: Sequence[Question] | None = None,
    *,
    keep: float | None = None,
    config: LookupConfig | None = None,
    groups: Collection[str] = (),
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Calibration:
    """Measure thresholds, and write them into the knowledge base.

    Args:
        knowledge: What to calibrate.
        questions: Answerable and unanswerable questions; by default, sentences of the documents.
        keep: Share of the answerable questions, without questions of the sentences, that must get
            evidence, in (0, 1]. By default both kinds of questions are told apart as well as can
            be: where they overlap, to keep nearly all is to let nearly all through.
        config: Settings; by default what we ship.
        groups: Access groups to ask for; what they alone may see then has a part in thresholds that
            hold for everybody.
        dry_run: Write nothing.
        progress: Called with (done, total) after each search.

    Raises:
        ConfigurationError: There are no sentences to measure with, or the questions are of one
            kind only.
        KnowledgeError: The thresholds cannot be written.
    """
    who = as_groups(groups)
    picked = sentences(knowledge.view(), SENTENCES, who)
    _check(knowledge, len(picked), questions)
    looker = Looker(knowledge, config or LookupConfig(), who)
    done, total = count(1), 2 * len(picked) + len(questions or ())

    def noted(sighting: Sighting) -> Sighting:
        if progress is not None:
            progress(next(done), total)
        return sighting

    pairs = [
        (noted(looker.sentence(sentence)), noted(looker.without_its_entry(sentence)))
        for sentence in picked
    ]
    distinct = [pair for pair in pairs if not pair[1].repeats] or pairs
    from_sentences = Seen(*zip(*distinct, strict=True))
    asked = None
    if questions is not None:
        seen = [(each.answerable, noted(looker.question(each))) for each in questions]
        asked = Seen([s for yes, s in seen if yes], [s for yes, s in seen if not yes])
    passages = knowledge.count(who)
    base = thresholds_of(knowledge.embedder)
    thresholds = fit(base, from_sentences, asked, keep, passages)
    judged = asked or from_sentences
    calibration = Calibration(
        knowledge_version=knowledge.version,
        embedder=knowledge.embedder,
        labelled=asked is not None,
        answerable=len(judged.answerable),
        unanswerable=len(judged.unanswerable),
        dropped=len(pairs) - len(distinct),
        before=_state(knowledge.thresholds, judged, passages),
        after=_state(thresholds, judged, passages),
        curve=_curve(thresholds.rule, judged, passages),
        written=not dry_run,
    )
    if not dry_run:
        knowledge.set_thresholds(thresholds)
    return calibration


def _check(knowledge: KnowledgeBase, found: int, questions: Sequence[Question] | None) -> None:
    if not found:
        raise ConfigurationError(
            f"{knowledge.path}: holds no sentence that these groups may see; nothing to measure"
        )
    if questions is not None and len({question.answerable for question in questions}) <= 1:
        raise ConfigurationError(
            "calibration needs answerable and unanswerable questions; leave the questions out to "
            "calibrate with sentences of the documents"
        )


def _state(thresholds: Thresholds, seen: Seen, passages: int) -> State:
    return State(
        thresholds=thresholds,
        rates=rates(seen, thresholds.rule, passages),
        filters=filter_rates(seen, thresholds.reference_threshold),
    )


def _curve(rule: AnswerabilityRule, seen: Seen, passages: int) -> tuple[CurvePoint, ...]:
    """Return the rates from where nearly all questions get evidence to where hardly any does."""
    answerable = reaches(seen.answerable, rule, passages)
    unanswerable = reaches(seen.unanswerable, rule, passages)
    finite = np.concatenate([answerable, unanswerable, [rule.midpoint]])
    finite = finite[np.isfinite(finite)]
    return tuple(
        CurvePoint(
            midpoint=round(float(midpoint), 4),
            kept=float((answerable >= midpoint).mean()),
            false_evidence=float((unanswerable >= midpoint).mean()),
        )
        for midpoint in np.linspace(finite.min(), finite.max(), CURVE_POINTS)
    )
