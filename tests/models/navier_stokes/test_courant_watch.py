"""When a run is stopped for its time step, and which step its advice is from."""

import math

import pytest

from ridgeline.models.navier_stokes.time_stepping import CourantWatch
from ridgeline.runtime.errors import DivergedError


def stopped(*numbers: float, first: int = 0) -> str:
    """Return what ends a run with dt = 0.1 whose steps have these Courant numbers; the last of them must end it."""
    watch = CourantWatch()
    for step, number in enumerate(numbers[:-1], start=first):
        watch.see(step, number, 0.1)
    with pytest.raises(DivergedError) as caught:
        watch.see(first + len(numbers) - 1, numbers[-1], 0.1)
    return str(caught.value)


def test_a_flow_that_becomes_fast_asks_for_what_it_needs_there() -> None:
    told = (
        "model.dt = 0.1 gives the Courant number 1.25 at step 4, but it must be at most 1. Set model.dt <= 0.04, for "
        "a Courant number of 0.5 there."
    )
    assert stopped(0.7, 0.8, 0.9, 0.95, 1.25) == told
    assert stopped(2.5, first=7).startswith("model.dt = 0.1 gives the Courant number 2.5 at step 7, ")
    assert "Set model.dt <= 0.02, for a Courant number of 0.5 there" in stopped(2.5, first=7)


def test_a_flow_that_blew_up_is_not_asked() -> None:
    assert stopped(0.5, 0.6, 0.6, 1e9) == (
        "model.dt = 0.1 gives the Courant number 1e+09 at step 3, but it must be at most 1. Set model.dt <= 0.05, "
        "because the flow blew up after step 2, the last step in which the Courant number had at most doubled (0.6)."
    )
    # It may take several steps to.
    assert "blew up after step 1, " in stopped(0.001, 0.002, 0.02, 0.2, 1.9)
    told = stopped(0.3, 0.3, math.nan)
    assert told.startswith("model.dt = 0.1 gives a velocity that is not finite at step 2. ")
    assert "Set model.dt <= 0.05, because the flow blew up after step 1, " in told


def test_a_flow_that_starts_at_once_is_as_sane_as_any() -> None:
    watch = CourantWatch()
    for step, number in enumerate([0.0, 0.9, 0.9, 0.3, 0.9, 0.95]):  # driven from rest, and again
        watch.see(step, number, 0.1)
    assert "Set model.dt <= 0.0333, for a Courant number of 0.5 there" in stopped(0.0, 1.5)
    assert "Set model.dt <= 0.0333, for a Courant number of 0.5 there" in stopped(0.0, 0.0, 0.4, 0.9, 1.5)


def test_a_resumed_run_begins_anew() -> None:
    watch = CourantWatch()
    watch.see(0, 0.001, 0.1)
    watch.see(1, 0.001, 0.1)
    watch.begin()
    assert not watch.begun
    watch.see(40, 0.5, 0.1)
    watch.see(41, 0.9, 0.1)
