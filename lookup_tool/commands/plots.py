"""Plots of what was measured; matplotlib is loaded when one is drawn."""

import importlib
from pathlib import Path

from lookup_tool.errors import ConfigurationError, MissingExtraError
from lookup_tool.evaluation.calibration import Calibration


def require_plots() -> None:
    """Check that the library is there.

    Raises:
        MissingExtraError: The extra `eval` is not installed.
    """
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise MissingExtraError("plotting", "eval") from error


def plot_calibration(calibration: Calibration, path: Path) -> None:
    """Draw kept questions and false evidence over the midpoint; the file's ending is its format.

    Raises:
        ConfigurationError: The file cannot be written, or has an unknown ending.
    """
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(7, 4.2))
    axes = figure.subplots()
    midpoints = [point.midpoint for point in calibration.curve]
    unanswerable = "unanswerable" if calibration.labelled else "their entry hidden"
    for values, label, style in (
        ([point.kept for point in calibration.curve], "answerable: kept", "-"),
        ([point.false_evidence for point in calibration.curve], f"{unanswerable}: found", "--"),
    ):
        axes.plot(midpoints, values, style, label=label)
    chosen = calibration.after.thresholds.rule.midpoint
    axes.axvline(chosen, color="black", linewidth=1, label=f"midpoint {chosen:.3f}")
    axes.set(
        xlabel="midpoint of the answerability rule",
        ylabel="share of the questions with evidence",
        ylim=(0, 1.02),
        title=calibration.gain,
    )
    axes.title.set_fontsize("small")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    try:
        figure.savefig(path, dpi=150, bbox_inches="tight")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n", 1)[0]
        raise ConfigurationError(f"{path}: the plot cannot be written ({reason})") from error
