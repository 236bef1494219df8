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
    if remaining > SPREAD + COUNTED:
        return dt, time + dt
    n = max(1, math.ceil(remaining - COUNTED))
    left = until - time
    kept = (length for length in (dt, last) if abs(n * length - left) <= ROUNDING * left)
    length = next(kept, left / n)
    return length, until if n == 1 else time + length


@dataclass(frozen=True)
class FixedSteps:
    """Steps of one length dt, except before a time to be met.

    As long as no step was shortened, the time after step n is n dt, without the rounding of a sum.
    """

    dt: float

    def next(self, step: int, time: float, until: float) -> tuple[float, float]:
        """Return what `next_step` does for the step after `step`, which is at `time`."""
        length, after = next_step(time, self.dt, until)
        if length == self.dt and after != until and math.isclose(time, step * self.dt, rel_tol=1e-12):
            after = (step + 1) * self.dt
        return length, after

    def series(self, step: int, time: float, until: float, most: int) -> tuple[float, int, float]:
        """Return the length of the next steps, how many of them have it, at most `most`, and the time after these.

        Lengths and times are those of single calls of `next`, however many steps a call makes.
        """
        length, after = self.next(step, time, until)
        count = 1
        while count < most and after != until:
            another, later = self.next(step + count, after, until)
            if another != length:
                break
            count, after = count + 1, later
        return length, count, after
