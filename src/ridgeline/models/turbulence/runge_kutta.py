"""The tables of one time step: Runge-Kutta substeps, integrating factors, phases of displaced grids.

exp(r(k) dt), r(k) = A - nu k^2, and exp(i k.d) are products of a factor of the line (k_x, k_z) and one along y.
Computed in float64, stored in the precision of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes, mode_numbers
from ridgeline.models.turbulence.kernels_lines import (
    DECAY,
    DECAY_ALONG,
    FLAT,
    KX,
    KY,
    NEXT,
    NEXT_ALONG,
    UNDO,
    UNDO_ALONG,
)
from ridgeline.runtime.errors import ConfigError

MOST_GROWTH = 2.0  # of the Courant number over a step


@dataclass(frozen=True)
class Substep:
    """One substep of a scheme: it computes the next stage and updates one of the stored fields.

        stage = e^powers[0] now + dt weights[0] e^powers[1] N
        kept = e^powers[2] base + dt weights[1] e^powers[3] N

    e is the integrating factor over `fraction` dt, N the rate of the substep, and now the state at the beginning of
    the step. base and kept are each the state, or the sum that RK4 accumulates beside it. with_factor_of_modes: which
    of the stored fields are then multiplied, with the stage, by the integrating factors over `fraction` dt that are
    computed mode by mode, of waves and of damping. They need not commute with e, because they multiply whole results,
    and the stored fields are at the time of the stage.
    """

    powers: tuple[int, int, int, int]
    weights: tuple[float, float]
    base: Literal["state", "sum"]
    kept: Literal["state", "sum"]
    with_factor_of_modes: tuple[Literal["state", "sum"], ...] = ()

    def coefficients(self, dt: float, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the coefficients [12] of `kernels_lines.advance_lines`."""
        table = np.zeros((4, 3))
        weights = 1.0, dt * self.weights[0], 1.0, dt * self.weights[1]
        for row, power, weight in zip(table, self.powers, weights, strict=True):
            row[power] = weight
        return table.ravel().astype(dtype)


@dataclass(frozen=True)
class Scheme:
    """A Runge-Kutta scheme with integrating factor.

    fraction: of dt, the time of the integrating factor; copies: of the fields, which are stored.
    """

    fraction: float
    substeps: tuple[Substep, ...]
    copies: int


# RK2 stores E(u + dt/2 N1) in place of u, and only dt/2 N2 is added to it: three fields suffice (paper, Sec. 3.2).
RK2 = Scheme(
    1.0,
    (
        Substep((1, 1, 1, 1), (1.0, 1 / 2), "state", "state", ("state",)),
        Substep((0, 0, 0, 0), (0.0, 1 / 2), "state", "state"),
    ),
    1,
)
RK4 = Scheme(
    0.5,
    (
        Substep((1, 1, 2, 2), (1 / 2, 1 / 6), "state", "sum", ("state", "sum")),
        Substep((1, 0, 0, 1), (1 / 2, 1 / 3), "sum", "sum"),
        Substep((2, 1, 0, 1), (1.0, 1 / 3), "sum", "sum", ("sum",)),
        Substep((0, 0, 0, 0), (0.0, 1 / 6), "sum", "state"),
    ),
    2,
)
SCHEMES = {"rk2": RK2, "rk4": RK4}


class StepTables:
    """Tables of the lines and along y that `kernels_lines` uses, for odd and for even substeps.

    Every factor is a product of factors of k_x, k_z and k_y, so that exponentials are computed for each of these
    alone.

    diffusivities : of velocity and scalars; 0 for fields whose decay is in the factor of waves

    Attributes
    ----------
    of_line, along : two real tables [n_lines, 8 + S], and two [6 + S, 2 N_y] with each number twice; entry 0 goes
        from the first to the second of a step's two displaced grids, entry 1 back
    """

    def __init__(self, modes: Modes, diffusivities: Sequence[float], dtype: np.dtype[Any]) -> None:
        self._modes, self._dtype = modes, dtype
        self._diffusivities = diffusivities
        lines, (nz, ny, _) = modes.lines, modes.shape
        self._jx, self._jz = np.arange(int(lines.jx.max(initial=0)) + 1), mode_numbers(nz)
        self._jy = mode_numbers(ny)
        self._decayed = (math.nan, math.nan)
        n = len(self._diffusivities)
        waves = np.stack([modes.kx, modes.kz, modes.kx**2 + modes.kz**2], axis=1)
        # Tiny instead of zero in the line of the mean: its inverse is finite, and multiplies zero.
        waves[:, 2] = np.maximum(waves[:, 2], float(np.finfo(dtype).tiny) * 2**20)
        self.of_line = [np.zeros((lines.n_lines, DECAY + n), dtype) for _ in range(2)]
        self.along = [np.zeros((DECAY_ALONG + n, 2 * ny), dtype) for _ in range(2)]
        for of_line, along in zip(self.of_line, self.along):
            of_line[:, KX : FLAT + 1] = waves
            along[KY] = np.repeat(modes.unit[1] * self._jy, 2)

    def displace(self, shifts: Sequence[NDArray[np.float64]]) -> None:
        """Set the phases exp(i k.d) of two grids displaced by d, (x, y, z) as fractions of the box."""
        lines = self._modes.lines
        for number, shift in enumerate(shifts):
            in_x, in_y, in_z = (
                np.exp(2j * np.pi * part * j) for part, j in zip(shift, (self._jx, self._jy, self._jz))
            )
            of_line, along = in_x[lines.jx] * in_z[lines.jz], np.repeat(in_y, 2)
            for table, rows, place, row in (
                (self.of_line[number], self.along[number], UNDO, UNDO_ALONG),
                (self.of_line[1 - number], self.along[1 - number], NEXT, NEXT_ALONG),
            ):
                table[:, place], table[:, place + 1] = of_line.real, of_line.imag
                rows[row], rows[row + 1] = along.real, along.imag

    def decay(self, linear_rate: float, dt: float) -> None:
        """Set the integrating factors over dt of the velocity, with a force A u of rate A, and of each scalar."""
        if self._decayed == (linear_rate, dt):
            return
        self._decayed = linear_rate, dt
        lines, (unit_z, unit_y, unit_x) = self._modes.lines, self._modes.unit
        for n, diffusivity in enumerate(self._diffusivities):
            in_x, in_y, in_z = (
                np.exp(-diffusivity * dt * (unit * j) ** 2)
                for unit, j in ((unit_x, self._jx), (unit_y, self._jy), (unit_z, self._jz))
            )
            if n == 0:
                in_x *= np.exp(linear_rate * dt)
            of_line = in_x[lines.jx] * in_z[lines.jz]
            for table, rows in zip(self.of_line, self.along):
                table[:, DECAY + n] = of_line
                rows[DECAY_ALONG + n] = np.repeat(in_y, 2)

    @property
    def n_bytes(self) -> int:
        """Bytes of the tables."""
        return sum(table.nbytes for table in (*self.of_line, *self.along))


def displaced_grids(shift: NDArray[np.float64], modes: Modes) -> list[NDArray[np.float64]]:
    """Return the displacements of odd and even substeps: `shift`, and half a cell farther in every direction."""
    half_cell = np.array([0.5 / points for points in reversed(modes.shape)])
    return [shift, shift + half_cell]


def courant_dt(
    courant: float, rate: float, step_index: int, rate_after: Callable[[float], float] | None = None
) -> float:
    """Return the length of a step with a Courant number. rate: the bracket of Eq. (8), the largest of all points.

    rate_after: a bound of that bracket after a step of some length, as `Forcing.bound_rate` returns it. Where a force
    is strong and the flow still slow, the step is shorter, so that the Courant number at most doubles over it.

    Raises ConfigError where the fluid is at rest.
    """
    if rate == 0.0:
        raise ConfigError(
            f"model.courant = {courant:g} determines no time step after step {step_index}, because the fluid is at "
            "rest. Set model.dt instead."
        )
    dt = courant / rate
    while rate_after is not None and (number := dt * rate_after(dt)) > MOST_GROWTH * courant:
        dt *= max(min(courant / number, 0.5), 0.1)
    return dt
