"""What a rank's steps cost: seconds of the first call and of the others, by phase, and how they are distributed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.contract import StepTimes
from ridgeline.runtime.regions import Regions
from ridgeline.simulation.distribution import StepDistribution

AT_ONCE = 1024  # calls whose readings wait until they are sorted into the distribution together


class StepClock:
    """Seconds of this rank's steps and of their phases, apart from everything between them.

    names: the model's phases, "other" and "total". first: seconds of the first call of `step`, float64 [names], which
    also warms caches and touches pages; the others are steady. They are averaged, and the best one is kept, as the
    paper of the turbulence model reports it (Sec. 4.1). Memory does not grow with the steps.
    """

    def __init__(self, regions: Regions, phases: Sequence[str]) -> None:
        """Begin to count; regions must not be reset afterwards."""
        self.names = (*phases, "other", "total")
        self.first: NDArray[np.float64] = np.zeros(len(self.names))
        self.first_steps = 0
        self._distribution = StepDistribution(self.names)
        self._parts = [regions.table[name] for name in phases]
        self._best: StepTimes | None = None
        self._waiting: list[
            float
        ] = []  # step, steps, seconds; and of each phase before and after, call by call
        self._width = 3 + 2 * len(phases)
        self._full = AT_ONCE * self._width

    def time(self, advance: Callable[[int], int], step: int, most: int) -> int:
        """Call `advance(most)` at `step`, which returns how many steps it did, and count its seconds.

        What this does beside the call is a share of every step: it keeps readings, and leaves arithmetic to `sort`.
        """
        parts = self._parts
        before = [part.seconds for part in parts]
        begin = time.perf_counter()
        steps = advance(most)
        seconds = time.perf_counter() - begin
        waiting = self._waiting
        waiting += (step + steps, steps, seconds, *before, *[part.seconds for part in parts])
        if len(waiting) == self._full or not self.first_steps:
            self._sort()
        return steps

    def _sort(self) -> None:
        """Take up what waits; before anything is read."""
        if not self._waiting:
            return
        readings = np.array(self._waiting).reshape(-1, self._width).T
        self._waiting.clear()
        step, steps = readings[:2].astype(np.int64)
        total, (before, after) = readings[2], np.split(readings[3:], 2)
        phases = after - before
        seconds = np.stack([*phases, total - phases.sum(axis=0), total])
        if not self.first_steps:
            self.first, self.first_steps = seconds[:, 0], int(steps[0])
            return
        self._distribution.add(step, steps, seconds)
        best = int((total / steps).argmin())
        if self._best is None or total[best] / steps[best] < self._best.total:
            self._best = self._per_step(seconds[:, best], int(steps[best]))

    @property
    def distribution(self) -> StepDistribution:
        """Times of the steady steps on this rank."""
        self._sort()
        return self._distribution

    @property
    def steady(self) -> NDArray[np.float64]:
        """Seconds of all steps after the first call, float64 [names]."""
        return self.distribution.seconds

    @property
    def steady_steps(self) -> int:
        """How many they were."""
        return int(self.distribution.counts[-1].sum())

    @property
    def best(self) -> StepTimes | None:
        """Return the best of the steady steps, None if there was none."""
        self._sort()
        return self._best

    def mean(self) -> StepTimes | None:
        """Return the mean of the steady steps, of the first call if there was no other, None without steps."""
        if self.steady_steps:
            return self._per_step(self.steady, self.steady_steps)
        return self._per_step(self.first, self.first_steps) if self.first_steps else None

    @property
    def nbytes(self) -> int:
        """Bytes held at most: bins, and the numbers that wait."""
        return (
            self._distribution.counts.nbytes + 40 * self._full
        )  # of a float, and of the list's place for it

    def _per_step(self, seconds: NDArray[np.float64], steps: int) -> StepTimes:
        *phases, total = (seconds / steps).tolist()
        return StepTimes(total, dict(zip(self.names, phases)))  # the last name is that of the total
