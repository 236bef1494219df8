"""Settings of the time step: fixed, or as long as the Courant number allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from ridgeline.config.fields import ON, Checked, Number, Problem, setting
from ridgeline.models.navier_stokes.courant import BAND, StepControl
from ridgeline.models.navier_stokes.multistep import MOST_CHANGE

LARGEST_COURANT = 0.8  # whose band, 20 % to both sides, is stable


class TimeSettings(Checked):
    """How long a time step is, and of which order. The base of [model]."""

    dt: Number | None = setting(
        None,
        "Time step; `ridgeline check` says its Courant number for the flow of step 0. Or else courant.",
        unit="time",
        rule="a number > 0, or model.courant instead",
        gt=0,
    )
    courant: Number | None = setting(
        None,
        "Courant number dt max(|u|/dx + |v|/dy + |w|/dz) that sets the time step, which changes when the number is "
        f"{100 * BAND:g} % away; or else dt.",
        rule=f"a number > 0 and <= {LARGEST_COURANT:g}, or model.dt instead",
        gt=0,
        le=LARGEST_COURANT,
    )
    dt_min: Number | None = setting(
        None,
        "Shortest time step by model.courant. A flow that is too fast for it ends the run. Not set: any.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"courant": ON},
    )
    dt_max: Number | None = setting(
        None,
        "Longest time step by model.courant, which a flow at rest takes. Not set: any.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"courant": ON},
    )
    dt_change: Number = setting(
        1.25,
        "Most by which model.courant makes a time step longer or shorter than the one before, as a factor.",
        rule=f"a number > 1 and <= {MOST_CHANGE:g}, which the third order stands",
        gt=1,
        le=MOST_CHANGE,
        needs={"courant": ON},
    )
    time_order: Literal[1, 2, 3] = setting(3, "Order of backward differences and extrapolation.")

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if (self.dt is None) == (self.courant is None):
            yield Problem("courant", "exactly one of model.dt and model.courant")
        elif self.dt_min is not None and self.dt_max is not None and self.dt_min > self.dt_max:
            yield Problem("dt_max", f"a number >= model.dt_min = {self.dt_min:g}")

    def control(self) -> StepControl | None:
        """Return what chooses the steps, None where they are fixed."""
        if self.courant is None:
            return None
        longest = math.inf if self.dt_max is None else self.dt_max
        return StepControl(self.courant, self.dt_min or 0.0, longest, self.dt_change)
