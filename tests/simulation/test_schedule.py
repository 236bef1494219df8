"""The calendar of the time loop: every event once, none skipped, and the end always an event."""

import math
from itertools import pairwise, product

import pytest

from ridgeline.config.intervals import NEVER, Interval, Moment
from ridgeline.models.contract import Recorder
from ridgeline.models.time_steps import FixedSteps, next_step
from ridgeline.simulation.loop import Schedule


def recorder(*every, search=True):
    return Recorder("r", "path", Interval(*every), lambda attributes, keep: None, search=search)


START = Moment(0, 0.0)


def pairs(schedule, dt=1.0, sweep=100, at=START):
    """Return (before, now) of each moment at which something may be due, with sweeps of up to so many steps."""
    steps, met = FixedSteps(dt), []
    while not schedule.ends(at):
        horizon, before = schedule.horizon(at), at
        while horizon.includes(at) or at == before:
            before = at
            most, until = horizon.stride(at)
            assert most >= 1
            assert until > at.time
            _, count, time = steps.series(at.step, at.time, until, min(most, sweep))
            at = Moment(at.step + count, time)
        met.append((before, at))
    return met


@pytest.mark.parametrize("dt", [0.1, 0.25, 1 / 3])
@pytest.mark.parametrize("until", [math.inf, 3.0, 7.31, 40.0])
def test_a_series_of_steps_has_the_times_of_single_ones(dt, until):
    steps = FixedSteps(dt)
    times = [0.0]
    lengths = []
    while times[-1] < min(until, 30.0):
        length, after = steps.next(len(lengths), times[-1], until)
        lengths.append(length)
        times.append(after)
    for first, most in product(range(0, len(lengths), 7), (1, 2, 9, 50)):
        length, count, after = steps.series(first, times[first], until, min(most, len(lengths) - first))
        assert lengths[first : first + count] == [length] * count
        assert after == times[first + count]
        last = first + count
        assert count == most or last == len(lengths) or lengths[last] != length


def due(met, interval):
    return [now for before, now in met if interval.due(before, now)]


def test_stepping_from_event_to_event_meets_every_event():
    for steps, every, saved_every in product([1, 7, 30, 31], [0, 1, 4, 50], [0, 3, 10]):
        recorders = [recorder(every)] if every else []
        schedule = Schedule(steps, None, Interval(saved_every), saved_every > 0, Interval(5), recorders)
        met = pairs(schedule)
        written = [now.step for now in due(met, Interval(every))]
        assert written == ([n for n in range(1, steps + 1) if n % every == 0] if every else []), schedule
        saved = [now.step for before, now in met if schedule.checkpoint_due(before, now)]
        expected = [n for n in range(1, steps + 1) if saved_every and (n % saved_every == 0 or n == steps)]
        assert saved == expected, schedule


def test_recorders_are_met_and_searched_for_nan_before_unless_that_costs_more():
    schedule = Schedule(40, recorders=(recorder(6, search=False), recorder(8), recorder(20)))
    met = pairs(schedule)
    assert [now.step for _, now in met] == [6, 8, 12, 16, 18, 20, 24, 30, 32, 36, 40]
    assert [now.step for each in met for now in each[1:] if schedule.check_due(*each)] == [
        8,
        16,
        20,
        24,
        32,
        40,
    ]


def test_a_recorder_writes_at_either_of_two_intervals():
    """Once where both are due; the times of the second are met, and NaN is looked for before."""
    both = Recorder("r", "path", Interval(4), lambda attributes, keep: None, also=Interval(6, 0.95))
    schedule = Schedule(20, recorders=(both,), longest=0.1)
    met = pairs(schedule, 0.1)
    written = [now for before, now in met if both.due(before, now)]
    steps = {4, 6, 8, 12, 16, 18, 20}
    assert steps < {now.step for now in written}
    assert [now.time for now in written if now.step not in steps] == [0.95]
    assert all(schedule.check_due(*each) for each in met if both.due(*each))


def test_the_state_is_searched_before_it_is_saved():
    schedule = Schedule(20, None, Interval(6), True, NEVER, (recorder(4),))
    met = [each for each in pairs(schedule) if schedule.check_due(*each)]
    assert [now.step for _, now in met] == [4, 6, 8, 12, 16, 18, 20]


@pytest.mark.parametrize("sweep", [1, 3])
@pytest.mark.parametrize("dt", [0.1, 0.3, 0.07])
def test_model_times_and_the_end_are_met_exactly_in_sweeps_of_any_length(dt, sweep):
    schedule = Schedule(None, 10.1, recorders=(recorder(0, 0.7), recorder(7, 2.0)), longest=dt)
    met = pairs(schedule, dt, sweep)
    assert met[-1][1].time == 10.1
    assert [now.time for now in due(met, Interval(0, 0.7))] == [k * 0.7 for k in range(1, 15)]
    assert [now.time for now in due(met, Interval(0, 2.0))] == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert [now for _, now in met] == [now for _, now in pairs(schedule, dt, 1)]


def test_a_resumed_run_meets_the_times_of_one_that_was_never_stopped():
    schedule = Schedule(None, 10.1, Interval(9, 1.3), recorders=(recorder(0, 0.7),), longest=0.07)
    whole = pairs(schedule, 0.07)
    for before, now in whole:
        if schedule.checkpoint_due(before, now):
            resumed = pairs(schedule, 0.07, at=now)
            assert resumed == whole[len(whole) - len(resumed) :]


def test_without_alignment_and_for_checkpoints_the_first_step_after_a_time_counts_and_none_is_shortened():
    schedule = Schedule(None, 10.1, Interval(0, 1.3), recorders=(recorder(0, 0.7),), align=False, longest=0.3)
    met = pairs(schedule, 0.3)
    assert [now.step for now in due(met, Interval(0, 0.7))] == [
        math.ceil(k * 0.7 / 0.3 - 1e-9) for k in range(1, 15)
    ]
    assert [now.step for now in due(met, Interval(0, 1.3))] == [
        math.ceil(k * 1.3 / 0.3 - 1e-9) for k in range(1, 8)
    ]
    assert met[-1][1].step == 34
    assert all(now.time == now.step * 0.3 for _, now in met)
    aligned = Schedule(50, None, Interval(0, 1.3), longest=0.3)
    assert all(now.time == now.step * 0.3 for _, now in pairs(aligned, 0.3))


def test_seconds_of_the_clock_are_due_once_for_each_interval():
    every = Interval(wall=60.0)
    clock = [0.0, 59.0, 60.5, 61.0, 200.0, 201.0]
    moments = [Moment(n, float(n), wall) for n, wall in enumerate(clock)]
    assert [every.due(a, b) for a, b in pairwise(moments)] == [False, True, False, True, False]
    horizon = Schedule(100, None, every).horizon(moments[0])
    assert [horizon.includes(now) for now in moments] == [True, True, False, False, False, False]


def test_a_shortening_is_spread_over_eight_steps_and_ends_at_the_time():
    time, lengths = 0.0, []
    while time < 2.04:
        length, time = next_step(time, 0.1, 2.04)
        lengths.append(length)
    assert time == 2.04
    assert lengths[:13] == [0.1] * 13
    assert lengths[13:] == pytest.approx([0.74 / 8] * 8)


def test_a_time_that_steps_lead_to_anyway_keeps_their_length_and_times():
    for dt, until in ((0.1, 0.7), (0.3, 2.1), (0.07, 7.0)):
        steps, step, time = FixedSteps(dt), 0, 0.0
        while time < until:
            length, time = steps.next(step, time, until)
            step += 1
            assert length == dt
            assert time in (step * dt, until)
        assert steps.next(step, time, math.inf) == (dt, (step + 1) * dt)


def test_the_length_of_the_last_step_is_kept_while_it_leads_to_the_time():
    first, time = next_step(1000.0, 0.1, 1000.35)
    for _ in range(3):
        length, time = next_step(time, 0.1, 1000.35, first)
        assert length == first
    assert time == 1000.35
