"""The Courant number of a run: which time step follows from it, when a step is too long, since when.

It is looked at before the first step and after each: one pass over the velocity, and one number from each rank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ridgeline.runtime.errors import ConfigError, DivergedError

STABLE_COURANT = 1.0  # beyond it, third-order extrapolation of the advection grows on any flow
SAFE_COURANT = 0.5  # what it stands on most flows
# In one step at most, of flow that is resolved: where fluid moves by less than the distance of two points, between
# which its velocity differs by less than itself, |dt u.grad u| <= Courant number |u| <= |u|.
GROWTH = 2.0
BAND = 0.2  # share of the Courant number asked for by which that of a step may differ before the step changes
ROUNDING = 1e-9  # of a Courant number
DIGITS = 3  # of a step: numbers of ranks, whose velocities differ by rounding, choose the same steps


@dataclass(frozen=True)
class StepControl:
    """How long a step is, by its Courant number. A step is kept as long as that is within BAND of the one asked for.

    For operators, their diagonals, and the response to a held flow rate depend on the step.

    courant: asked for; shortest, longest: bounds of the step, time; change: most by which a step is longer or shorter
    than the one before it, as a factor.
    """

    courant: float
    shortest: float = 0.0
    longest: float = math.inf
    change: float = 1.25

    def first(self, rate: float) -> float:
        """Return the first step of a flow whose Courant number is `rate`, 1/time, times the step.

        Raises ConfigError for a flow at rest without a longest step.
        """
        if rate == 0.0 and self.longest == math.inf:
            raise ConfigError(
                f"model.courant = {self.courant:g} gives no first time step, as the fluid is at rest and no side "
                "moves it yet; set model.dt_max, the longest step, too"
            )
        return self.bounded(self._wanted(rate))

    def after(self, dt: float, rate: float) -> float:
        """Return the step that follows one of dt, after which the flow has the Courant number rate dt."""
        kept = abs(rate * dt - self.courant) <= BAND * self.courant
        if kept and self.bounded(dt) == dt:
            return dt
        return self.bounded(min(max(self._wanted(rate), dt / self.change), dt * self.change))

    def bounded(self, dt: float) -> float:
        """Return a step within the bounds."""
        return min(max(dt, self.shortest), self.longest)

    def _wanted(self, rate: float) -> float:
        return float(f"{self.courant / rate:.{DIGITS}g}") if rate else math.inf


def advice(number: float, dt: float) -> str:
    """Return what to say after the Courant number of step 0 of a fixed dt, "" if it is one to run with."""
    if number <= SAFE_COURANT * (1.0 + ROUNDING):
        return ""
    longest = dt * SAFE_COURANT / number
    unit = 10.0 ** (math.floor(math.log10(longest)) - DIGITS + 1)
    safe = f"model.dt <= {math.floor(longest / unit) * unit:.{DIGITS}g}"
    if number > STABLE_COURANT:
        return f", beyond stability ({STABLE_COURANT:g}), a run ends at once: need {safe}"
    return f", more than most flows stand ({SAFE_COURANT:g}): try {safe}"


def first_step_remark(rate: float, dt: float | None, control: StepControl | None) -> str:
    """Return what `ridgeline check` says of the first step. rate: Courant number over dt, 1/time."""
    if control is None:
        assert dt is not None  # settings/sections.py: either dt or courant
        return f"Courant number of step 0: {rate * dt:.3g}{advice(rate * dt, dt)}"
    if rate == 0.0 and control.longest == math.inf:
        return "time step of step 0: none, as the fluid is at rest and a run ends at once: need model.dt_max"
    dt = control.first(rate)
    number = rate * dt
    words = f"time step of step 0: {dt:.3g}, with the Courant number {number:.3g}"
    key = "model.dt_min" if dt == control.shortest else "model.courant"
    if number > STABLE_COURANT:
        return f"{words}, beyond stability ({STABLE_COURANT:g}), a run ends at once: need a smaller {key}"
    judged = number if dt in (control.shortest, control.longest) else control.courant
    if judged > SAFE_COURANT * (1.0 + ROUNDING):
        return f"{words}, more than most flows stand ({SAFE_COURANT:g}): try a smaller {key}"
    return words


def ends_at_once(rate: float, dt: float | None, control: StepControl | None) -> bool:
    """Say whether a run refuses its first step, as `first_step_remark` says then."""
    if control is None:
        assert dt is not None
        return rate * dt > STABLE_COURANT
    if rate == 0.0 and control.longest == math.inf:
        return True
    return rate * control.first(rate) > STABLE_COURANT


class CourantWatch:
    """Follows the Courant number of steps, and knows the last step whose flow was sane.

    Sane is a flow whose Courant number has at most doubled in a step, that of equal steps. The first step of a run
    may change the flow that it finds by any amount. A wall, an inflow or a force may start at once.
    control: what chooses the steps, None where they are fixed.
    """

    def __init__(self, control: StepControl | None = None) -> None:
        self._control = control
        self.begin()

    def begin(self) -> None:
        """Forget all steps."""
        self._seen = 0
        self._last = 0.0  # Courant number over the step
        self._sane = (0, 0.0)

    @property
    def begun(self) -> bool:
        """Whether a step has been seen."""
        return self._seen > 0

    def see(self, step: int, number: float, dt: float) -> None:
        """Take the Courant number after a step of dt, or before the first, which is to be of dt.

        Raises DivergedError if it is beyond stability, or not finite.
        """
        judged = self._seen > 1
        if math.isfinite(number) and (number <= GROWTH * self._last * dt or not judged):
            self._sane = (step, number)
        self._seen += 1
        self._last = number / dt
        if not number <= STABLE_COURANT:
            raise DivergedError(self._words(step, number, dt))

    def _words(self, step: int, number: float, dt: float) -> str:
        sane, before = self._sane
        found = f"has the Courant number {number:.3g}" if math.isfinite(number) else "left no finite velocity"
        reason = f"for {SAFE_COURANT:g} there"
        blew_up = ""
        if sane < step:
            reason = blew_up = (
                f"as the flow blew up after step {sane}, the last whose Courant number had at most doubled "
                f"({before:.3g})"
            )
        if self._control is None:
            most = dt * SAFE_COURANT / max(before, STABLE_COURANT)
            return (
                f"model.dt = {dt:g} {found} at step {step}; need at most {STABLE_COURANT:g}: set model.dt <= "
                f"{most:.3g}, {reason}"
            )
        keys = "model.dt_min" if dt <= self._control.shortest else "model.courant or model.dt_max"
        asked = self._control.courant
        return (
            f"the time step {dt:g}, by model.courant = {asked:g}, {found} at step {step}; need at most "
            f"{STABLE_COURANT:g}: set a smaller {keys}, {blew_up or 'as the flow became fast within few steps'}"
        )
