"""Hyperviscosity, and drag on some wavenumbers, as an exact integrating factor mode by mode.

The factor exp(-(nu_h k^(2p) + alpha) t) is not a product of factors of k_x, k_y and k_z, as that of viscosity is. It
is therefore computed for each mode, while the lines of modes are in caches (`damp_lines`). Fields that waves couple
are damped with their factor, in `waves`. Drag on all modes costs nothing: it is part of the rate A of a force A u.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.models.turbulence.problem import Damping, FlowParameters

N_TERMS = 4  # nu_h, p, alpha, and the largest k^2 on which alpha acts


def rate_terms(damping: Damping) -> NDArray[np.float64]:
    """Return the terms of `damping_rates`, float64 [N_TERMS], without what `Damping.uniform_rate` has."""
    drag = damping.drag - damping.uniform_rate
    reach = damping.reach if drag else -1.0
    return np.array([damping.hyperviscosity, damping.order, drag, reach])


def shares(flow: FlowParameters) -> NDArray[np.float64]:
    """Return the share of nu_h k^(2p) of each field, float64 [3 + S], 0 for those that the factor of waves damps."""
    of_fields = [1.0, 1.0, 1.0, *(1 / number for number in flow.schmidt)]
    first = flow.waves.n_coupled
    return np.array([0.0] * first + of_fields[first:])


def damps_apart(flow: FlowParameters) -> bool:
    """Say whether some field is damped by `damp_lines`."""
    return flow.damping.differs_by_mode and bool(shares(flow).any())


def damping_rates(square, hyperviscosity, order, drag, reach):
    """Return nu_h k^(2p), and the drag of the velocity, of a mode with k^2 = square.

    The others are those of `rate_terms`. A plain function of float64, compiled into kernels of CPUs and GPUs.
    """
    rate = hyperviscosity
    for _ in range(int(order)):
        rate *= square
    return rate, drag if square <= reach else 0.0


mode_damping = subroutine(nogil=True)(damping_rates)


@subroutine(nogil=True)
def _scale(numbers, m, factor):
    """Multiply a complex number, two reals, by a factor. numbers : (n,) real"""
    numbers[2 * m] = np.float64(numbers[2 * m]) * factor
    numbers[2 * m + 1] = np.float64(numbers[2 * m + 1]) * factor


@kernel(
    lambda T: (
        T[:, :, ::1],
        *[int64] * 3,
        int64[::1],
        float64[::1],
        float64[::1],
        float64,
        float64[::1],
        float64[::1],
        float64,
        *[T[:, ::1]] * 2,
    ),
    nogil=True,
)
def damp_lines(tile, first_line, n_lines, n_y, start, kz, kx, unit_y, terms, of_fields, time, first, second):
    """Multiply the stage in a tile and up to two stored states by the factor of damping over `time`, in place.

    Parameters
    ----------
    terms : (N_TERMS,) float64, of `rate_terms`; of_fields : (3 + S,) float64, of `shares`
    The others are those of `waves.turn_lines`.

    Cost: an exponential a mode, and one for each scalar; a product for each number.
    """
    n_fields = of_fields.shape[0]
    for l in range(n_lines):
        line = first_line + l
        begin = start[line]
        count = start[line + 1] - begin
        most = (count - 1) // 2
        flat = kx[line] * kx[line] + kz[line] * kz[line]
        for place in range(count):
            j = place if place <= most else place - count
            y = unit_y * j
            hyper, drag = mode_damping(flat + y * y, terms[0], terms[1], terms[2], terms[3])
            factor = 1.0
            for v in range(n_fields):
                if of_fields[v] == 0.0:
                    continue
                if v == 0 or v > 2:
                    factor = math.exp(-(of_fields[v] * hyper + (drag if v == 0 else 0.0)) * time)
                _scale(tile[v, l], j if j >= 0 else j + n_y, factor)
                for stored in (first, second):
                    if stored.shape[0] > 0:
                        _scale(stored[v], begin + place, factor)


@kernel(
    lambda T: (T[:, ::1], int64[::1], *[float64[::1]] * 3, float64, float64[::1], float64[:, ::1]), nogil=True
)
def sum_damping(fields, start, kz, kx, weight, unit_y, terms, out_sums):
    """Sum over each line what damping takes from the mean squares: rate |u|^2 and nu_h k^(2p) |theta|^2.

    fields : (3 + S, n_modes) complex; terms : of `rate_terms`; out_sums : (2 + S, n_lines) float64, of
    hyperviscosity, of drag, and of hyperviscosity in each scalar as if Sc were 1; the others are those of
    `kernels_diagnostics.sum_modes`
    """
    for line in range(len(kz)):
        first = start[line]
        count = start[line + 1] - first
        most = (count - 1) // 2
        flat = kx[line] * kx[line] + kz[line] * kz[line]
        out_sums[:, line] = 0.0
        for place in range(count):
            m = first + place
            y = unit_y * (place if place <= most else place - count)
            hyper, drag = mode_damping(flat + y * y, terms[0], terms[1], terms[2], terms[3])
            for v in range(fields.shape[0]):
                re, im = np.float64(fields[v, m].real), np.float64(fields[v, m].imag)
                square = weight[line] * (re * re + im * im)
                if v < 3:
                    out_sums[0, line] += hyper * square
                    out_sums[1, line] += drag * square
                else:
                    out_sums[v - 1, line] += hyper * square


def kernels_of_damping(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels that only damped flows need. dtype: of physical fields."""
    return [
        *specialise([damp_lines], dtype),
        *specialise([sum_damping], np.result_type(dtype, np.complex64)),
    ]
