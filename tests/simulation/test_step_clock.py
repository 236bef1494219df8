"""Seconds of steps by phase: the first call apart, the others averaged, the best one and the worst one named."""

import pytest

from ridgeline.runtime import regions as module
from ridgeline.runtime.regions import Regions
from ridgeline.simulation.step_clock import StepClock


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
            step += self.clock.time(self.advance, step, 4)
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
