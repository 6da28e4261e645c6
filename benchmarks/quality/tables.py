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
_OURS = "lookup_knowledge"
_OUTCOMES = {
    "auroc": "AUROC",
    "filterPrecision": "L0 precision",
    "filterCoverage": "L0 coverage",
}
_FILTERS = ("all", "right", "wrong")

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Figures by embedder and set."""


def figures(measured: Measured) -> dict[str, Any]:
    """Return the figures of one set as plain JSON types."""
    report = measured.report
    systems = {_OURS: report.metrics}
    systems |= {each.name: each.metrics for each in report.comparisons}
    return {
        "questions": report.questions,
        "answerable": report.answerable,
        "metrics": {name: _values(metrics) for name, metrics in systems.items()},
        "lost": report.lost,
        "by": report.by,
        "slices": {
            each.name or "(none)": {
                "questions": each.questions,
                "metrics": {
                    _OURS: _values(each.metrics),
                    **{name: _values(metrics) for name, metrics in each.comparisons.items()},
                },
            }
            for each in report.slices
        },
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
            *(_by_kind(name, each) for name, each in sets.items() if each["by"] == "kind"),
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
    """Return what is delivered, and the ranking."""
    delivered = _table(
        ("delivered (sections)", *_DELIVERED), ((n, *_delivered(s)) for n, s in sets.items())
    )
    return f"{delivered}\n\n{_ranking(sets)}"


_DELIVERED = (
    *(_OURS, "rule off", "BM25", "dense", "fused"),
    *("refused", "unanswerable: sufficient / any evidence"),
)


def _delivered(measured: Mapping[str, Any]) -> list[str]:
    """Return one row of what is delivered, of a set or of a slice of one."""
    metrics = measured["metrics"]
    ours = metrics[_OURS]
    unanswerable = [_number(ours.get(m)) for m in ("unanswerableSufficient", "falseEvidenceRate")]
    return [
        _with_sections(ours),
        _with_sections(ours, "RuleOff"),
        *(_with_sections(metrics[peer]) for peer in PEERS),
        _number(ours.get("missedRate")),
        " / ".join(unanswerable) if any(unanswerable) else "",
    ]


def _with_sections(metrics: Mapping[str, float], variant: str = "") -> str:
    """Write what is delivered, entries and in parentheses sections."""
    entry, section = (
        _number(metrics.get(f"{level}{variant}")) for level in ("delivered", "deliveredSection")
    )
    return f"{entry} ({section})" if section else entry


def _by_kind(name: str, figures: Mapping[str, Any]) -> str:
    """Return what is delivered of each kind of question."""
    rows = (
        (kind, str(each["questions"]), *_delivered(each))
        for kind, each in figures["slices"].items()
    )
    return f"{name}, by kind of question:\n\n{_table(('kind', 'n', *_DELIVERED), rows)}"


def _ranking(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the ranking, a row for each set and level."""
    headings = (_OURS, *_PEERS, "best order", *_OUTCOMES.values())
    rows: list[tuple[str, ...]] = []
    for name, figures in sets.items():
        metrics = figures["metrics"]
        ours = metrics[_OURS]
        sections = "section.ndcg@10" in ours
        for level, metric in ((name, "ndcg@10"), (f"{name}, sections", "section.ndcg@10")):
            if metric not in ours:
                continue
            measured_here = sections is (metric == "section.ndcg@10")
            rows.append(
                (
                    level,
                    *(_number(metrics[system].get(metric)) for system in (_OURS, *PEERS)),
                    _number(figures["oracle"] if measured_here else None),
                    *(_number(ours.get(m) if level == name else None) for m in _OUTCOMES),
                )
            )
    return _table(("nDCG@10", *headings), rows)


def replace_between_markers(readme: Path, results: Results) -> None:
    """Put the tables of what is delivered, and of ranking, between the markers of a file.

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


def _values(metrics: Metrics) -> dict[str, float]:
    return {metric: estimate.value for metric, estimate in metrics.items()}


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
