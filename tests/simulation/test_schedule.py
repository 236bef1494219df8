"""The driver's calendar: every event once, none skipped, the last step always an end."""

from itertools import product

from ridgeline.simulation.schedule import Schedule


def test_stepping_from_event_to_event_meets_every_event():
    for steps, output_every, checkpoint_every in product([1, 7, 30, 31], [0, 1, 4, 50], [0, 3, 10]):
        case = f"{steps=}, {output_every=}, {checkpoint_every=}"
        schedule = Schedule(steps, output_every, checkpoint_every, check_every=5)
        step, outputs, saved = 0, [], []
        while step < steps:
            following = schedule.next_event(step)
            assert step < following <= steps, case
            step = following
            if schedule.output_due(step):
                outputs.append(step)
            if schedule.checkpoint_due(step):
                saved.append(step)
        assert outputs == (
            [n for n in range(1, steps + 1) if n % output_every == 0] if output_every else []
        ), case
        if checkpoint_every:
            assert saved == [n for n in range(1, steps + 1) if n % checkpoint_every == 0 or n == steps], case
        else:
            assert saved == [], case


def test_rows_and_spectra_are_met_too():
    schedule = Schedule(
        steps=40, output_every=0, checkpoint_every=0, check_every=0, series_every=6, spectra_every=8
    )
    step, met = 0, []
    while step < 40:
        step = schedule.next_event(step)
        met.append(step)
    assert met == [6, 8, 12, 16, 18, 24, 30, 32, 36, 40]
    assert [n for n in range(41) if schedule.series_due(n)] == [0, 6, 12, 18, 24, 30, 36]
    assert [n for n in range(41) if schedule.spectra_due(n)] == [0, 8, 16, 24, 32, 40]
    assert [n for n in range(41) if schedule.check_due(n)] == [0, 8, 16, 24, 32, 40]
    never = Schedule(steps=40, output_every=0, checkpoint_every=0, check_every=0)
    assert not any(never.series_due(n) or never.spectra_due(n) for n in range(41))


def test_further_outputs_are_met_and_checked():
    schedule = Schedule(steps=12, output_every=0, checkpoint_every=0, check_every=0, further_every=(5, 3))
    step, met = 0, []
    while step < 12:
        step = schedule.next_event(step)
        met.append(step)
    assert met == [3, 5, 6, 9, 10, 12]
    assert [n for n in range(1, 13) if schedule.check_due(n)] == met


def test_state_is_checked_before_it_is_written_or_saved():
    schedule = Schedule(steps=20, output_every=4, checkpoint_every=6, check_every=0)
    assert [n for n in range(1, 21) if schedule.check_due(n)] == [4, 6, 8, 12, 16, 18, 20]
