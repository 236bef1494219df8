"""Averages of profiles over time, which checkpoints continue."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.intervals import Interval, Moment
from ridgeline.models.contract import Profile
from ridgeline.runtime.errors import CheckpointError

AVERAGED = ("k", "separation")  # dimensions of the profiles that are averaged
CURVES, TIMES = "average_curves", "average_times"  # names of the arrays in a checkpoint


class NoAverages:
    """The averages of a run that averages nothing: every method does nothing. No method communicates."""

    def reset(self) -> None:
        """Start averaging again from nothing."""

    def add(self, before: Moment, now: Moment, profiles: Mapping[str, Profile]) -> None:
        """Add the present profiles once, if they are to be averaged. before: the moment before the last step."""

    def profiles(self, present: Mapping[str, Profile]) -> dict[str, Profile]:
        """Return the averages as mean_..., and averaged_time, the time that they are over.

        They are NaN before the first step that is averaged. present: profiles like those that `add` takes.
        """
        return {}

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the small arrays, equal on all ranks, that a checkpoint needs to continue the averages."""
        return {}

    def restored(self, state: Mapping[str, NDArray[np.float64]]) -> None:
        """Continue from the arrays of `state`. Raises CheckpointError if they are averages of other profiles."""


class TimeAverages(NoAverages):
    """The mean of profiles over time, by the trapezoidal rule between the steps at which they are added.

    The averages are equal on all ranks, as the profiles are. Averages that began before `begin` start again when they
    are restored.

    begin, every : what is recorded at this interval from step `begin` on is averaged
    n : numbers of all averaged profiles together (`diagnostics.averaged_numbers`)
    """

    def __init__(self, begin: int, every: Interval, n: int) -> None:
        self._begin, self._every = begin, every
        self._curves = np.zeros((2, n))  # integral over time, and the latest values
        self._times = np.full(4, np.nan)  # first and latest step, first and latest time
        self.reset()

    def reset(self) -> None:
        self._curves[...] = 0.0
        self._times[...] = -1.0

    def add(self, before: Moment, now: Moment, profiles: Mapping[str, Profile]) -> None:
        step, time, _ = now
        if step < self._begin or step <= self._times[1]:
            return
        if step and not self._every.due(before, now):
            return
        values = np.concatenate([p.values for p in _averaged(profiles).values()])
        if self._times[0] < 0:
            self._times[::2] = step, time
        else:
            self._curves[0] += (time - self._times[3]) / 2 * (self._curves[1] + values)
        self._times[1::2] = step, time
        self._curves[1] = values

    def profiles(self, present: Mapping[str, Profile]) -> dict[str, Profile]:
        first, _, begin, end = self._times
        duration = end - begin
        mean = self._curves[0] / duration if duration > 0 else self._curves[1]
        if first < 0:
            mean = np.full_like(mean, np.nan)
        averages, place = {}, 0
        for name, profile in _averaged(present).items():
            values = mean[place : place + profile.values.size]
            words = f"mean over averaged_time of {name}"
            averages[f"mean_{name}"] = Profile(values, profile.dims, profile.unit, words)
            place += profile.values.size
        words = "time over which the averages extend"
        averages["averaged_time"] = Profile(np.array([duration]), ("average",), description=words)
        return averages

    def state(self) -> dict[str, NDArray[np.float64]]:
        return {CURVES: self._curves, TIMES: self._times}

    def restored(self, state: Mapping[str, NDArray[np.float64]]) -> None:
        curves, times = state.get(CURVES), state.get(TIMES)
        if curves is None or times is None or curves.shape != self._curves.shape:
            raise CheckpointError(
                "the checkpoint has no averages of these spectra. Resume with the output.average_from of that run, "
                "or start again with --resume never."
            )
        self._curves[...], self._times[...] = curves, times
        if self._times[0] < self._begin:
            self.reset()


def make_averages(begin: int | None, every: Interval, n: int) -> NoAverages:
    """Return the averages of a run; None as begin and an empty interval average nothing. n: see `TimeAverages`."""
    return NoAverages() if begin is None or not every else TimeAverages(begin, every, n)


def _averaged(profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """Return the profiles over a dimension of `AVERAGED`, without the dimension itself."""
    return {
        name: profile
        for name, profile in profiles.items()
        if profile.dims[0] in AVERAGED and name not in AVERAGED
    }
