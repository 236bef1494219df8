"""Kernels of diagnostics on NVIDIA GPUs, over modes and over points: the counterparts of `kernels_diagnostics`.

Modes. Fields are flat device arrays [rows, line] of pairs of reals, and lines are [y, line], both as in
`kernels_cuda`, which also describes the arguments sizes, of_line, x, y and z. units: smallest wavenumbers along z, y,
x, float64, from which sums compute wavenumbers as the host does. No sum over modes is added atomically.

Points. They are flat device arrays of n_rows rows along x, each `pitch` pairs of reals long, of which the first
n_pairs are points. The sums of a row do not depend on how the other directions are cut. Counts are integers, whose
sum has no order, and are added atomically.

Sums are float64 whatever the precision of the arrays.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.fourier.device.kernels_cuda import LINE_THREADS
from ridgeline.fourier.modes import HALF
from ridgeline.jit.cuda_device import (
    SIMULATED,
    device_function,
    kernel,
    load,
    load_pair,
    store,
    store_pair,
    sum_threads,
)
from ridgeline.models.turbulence.device.kernels_cuda import line_of, phase_of, times

SHELL_THREADS = 4 if SIMULATED else 512
REAL_PART, SQUARE, THREE_SQUARES = 0, 1, 3  # values that `sum_shells` can sum
THREADS = 4 if SIMULATED else 128  # of kernels over points; at least four, which write four sums
BLOCKS = 8  # thread blocks on a multiprocessor, which allow 64 registers for a thread
MOST_BLOCKS = 2 if SIMULATED else 4096
MOST_BINS = 2048
_TWO, _THREE, _FOUR = 2 * SHELL_THREADS, 3 * THREADS, 4 * THREADS


@device_function
def flat_waves(of_line, n_lines, nz, units, line):
    """Return k_x, k_z, largest |j_y| and weight of a line."""
    column, place, most = line_of(of_line, n_lines, line)
    jz = place if 2 * place < nz else place - nz
    return units[2] * column, units[0] * jz, most, (1.0 if column == 0 else 2.0)


@device_function
def mode_of(field, at):
    """Return a mode as two float64."""
    re, im = load_pair(field, at)
    return np.float64(re), np.float64(im)


@kernel(LINE_THREADS, 4)
def sum_flow_lines(sizes, units, of_line, u, v, w, out_sums):
    """Set out_sums [9, n_lines] to the `FLOW_SUMS` of each line. A thread sums a line, in the host's order."""
    n_lines, _, rows, _, nz = sizes
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    x, z, most, weight = flat_waves(of_line, n_lines, nz, units, line)
    flat, count = x * x + z * z, 2 * most + 1
    xx = yy = zz = mean = curl = gradient = divergence = helicity = length = 0.0
    for place in range(count):
        j = place if place <= most else place - count
        y, at = units[1] * j, (j if j >= 0 else rows + j) * n_lines + line
        k2 = flat + y * y
        xr, xi = mode_of(u, at)
        yr, yi = mode_of(v, at)
        zr, zi = mode_of(w, at)
        ex, ey, ez = xr * xr + xi * xi, yr * yr + yi * yi, zr * zr + zi * zi
        square = ex + ey + ez
        if k2 > 0.0:
            xx += ex
            yy += ey
            zz += ez
            length += square / math.sqrt(k2)
        else:
            mean += square
        ar, ai = y * zr - z * yr, y * zi - z * yi
        br, bi = z * xr - x * zr, z * xi - x * zi
        cr, ci = x * yr - y * xr, x * yi - y * xi
        dr, di = x * xr + y * yr + z * zr, x * xi + y * yi + z * zi
        curl += ar * ar + ai * ai + br * br + bi * bi + cr * cr + ci * ci
        divergence += dr * dr + di * di
        gradient += k2 * square
        helicity += xi * ar - xr * ai + yi * br - yr * bi + zi * cr - zr * ci
    half = 0.5 * weight
    store(out_sums, line, half * xx)
    store(out_sums, n_lines + line, half * yy)
    store(out_sums, 2 * n_lines + line, half * zz)
    store(out_sums, 3 * n_lines + line, half * mean)
    store(out_sums, 4 * n_lines + line, half * curl)
    store(out_sums, 5 * n_lines + line, weight * gradient)
    store(out_sums, 6 * n_lines + line, weight * divergence)
    store(out_sums, 7 * n_lines + line, weight * helicity)
    store(out_sums, 8 * n_lines + line, half * length)


@kernel(LINE_THREADS, 4)
def sum_scalar_lines(sizes, units, of_line, u, v, w, scalar, out_sums):
    """Set out_sums [5, n_lines] to the `SCALAR_SUMS` of each line. A thread sums a line, in the host's order."""
    n_lines, _, rows, _, nz = sizes
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    x, z, most, weight = flat_waves(of_line, n_lines, nz, units, line)
    flat, count = x * x + z * z, 2 * most + 1
    variance = slope = fx = fy = fz = 0.0
    for place in range(count):
        j = place if place <= most else place - count
        y, at = units[1] * j, (j if j >= 0 else rows + j) * n_lines + line
        k2 = flat + y * y
        if k2 > 0.0:
            re, im = mode_of(scalar, at)
            xr, xi = mode_of(u, at)
            yr, yi = mode_of(v, at)
            zr, zi = mode_of(w, at)
            square = re * re + im * im
            variance += square
            slope += k2 * square
            fx += xr * re + xi * im
            fy += yr * re + yi * im
            fz += zr * re + zi * im
    store(out_sums, line, weight * variance)
    store(out_sums, n_lines + line, weight * slope)
    store(out_sums, 2 * n_lines + line, weight * fx)
    store(out_sums, 3 * n_lines + line, weight * fy)
    store(out_sums, 4 * n_lines + line, weight * fz)


@device_function
def _value(kind, a, b, c, at):
    """Return the value of a mode that `sum_shells` sums."""
    re, im = mode_of(a, at)
    if kind == REAL_PART:
        return re
    square = re * re + im * im
    if kind == THREE_SQUARES:
        re, im = mode_of(b, at)
        square += re * re + im * im
        re, im = mode_of(c, at)
        square += re * re + im * im
    return square


@kernel(SHELL_THREADS, 2)
def sum_shells(sizes, units, of_line, shell_width, kind, a, b, c, out_shells):
    """Set out_shells [2, n_shells] to sums over shells of a value and of k^2 times it; a thread block for each shell.

    kind : REAL_PART of a, SQUARE of a, or THREE_SQUARES, the sum of those of a, b and c; shells : see
    `fourier.modes`

    In a line the modes of a shell are a run of |j_y|. A thread locates the run in each of its lines, so that every
    mode is read once.
    """
    scratch = cuda.shared.array(_TWO, np.float64)
    n_lines, _, rows, _, nz = sizes
    unit_y, shell, thread = units[1], cuda.blockIdx.x, cuda.threadIdx.x
    inner = max((shell - HALF) * shell_width, 0.0)
    total = slope = 0.0
    for line in range(thread, n_lines, SHELL_THREADS):
        x, z, most, weight = flat_waves(of_line, n_lines, nz, units, line)
        flat = x * x + z * z
        # Start at a j_y below the run. The host's formula decides whether a mode belongs to the shell.
        j = max(int(math.sqrt(max(inner * inner - flat, 0.0)) / unit_y) - 1, 0)
        found = shell
        while j <= most and found <= shell:
            k2 = flat + (unit_y * j) * (unit_y * j)
            found = int(math.sqrt(k2) / shell_width + HALF)
            if found == shell:
                value = _value(kind, a, b, c, j * n_lines + line)
                if j > 0:
                    value += _value(kind, a, b, c, (rows - j) * n_lines + line)
                total += weight * value
                slope += weight * k2 * value
            j += 1
    store(scratch, thread, total)
    store(scratch, SHELL_THREADS + thread, slope)
    sum_threads(scratch, 2, thread, SHELL_THREADS)
    if thread < 2:
        store(out_shells, thread * cuda.gridDim.x + shell, load(scratch, thread * SHELL_THREADS))


@kernel(LINE_THREADS, 8)
def combine_derivatives(a, b, of_a, of_b, sizes, of_line, x, y, z, out_lines):
    """Set lines to i ((of_a . k) a + (of_b . k) b), and to zero where no mode is retained.

    a, b : fields; of_a, of_b : three reals along x, y, z

    Launch: `line_launch`. Cost: reads each field once, writes lines once.
    """
    n_lines, ny, rows, _, _ = sizes
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    zero = out_lines.dtype.type(0)
    column, place, most = line_of(of_line, n_lines, line)
    kx, kz = load(x, column), load(z, place)
    for iy in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        jy = iy if 2 * iy < ny else iy - ny
        re, im = zero, zero
        if abs(jy) <= most:
            at, ky = (jy if jy >= 0 else rows + jy) * n_lines + line, load(y, iy)
            p = of_a[0] * kx + of_a[1] * ky + of_a[2] * kz
            q = of_b[0] * kx + of_b[1] * ky + of_b[2] * kz
            a_re, a_im = load_pair(a, at)
            b_re, b_im = load_pair(b, at)
            re, im = -(p * a_im + q * b_im), p * a_re + q * b_re
        store_pair(out_lines, iy * n_lines + line, re, im)


@kernel(LINE_THREADS, 8)
def streamfunction_modes(b, c, of_b, of_c, sizes, of_line, x, y, z, out_lines):
    """Set lines to i ((of_b . k) c - (of_c . k) b)/((of_b . k)^2 + (of_c . k)^2), and to zero where that is 0/0.

    b, c : u along the axes of a plane in cyclic order; of_b, of_c : these axes, three reals along x, y, z

    Launch: `line_launch`. Cost: reads each field once, writes lines once.
    """
    n_lines, ny, rows, _, _ = sizes
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    zero, one = out_lines.dtype.type(0), out_lines.dtype.type(1)
    column, place, most = line_of(of_line, n_lines, line)
    kx, kz = load(x, column), load(z, place)
    for iy in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        jy = iy if 2 * iy < ny else iy - ny
        re, im = zero, zero
        if abs(jy) <= most:
            at, ky = (jy if jy >= 0 else rows + jy) * n_lines + line, load(y, iy)
            s = of_b[0] * kx + of_b[1] * ky + of_b[2] * kz
            t = of_c[0] * kx + of_c[1] * ky + of_c[2] * kz
            square = s * s + t * t
            inverse = one / square if square > zero else zero
            p, q = inverse * s, inverse * t
            b_re, b_im = load_pair(b, at)
            c_re, c_im = load_pair(c, at)
            re, im = q * b_im - p * c_im, p * c_re - q * b_re
        store_pair(out_lines, iy * n_lines + line, re, im)


@cache
def make_add_stress(dtype: DTypeLike, shifted: bool) -> Any:
    """Return the kernel that adds the contributions of u_i u_j and u_j u_i to the pressure and to the transfer:

        add_stress(
            lines, sizes, of_line, x, y, z, row, of_i, of_j, second, scale, fresh, u_i, u_j, pressure, transfer
        )

    lines : of u_i u_j, displaced by the phases in `row` of the tables if `shifted`; scale : real, of the lines
    of_i, of_j : three reals, 1 for the axis and 0 for the others
    second : real, 0 if i = j and 1 otherwise, the weight of u_j u_i
    fresh : 1 if this is the first product, before which pressure and transfer are undefined
    pressure, transfer : fields, added to: -k_i k_j / k^2 times the stress, and the real Re(u_j* (-i k_i stress))

    Launch: `line_launch`. Cost: reads the lines and four fields, writes two.
    """
    real = np.dtype(dtype).type
    zero, one, tiny = real(0), real(1), real(np.finfo(real).tiny * 2.0**20)

    @kernel(LINE_THREADS, 4)
    def add_stress(
        lines, sizes, of_line, x, y, z, row, of_i, of_j, second, scale, fresh, u_i, u_j, pressure, transfer
    ):
        n_lines, ny, rows, n_columns, nz = sizes
        line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if line >= n_lines:
            return
        column, place, most = line_of(of_line, n_lines, line)
        kx, kz = load(x, column), load(z, place)
        if shifted:
            l_re, l_im = phase_of(x, z, row, column, n_columns, place, nz)
        for iy in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
            jy = iy if 2 * iy < ny else iy - ny
            if abs(jy) > most:
                continue
            at, ky = (jy if jy >= 0 else rows + jy) * n_lines + line, load(y, iy)
            re, im = load_pair(lines, iy * n_lines + line)
            if shifted:
                p_re, p_im = times(l_re, l_im, load(y, row * ny + iy), load(y, (row + 1) * ny + iy))
                re, im = times(re, im, p_re, -p_im)
            re, im = re * scale, im * scale
            k_i = of_i[0] * kx + of_i[1] * ky + of_i[2] * kz
            k_j = of_j[0] * kx + of_j[1] * ky + of_j[2] * kz
            i_re, i_im = load_pair(u_i, at)
            j_re, j_im = load_pair(u_j, at)
            # Re(conj(u) (-i s)) = u_real s_imag - u_imag s_real
            work = k_i * (j_re * im - j_im * re) + second * k_j * (i_re * im - i_im * re)
            factor = -(one + second) * k_i * k_j / max(kx * kx + ky * ky + kz * kz, tiny)
            p_re = p_im = old = zero
            if fresh == 0:
                p_re, p_im = load_pair(pressure, at)
                old, _ = load_pair(transfer, at)
            store_pair(pressure, at, p_re + factor * re, p_im + factor * im)
            store_pair(transfer, at, old + work, zero)

    return add_stress


@kernel(THREADS, BLOCKS)
def sum_powers(points, n_pairs, pitch, out_sums):
    """Set out_sums [4, n_rows] to the sums of x, x^2, x^3 and x^4 over each row. A thread block sums a row."""
    scratch = cuda.shared.array(_FOUR, np.float64)
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    first = second = third = fourth = 0.0
    for i in range(thread, n_pairs, THREADS):
        for value in load_pair(points, row * pitch + i):
            x = np.float64(value)
            square = x * x
            first += x
            second += square
            third += square * x
            fourth += square * square
    store(scratch, thread, first)
    store(scratch, THREADS + thread, second)
    store(scratch, 2 * THREADS + thread, third)
    store(scratch, 3 * THREADS + thread, fourth)
    sum_threads(scratch, 4, thread, THREADS)
    if thread < 4:
        store(out_sums, thread * cuda.gridDim.x + row, load(scratch, thread * THREADS))


@kernel(THREADS, BLOCKS)
def sum_increments(points, n, pitch, n_rows, offsets, out_sums):
    """Set out_sums [3, n_offsets, n_parts] to the sums of powers 2, 3, 4 of row[i + offset] - row[i], rows periodic.

    n, pitch : counted in reals here; offsets : (n_offsets,) int64. Launch (n_offsets, n_parts) thread blocks; a part
    has every n_parts-th row.
    """
    scratch = cuda.shared.array(_THREE, np.float64)
    thread, part, n_parts = cuda.threadIdx.x, cuda.blockIdx.y, cuda.gridDim.y
    offset = load(offsets, cuda.blockIdx.x)
    second = third = fourth = 0.0
    for row in range(part, n_rows, n_parts):
        for i in range(thread, n, THREADS):
            other = i + offset
            other = other - n if other >= n else other
            step = np.float64(load(points, row * pitch + other)) - np.float64(load(points, row * pitch + i))
            square = step * step
            second += square
            third += square * step
            fourth += square * square
    store(scratch, thread, second)
    store(scratch, THREADS + thread, third)
    store(scratch, 2 * THREADS + thread, fourth)
    sum_threads(scratch, 3, thread, THREADS)
    if thread < 3:
        place = (thread * cuda.gridDim.x + cuda.blockIdx.x) * n_parts + part
        store(out_sums, place, load(scratch, thread * THREADS))


@kernel(THREADS, BLOCKS)
def add_squares(points, scale, fresh, n, out):
    """Add scale points^2 to out, n pairs; with fresh = 1 set out to it."""
    zero = out.dtype.type(0)
    for i in range(cuda.blockIdx.x * THREADS + cuda.threadIdx.x, n, cuda.gridDim.x * THREADS):
        a, b = load_pair(points, i)
        old_a, old_b = zero, zero
        if fresh == 0:
            old_a, old_b = load_pair(out, i)
        store_pair(out, i, old_a + scale * a * a, old_b + scale * b * b)


@kernel(THREADS, BLOCKS)
def multiply_points(a, b, n, out):
    """Set out = a b, n pairs."""
    for i in range(cuda.blockIdx.x * THREADS + cuda.threadIdx.x, n, cuda.gridDim.x * THREADS):
        a0, a1 = load_pair(a, i)
        b0, b1 = load_pair(b, i)
        store_pair(out, i, a0 * b0, a1 * b1)


@device_function
def _largest(a, b):
    """Return the larger number, or NaN if one of them is."""
    return a if a >= b or math.isnan(a) else b


@kernel(THREADS, BLOCKS)
def largest_rate(u, v, w, per_cell, n_pairs, pitch, n_rows, out_rates):
    """Set out_rates, one for each thread block, to its largest |u| a + |v| b + |w| c; (a, b, c) is per_cell."""
    of_threads = cuda.shared.array(THREADS, np.float64)
    a, b, c = per_cell
    thread, largest = cuda.threadIdx.x, u.dtype.type(0)
    for row in range(cuda.blockIdx.x, n_rows, cuda.gridDim.x):
        for i in range(thread, n_pairs, THREADS):
            u0, u1 = load_pair(u, row * pitch + i)
            v0, v1 = load_pair(v, row * pitch + i)
            w0, w1 = load_pair(w, row * pitch + i)
            largest = _largest(largest, a * abs(u0) + b * abs(v0) + c * abs(w0))
            largest = _largest(largest, a * abs(u1) + b * abs(v1) + c * abs(w1))
    of_threads[thread] = largest
    half = THREADS // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            of_threads[thread] = _largest(of_threads[thread], of_threads[thread + half])
        half //= 2
    if thread == 0:
        out_rates[cuda.blockIdx.x] = of_threads[0]


@device_function
def _begin_counts(counts, n):
    """Set the counts of the thread block to zero."""
    for place in range(cuda.threadIdx.x, n, THREADS):
        counts[place] = 0
    cuda.syncthreads()


@device_function
def _add_counts(counts, n, out_counts):
    """Add the counts of the thread block to those of all blocks."""
    cuda.syncthreads()
    for place in range(cuda.threadIdx.x, n, THREADS):
        if counts[place] > 0:
            cuda.atomic.add(out_counts, place, np.int64(counts[place]))


@kernel(THREADS, BLOCKS)
def count_octaves(points, n_pairs, pitch, n_rows, inverse_unit, lowest, bits, n, out_counts):
    """Add the counts of `kernels_diagnostics.count_octaves` to out_counts, (n,) int64; n <= MOST_BINS."""
    counts = cuda.shared.array(MOST_BINS, np.int32)
    _begin_counts(counts, n)
    drop, first = 52 - bits, (1023 + lowest) << bits
    for row in range(cuda.blockIdx.x, n_rows, cuda.gridDim.x):
        for i in range(cuda.threadIdx.x, n_pairs, THREADS):
            for value in load_pair(points, row * pitch + i):
                place = ((np.float64(value) * inverse_unit).view(np.int64) >> drop) - first + 1
                cuda.atomic.add(counts, min(max(place, 0), n - 1), 1)
    _add_counts(counts, n, out_counts)


@kernel(THREADS, BLOCKS)
def count_evenly(points, n_pairs, pitch, n_rows, inverse_width, middle, out_counts):
    """Add the counts of `kernels_diagnostics.count_evenly` to out_counts, (2 middle + 2 <= MOST_BINS,) int64."""
    counts = cuda.shared.array(MOST_BINS, np.int32)
    last = 2 * middle + 1
    _begin_counts(counts, last + 1)
    for row in range(cuda.blockIdx.x, n_rows, cuda.gridDim.x):
        for i in range(cuda.threadIdx.x, n_pairs, THREADS):
            for value in load_pair(points, row * pitch + i):
                number = min(max(np.float64(value) * inverse_width, -middle - 1.0), 1.0 * last)
                place = math.floor(number) + middle + 1
                cuda.atomic.add(counts, min(place, last), 1)
    _add_counts(counts, last + 1, out_counts)
