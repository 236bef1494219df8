"""Time several candidates against each other in one run, so that what disturbs one disturbs all."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Timings:
    """Seconds of every candidate in every round: samples[name][round].

    A disturbance only ever adds time, so the best of many rounds is the figure; the median of the rounds'
    ratios is given beside it and says how much the machine was disturbed.
    """

    samples: dict[str, NDArray[np.float64]]

    def best(self, name: str) -> float:
        """Return the candidate's shortest time in seconds."""
        return float(self.samples[name].min())

    def ratio(self, numerator: str, denominator: str) -> float:
        """Return best(numerator) / best(denominator)."""
        return self.best(numerator) / self.best(denominator)

    def median_ratio(self, numerator: str, denominator: str) -> float:
        """Return the median over rounds of the ratio of the two times of a round."""
        return float(np.median(self.samples[numerator] / self.samples[denominator]))


def interleave(
    candidates: Mapping[str, Callable[[], object]],
    seconds: float,
    min_rounds: int = 5,
    max_rounds: int = 200,
    before: Callable[[], object] = lambda: None,
) -> Timings:
    """Run all candidates in turn, round after round, for about `seconds`; every other round runs backwards.

    Each is called once beforehand (compilation, first touch, thread pools). `before` is called before every
    call and not timed, to put caches into a known state.
    """
    for candidate in candidates.values():
        candidate()
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < min_rounds or (time.perf_counter() < end and rounds < max_rounds):
        order = list(candidates) if rounds % 2 == 0 else list(reversed(candidates))
        for name in order:
            before()
            start = time.perf_counter()
            candidates[name]()
            samples[name].append(time.perf_counter() - start)
        rounds += 1
    return Timings({name: np.array(values) for name, values in samples.items()})
