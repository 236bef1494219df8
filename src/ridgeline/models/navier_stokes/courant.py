"""The Courant number of a run: when a time step is too long, since when, and how long it may be.

It is looked at before the first step and after each: one pass over the velocity, and one number from each rank.
"""

from __future__ import annotations

import math

from ridgeline.runtime.errors import DivergedError

STABLE_COURANT = 1.0  # beyond it, third-order extrapolation of the advection grows on any flow
SAFE_COURANT = 0.5  # what it stands on most flows
# In one step at most, of flow that is resolved: where fluid moves by less than the distance of two points, between
# which its velocity differs by less than itself, |dt u.grad u| <= Courant number |u| <= |u|.
GROWTH = 2.0


def advice(number: float, dt: float) -> str:
    """Return what to say after the Courant number of step 0, "" if it is one to run with."""
    safe = f"model.dt <= {dt * SAFE_COURANT / max(number, SAFE_COURANT):.3g}"
    if number > STABLE_COURANT:
        return f", beyond stability ({STABLE_COURANT:g}), a run ends at once: need {safe}"
    return f", more than most flows stand ({SAFE_COURANT:g}): try {safe}" if number > SAFE_COURANT else ""


class CourantWatch:
    """Follows the Courant number of steps of length dt, and knows the last step whose flow was sane.

    Sane is a flow whose Courant number has at most doubled in a step. The first step of a run may change the flow
    that it finds by any amount. A wall, an inflow or a force may start at once.
    """

    def __init__(self, dt: float) -> None:
        self.dt = dt
        self.begin()

    def begin(self) -> None:
        """Forget all steps."""
        self._seen = 0
        self._last = 0.0
        self._sane = (0, 0.0)

    @property
    def begun(self) -> bool:
        """Whether a step has been seen."""
        return self._seen > 0

    def see(self, step: int, number: float) -> None:
        """Take the Courant number after a step. Raises DivergedError if it is beyond stability, or not finite."""
        judged = self._seen > 1
        if math.isfinite(number) and (number <= GROWTH * self._last or not judged):
            self._sane = (step, number)
        self._seen += 1
        self._last = number
        if not number <= STABLE_COURANT:
            raise DivergedError(self._words(step, number))

    def _words(self, step: int, number: float) -> str:
        sane, before = self._sane
        most = self.dt * SAFE_COURANT / max(before, STABLE_COURANT)
        found = f"has the Courant number {number:.3g}" if math.isfinite(number) else "left no finite velocity"
        reason = f"for {SAFE_COURANT:g} there"
        if sane < step:
            reason = (
                f"as the flow blew up after step {sane}, the last whose Courant number had at most doubled "
                f"({before:.3g})"
            )
        return (
            f"model.dt = {self.dt:g} {found} at step {step}; need at most {STABLE_COURANT:g}: set model.dt <= "
            f"{most:.3g}, {reason}"
        )
