"""The length of the next time step where a model time must be met exactly.

A run shortens its steps before the times of outputs and before its end. The last SPREAD steps before such a time are
shortened by the same factor, which is at least 1 - 1/SPREAD where there are that many. The step after that time has
its full length again. Every length follows from the present time and the next time to be met alone, so that a resumed
run makes the same steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SPREAD = 8  # steps over which the shortening is spread
COUNTED = 1e-6  # in steps: a remainder that adds no further step, as it is the rounding of many times
ROUNDING = 1e-9  # relative: lengths that differ by less lead to the same time, and the present length is kept


def next_step(time: float, dt: float, until: float, last: float = math.nan) -> tuple[float, float]:
    """Return the length of the next step, and the model time after it.

    Parameters
    ----------
    time : present model time
    dt : length that the step has where nothing shortens it
    until : model time, later than the present one, that must be met exactly; infinity if there is none
    last : length of the last step, which is kept if as many steps of that length lead to `until`. Models whose
        operators depend on the length need not compute these anew then
    """
    remaining = (until - time) / dt
    if math.isinf(until) or remaining > SPREAD + COUNTED:
        return dt, time + dt
    n = max(1, math.ceil(remaining - COUNTED))
    left = until - time
    kept = (length for length in (dt, last) if abs(n * length - left) <= ROUNDING * left)
    length = next(kept, left / n)
    return length, until if n == 1 else time + length


@dataclass(frozen=True)
class FixedSteps:
    """Take steps of one length, except before a model time that must be met exactly.

    As long as no step was shortened, the time after step n is n dt, without the rounding of a sum.

    Parameters
    ----------
    dt : float
        Length of a step that nothing shortens, model time.

    Examples
    --------
    >>> from ridgeline.models.time_steps import FixedSteps
    >>> steps = FixedSteps(0.25)
    >>> steps.next(0, 0.0, until=0.3)
    (0.15, 0.15)
    >>> steps.next(1, 0.15, until=0.3)
    (0.15, 0.3)
    """

    dt: float

    def next(self, step: int, time: float, until: float) -> tuple[float, float]:
        """Return the length of the next step and the time after it.

        Parameters
        ----------
        step : int
            The present step.
        time : float
            Its model time.
        until : float
            The next model time that must be met, infinity if there is none.

        Returns
        -------
        tuple of two floats
            The length of the step, and the time after it.
        """
        length, after = next_step(time, self.dt, until)
        if length == self.dt and after != until and math.isclose(time, step * self.dt, rel_tol=1e-12):
            after = (step + 1) * self.dt
        return length, after

    def series(self, step: int, time: float, until: float, most: int) -> tuple[float, int, float]:
        """Return the length of the next steps, their number, and the time after them.

        Lengths and times are those of single calls of `next`, however many steps a call makes.

        Parameters
        ----------
        step, time, until
            As for `next`.
        most : int
            Steps at most.

        Returns
        -------
        tuple of a float, an int and a float
            The length of the steps, how many of them have it, and the time after these.
        """
        length, after = self.next(step, time, until)
        count = 1
        on_time = length == self.dt and after == (step + 1) * self.dt and time == step * self.dt
        if on_time and after != until:
            # The same at once, as long as the steps that are shortened are far.
            far = most if math.isinf(until) else int(min(most, (until - time) / self.dt - SPREAD - 2))
            if far > 1:
                count, after = far, (step + far) * self.dt
        while count < most and after != until:
            another, later = self.next(step + count, after, until)
            if another != length:
                break
            count, after = count + 1, later
        return length, count, after
