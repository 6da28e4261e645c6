"""How the benchmarks measure: side by side in one run, medians of processor time.

What is compared keeps one thread busy and waits for nothing: processor time is what it takes on a
quiet machine, and a busy one lengthens it little.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

Input = TypeVar("Input")


def alternate(
    candidates: Mapping[str, Callable[[Input], object]], inputs: Sequence[Input], rounds: int = 3
) -> dict[str, float]:
    """Time candidates on the same inputs, taking turns, so that all see the same machine.

    The order is another one for every input: what one has read, the next finds in the processor's
    cache, and what it needs itself, the one before has driven out.

    Returns:
        Median milliseconds of processor time of each candidate, over every input of every round
        but a first one.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    turns, rng = list(candidates.items()), Random(1)
    for number in range(rounds + 1):
        for each in inputs[: len(inputs) if number else 3]:
            rng.shuffle(turns)
            for name, candidate in turns:
                started = process_time()
                candidate(each)
                if number:
                    times[name].append(process_time() - started)
    return {name: round(median(found) * 1000, 3) for name, found in times.items()}


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    started = perf_counter()
    action()
    return perf_counter() - started
