"""When something recurs: after so many steps, so much model time, or so many seconds of the clock.

A setting KEY of an interval in steps, such as `output.every`, has KEY_time and KEY_wall beside it. A section with
such settings derives from `Scheduled`, and `Scheduled.interval` returns the three together as an `Interval`.

Whether something is due follows from two moments of the run, the one before a step and the one after it, and from
nothing else. A resumed run therefore meets the same model times as one that was never stopped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from pydantic import model_validator

from ridgeline.config.fields import ON, Checked, Needs, setting

# In intervals: a time that is earlier than a multiple of the interval by no more than this counts as the multiple.
ROUNDING = 1e-9
UNITS = ("time", "wall")


class Moment(NamedTuple):
    """A moment of a run: step, model time, and seconds of the clock of rank 0 since the run or its resume began."""

    step: int
    time: float
    wall: float = 0.0


def multiples(value: float, interval: float) -> int:
    """Return how many multiples of an interval, from the first one on, a value has reached."""
    return math.floor(value / interval + ROUNDING)


@dataclass(frozen=True)
class Interval:
    """Something recurs at the multiples of each number that is not 0.

    steps: of the run; time: model time; wall: seconds of the clock.
    """

    steps: int = 0
    time: float = 0.0
    wall: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.steps or self.time or self.wall)

    def due(self, before: Moment, now: Moment) -> bool:
        """Return whether a multiple was reached after the moment `before`, at the latest `now`."""
        return any(
            multiples(last, interval) > multiples(first, interval)
            for interval, first, last in zip((self.steps, self.time, self.wall), before, now)
            if interval
        )

    def next_step(self, step: int) -> float:
        """Return the first multiple of steps after `step`, infinity if there is none."""
        return (step // self.steps + 1) * self.steps if self.steps else math.inf

    def next_time(self, time: float) -> float:
        """Return the first multiple of model time after `time`, infinity if there is none."""
        return (multiples(time, self.time) + 1) * self.time if self.time else math.inf

    def next_wall(self, wall: float) -> float:
        """Return the first multiple of seconds of the clock after `wall`, infinity if there is none."""
        return (multiples(wall, self.wall) + 1) * self.wall if self.wall else math.inf


NEVER = Interval()


class Scheduled(Checked):
    """Settings among which KEY, KEY_time and KEY_wall are intervals."""

    def interval(self, key: str = "every") -> Interval:
        """Return the interval of a key in steps, and of the two keys beside it."""
        time, wall = (getattr(self, f"{key}_{unit}", None) or 0.0 for unit in UNITS)
        return Interval(getattr(self, key), time, wall)

    @model_validator(mode="after")
    def _only_what_is_given(self) -> Self:
        """Let the default interval in steps apply only where no other interval of the same output is given."""
        given = self.model_fields_set
        for key in type(self).model_fields:
            others = {f"{key}_{unit}" for unit in UNITS} & given
            if key not in given and any(getattr(self, other) is not None for other in others):
                self.__dict__[key] = 0  # it was not given, so it does not count as set
        return self


def time_interval(what: str, needs: Needs | tuple[Needs, ...] = ()) -> Any:
    """Return the field KEY_time of `Scheduled`. what: recurs, in words, such as "outputs"."""
    return setting(
        None,
        f"Model time between {what}, which come at its multiples. It may be given beside the number of steps, whose "
        "default applies only if no interval is given.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs=needs,
    )


def wall_interval(what: str, needs: Needs | tuple[Needs, ...] = ()) -> Any:
    """Return the field KEY_wall of `Scheduled`. what: as for `time_interval`."""
    return setting(
        None,
        f"Seconds of wall-clock time between {what}, counted from the start or the restart of the run.",
        unit="s",
        rule="a number > 0",
        gt=0,
        needs=needs,
    )


def recurring(key: str = "every", **others: Any) -> tuple[Needs, ...]:
    """Return the needs of a setting that has an effect where the interval of a key is given in any unit.

    others: further conditions, which must hold as well.
    """
    return tuple({name: ON, **others} for name in (key, *(f"{key}_{unit}" for unit in UNITS)))
