"""Inertial and internal gravity waves as an exact integrating factor, mode by mode.

The frame rotates with Omega, the stratification of frequency N is along z, and theta = buoyancy / N. With
e = k / |k|, h = e_z - e e_z.e and c = 2 Omega.e, the linear terms of a mode k without divergence are

    u' = a u - c e x u + N theta h,        theta' = b theta - N h.u,        a = A - nu k^2,  b = -kappa k^2.

Hyperviscosity and drag, which have terms in a and b as well, are in `damping`.
Where a = b they are a damped rotation of (u, theta) with frequency sqrt(c^2 + N^2 |h|^2) about the axis (N t, c),
t = e_z x e, which is the mode in geostrophic balance and does not turn (Rodrigues' formula). Without rotation u along
t only decays, and (u along h, theta) is an oscillator with damping of both parts. Both factors have closed forms. The
case c != 0, N != 0 and a != b has none that is as short; the settings refuse it. The mean k = 0 is balanced by a mean
pressure gradient.

Source: Greenspan, The Theory of Rotating Fluids (1968); Bartello, J. Atmos. Sci. 52 (1995) 4410, Sec. 2.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.models.turbulence.damping import mode_damping, rate_terms
from ridgeline.models.turbulence.problem import FlowParameters, Waves

# The numbers in `terms`: 2 Omega_x, 2 Omega_y, 2 Omega_z, N, A, nu, kappa of the first scalar, time of the factor,
# the four of `damping.rate_terms`, and 1 / Sc of the first scalar.
N_TERMS = 13


def wave_terms(flow: FlowParameters, linear_rate: float, time: float) -> NDArray[np.float64]:
    """Return the terms of a flow, float64 [N_TERMS]. linear_rate: A of a force A u; time: of the factor."""
    kappa = flow.diffusivities[1] if flow.waves.stratified else 0.0
    of_scalar = 1 / flow.schmidt[0] if flow.waves.stratified else 0.0
    decay = linear_rate, flow.viscosity, kappa, time
    return np.array([*pressure_terms(flow.waves), *decay, *rate_terms(flow.damping), of_scalar])


def pressure_terms(waves: Waves) -> NDArray[np.float64]:
    """Return the first four of the terms, as `add_wave_pressure` takes them."""
    return np.array([*(2.0 * part for part in waves.rotation), waves.brunt_vaisala])


def wave_factors(x, y, z, a, b, terms):
    """Return e = k / |k| and the nine factors of a mode k = (x, y, z), for `apply_factors`.

    The factors multiply u, e x u, t t.u, t theta, h h.u, h theta, theta, h.u and t.u. terms : see N_TERMS. This
    function, `apply_factors` and `wave_push` are plain functions of float64, compiled into kernels of CPUs and GPUs.
    """
    square = x * x + y * y + z * z
    frequency, time = terms[3], terms[7]
    if square == 0.0:
        return (x, y, z), (math.exp(a * time), 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    over_k = 1.0 / math.sqrt(square)
    e = x * over_k, y * over_k, z * over_k
    tall = math.sqrt(e[0] * e[0] + e[1] * e[1])  # |h|
    c = terms[0] * e[0] + terms[1] * e[1] + terms[2] * e[2]
    if c == 0.0 and frequency > 0.0:
        middle, half = 0.5 * (a + b), 0.5 * (a - b)
        wave = frequency * tall
        size = wave * wave - half * half
        both = math.exp(middle * time)
        if size >= 0.0:
            root = math.sqrt(size)
            even = both * math.cos(root * time)
            odd = both * (math.sin(root * time) / root if root > 0.0 else time)
        elif -size * time * time < 1.0:
            root = math.sqrt(-size)
            even, odd = both * math.cosh(root * time), both * math.sinh(root * time) / root
        else:
            # The same, for arguments whose hyperbolic sine may overflow while `both` underflows.
            root = math.sqrt(-size)
            slow, fast = math.exp((middle + root) * time), math.exp((middle - root) * time)
            even, odd = 0.5 * (slow + fast), 0.5 * (slow - fast) / root
        alone = math.exp(a * time)
        along = (even + odd * half - alone) / (tall * tall) if tall > 0.0 else 0.0
        push = odd * frequency
        return e, (alone, 0.0, 0.0, 0.0, along, push, even - odd * half, -push, 0.0)
    sigma = math.sqrt(c * c + frequency * frequency * tall * tall)
    damp = math.exp(a * time)
    sine, cosine = math.sin(0.5 * sigma * time), math.cos(0.5 * sigma * time)
    over = 1.0 / sigma if sigma > 0.0 else 0.0
    even = damp * (1.0 - 2.0 * sine * sine)
    odd = damp * 2.0 * sine * cosine * over
    axis = damp * 2.0 * (sine * over) * (sine * over)
    push, cross = odd * frequency, axis * frequency * c
    return e, (
        even,
        -odd * c,
        axis * frequency * frequency,
        cross,
        0.0,
        push,
        even + axis * c * c,
        -push,
        cross,
    )


def apply_factors(x, y, z, theta, e, factors):
    """Return u = (x, y, z) and theta, all real or all imaginary parts, multiplied by the factors of a mode."""
    ex, ey, ez = e
    hx, hy, hz = -ex * ez, -ey * ez, ex * ex + ey * ey
    level, upright = ex * y - ey * x, hx * x + hy * y + hz * z
    to_t = factors[2] * level + factors[3] * theta
    to_h = factors[4] * upright + factors[5] * theta
    return (
        factors[0] * x + factors[1] * (ey * z - ez * y) - to_t * ey + to_h * hx,
        factors[0] * y + factors[1] * (ez * x - ex * z) + to_t * ex + to_h * hy,
        factors[0] * z + factors[1] * (ex * y - ey * x) + to_h * hz,
        factors[6] * theta + factors[7] * upright + factors[8] * level,
    )


def wave_push(x, y, z, terms, u, v, w, theta):
    """Return k.(2 Omega x u) - N k_z theta of a mode k = (x, y, z), or of its parts. terms : of `pressure_terms`."""
    # k.(R x u) = u.(k x R)
    p, q, r = y * terms[2] - z * terms[1], z * terms[0] - x * terms[2], x * terms[1] - y * terms[0]
    return p * u + q * v + r * w - terms[3] * z * theta


_wave_factors, _apply_factors, _wave_push = map(
    subroutine(nogil=True), (wave_factors, apply_factors, wave_push)
)


@subroutine(nogil=True)
def _mode_rates(square, terms):
    """Return the rates a and b of a mode with k^2 = square. terms : see N_TERMS"""
    hyper, drag = mode_damping(square, terms[8], terms[9], terms[10], terms[11])
    return terms[4] - terms[5] * square - hyper - drag, -terms[6] * square - terms[12] * hyper


@subroutine(nogil=True)
def _turn(fields, m, e, factors):
    """Multiply numbers m of u and theta, real or imaginary parts, by the factors. fields : (3 or 4, n)."""
    theta = np.float64(fields[3, m]) if fields.shape[0] > 3 else 0.0
    x, y, z, theta = _apply_factors(
        np.float64(fields[0, m]), np.float64(fields[1, m]), np.float64(fields[2, m]), theta, e, factors
    )
    fields[0, m], fields[1, m], fields[2, m] = x, y, z
    if fields.shape[0] > 3:
        fields[3, m] = theta


@kernel(
    lambda T: (
        T[:, :, ::1],
        *[int64] * 3,
        int64[::1],
        float64[::1],
        float64[::1],
        float64,
        float64[::1],
        *[T[:, ::1]] * 2,
    ),
    nogil=True,
)
def turn_lines(tile, first_line, n_lines, n_y, start, kz, kx, unit_y, terms, first, second):
    """Multiply the stage in a tile and up to two stored states by the factor of waves and viscosity, in place.

    Parameters
    ----------
    tile : (>= 3 or 4, >= n_lines, >= 2 n_y) real view: modes j_y of a line at j_y modulo n_y
    start : (lines of the rank + 1,) int64; kz, kx : (lines of the rank,) float64; unit_y : 2 pi / L_y
    terms : (N_TERMS,) float64; with N > 0 the first scalar is multiplied as well
    first, second : (3 + S, 2 n_modes) real views, or (0, 0) for none

    Cost: two trigonometric functions and an exponential a mode, and some 35 operations for each complex vector.
    """
    n = 4 if terms[3] > 0.0 else 3
    for l in range(n_lines):
        line = first_line + l
        begin = start[line]
        count = start[line + 1] - begin
        most = (count - 1) // 2
        stage = tile[:n, l]
        for place in range(count):
            j = place if place <= most else place - count
            y = unit_y * j
            a, b = _mode_rates(kx[line] * kx[line] + y * y + kz[line] * kz[line], terms)
            e, factors = _wave_factors(kx[line], y, kz[line], a, b, terms)
            for part in range(2):
                _turn(stage, 2 * (j if j >= 0 else j + n_y) + part, e, factors)
                for stored in (first, second):
                    if stored.shape[0] > 0:
                        _turn(stored[:n], 2 * (begin + place) + part, e, factors)


@kernel(lambda T: (T[:, ::1], int64[::1], *[float64[::1]] * 2, float64, float64[::1], T[::1]), nogil=True)
def add_wave_pressure(fields, start, kz, kx, unit_y, terms, out_pressure):
    """Add the part of rotation and buoyancy to the pressure: i (k.(2 Omega x u) - N k_z theta) / k^2.

    fields : (3 + S, n_modes) complex; out_pressure : (n_modes,) complex; the others are those of `turn_lines`
    """
    for line in range(len(kz)):
        first = start[line]
        count = start[line + 1] - first
        x, z = kx[line], kz[line]
        for place in range(count):
            m = first + place
            y = unit_y * (place if 2 * place < count else place - count)
            square = x * x + y * y + z * z
            if square > 0.0:
                theta = fields[3 if terms[3] > 0.0 else 0, m]  # without a scalar N = 0 multiplies u_x
                push = _wave_push(x, y, z, terms, fields[0, m], fields[1, m], fields[2, m], theta)
                out_pressure[m] += complex(-push.imag / square, push.real / square)


def kernels_of_waves(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels that only flows with waves need. dtype: of physical fields."""
    of_modes = specialise([add_wave_pressure], np.result_type(dtype, np.complex64))
    return [*specialise([turn_lines], dtype), *of_modes]
