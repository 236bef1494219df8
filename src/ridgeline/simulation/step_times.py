"""The times of a rank's steps: seconds by phase of the first call and of the later ones, and their distribution.

A sample is a call of `model.step`: its seconds divided by its steps, counted once for each step. The distribution is
a histogram whose bins grow by RATIO, so its memory is bounded and ranks are merged by adding counts. A percentile is
off by half a bin at most, which is 0.5 % of it; count, least, most and the worst step are exact. Hadri et al.
(NekBox), Fig. 9, and Yeung et al. (GESTS), Sec. 4.1, show such spreads for runs on a loaded network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.contract import StepTimes
from ridgeline.parallel.allreduce import allreduce_max, allreduce_min
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI

AT_ONCE = 1024  # calls whose readings are sorted into the distribution together
RATIO = 1.01  # of a bin's upper edge to its lower one
LEAST, MOST = 1e-9, 1e5  # seconds; the first and the last bin count what is outside
N_BINS = math.ceil(math.log(MOST / LEAST) / math.log(RATIO))
PERCENTILES = (5, 25, 50, 75, 95, 99)

Counts = NDArray[np.int64]
Times = NDArray[np.float64]


def bins_of(seconds: Times) -> Counts:
    """Return the bin of each time, of any shape."""
    exponents = np.log(np.maximum(seconds, LEAST) / LEAST) / math.log(RATIO)
    return np.minimum(exponents.astype(np.int64), N_BINS - 1)


def lower_edges(bins: Counts) -> Times:
    """Return the seconds at which bins begin."""
    return LEAST * np.power(RATIO, bins)


@dataclass(frozen=True)
class Worst:
    """The slowest sample: its seconds per step, the step at the end of its call, the steps of the call, its rank."""

    seconds: float
    step: int
    steps: int
    rank: int = 0


class StepDistribution:
    """The histogram of the times of this rank's steps, for each phase and for the total.

    Attributes
    ----------
    counts
        Steps in each bin, int64 [names, N_BINS].
    least, most
        Seconds per step, float64 [names].
    seconds
        Seconds of all steps together, float64 [names].
    """

    def __init__(self, names: Sequence[str]) -> None:
        n = len(names)
        self.names = tuple(names)
        self.counts: Counts = np.zeros((n, N_BINS), np.int64)
        self.least: Times = np.full(n, np.inf)
        self.most: Times = np.full(n, -np.inf)
        self.seconds: Times = np.zeros(n)
        self.rank: Counts = np.zeros(n, np.int64)  # where the most was
        # The step at the end of the slowest call, and the steps of that call.
        self._at: Counts = np.zeros((n, 2), np.int64)

    def add(self, step: Counts, steps: Counts, seconds: Times) -> None:
        """Add one call or more.

        Parameters
        ----------
        step
            The step at the end of each call, int64 [calls].
        steps
            The steps that each call did, int64 [calls].
        seconds
            The seconds of each whole call, float64 [names, calls].
        """
        times = seconds / steps
        rows = np.arange(len(self.names))
        np.add.at(self.counts, (rows[:, np.newaxis], bins_of(times)), steps)
        self.seconds = self.seconds + seconds.sum(axis=1)
        self.least = np.minimum(self.least, times.min(axis=1))
        worst = times.argmax(axis=1)
        most = times[rows, worst]
        at = np.stack([step[worst], steps[worst]], axis=1)
        self._at = np.where((most > self.most)[:, np.newaxis], at, self._at)
        self.most = np.maximum(self.most, most)

    def merge_ranks(self, comm: MPI.Comm) -> StepDistribution:
        """Merge the distributions of all ranks; return the result, the same on each. Seconds are the slowest rank's.

        Of several ranks with the same worst time the first one is named.

        Notes
        -----
        Collective: a few allreduces of one rank's bins at most, however many ranks there are.
        """
        whole = StepDistribution(self.names)
        comm.Allreduce(self.counts, whole.counts)
        whole.seconds = allreduce_max(comm, self.seconds)
        whole.least = allreduce_min(comm, self.least)
        whole.most = allreduce_max(comm, self.most)
        is_worst = self.most == whole.most
        whole.rank = allreduce_min(comm, np.where(is_worst, comm.rank, comm.size)).astype(np.int64)
        named = (whole.rank == comm.rank)[:, np.newaxis]
        whole._at = allreduce_max(comm, np.where(named, self._at, -1)).astype(np.int64)
        return whole

    def percentile(self, name: str, percent: float) -> float:
        """Return the time that so many percent of the steps do not exceed (NumPy's "inverted_cdf", within a bin)."""
        i = self.names.index(name)
        upto = np.cumsum(self.counts[i])
        needed = max(1, math.ceil(percent / 100 * int(upto[-1])))
        middle: float = LEAST * RATIO ** (int(np.searchsorted(upto, needed)) + 0.5)
        return min(max(middle, float(self.least[i])), float(self.most[i]))

    def worst(self, name: str) -> Worst:
        """Return the worst step of a distribution that is not empty."""
        i = self.names.index(name)
        step, steps = self._at[i].tolist()
        return Worst(float(self.most[i]), step, steps, int(self.rank[i]))

    def to_dict(self) -> dict[str, Any]:
        """Return the rows of the report by name, or {} without a step. Times are seconds per step."""
        return {name: self._row(i, name) for i, name in enumerate(self.names) if self.counts[i].any()}

    def _row(self, i: int, name: str) -> dict[str, Any]:
        filled = np.flatnonzero(self.counts[i])
        return {
            "count": int(self.counts[i].sum()),
            "min": float(self.least[i]),
            "percentiles": {str(percent): self.percentile(name, percent) for percent in PERCENTILES},
            "max": float(self.most[i]),
            "worst": vars(self.worst(name)),
            "bins": {
                "ratio": RATIO,
                "lower": [float(f"{edge:.6g}") for edge in lower_edges(filled)],
                "counts": self.counts[i, filled].tolist(),
            },
        }


class StepClock:
    """Times this rank's steps and their phases, without what happens between the steps.

    The first call of `step` also warms caches and touches pages, so it is kept apart. The steady steps after it are
    averaged, and the best one is kept, as Yeung et al. (GESTS), Sec. 4.1, report them. Memory does not grow with the
    number of steps.

        with clock:
            steps = model.step(most)
        step += steps
        clock.record(step, steps)

    Attributes
    ----------
    names
        The model's phases, "other" and "total".
    first
        Seconds of the first call, float64 [names].
    """

    def __init__(self, regions: Regions, phases: Sequence[str]) -> None:
        """The regions must not be reset afterwards."""
        self.names = (*phases, "other", "total")
        self.first: NDArray[np.float64] = np.zeros(len(self.names))
        self.first_steps = 0
        self._distribution = StepDistribution(self.names)
        self._parts = [regions.table[name] for name in phases]
        self._best: StepTimes | None = None
        # For each call: step, steps, seconds, and the seconds of each phase before it and after it.
        self._waiting: list[float] = []
        # Of the call that is being timed: the seconds of each phase before it, its begin, and its duration.
        self._before: list[float] = []
        self._begin = self._seconds = 0.0
        self._width = 3 + 2 * len(phases)
        self._full = AT_ONCE * self._width

    # Everything here adds to every step, so it only stores readings; `_sort` does the arithmetic later.

    def __enter__(self) -> None:
        self._before = [part.seconds for part in self._parts]
        self._begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds = time.perf_counter() - self._begin

    def record(self, step: int, steps: int) -> None:
        """Keep the time of the call that the last `with` block timed: it did `steps` steps and ended at `step`."""
        parts, waiting = self._parts, self._waiting
        waiting += (step, steps, self._seconds, *self._before, *[part.seconds for part in parts])
        if len(waiting) == self._full or not self.first_steps:
            self._sort()

    def _sort(self) -> None:
        """Sort the stored readings into the distribution, before anything is read from it."""
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
        """The number of steady steps."""
        return int(self.distribution.counts[-1].sum())

    @property
    def best(self) -> StepTimes | None:
        """The best of the steady steps, or None if there was none."""
        self._sort()
        return self._best

    def mean(self) -> StepTimes | None:
        """Return the mean steady step, or that of the first call if it was the only one, or None without a step."""
        if self.steady_steps:
            return self._per_step(self.steady, self.steady_steps)
        return self._per_step(self.first, self.first_steps) if self.first_steps else None

    @property
    def nbytes(self) -> int:
        """The most bytes that this holds: the bins, and 40 bytes for each stored float and its place in the list."""
        return self._distribution.counts.nbytes + 40 * self._full

    def _per_step(self, seconds: NDArray[np.float64], steps: int) -> StepTimes:
        # The last name is "total".
        *phases, total = (seconds / steps).tolist()
        return StepTimes(total, dict(zip(self.names, phases)))
