"""Averages over windows of time, of any model: the clock that weighs samples, and the record that writes windows.

A sample stands for the time since the previous one, so that steps of any length count by their length. A window
begins at its time less averaging_time, and is one output step; `ridgeline.analysis.windows` adds windows up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.intervals import Interval, Moment
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.recorders import StepWriter

ROUNDING = 1e-12  # of a model time, which no time between samples is below
# Numbers of a window, with descriptions.
OF_WINDOWS = (
    ("averaging_time", "model time over which the averages extend"),
    ("samples", "samples in the averages"),
)


class WindowClock:
    """The time that is gathered in the present window, and the last sample.

    comm : of all ranks, which have the same clock
    start : model time before which nothing is gathered
    name : of the arrays in a checkpoint, NAME_clock and NAME_step
    """

    def __init__(self, comm: MPI.Comm, start: float, name: str) -> None:
        self._comm, self._start, self._name = comm, start, name
        # Model time gathered, time of the last sample (NaN: none yet), number of samples.
        self._numbers = np.array([0.0, np.nan, 0.0])
        self._step = np.array([np.nan])  # of the last sample

    @property
    def seconds(self) -> float:
        """Model time over which the sums extend."""
        return float(self._numbers[0])

    @property
    def samples(self) -> int:
        """Number of samples in the sums."""
        return int(self._numbers[2])

    @property
    def step(self) -> int:
        """Step of the last sample."""
        return int(np.nan_to_num(self._step[0]))

    @property
    def time(self) -> float:
        """Model time of the last sample."""
        return float(np.nan_to_num(self._numbers[1]))

    def begin_window(self) -> None:
        """Begin a new window, which extends from the last sample on."""
        self._numbers[[0, 2]] = 0.0

    def weigh(self, step: int, time: float) -> float:
        """Take the time of a sample, and return its weight: the time since the last one or since the start.

        The weight is 0, and the sample does not count, for the first one and for those at or before the start.
        """
        last = self._numbers[1]
        self._numbers[1], self._step[0] = time, step
        weight = time - max(last, self._start)  # NaN for the first one
        # A time that a run meets may be above the start by rounding: that is no window of its own.
        if not weight > ROUNDING * abs(time):
            return 0.0
        self._numbers[0] += weight
        self._numbers[2] += 1
        return float(weight)

    def state(self) -> dict[str, DistributedArray]:
        """Return what a checkpoint holds, on rank 0."""
        return {
            name: on_root(self._comm, name, numbers)
            for name, numbers in ((f"{self._name}_clock", self._numbers), (f"{self._name}_step", self._step))
        }

    def restored(self, step: int = 0) -> None:
        """Continue from what was read into the arrays of `state`. Collective.

        step: that of the last sample, for old checkpoints that do not hold it.
        """
        self._numbers[:] = self._comm.bcast(self._numbers)
        self._step[:] = self._comm.bcast(self._step)
        if np.isnan(self._step[0]) and not np.isnan(self._numbers[1]):
            self._step[0] = step


def on_root(comm: MPI.Comm, name: str, values: NDArray[Any]) -> DistributedArray:
    """Return an array that all ranks have, as rank 0 alone writes it."""
    here = values if comm.rank == 0 else values[:0]
    return DistributedArray(name, values.shape, (0,) * values.ndim, here)


class WindowSums(Protocol):
    """Sums over the present window, such as `Statistics`."""

    @property
    def clock(self) -> WindowClock: ...

    def begin_window(self) -> None: ...


class WindowRecord:
    """Takes a sample at each recorded step, and writes one output step of averages for each window.

    A window is written when it ends. The last one, which is whole only by chance, is written when the run ends; a
    resumed run cuts it off and continues it, because its sums are in the checkpoints.

    Parameters
    ----------
    path : of the data set
    writer : of its steps
    sums : of the present window
    interval : between the ends of windows, may be empty
    sample : takes a sample of the present state, which is that of a step; collective
    averages : returns what the writer writes of the present window, without the numbers of OF_WINDOWS; collective
    writes : whether this rank writes numbers that all ranks have
    """

    def __init__(
        self,
        path: str,
        writer: StepWriter,
        sums: WindowSums,
        interval: Interval,
        sample: Callable[[int], None],
        averages: Callable[[], Mapping[str, NDArray[Any]]],
        writes: bool,
    ) -> None:
        self.path = path
        self._writer, self._sums, self._interval = writer, sums, interval
        self._sample, self._averages, self._writes = sample, averages, writes

    @property
    def count(self) -> int:
        return self._writer.steps

    @property
    def fingerprint(self) -> str:
        """A short text that identifies the windows that are written."""
        return self._writer.fingerprint

    def write(self, step: int) -> int:
        """Take a sample, and write the window if it ends here."""
        clock = self._sums.clock
        before = Moment(clock.step, clock.time)
        self._sample(step)
        if not clock.samples or not self._interval.due(before, Moment(step, clock.time)):
            return 0
        written = self._write_window()
        self._sums.begin_window()
        return written

    def _write_window(self) -> int:
        clock = self._sums.clock
        amounts = [np.array([float(amount)]) for amount in (clock.seconds, clock.samples)]
        numbers = {
            name: amount if self._writes else amount[:0] for (name, _), amount in zip(OF_WINDOWS, amounts)
        }
        return self._writer.write(clock.step, clock.time, {**self._averages(), **numbers})

    def close(self) -> None:
        """Write the window that is not over, if it has samples or there is none before it."""
        if self._sums.clock.samples or not self.count:
            self._write_window()
        self._writer.close()
