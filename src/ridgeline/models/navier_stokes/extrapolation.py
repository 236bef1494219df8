"""The time levels that the scheme needs: fields, weak rates, coefficients of the present order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.models.navier_stokes.kernels import make_weak_right_hand_side
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

    known: how many levels of fields hold a solution; the order of the next step is at most that. times: of the
    levels; steps: lengths of the steps that led to them, both NaN where it is not known.
    Memory: 2 order fields of c components.
    """

    def __init__(self, order: int, n_fields: int, geometry: ElementGeometry) -> None:
        grid = geometry.grid
        self.order, self.known = order, 0
        self.times, self.steps = [math.nan] * order, [math.nan] * order
        shape = (n_fields, *grid.shape)
        self.fields = [np.zeros(shape) for _ in range(order)]
        self.rates = [np.zeros(shape) for _ in range(order)]
        self._shape = (n_fields, grid.n_elements, grid.n**3)
        w = geometry.weights
        self.cube = np.einsum("k,j,i->kji", w, w, w).reshape(-1)
        aligned = geometry.axis_aligned
        self.volume = geometry.volume
        self.mass = np.empty((0, grid.n**3)) if aligned else geometry.mass.reshape(self._shape[1:])

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

    def oldest_rate(self) -> Array:
        """Return the buffer of the oldest rates as that of the newest level, to be filled."""
        self.rates.insert(0, self.rates.pop())
        return self.rates[0]

    def oldest_fields(self) -> Array:
        """Return the buffer of the oldest fields as that of a new level, to be filled."""
        self.fields.insert(0, self.fields.pop())
        self.known = min(self.known + 1, self.order)
        return self.fields[0]

    def right_hand_side(
        self, elements: NDArray[np.int64], at: StepCoefficients, force: Array, out: Array
    ) -> None:
        """Set elements of out [c, E, n, n, n] to the unassembled known side of the step. One pass: 7 words per point.

        The rates hold advection less sources: they enter with the opposite sign.
        """
        fields, rates = (
            [*levels, *[levels[0]] * TIME_LEVELS][:TIME_LEVELS] for levels in (self.fields, self.rates)
        )
        flat = [level.reshape(self._shape) for level in (*fields, *rates)]
        make_weak_right_hand_side()(
            elements, -at.a, at.b, force, *flat,
            self.volume, self.cube, self.mass, out.reshape(self._shape),
        )  # fmt: skip

    def work(self) -> tuple[float, float]:
        """Return flops and least bytes of `right_hand_side` on this rank."""
        points = float(np.prod(self._shape))
        words = 2.0 * self.order + 1.0
        return (4.0 * self.order + 2.0) * points, 8.0 * words * points + 8.0 * self.mass.size
