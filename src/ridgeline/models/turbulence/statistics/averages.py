"""Averages of profiles over time, which go on through checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.contract import Profile
from ridgeline.runtime.errors import CheckpointError

AVERAGED = ("k", "separation")  # dimensions of the profiles that are averaged
CURVES, TIMES = "average_curves", "average_times"


class TimeAverages:
    """The mean over time of profiles, by the trapezoidal rule between the steps at which they are taken.

    Equal on all ranks, as profiles are. begin, every: the steps that count are multiples of `every` from `begin` on;
    n: numbers of all profiles that are averaged together (`diagnostics.averaged_numbers`).
    """

    def __init__(self, begin: int, every: int, n: int) -> None:
        self._begin, self._every = begin, every
        self._curves = np.zeros((2, n))  # integral over time, and the latest
        self._times = np.full(4, np.nan)  # first and latest step, first and latest time
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._curves[...] = 0.0
        self._times[...] = -1.0

    def take(self, step: int, time: float, profiles: Mapping[str, Profile]) -> None:
        """Take the profiles of a step into account, once, if it is one that counts. No communication."""
        if step < self._begin or step % self._every or step <= self._times[1]:
            return
        values = np.concatenate([p.values for p in _averaged(profiles).values()])
        if self._times[0] < 0:
            self._times[::2] = step, time
        else:
            self._curves[0] += (time - self._times[3]) / 2 * (self._curves[1] + values)
        self._times[1::2] = step, time
        self._curves[1] = values

    def profiles(self, present: Mapping[str, Profile]) -> dict[str, Profile]:
        """Return the averages as mean_..., and the time that they are over; NaN before the first step that counts.

        present: profiles like those to take.
        """
        first, _, begin, end = self._times
        duration = end - begin
        mean = self._curves[0] / duration if duration > 0 else self._curves[1]
        if first < 0:
            mean = np.full_like(mean, np.nan)
        found, place = {}, 0
        for name, profile in _averaged(present).items():
            values = mean[place : place + profile.values.size]
            words = f"mean over averaged_time of {name}"
            found[f"mean_{name}"] = Profile(values, profile.dims, profile.unit, words)
            place += profile.values.size
        words = "time that averages are over"
        found["averaged_time"] = Profile(np.array([duration]), ("average",), description=words)
        return found

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the small arrays, equal on all ranks, that a run needs to go on as if never stopped."""
        return {CURVES: self._curves, TIMES: self._times}

    def restored(self, state: Mapping[str, NDArray[np.float64]]) -> None:
        """Take back what `state` gave; averages that began before `begin` begin anew.

        Raises CheckpointError if they are of other profiles.
        """
        curves, times = state.get(CURVES), state.get(TIMES)
        if curves is None or times is None or curves.shape != self._curves.shape:
            raise CheckpointError(
                "the checkpoint has no averages of these spectra; resume with the output.average_from of that run, "
                "or start anew with --resume never"
            )
        self._curves[...], self._times[...] = curves, times
        if self._times[0] < self._begin:
            self.forget()


def _averaged(profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """Return those that are averaged: curves over a dimension of `AVERAGED`, not the dimension itself."""
    return {
        name: profile
        for name, profile in profiles.items()
        if profile.dims[0] in AVERAGED and name not in AVERAGED
    }
