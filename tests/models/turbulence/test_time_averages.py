"""Averages of profiles over time: the trapezoidal rule, what counts, and what a checkpoint takes along."""

import math

import numpy as np
import pytest

from ridgeline.config.intervals import Interval, Moment
from ridgeline.models.contract import Profile
from ridgeline.models.turbulence.diagnostics import Diagnostics, ScalarParameters
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.time_averages import TimeAverages
from ridgeline.runtime.errors import CheckpointError
from whole_box import COMM, WholeTransform, make_modes, random_velocity

PLACES = {"k": Profile(np.arange(3.0), ("k",)), "ratio": Profile(np.ones(2), ("ratio",))}


def at(value):
    """Profiles of a present state."""
    return {
        **PLACES,
        "energy_spectrum": Profile(value * np.array([1.0, 2.0, 3.0]), ("k",)),
        "enstrophy_density": Profile(np.full(2, value), ("ratio",)),
    }


def add(averages, step, time, profiles):
    averages.add(Moment(step - 1, time - 0.1), Moment(step, time), profiles)


def mean(averages):
    found = averages.profiles(at(0.0))
    assert sorted(found) == ["averaged_time", "mean_energy_spectrum"]
    return found["mean_energy_spectrum"].values[0], float(found["averaged_time"].values[0])


def test_uneven_times_weigh_by_their_length():
    averages = TimeAverages(10, Interval(5), 3)
    value, duration = mean(averages)
    assert math.isnan(value)
    assert duration == 0
    add(averages, 5, 0.5, at(100.0))  # before the first step that counts
    add(averages, 10, 1.0, at(2.0))
    assert mean(averages) == (2.0, 0.0)
    add(averages, 10, 1.0, at(2.0))  # asked for twice
    add(averages, 12, 1.5, at(50.0))  # is not written
    add(averages, 15, 2.0, at(4.0))
    add(averages, 20, 5.0, at(6.0))
    assert mean(averages) == pytest.approx(((3.0 + 3 * 5.0) / 4, 4.0))
    averages.reset()
    assert math.isnan(mean(averages)[0])


def test_multiples_of_a_time_are_averaged():
    averages = TimeAverages(0, Interval(time=0.5), 3)
    for step, time in enumerate((0.0, 0.25, 0.5, 0.85, 0.9, 0.95, 1.0)):
        add(averages, step, time, at(1.0 + step))
    assert mean(averages) == pytest.approx(((2.0 * 0.5 + 5.0 * 0.5), 1.0))


def test_a_checkpoint_carries_the_average_to_the_bit():
    times = np.cumsum([0.1, 0.3, 0.2, 0.7, 0.1])
    whole, first, second = (TimeAverages(0, Interval(1), 3) for _ in range(3))
    for step, time in enumerate(times):
        add(whole, step, time, at(math.sin(time)))
    for step, time in enumerate(times[:3]):
        add(first, step, time, at(math.sin(time)))
    second.restored({name: array.copy() for name, array in first.state().items()})
    for step, time in enumerate(times[2:], 2):
        add(second, step, time, at(math.sin(time)))
    assert mean(second) == mean(whole)


def test_a_later_begin_forgets_what_came_before_it():
    first, second = TimeAverages(0, Interval(1), 3), TimeAverages(2, Interval(1), 3)
    add(first, 0, 0.0, at(9.0))
    add(first, 1, 1.0, at(9.0))
    second.restored(first.state())
    assert math.isnan(mean(second)[0])
    add(second, 2, 2.0, at(1.0))
    assert mean(second) == (1.0, 0.0)


def test_averages_of_other_spectra_are_refused():
    for state in ({}, TimeAverages(0, Interval(1), 4).state()):
        with pytest.raises(CheckpointError, match=r"no averages of these spectra.*output.average_from"):
            TimeAverages(0, Interval(1), 3).restored(state)


@pytest.mark.parametrize("n_scalars", [0, 2])
def test_as_many_numbers_are_averaged_as_are_said(n_scalars):
    modes = make_modes((8, 12, 10), (2 * math.pi, 3.0, 7.5), "phase-shift")
    scalars = [ScalarParameters(0.1)] * n_scalars
    diagnostics = Diagnostics(COMM, HostPasses(modes, WholeTransform(modes)), 0.1, scalars)
    profiles = diagnostics.profiles(random_velocity(modes, n_scalars=n_scalars))
    averages = TimeAverages(0, 1, diagnostics.averaged_numbers())
    add(averages, 0, 0.0, profiles)
    for name, profile in averages.profiles(profiles).items():
        if name != "averaged_time":
            np.testing.assert_array_equal(profile.values, profiles[name.removeprefix("mean_")].values)
            assert profile.dims == profiles[name.removeprefix("mean_")].dims
