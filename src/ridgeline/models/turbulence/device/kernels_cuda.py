"""Turbulence on NVIDIA GPUs: products in physical space, and the Runge-Kutta substep on lines of modes.

They are the counterparts of `kernels` and `kernels_lines`, for the arrays of `fourier.device.pipeline_cuda`: complex
numbers are pairs of reals in flat device arrays. *Lines* are [variable, y, line]; *fields* hold the rows j_y = 0 ...
most, -most ... -1 of lines, [field, row, line]. The threads of a warp lie along lines. They read and write whole
sectors of memory, and skip places of a field that have no mode.

A factor of a mode is a product of three factors, of its j_x, j_z and j_y. These are rows of three small tables [row,
number], see ROWS and `AxisTables`. A thread computes the factors of its line once, and then moves along y. With e the
integrating factor and N the rate of a substep,

    stage = f_0(e) now + f_1(e) N,    kept = f_2(e) base + f_3(e) N,    f_i(e) = c_i0 + c_i1 e + c_i2 e^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.device.kernels_cuda import LINE_THREADS
from ridgeline.fourier.modes import Modes, mode_numbers
from ridgeline.jit.cuda_device import (
    SIMULATED,
    barrier,
    device_function,
    kernel,
    load,
    load_pair,
    store,
    store_pair,
)
from ridgeline.models.turbulence.kernels import N_PRODUCTS, N_VELOCITY, XX, XY, XZ, YZ, ZZ

# K: wavenumber. PHASES: real parts of the phases of both displaced grids; the imaginary parts follow. DECAY: the
# integrating factor of the velocity; those of scalars follow.
ROWS = K, PHASES, DECAY = 0, (1, 3), 5

PRODUCT_THREADS = 4 if SIMULATED else 128
PRODUCT_BLOCKS = 2 if SIMULATED else 4096  # the most thread blocks; each writes one rate


@device_function
def larger(largest, rate):
    """Return the larger number; a rate that is NaN is ignored."""
    return rate if rate > largest else largest


@device_function
def largest_of_threads(scratch, thread, threads, value):
    """Return the largest value of a thread block to its first thread. scratch: shared, a number per thread."""
    store(scratch, thread, value)
    left = threads
    while left > 1:
        half = (left + 1) // 2
        barrier()
        if thread < left - half:
            store(scratch, thread, larger(load(scratch, thread), load(scratch, thread + half)))
        left = half
    barrier()
    return load(scratch, 0)


@cache
def make_multiply(dtype: DTypeLike, n_scalars: int, rated: bool) -> Any:
    """Return the kernel multiply(nx, pitch, n_rows, variable, per_cell, out_rates, planes), PRODUCT_THREADS a block.

    planes : real [variables, n_rows, pitch], `variable` reals from one to the next. Each row's first nx numbers are
        used. u_x, u_y, u_z and scalars are replaced by T_xx, T_zz, T_xy, T_xz, T_yz, and F of each scalar
    per_cell : 1/dx, 1/dy, 1/dz; out_rates : one for each thread block: the largest |u_x|/dx + |u_y|/dy + |u_z|/dz
        of its points if `rated`, the bracket of Eq. (8); NaN is ignored
    Cost: reads 3 + S and writes 5 + 3 S numbers a point.
    """
    real = np.dtype(dtype).type
    zero = real(0)

    @kernel(PRODUCT_THREADS, 4)
    def multiply(nx, pitch, n_rows, variable, per_cell, out_rates, planes):
        a, b, c = per_cell
        largest = zero
        pairs, step = nx // 2, variable // 2
        for row in range(cuda.blockIdx.x, n_rows, cuda.gridDim.x):
            for i in range(cuda.threadIdx.x, pairs, cuda.blockDim.x):
                at = row * (pitch // 2) + i
                u0, u1 = load_pair(planes, at)
                v0, v1 = load_pair(planes, at + step)
                w0, w1 = load_pair(planes, at + 2 * step)
                if rated:
                    largest = larger(largest, a * abs(u0) + b * abs(v0) + c * abs(w0))
                    largest = larger(largest, a * abs(u1) + b * abs(v1) + c * abs(w1))
                for back in range(n_scalars):
                    s = n_scalars - 1 - back  # the last first: fluxes lie where scalars before it do not
                    t0, t1 = load_pair(planes, at + (N_VELOCITY + s) * step)
                    first = at + (N_PRODUCTS + 3 * s) * step
                    store_pair(planes, first, u0 * t0, u1 * t1)
                    store_pair(planes, first + step, v0 * t0, v1 * t1)
                    store_pair(planes, first + 2 * step, w0 * t0, w1 * t1)
                y0, y1 = v0 * v0, v1 * v1
                store_pair(planes, at + XX * step, u0 * u0 - y0, u1 * u1 - y1)
                store_pair(planes, at + ZZ * step, w0 * w0 - y0, w1 * w1 - y1)
                store_pair(planes, at + XY * step, u0 * v0, u1 * v1)
                store_pair(planes, at + XZ * step, u0 * w0, u1 * w1)
                store_pair(planes, at + YZ * step, v0 * w0, v1 * w1)
        if rated:
            of_threads = cuda.shared.array(PRODUCT_THREADS, planes.dtype)
            largest = largest_of_threads(of_threads, cuda.threadIdx.x, PRODUCT_THREADS, largest)
            if cuda.threadIdx.x == 0:
                out_rates[cuda.blockIdx.x] = largest

    return multiply


@device_function
def phase_of(x, z, row, column, n_columns, place, nz):
    """Return the factor of a line of the phase whose real parts are in `row`."""
    x_re, x_im = load(x, row * n_columns + column), load(x, (row + 1) * n_columns + column)
    z_re, z_im = load(z, row * nz + place), load(z, (row + 1) * nz + place)
    return x_re * z_re - x_im * z_im, x_re * z_im + x_im * z_re


@device_function
def times(a_re, a_im, b_re, b_im):
    """Return the product of two complex numbers."""
    return a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re


@device_function
def line_of(of_line, n_lines, line):
    """Return column, place of j_z and largest |j_y| of a line."""
    return (
        np.int64(load(of_line, line)),
        np.int64(load(of_line, n_lines + line)),
        np.int64(load(of_line, 2 * n_lines + line)),
    )


@device_function
def _factor(c, first, e):
    """Return c[first] + c[first + 1] e + c[first + 2] e^2."""
    return c[first] + e * (c[first + 1] + e * c[first + 2])


@cache
def make_load(dtype: DTypeLike, shifted: bool) -> Any:
    """Return the kernel load_lines(fields, n_fields, sizes, of_line, x, y, z, following, out_lines).

    It sets lines to fields, and to zero where no mode is retained. If `shifted`, the lines are displaced by the
    phases in row `following` of the tables. sizes, of_line, x, y, z: those of `make_advance`. Launch: `line_launch`.
    """
    zero = np.dtype(dtype).type(0)

    @kernel(LINE_THREADS, 8)
    def load_lines(fields, n_fields, sizes, of_line, x, y, z, following, out_lines):
        n_lines, ny, rows, n_columns, nz = sizes
        line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if line >= n_lines:
            return
        column, place, most = line_of(of_line, n_lines, line)
        if shifted:
            l_re, l_im = phase_of(x, z, following, column, n_columns, place, nz)
        for iy in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
            jy = iy if 2 * iy < ny else iy - ny
            at = iy * n_lines + line
            if abs(jy) > most:
                _clear(out_lines, at, ny * n_lines, n_fields, zero)
                continue
            mode = (jy if jy >= 0 else rows + jy) * n_lines + line
            if shifted:
                p_re, p_im = times(
                    l_re, l_im, load(y, following * ny + iy), load(y, (following + 1) * ny + iy)
                )
            for v in range(n_fields):
                re, im = load_pair(fields, mode + v * rows * n_lines)
                if shifted:
                    re, im = times(re, im, p_re, p_im)
                store_pair(out_lines, at + v * ny * n_lines, re, im)

    return load_lines


@device_function
def _clear(lines, at, variable, n, zero):
    """Set a mode of n variables to zero."""
    for v in range(n):
        store_pair(lines, at + v * variable, zero, zero)


@device_function
def _finish(re, im, e, c, undo, following, now, base, kept, place, lines, at, kind):
    """Advance one field of a mode by -i times a rate, which is displaced and not scaled; undo contains the scale.

    kind: shifted, last and summed of `make_advance`, which are constants for the compiler.
    """
    shifted, last, summed = kind
    re, im = im * undo[0] - re * undo[1], -(re * undo[0] + im * undo[1])
    base_re, base_im = load_pair(base, place)
    f, g = _factor(c, 6, e), _factor(c, 9, e)
    store_pair(kept, place, f * base_re + g * re, f * base_im + g * im)
    if not last:
        now_re, now_im = base_re, base_im
        if summed:
            now_re, now_im = load_pair(now, place)
        f, g = _factor(c, 0, e), _factor(c, 3, e)
        re, im = f * now_re + g * re, f * now_im + g * im
        if shifted:
            re, im = times(re, im, following[0], following[1])
        store_pair(lines, at, re, im)


@cache
def make_advance(dtype: DTypeLike, n_scalars: int, shifted: bool, last: bool, summed: bool) -> Any:
    """Return the kernel of one substep, which turns the transformed products into the next stage, in place:

        advance(sizes, of_line, x, y, z, phases, c, scale, lines, now, base, kept)

    sizes : (lines of the rank, N_y, rows of a field, columns, N_z)
    of_line : (3, lines) int32: column, place of j_z, largest |j_y|; x, y, z : tables, see ROWS
    phases : rows of the tables with the phases of the rate's grid and of the next stage's
    c : the 12 coefficients c_00, c_01, ... of the module's docstring; scale : of the transforms
    lines : 4 + 2 S variables transformed in y (see `kernels`). They are replaced by the 3 + S variables of the next
        stage, displaced for it, and by zero where no mode is retained; they are undefined if `last`
    now, base, kept : fields [3 + S, rows, lines]; base is now unless `summed`, and kept may be either

    Launch: `line_launch`. Cost: reads 4 + 2 S, now and base once, writes 3 + S and kept once. Source: Eqs. (6), (7).
    """
    real = np.dtype(dtype).type
    zero, one, tiny = real(0), real(1), real(np.finfo(real).tiny * 2.0**20)

    kind = shifted, last, summed

    @kernel(LINE_THREADS, 4)
    def advance(sizes, of_line, x, y, z, phases, c, scale, lines, now, base, kept):
        n_lines, ny, rows, n_columns, nz = sizes
        line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if line >= n_lines:
            return
        column, place, most = line_of(of_line, n_lines, line)
        kx, kz = load(x, column), load(z, place)
        flat = max(kx * kx + kz * kz, tiny)  # the mean then divides zero by a number > 0
        u_re, u_im, n_re, n_im = scale, zero, one, zero
        if shifted:
            u_re, u_im = phase_of(x, z, phases[0], column, n_columns, place, nz)
            u_re, u_im = u_re * scale, u_im * scale
            if not last:
                n_re, n_im = phase_of(x, z, phases[1], column, n_columns, place, nz)
        decay = load(x, DECAY * n_columns + column) * load(z, DECAY * nz + place)
        variable, field = ny * n_lines, rows * n_lines
        for iy in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
            jy = iy if 2 * iy < ny else iy - ny
            at = iy * n_lines + line
            if abs(jy) > most:
                if not last:
                    _clear(lines, at, variable, N_VELOCITY + n_scalars, zero)
                continue
            mode = (jy if jy >= 0 else rows + jy) * n_lines + line
            ax_re, ax_im = load_pair(lines, at)
            xy_re, xy_im = load_pair(lines, at + variable)
            az_re, az_im = load_pair(lines, at + 2 * variable)
            yz_re, yz_im = load_pair(lines, at + 3 * variable)
            ky = load(y, iy)
            undo, following = (u_re, u_im), (n_re, n_im)
            if shifted:
                undo = times(u_re, u_im, load(y, phases[0] * ny + iy), load(y, (phases[0] + 1) * ny + iy))
                if not last:
                    following = times(
                        n_re, n_im, load(y, phases[1] * ny + iy), load(y, (phases[1] + 1) * ny + iy)
                    )
            inverse = one / (ky * ky + flat)
            mx_re, mx_im = ax_re + ky * xy_re, ax_im + ky * xy_im
            my_re, my_im = kx * xy_re + kz * yz_re, kx * xy_im + kz * yz_im
            mz_re, mz_im = az_re + ky * yz_re, az_im + ky * yz_im
            k_re = (kx * mx_re + ky * my_re + kz * mz_re) * inverse
            k_im = (kx * mx_im + ky * my_im + kz * mz_im) * inverse
            e = decay * load(y, DECAY * ny + iy)
            _finish(
                mx_re - kx * k_re,
                mx_im - kx * k_im,
                e,
                c,
                undo,
                following,
                now,
                base,
                kept,
                mode,
                lines,
                at,
                kind,
            )
            _finish(
                my_re - ky * k_re,
                my_im - ky * k_im,
                e,
                c,
                undo,
                following,
                now,
                base,
                kept,
                mode + field,
                lines,
                at + variable,
                kind,
            )
            _finish(
                mz_re - kz * k_re,
                mz_im - kz * k_im,
                e,
                c,
                undo,
                following,
                now,
                base,
                kept,
                mode + 2 * field,
                lines,
                at + 2 * variable,
                kind,
            )
            # Scalar s comes back as variables 4 + 2 s and 5 + 2 s. It leaves as 3 + s, which is no longer needed.
            for s in range(n_scalars):
                f_re, f_im = load_pair(lines, at + (4 + 2 * s) * variable)
                y_re, y_im = load_pair(lines, at + (5 + 2 * s) * variable)
                row = DECAY + 1 + s
                e = load(x, row * n_columns + column) * load(z, row * nz + place) * load(y, row * ny + iy)
                _finish(
                    f_re + ky * y_re,
                    f_im + ky * y_im,
                    e,
                    c,
                    undo,
                    following,
                    now,
                    base,
                    kept,
                    mode + (3 + s) * field,
                    lines,
                    at + (3 + s) * variable,
                    kind,
                )

    return advance


@cache
def make_force(dtype: DTypeLike, shifted: bool, last: bool) -> Any:
    """Return the kernel add_force(modes, values, n, sizes, of_line, x, y, z, phases, c, lines, kept).

    modes : (2, n) int32, line and place of j_y of the forced modes; there is a thread for each
    values : (3, n) complex as reals, the force, which is part of the rate

    It is launched after `advance`, whose arguments the others are. It adds the force to kept and, unless `last`, to
    the next stage.
    """
    one, zero = np.dtype(dtype).type(1), np.dtype(dtype).type(0)

    @kernel(LINE_THREADS)
    def add_force(modes, values, n, sizes, of_line, x, y, z, phases, c, lines, kept):
        n_lines, ny, rows, n_columns, nz = sizes
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if i >= n:
            return
        line, iy = np.int64(load(modes, i)), np.int64(load(modes, n + i))
        column, place, _ = line_of(of_line, n_lines, line)
        e = load(x, DECAY * n_columns + column) * load(z, DECAY * nz + place) * load(y, DECAY * ny + iy)
        p_re, p_im = one, zero
        if shifted and not last:
            p_re, p_im = phase_of(x, z, phases[1], column, n_columns, place, nz)
            p_re, p_im = times(p_re, p_im, load(y, phases[1] * ny + iy), load(y, (phases[1] + 1) * ny + iy))
        row = iy if 2 * iy < ny else rows + iy - ny
        for v in range(N_VELOCITY):
            re, im = load_pair(values, v * n + i)
            at = (v * rows + row) * n_lines + line
            g = _factor(c, 9, e)
            old_re, old_im = load_pair(kept, at)
            store_pair(kept, at, old_re + g * re, old_im + g * im)
            if not last:
                g = _factor(c, 3, e)
                re, im = times(g * re, g * im, p_re, p_im)
                at = (v * ny + iy) * n_lines + line
                old_re, old_im = load_pair(lines, at)
                store_pair(lines, at, old_re + re, old_im + im)

    return add_force


class AxisTables:
    """Factors of modes along x, y and z: wavenumbers, phases of displaced grids, integrating factors.

    The counterpart of `runge_kutta.StepTables`: exp(r(k) dt) and exp(i k.d) are products of a factor of each j. Here
    the kernels multiply the factors, so that a step computes and copies only a few numbers for each j. They are
    computed in float64 and stored in the precision of the run. Phases are 1 until they are set.

    modes : of this rank; diffusivities : of velocity and scalars; real : dtype of the run; stream : of all copies

    Attributes
    ----------
    device : flat tables [row, j] of x, y and z on the device
    k : wavenumbers of x, y and z, float64
    """

    def __init__(
        self, modes: Modes, diffusivities: Sequence[float], real: np.dtype[Any], stream: Any
    ) -> None:
        (nz, ny, _), (unit_z, unit_y, unit_x) = modes.shape, modes.unit
        self._diffusivities, self._stream = diffusivities, stream
        self._j = np.arange(modes.truncation.n_columns), mode_numbers(ny), mode_numbers(nz)
        self.k = tuple(unit * j for unit, j in zip((unit_x, unit_y, unit_z), self._j))
        self._host = [np.zeros((DECAY + len(diffusivities), len(j)), real) for j in self._j]
        for table, k in zip(self._host, self.k):
            table[K] = k
            table[PHASES[0]] = table[PHASES[1]] = 1
        self.device = [cuda.to_device(table.ravel()) for table in self._host]

    @property
    def n_columns(self) -> int:
        """How many j_x there are."""
        return len(self._j[0])

    def displace(self, shifts: Sequence[NDArray[np.float64]]) -> None:
        """Set the phases exp(i k.d) of two grids displaced by d, (x, y, z) as fractions of the box."""
        for row, shift in zip(PHASES, shifts):
            for table, part, j in zip(self._host, shift, self._j):
                phase = np.exp(2j * np.pi * part * j)
                table[row], table[row + 1] = phase.real, phase.imag
        self._send()

    def decay(self, linear_rate: float, dt: float) -> None:
        """Set the integrating factors over dt of the velocity, with a force A u of rate A, and of each scalar."""
        for n, diffusivity in enumerate(self._diffusivities):
            for number, (table, k) in enumerate(zip(self._host, self.k)):
                growth = linear_rate if n == number == 0 else 0.0
                table[DECAY + n] = np.exp((growth - diffusivity * k * k) * dt)
        self._send()

    def _send(self) -> None:
        for table, target in zip(self._host, self.device):
            target.copy_to_device(table.ravel(), stream=self._stream)
