"""Seconds of steps by phase: the first call apart, the others averaged, the best one and the worst one named."""

import sys

import numpy as np
import pytest

from ridgeline.runtime import regions as module
from ridgeline.runtime.regions import Regions
from ridgeline.simulation.step_times import AT_ONCE, StepClock


class Stepper:
    """Calls that take so long: (steps, seconds in "compute", in "exchange", besides)."""

    def __init__(self, monkeypatch, calls):
        self.now, self.calls, self.asked = 0.0, list(calls), []
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now)
        self.regions = Regions()
        self.clock = StepClock(self.regions, ("compute", "exchange"))

    def advance(self, most):
        self.asked.append(most)
        steps, compute, exchange, other = self.calls.pop(0)
        with self.regions("compute"):
            self.now += compute
        with self.regions("exchange"):
            self.now += exchange
        self.now += other
        return steps

    def run(self, step=0):
        while self.calls:
            with self.clock:
                steps = self.advance(4)
            step += steps
            self.clock.record(step, steps)
            with self.regions("exchange"):
                self.now += 100.0  # between steps, as an output might
        return self.clock


CALLS = [(2, 8.0, 2.0, 2.0), (2, 2.0, 1.0, 1.0), (1, 1.0, 0.5, 0.25), (4, 12.0, 3.0, 1.0)]


def test_the_first_call_is_apart_from_the_others(monkeypatch):
    stepper = Stepper(monkeypatch, CALLS)
    clock = stepper.run(step=10)
    assert clock.names == ("compute", "exchange", "other", "total")
    assert (clock.first.tolist(), clock.first_steps) == ([8.0, 2.0, 2.0, 12.0], 2)
    assert (clock.steady.tolist(), clock.steady_steps) == ([15.0, 4.5, 2.25, 21.75], 7)
    mean = clock.mean()
    assert (mean.total, mean.phases["compute"]) == (pytest.approx(21.75 / 7), pytest.approx(15 / 7))
    assert sum(mean.phases.values()) == pytest.approx(mean.total)
    assert (clock.best.total, clock.best.phases) == (1.75, {"compute": 1.0, "exchange": 0.5, "other": 0.25})
    assert stepper.asked == [4, 4, 4, 4]


def test_the_worst_step_is_that_of_a_steady_call_and_named_by_its_end(monkeypatch):
    clock = Stepper(monkeypatch, CALLS).run(step=10)
    worst = clock.distribution.worst("total")
    assert (worst.seconds, worst.step, worst.steps) == (4.0, 19, 4)
    row = clock.distribution.to_dict()["compute"]
    assert (row["count"], row["min"], row["max"]) == (7, 1.0, 3.0)


def test_a_single_call_is_all_there_is(monkeypatch):
    clock = Stepper(monkeypatch, CALLS[:1]).run()
    assert clock.mean().total == 6.0
    assert clock.best is None
    assert clock.distribution.to_dict() == {}
    assert Stepper(monkeypatch, []).run().mean() is None


def test_memory_is_bounded_at_a_million_steps():
    """Whatever is read on the way; the clock itself counts the bytes of its bins and of the numbers that wait."""
    regions = Regions()
    clock, most = StepClock(regions, ("compute", "exchange")), 0
    for step in range(1_000_000):
        with clock:
            pass
        clock.record(step + 1, 1)
        if step % 997 == 0:
            most = max(most, sys.getsizeof(clock._waiting) + 24 * len(clock._waiting))
    assert most + clock.distribution.counts.nbytes < 1.2 * clock.nbytes < 500_000
    assert clock.steady_steps == 999_999


@pytest.mark.parametrize("n", [1, 2, AT_ONCE, AT_ONCE + 1, AT_ONCE + 2, 3 * AT_ONCE])
def test_nothing_is_lost_however_many_calls_wait(monkeypatch, n):
    seconds = np.random.default_rng(n).uniform(1.0, 2.0, n)
    clock = Stepper(monkeypatch, [(1, s, 0.5, 0.0) for s in seconds]).run()
    assert clock.first[0] == pytest.approx(seconds[0])
    assert clock.steady_steps == n - 1
    assert clock.steady[0] == pytest.approx(seconds[1:].sum())
    if n > 1:
        assert clock.best.phases["compute"] == pytest.approx(seconds[1:].min())
        worst = clock.distribution.worst("compute")
        assert (worst.seconds, worst.step) == (pytest.approx(seconds[1:].max()), 2 + seconds[1:].argmax())
