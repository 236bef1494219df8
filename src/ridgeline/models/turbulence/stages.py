"""The tables of one time step: Runge-Kutta substeps, integrating factors, phases of displaced grids.

All are products of a factor of the line (k_x, k_z) and a factor along y, so that no exponential is computed per
mode: exp(r(k) dt) with r(k) = A - nu k^2, and exp(i k.d). Computed in float64, stored in the precision of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.grid.modes import Modes

Table = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Substep:
    """One substep: with e the integrating factor of `fraction` dt and N the substep's rate,

    stage = e^powers[0] now + dt coefficients[1] e^powers[1] N,     now the state at the step's beginning,
    kept = e^powers[2] base + dt coefficients[3] e^powers[3] N,

    where base and kept are the state, or the sum that RK4 adds up beside it. coefficients[0], [2] are 1.
    """

    powers: tuple[int, int, int, int]
    coefficients: tuple[float, float, float, float]
    base: Literal["state", "sum"]
    kept: Literal["state", "sum"]


@dataclass(frozen=True)
class Scheme:
    """A Runge-Kutta scheme with integrating factor. fraction: of dt, which e is taken over; fields: copies stored."""

    fraction: float
    substeps: tuple[Substep, ...]
    copies: int


# RK2 keeps E(u + dt/2 N1) in place of u, to which dt/2 N2 is all that comes: three fields do (paper, Sec. 3.2).
RK2 = Scheme(
    1.0,
    (
        Substep((1, 1, 1, 1), (1.0, 1.0, 1.0, 1 / 2), "state", "state"),
        Substep((0, 0, 0, 0), (0.0, 0.0, 1.0, 1 / 2), "state", "state"),
    ),
    1,
)
RK4 = Scheme(
    0.5,
    (
        Substep((1, 1, 2, 2), (1.0, 1 / 2, 1.0, 1 / 6), "state", "sum"),
        Substep((1, 0, 0, 1), (1.0, 1 / 2, 1.0, 1 / 3), "sum", "sum"),
        Substep((2, 1, 0, 1), (1.0, 1.0, 1.0, 1 / 3), "sum", "sum"),
        Substep((0, 0, 0, 0), (0.0, 0.0, 1.0, 1 / 6), "sum", "state"),
    ),
    2,
)
SCHEMES = {"rk2": RK2, "rk4": RK4}


def decay_tables(
    modes: Modes,
    viscosity: float,
    schmidt: tuple[float, ...],
    linear_rate: float,
    dt: float,
    dtype: np.dtype[Any],
) -> Table:
    """Return the integrating factors over dt of velocity and scalars: [1 + S, n_lines] and [1 + S, N_y].

    linear_rate: A of a force A u on the velocity.
    """
    diffusivities = np.array([viscosity, *(viscosity / number for number in schmidt)])[:, np.newaxis]
    rates = np.array([linear_rate, *(0.0 for _ in schmidt)])[:, np.newaxis]
    lines = np.exp((rates - diffusivities * (modes.kx**2 + modes.kz**2)) * dt)
    along = np.exp(-diffusivities * wavenumbers_y(modes) ** 2 * dt)
    return np.ascontiguousarray(lines.astype(dtype)), np.ascontiguousarray(along.astype(dtype))


def phase_tables(modes: Modes, shift: NDArray[np.float64], dtype: np.dtype[Any]) -> Table:
    """Return exp(i k.d) as real and imaginary parts: of lines [n_lines, 2] and along y [2, N_y].

    shift: the displacement d as fractions of the box, (x, y, z).
    """
    turns = modes.lines.jx * shift[0] + modes.lines.jz * shift[2]
    lines = np.exp(2j * np.pi * turns)
    along = np.exp(2j * np.pi * shift[1] * mode_numbers_y(modes))
    return (
        np.stack([lines.real, lines.imag], axis=1).astype(dtype),
        np.stack([along.real, along.imag]).astype(dtype),
    )


def substep_shifts(shift: NDArray[np.float64], modes: Modes, n: int) -> list[NDArray[np.float64]]:
    """Return the displacements of n substeps: `shift`, and half a cell farther in every direction, in turn."""
    half_cell = np.array([0.5 / points for points in reversed(modes.shape)])
    return [shift + half_cell if substep % 2 else shift for substep in range(n)]


def wave_table(modes: Modes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return k_x, k_z and k_x^2 + k_z^2 of lines, [n_lines, 3]; a zero square is tiny instead."""
    tiny = float(np.finfo(dtype).tiny) * 2**20
    flat = np.maximum(modes.kx**2 + modes.kz**2, tiny)
    return np.stack([modes.kx, modes.kz, flat], axis=1).astype(dtype)


def mode_numbers_y(modes: Modes) -> NDArray[np.float64]:
    """Return j_y at every place of a line, 0 ... N_y - 1."""
    n_y = modes.shape[1]
    return np.asarray(np.fft.fftfreq(n_y, 1 / n_y).round(), np.float64)


def wavenumbers_y(modes: Modes) -> NDArray[np.float64]:
    """Return k_y at every place of a line, 0 ... N_y - 1."""
    return np.asarray(modes.unit[1] * mode_numbers_y(modes), np.float64)
