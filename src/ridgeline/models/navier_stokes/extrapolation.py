"""The time levels that the scheme needs: fields, weak rates, coefficients of the present order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeline.models.navier_stokes.multistep import backward, extrapolation
from ridgeline.models.navier_stokes.problem import Array

TIME_LEVELS = 3  # of the kernel; coefficients of time levels that an order does not have are 0


@dataclass(frozen=True)
class StepCoefficients:
    """Of one step. shift: b_0 / dt; a: extrapolation, b: b_1 / dt, ..., both float64 [3], latest level first.

    steps: lengths of this step and of those before it that the order takes, newest first.
    """

    steps: tuple[float, ...]
    shift: float
    a: Array
    b: Array

    @classmethod
    def of(cls, steps: Sequence[float]) -> StepCoefficients:
        """Return the coefficients of BDF and extrapolation of the order len(steps)."""
        order, dt = len(steps), steps[0]
        first, *others = backward(steps)
        a, b = np.zeros(TIME_LEVELS), np.zeros(TIME_LEVELS)
        a[:order] = extrapolation(steps)
        b[:order] = np.array(others) / dt
        return cls(tuple(steps), first / dt, a, b)

    @property
    def order(self) -> int:
        """Order of the step."""
        return len(self.steps)


class TimeLevels:
    """Fields [c, E, n, n, n] (velocity, then scalars) and their weak rates N at the latest time levels, newest first.

    make: returns new memory for the fields of a level, of the host or of a GPU, all zero. known: how many levels of
    fields hold a solution; the order of the next step is at most that. times: of the levels; steps: lengths of the
    steps that led to them, both NaN where it is not known.
    Memory: 2 order fields of c components.
    """

    def __init__(self, order: int, make: Callable[[], Any]) -> None:
        self.order, self.known = order, 0
        self.times, self.steps = [math.nan] * order, [math.nan] * order
        self.fields = [make() for _ in range(order)]
        self.rates = [make() for _ in range(order)]

    def begin(self, known: int, time: float, dt: float) -> None:
        """Say that as many levels are known, the newest at `time`, as steps of dt make them."""
        self.known = known
        self.times = [time - back * dt for back in range(self.order)]
        self.steps = [dt] * self.order

    def coefficients(self, dt: float) -> StepCoefficients:
        """Return the coefficients of the next step, of length dt."""
        order = min(self.order, self.known)
        return StepCoefficients.of([dt, *self.steps[: order - 1]])

    def step(self, time: float, dt: float) -> None:
        """Say that a step of dt leads to `time`; its fields are those that `oldest_fields` returns next."""
        self.times = [time, *self.times[:-1]]
        self.steps = [dt, *self.steps[:-1]]

    def oldest_rate(self) -> Any:
        """Return the buffer of the oldest rates as that of the newest level, to be filled."""
        self.rates.insert(0, self.rates.pop())
        return self.rates[0]

    def oldest_fields(self) -> Any:
        """Return the buffer of the oldest fields as that of a new level, to be filled."""
        self.fields.insert(0, self.fields.pop())
        self.known = min(self.known + 1, self.order)
        return self.fields[0]


def levels_of_kernel(levels: Sequence[Any]) -> list[Any]:
    """Return as many levels as the kernel of the known side takes: those that there are not stand for the newest."""
    return [*levels, *[levels[0]] * TIME_LEVELS][:TIME_LEVELS]
