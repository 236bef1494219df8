"""What a rank's steps cost: seconds of the first call and of the others, by phase, and how they are distributed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.contract import StepTimes
from ridgeline.runtime.regions import Regions
from ridgeline.simulation.distribution import StepDistribution


class StepClock:
    """Seconds of this rank's steps and of their phases, apart from everything between them.

    first: of the first call of `step`, which also warms caches and touches pages; steady: of the others. Both are
    float64 [names]: the model's phases, "other" and "total". Steady steps are averaged, and the best one is kept, as
    the paper of the turbulence model reports it (Sec. 4.1). Memory does not grow with the steps.
    """

    STEP = "step"  # the region of what a step spends outside the model's own regions

    def __init__(self, regions: Regions, phases: Sequence[str]) -> None:
        """Begin to count; regions must not be reset afterwards."""
        self.names = (*phases, "other", "total")
        self.first: NDArray[np.float64] = np.zeros(len(self.names))
        self.first_steps = self.steady_steps = 0
        self.best: StepTimes | None = None
        self.distribution = StepDistribution(self.names)  # of steady steps
        self._regions = regions
        self._parts = [regions.table[name] for name in phases]
        self._least = np.inf

    def time(self, advance: Callable[[int], int], step: int, most: int) -> int:
        """Call `advance(most)` at `step`, which returns how many steps it did, and count its seconds."""
        before = [part.seconds for part in self._parts]
        begin = time.perf_counter()
        with self._regions(self.STEP):
            steps = advance(most)
        total = time.perf_counter() - begin
        spent = [part.seconds - b for part, b in zip(self._parts, before)]
        seconds = (*spent, total - sum(spent), total)
        if self.first_steps == 0:
            self.first, self.first_steps = np.array(seconds), steps
            return steps
        self.steady_steps += steps
        self.distribution.add(step + steps, steps, seconds)
        if total < self._least * steps:
            self._least = total / steps
            self.best = self._per_step(seconds, steps)
        return steps

    @property
    def steady(self) -> NDArray[np.float64]:
        """Seconds of all steps after the first call, by name."""
        self.distribution.sort()
        return self.distribution.seconds

    def _per_step(self, seconds: Sequence[float] | NDArray[np.float64], steps: int) -> StepTimes:
        *phases, total = (float(each) / steps for each in seconds)
        return StepTimes(total, dict(zip(self.names, phases)))  # the last name is that of the total

    def mean(self) -> StepTimes | None:
        """Return the mean of the steady steps, of the first call if there was no other, None without steps."""
        if self.steady_steps:
            return self._per_step(self.steady, self.steady_steps)
        return self._per_step(self.first, self.first_steps) if self.first_steps else None
