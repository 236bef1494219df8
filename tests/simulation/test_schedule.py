"""The driver's calendar: every event once, none skipped, the last step always an end."""

from itertools import product

from ridgeline.models.contract import Recorder
from ridgeline.simulation.loop import Schedule


def recorder(every, search=True):
    return Recorder("r", "path", every, lambda attributes, keep: None, search=search)


def events(schedule):
    step, met = 0, []
    while step < schedule.steps:
        following = schedule.next_event(step)
        assert step < following <= schedule.steps, schedule
        step = following
        met.append(step)
    return met


def test_stepping_from_event_to_event_meets_every_event():
    for steps, every, checkpoint_every in product([1, 7, 30, 31], [0, 1, 4, 50], [0, 3, 10]):
        recorders = [recorder(every)] if every else []
        schedule = Schedule(steps, checkpoint_every, 5, recorders)
        met = events(schedule)
        written = [n for n in met if any(one.due(n) for one in recorders)]
        assert written == ([n for n in range(1, steps + 1) if n % every == 0] if every else []), schedule
        saved = [n for n in met if schedule.checkpoint_due(n)]
        due = [
            n for n in range(1, steps + 1) if checkpoint_every and (n % checkpoint_every == 0 or n == steps)
        ]
        assert saved == due, schedule


def test_recorders_are_met_and_searched_for_nan_before_unless_that_costs_more():
    schedule = Schedule(40, 0, 0, (recorder(6, search=False), recorder(8), recorder(20)))
    assert events(schedule) == [6, 8, 12, 16, 18, 20, 24, 30, 32, 36, 40]
    assert [n for n in range(41) if schedule.check_due(n)] == [0, 8, 16, 20, 24, 32, 40]


def test_the_state_is_searched_before_it_is_saved():
    schedule = Schedule(20, 6, 0, (recorder(4),))
    assert [n for n in range(1, 21) if schedule.check_due(n)] == [4, 6, 8, 12, 16, 18, 20]
