"""How the benchmarks measure: side by side in one run, medians."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import TypeVar

Input = TypeVar("Input")


def alternate(
    candidates: Mapping[str, Callable[[Input], object]], inputs: Sequence[Input], rounds: int = 3
) -> dict[str, float]:
    """Time candidates on the same inputs, taking turns, so that all see the same machine.

    Returns:
        Median milliseconds of each candidate, over every input of every round but a first one.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for each in inputs[: len(inputs) if number else 3]:
            for name, candidate in candidates.items():
                started = perf_counter()
                candidate(each)
                if number:
                    times[name].append(perf_counter() - started)
    return {name: round(median(found) * 1000, 3) for name, found in times.items()}


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    started = perf_counter()
    action()
    return perf_counter() - started
