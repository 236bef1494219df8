"""The time step that a Courant number asks for: when it changes, by how much, and within which bounds."""

import math

import pytest

from ridgeline.models.navier_stokes.check_remarks import first_step_remark
from ridgeline.models.navier_stokes.time_stepping import CourantWatch, StepControl
from ridgeline.runtime.errors import ConfigError, DivergedError


def test_the_first_step_has_the_courant_number_to_three_digits() -> None:
    assert StepControl(0.4).first(7.0) == 0.0571
    assert StepControl(0.4, longest=0.05).first(7.0) == 0.05
    assert StepControl(0.4, shortest=0.06).first(7.0) == 0.06
    assert StepControl(0.4, longest=0.05).first(0.0) == 0.05
    with pytest.raises(
        ConfigError, match=r"model.courant = 0.4 determines no first time step, .* Set model.dt_max"
    ):
        StepControl(0.4).first(0.0)


def test_a_step_is_kept_as_long_as_its_number_is_near() -> None:
    control = StepControl(0.5)
    for number in (0.41, 0.5, 0.59):
        assert control.after(0.1, number / 0.1) == 0.1
    assert control.after(0.1, 6.1) == 0.082
    assert control.after(0.1, 3.9) == 0.1 * 1.25
    assert control.after(0.1, 4.2) == 0.1
    assert control.after(0.0123456, 0.39 / 0.0123456) == 0.0123456 * 1.25  # 0.0158, which is longer


def test_a_step_changes_by_the_factor_at_most() -> None:
    control = StepControl(0.5, change=1.1)
    assert control.after(0.1, 9.0) == 0.1 / 1.1
    assert control.after(0.1, 0.0) == 0.1 * 1.1
    dt = 1.0
    for _ in range(40):
        before, dt = dt, control.after(dt, 20.0)
        assert 1 / 1.1001 < dt / before <= 1
    assert 0.4 <= 20 * dt <= 0.6


def test_bounds_are_kept_and_reached() -> None:
    control = StepControl(0.5, shortest=0.08, longest=0.12)
    assert control.after(0.1, 9.0) == 0.08
    assert control.after(0.08, 9.0) == 0.08
    assert control.after(0.1, 0.1) == 0.12
    assert control.after(0.12, 0.0) == 0.12
    # Bounds that were changed on the way hold at once.
    assert control.after(1.0, 0.5) == 0.12
    assert control.after(0.01, 50.0) == 0.08


def stopped(control: StepControl, dt: float, *numbers: float) -> str:
    watch = CourantWatch(control)
    for step, number in enumerate(numbers[:-1]):
        watch.see(step, number, dt)
    with pytest.raises(DivergedError) as caught:
        watch.see(len(numbers) - 1, numbers[-1], dt)
    return str(caught.value)


def test_a_step_that_is_too_long_all_the_same_is_told() -> None:
    assert stopped(StepControl(0.4), 0.1, 0.4, 0.7, 1.2) == (
        "the time step 0.1, which model.courant = 0.4 chose, gives the Courant number 1.2 at step 2, but it must be "
        "at most 1. Set a smaller model.courant or model.dt_max, because the flow became fast within a few steps."
    )
    assert "Set a smaller model.dt_min, because the flow became" in stopped(
        StepControl(0.4, 0.1), 0.1, 0.9, 0.9, 1.1
    )
    assert "because the flow blew up after step 1, the last" in stopped(StepControl(0.4), 0.1, 0.4, 0.4, 50.0)
    assert "gives a velocity that is not finite at step 1" in stopped(StepControl(0.4), 0.1, 0.4, math.nan)


def test_a_flow_that_doubles_in_a_shorter_step_is_sane() -> None:
    watch = CourantWatch(StepControl(0.4))
    for step, (number, dt) in enumerate([(0.1, 0.1), (0.1, 0.1), (0.15, 0.08)]):
        watch.see(step, number, dt)
    with pytest.raises(DivergedError, match="blew up after step 2"):
        watch.see(3, 1.6, 0.4)  # more than twice the speed, in a step five times as long


def test_a_courant_number_of_half_is_not_too_large() -> None:
    rate = 0.5 / 0.12345  # its step is rounded to 0.123, and for the next one to 0.124
    for exact in (rate, 0.5 / 0.12365):
        assert "above" not in first_step_remark(exact, None, StepControl(0.5))
    tried = first_step_remark(rate, 0.2, None).rpartition("model.dt <= ")[2].rstrip(".")
    assert tried == "0.123"
    assert "above" not in first_step_remark(rate, float(tried), None)


def test_what_check_says_of_the_first_step() -> None:
    assert first_step_remark(4.0, 0.1, None) == "Courant number of step 0: 0.4"
    said = first_step_remark(4.0, None, StepControl(0.4))
    assert said == "time step of step 0: 0.1, with the Courant number 0.4"
    said = first_step_remark(4.0, None, StepControl(0.6))
    assert said.endswith(
        ", with the Courant number 0.6, above the limit that is safe for most flows (0.5). Try a smaller "
        "model.courant."
    )
    said = first_step_remark(4.0, None, StepControl(0.4, shortest=0.5))
    assert said.endswith(
        "2, above the stability limit (1), so a run ends at once. Set a smaller model.dt_min."
    )
    assert first_step_remark(0.0, None, StepControl(0.4)).endswith("a run ends at once. Set model.dt_max.")
    assert "step 0: 0.3, with the Courant number 0" in first_step_remark(
        0.0, None, StepControl(0.4, longest=0.3)
    )
