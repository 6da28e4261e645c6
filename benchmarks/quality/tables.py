"""The figures as JSON and as Markdown."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import PEERS, Measured

from lookup_tool.errors import ConfigurationError
from lookup_tool.evaluation.report import FilterReport, Metrics

BEGIN = "<!-- quality: begin -->"
END = "<!-- quality: end -->"

_PEERS = ("BM25", "dense", "RRF of both")
_OUTCOMES = {
    "auroc": "AUROC",
    "falseEvidenceRate": "false evidence",
    "missedRate": "missed",
    "filterPrecision": "L0 precision",
    "filterCoverage": "L0 coverage",
}
_FILTERS = ("all", "right", "wrong")

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Figures by embedder and set."""


def figures(measured: Measured) -> dict[str, Any]:
    """Return the figures of one set as plain JSON types."""
    report = measured.report
    rankings = {"lookup_knowledge": report.metrics}
    rankings |= {each.name: each.metrics for each in report.comparisons}
    return {
        "questions": report.questions,
        "answerable": report.answerable,
        "rankings": {name: _ranking(metrics) for name, metrics in rankings.items()},
        "outcomes": {m: report.metrics[m].value for m in _OUTCOMES if m in report.metrics},
        "filters": {f.group: _filter(f) for f in report.filters if f.group in _FILTERS and f.fired},
        "ablation": {name: round(gain, 4) for name, gain in measured.ablation.items()},
        "oracle": round(measured.oracle, 4),
    }


def update(path: Path, embedder: str, sets: Mapping[str, Any]) -> Results:
    """Write the figures of one embedder beside those of others that are there."""
    before: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    results = {**before, embedder: {**before.get(embedder, {}), **sets}}
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return results


def markdown(results: Results) -> str:
    """Return every table."""
    parts: list[str] = []
    for embedder, sets in results.items():
        signals = next(iter(sets.values()))["ablation"]
        parts += [
            f"## {embedder}",
            _summary(sets),
            "What each rerank signal brings, nDCG@10 (of sections where the questions name them):",
            _table(
                ("signal", *sets),
                ((s, *(f"{each['ablation'][s]:+.3f}" for each in sets.values())) for s in signals),
            ),
            "What L0's filters bring, nDCG@10 above no filter:",
            _table(
                ("filters", *sets),
                ((g, *(_gain(each["filters"].get(g)) for each in sets.values())) for g in _FILTERS),
            ),
        ]
    return "# Quality\n\n" + "\n\n".join(parts) + "\n"


def _summary(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return ranking and abstention, a row for each set and level."""
    systems = ("lookup_knowledge", *PEERS)
    headings = ("lookup_knowledge", *_PEERS, "best order", *_OUTCOMES.values())
    rows: list[tuple[str, ...]] = []
    for name, figures in sets.items():
        rankings, outcomes = figures["rankings"], figures["outcomes"]
        sections = "section.ndcg@10" in rankings["lookup_knowledge"]
        for level, metric in ((name, "ndcg@10"), (f"{name}, sections", "section.ndcg@10")):
            if metric not in rankings["lookup_knowledge"]:
                continue
            measured_here = sections is (metric == "section.ndcg@10")
            rows.append(
                (
                    level,
                    *(_number(rankings[system].get(metric)) for system in systems),
                    _number(figures["oracle"] if measured_here else None),
                    *(_number(outcomes.get(m) if level == name else None) for m in _OUTCOMES),
                )
            )
    return _table(("nDCG@10", *headings), rows)


def replace_between_markers(readme: Path, results: Results) -> None:
    """Put the tables of ranking and abstention between the markers of a file.

    Raises:
        ConfigurationError: The markers are not there.
    """
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigurationError(f"{readme}: no {BEGIN} and {END} to put the tables between")
    tables = "\n\n".join(f"{embedder}:\n\n{_summary(sets)}" for embedder, sets in results.items())
    readme.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}", encoding="utf-8")


def _ranking(metrics: Metrics) -> dict[str, float]:
    ranking = ("ndcg@10", "recall@5", "recall@10", "mrr@10")
    wanted = [f"{prefix}{metric}" for prefix in ("", "section.") for metric in ranking]
    return {metric: metrics[metric].value for metric in wanted if metric in metrics}


def _filter(report: FilterReport) -> dict[str, Any]:
    return {
        "fired": report.fired,
        "ndcg": report.ndcg and report.ndcg.value,
        "gain": report.gain and report.gain.value,
    }


def _gain(group: Mapping[str, Any] | None) -> str:
    if not group or group["gain"] is None:
        return ""
    return f"{group['gain']:+.3f} ({group['fired']} fired)"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".replace("0.", ".", 1)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---", *("---:" for _ in headings[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
