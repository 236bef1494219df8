"""Checks of the arguments that people give to a `Simulation`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, Any

from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from ridgeline.config.case import AnyCase

# `change` refuses the settings of these sections, except for the keys of _CHANGEABLE.
_FIXED_SECTIONS = ("run", "grid", "output", "checkpoint", "callback", "recorder")
_CHANGEABLE = ("run.steps", "run.end_time")


def check_steps(call: str, steps: Any, least: int) -> int:
    """Return a number of steps. Raises ConfigError unless it is an integer of Python or NumPy, `least` or more."""
    with contextlib.suppress(TypeError):
        if not isinstance(steps, bool) and index(steps) >= least:
            return index(steps)
    raise ConfigError(f"{call}: the number of steps is {steps!r}, but it must be an integer >= {least}.")


def check_time(call: str, until: Any, now: float) -> float:
    """Return a model time. Raises ConfigError unless it is a finite number that is not before `now`."""
    with contextlib.suppress(TypeError, ValueError):
        if not isinstance(until, bool | str) and math.isfinite(time := float(until)):
            if time < now:
                raise ConfigError(
                    f"{call}: the time is {time:g}, but it must be at least {now:g}, the current time of the run."
                )
            return time
    raise ConfigError(f"{call}: the time is {until!r}, but it must be a finite number.")


def require_mapping(call: str, values: Any) -> None:
    """Raise ConfigError unless values are a mapping."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{call}: {values!r} is not a mapping from names to values.")


def refuse_changes(old: AnyCase, new: AnyCase, step: int, time: float) -> None:
    """Raise ConfigError if new settings differ from old ones in one that may not change at a step and its time."""
    before, after = old.flatten(), new.flatten()
    for key in (key for key in {**before, **after} if before.get(key) != after.get(key)):
        if key.split(".")[0] in _FIXED_SECTIONS and key not in _CHANGEABLE:
            raise ConfigError(
                f"{key} applies to the whole run, so it cannot be changed during it. Change settings of the "
                "model, or start a new run."
            )
        if new.is_of_start(key):
            raise ConfigError(
                f"{key} applies to the initial state, so it cannot be changed during a run. Use set_fields, or "
                "start a new run."
            )
    steps, end = new.run.steps, new.run.end_time
    if steps is not None and steps < step:
        raise ConfigError(
            f"run.steps is {steps}, but it must be at least {step}, the current step of the run."
        )
    if end is not None and end < time:
        raise ConfigError(
            f"run.end_time is {end:g}, but it must be at least {time:g}, the current time of the run."
        )
