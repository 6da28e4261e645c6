"""Evaluate a knowledge base with questions whose answers are known."""

from collections.abc import Collection, Sequence

from lookup_tool.config import LookupConfig, as_groups
from lookup_tool.evaluation.ask import Progress, ask
from lookup_tool.evaluation.metrics import require_metrics
from lookup_tool.evaluation.questions import Question
from lookup_tool.evaluation.report import EvaluationReport, Grouping, Peer
from lookup_tool.evaluation.summary import summarize
from lookup_tool.knowledge_base import KnowledgeBase


def evaluate(  # noqa: PLR0913 - the options of the one way in
    knowledge: KnowledgeBase,
    questions: Sequence[Question],
    *,
    config: LookupConfig | None = None,
    compare: Sequence[Peer] = (),
    by: Grouping = "category",
    groups: Collection[str] = (),
    progress: Progress | None = None,
) -> EvaluationReport:
    """Measure what is delivered to an agent, ranking, abstention and L0's filter.

    Args:
        knowledge: Where to look.
        questions: What to ask; `read_questions` reads them from a file.
        config: Settings; by default what we ship.
        compare: Other rankings of the same passages to measure beside, in the same budget.
        by: What the questions are told apart by in the report's slices.
        groups: Access groups to ask for.
        progress: Called with (done, total) after each question.

    Raises:
        MissingExtraError: The extra `eval` is not installed.
        LookupToolError: A lookup failed.
    """
    require_metrics()
    settings = config or LookupConfig()
    outcomes = ask(knowledge, questions, settings, compare, as_groups(groups), progress)
    return summarize(knowledge, outcomes, compare, by)
