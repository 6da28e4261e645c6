"""Plots of what was measured; matplotlib is loaded when one is drawn."""

import importlib
from pathlib import Path

from lookup_tool.calibration.report import Calibration
from lookup_tool.errors import ConfigurationError, MissingExtraError


def check_plot(path: Path) -> None:
    """Check, before there is anything to draw, that a plot can be written.

    Raises:
        MissingExtraError: The extra `eval` is not installed.
        ConfigurationError: The folder is not there, or the ending is unknown.
    """
    try:
        figure = importlib.import_module("matplotlib.figure").Figure()
    except ImportError as error:
        raise MissingExtraError("plotting", "eval") from error
    known = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ConfigurationError(f"{path}: unknown ending; one of {', '.join(sorted(known))}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"{path}: no folder {path.parent}")


def plot_calibration(calibration: Calibration, path: Path) -> None:
    """Draw kept questions and false evidence over the midpoint; the file's ending is its format.

    Raises:
        ConfigurationError: The file cannot be written.
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
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written ({error.strerror})") from error
