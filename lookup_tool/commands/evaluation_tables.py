"""An evaluation as tables for a reader, within 100 columns."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from lookup_tool.commands.console import add_row, out
from lookup_tool.evaluation.report import (
    Estimate,
    EvaluationReport,
    Lost,
    Metrics,
    Peer,
    QuestionReport,
)

_WIDTH = 100
_RANKING = ("recall@5", "recall@10", "mrr@10")

_OUTCOMES = {
    "auroc": "AUROC",
    "missedRate": "answerable: refused",
    "answerableWeak": "answerable: weak",
    "answerableSufficient": "answerable: sufficient",
    "falseEvidenceRate": "unanswerable: any evidence",
    "unanswerableWeak": "unanswerable: weak",
    "unanswerableSufficient": "unanswerable: sufficient",
}

_LOST: dict[Lost, str] = {
    "not_in_knowledge_base": "not in the knowledge base",
    "hidden_by_filter": "hidden by the filter",
    "not_retrieved": "not retrieved",
    "below_evidence_floor": "below the evidence floor",
    "not_usable": "not usable by the rule",
    "ranked_low": "ranked too low",
    "left_out_of_pack": "left out of the context pack",
    "cut_away": "cut away in the context pack",
    "delivered": "delivered",
    "false_evidence": "evidence for no answer",
    "abstained": "rightly no evidence",
}


def print_report(report: EvaluationReport, worst: int) -> None:
    """Print the figures, then the questions that fared worst."""
    out.say(
        f"{report.questions} questions ({report.answerable} answerable), {report.embedder}, "
        f"version {report.knowledge_version}"
    )
    _print("Delivered in the packed text", _delivery(report))
    _print("Ranking", _ranking(report))
    _print("Abstention, and where the answers went", _outcomes(report))
    if any(group.fired for group in report.filters):
        _print("Category filters of L0, nDCG@10 against no filter", _filters(report))
    if len(report.slices) > 1:
        _print(f"By {report.by}", _slices(report))
    asked = [each for each in report.details if each.answerable and not _perfect(each)]
    _print("Worst answerable questions", _answerable(asked[:worst]))
    fooled = [each for each in report.details if each.lost == "false_evidence"]
    _print("Evidence for questions without an answer", _unanswerable(fooled[:worst]))


def _print(title: str, table: Table) -> None:
    if table.row_count:
        out.print()
        out.say(title, "bold")
        out.print(table, width=_WIDTH, soft_wrap=False)


def _table(*headings: str, numbers: int = 0, shares: Sequence[int] = ()) -> Table:
    """Lay out a table.

    Args:
        headings: Of its columns.
        numbers: Last columns that hold numbers.
        shares: Of the first columns, in what is left of the width; these wrap.
    """
    table = Table(box=None, expand=bool(shares), pad_edge=False, header_style="dim")
    for place, heading in enumerate(headings):
        share = shares[place] if place < len(shares) else 0
        table.add_column(
            heading,
            ratio=share or None,
            no_wrap=not share,
            overflow="fold",
            justify="right" if place >= len(headings) - numbers else "left",
        )
    return table


def _delivery(report: EvaluationReport) -> Table:
    compared = bool(report.comparisons)
    headings = ("level", "in the budget", "n", "delivered [95 %]", "rank", "used")
    table = _table(*headings, *(["ours above it"] if compared else []), numbers=4 + compared)
    systems = [("lookup_knowledge", report.metrics, "", Metrics())]
    systems += [("with the rule off", report.metrics, "RuleOff", Metrics())]
    systems += [(each.name, each.metrics, "", each.gain) for each in report.comparisons]
    for level, metric in (("entry", "delivered"), ("section", "deliveredSection")):
        for name, metrics, variant, gain in systems:
            share = metrics.get(f"{metric}{variant}")
            if share is None:
                continue
            rank = "" if variant else _decimal(metrics.get(f"{metric}Rank"), 1)
            used = "" if variant else _decimal(metrics.get("packUsed"), 0)
            row = (level, name, str(share.questions), _interval(share), rank, used)
            ours = _interval(gain.get(metric), sign="+")
            table.add_row(*row, *([ours] if compared else []))
    return table


def _ranking(report: EvaluationReport) -> Table:
    compared = bool(report.comparisons)
    headings = ("level", "ranking", "n", "nDCG@10 [95 %]", "R@5", "R@10", "MRR@10")
    table = _table(*headings, *(["ours above it"] if compared else []), numbers=5 + compared)
    rankings = [("lookup_knowledge", report.metrics, Metrics())]
    rankings += [(each.name, each.metrics, each.gain) for each in report.comparisons]
    for level, prefix in (("entry", ""), ("section", "section.")):
        for name, metrics, gain in rankings:
            ndcg = metrics.get(f"{prefix}ndcg@10")
            if ndcg is None:
                continue
            rest = (_number(metrics.get(f"{prefix}{metric}")) for metric in _RANKING)
            ours = _interval(gain.get(f"{prefix}ndcg@10"), sign="+")
            row = (level, name, str(ndcg.questions), _interval(ndcg), *rest)
            add_row(table, *row, *([ours] if compared else []))
    return table


def _outcomes(report: EvaluationReport) -> Table:
    table = _table("measure", "n", "value [95 %]", numbers=2)
    for metric, name in _OUTCOMES.items():
        if metric in report.metrics:
            estimate = report.metrics[metric]
            add_row(table, name, str(estimate.questions), _interval(estimate))
    for lost, count in report.lost.items():
        add_row(table, _LOST[lost], str(count))
    return table


def _filters(report: EvaluationReport) -> Table:
    table = _table("filters", "fired", "n", "nDCG@10", "gain [95 %]", numbers=4)
    for each in report.filters:
        scored = "" if each.ndcg is None else str(each.ndcg.questions)
        ndcg, gain = _number(each.ndcg), _interval(each.gain, sign="+")
        add_row(table, each.group, str(each.fired), scored, ndcg, gain)
    for metric in ("filterCoverage", "filterPrecision"):
        estimate = report.metrics.get(metric)
        if estimate is not None:
            name = metric.removeprefix("filter").lower()
            add_row(table, name, "", str(estimate.questions), "", _interval(estimate))
    return table


def _slices(report: EvaluationReport) -> Table:
    ours = {
        "delivered": "delivered",
        "deliveredRuleOff": "rule off",
        "missedRate": "refused",
        "falseEvidenceRate": "false ev.",
        "ndcg@10": "nDCG@10",
    }
    peers: list[Peer] = [each.name for each in report.comparisons]
    headings = [*ours.values()]
    headings[2:2] = peers
    table = _table(report.by, "n", *headings, numbers=1 + len(headings))
    for each in report.slices:
        values = [_number(each.metrics.get(metric)) for metric in ours]
        values[2:2] = [_number(each.comparisons[peer].get("delivered")) for peer in peers]
        add_row(table, each.name or "(none)", str(each.questions), *values)
    return table


def _answerable(asked: Sequence[QuestionReport]) -> Table:
    table = _table("id", "question", "expected", "where it was lost", shares=(4, 9, 8, 7))
    for each in asked:
        expected = ", ".join(each.expected) or "an answer"
        add_row(table, each.id, each.query, expected, _fate(each))
    return table


def _unanswerable(asked: Sequence[QuestionReport]) -> Table:
    table = _table(
        "id", "question", "what it was given", "answerability", numbers=1, shares=(4, 9, 9)
    )
    for each in asked:
        add_row(table, each.id, each.query, each.top or "", f"{each.answerability:.2f}")
    return table


def _perfect(each: QuestionReport) -> bool:
    return each.lost == "delivered" and each.ndcg in {None, 1.0}


def _fate(each: QuestionReport) -> str:
    return "; ".join(_fates(each))


def _fates(each: QuestionReport) -> Iterator[str]:
    """Say where an answer was lost, and what explains it."""
    if each.lost not in {"delivered", "ranked_low"}:
        yield _LOST[each.lost]
    if each.lost == "hidden_by_filter" and each.filter:
        yield each.filter
    if each.lost == "not_usable":
        yield f"answerability {each.answerability:.2f}"
    if each.rank is not None:
        yield f"ranked at {each.rank}"
    elif each.lost == "ranked_low":
        yield "ranked under all that were measured"


def _number(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value:.3f}"


def _decimal(estimate: Estimate | None, digits: int) -> str:
    return "" if estimate is None else f"{estimate.value:.{digits}f}"


def _interval(estimate: Estimate | None, sign: str = "") -> str:
    if estimate is None:
        return ""
    value, low, high = (
        format(number, f"{sign}.3f") for number in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"
