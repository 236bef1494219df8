"""Packing between lines, planes and rows on NVIDIA GPUs: only modes of lines that are kept are moved.

Complex numbers are pairs of reals in flat device arrays; all counts are complex numbers. *Lines* are [y, line], lines
contiguous; *planes* are [z, y, x] with rows of `pitch`. A table says where the line of (z, x) lies in a variable: at
place[z * pitch + x]; -1 means that there is none. The next y is `step` numbers further. These kernels therefore treat
the lines of one rank, pieces of several ranks, and pieces of several variables alike. The row exchange of pencils has
such tables too, where planes of some columns j_x stand for lines, and rows for planes. A warp's threads lie along
x, where lines of one j_z are contiguous on both sides. Launch as `launch_shape` says.
"""

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, WARP, device_function, kernel, load, load_pair, store_pair

THREADS = 4 if SIMULATED else 128
BLOCKS = 12  # that fit on a multiprocessor: 1536 threads, each with one number or more in flight
ROWS_PER_THREAD = 8  # at most; a thread reads the table once for them
LINE_THREADS = 4 if SIMULATED else 128
LINE_ROWS = 16  # of a thread that computes something for its line


def launch_shape(nz: int, ny: int, pitch: int) -> tuple[tuple[int, int, int], int]:
    """Return grid and block for planes [nz, ny, pitch]."""
    threads = min(THREADS, -(-pitch // WARP) * WARP)
    return (-(-pitch // threads), -(-ny // ROWS_PER_THREAD), nz), threads


def line_launch(n_lines: int, rows: int) -> tuple[tuple[int, int], int]:
    """Return grid and block of kernels whose threads lie along lines and march over rows of them."""
    return (-(-n_lines // LINE_THREADS), -(-rows // LINE_ROWS)), LINE_THREADS


@device_function
def _where(pitch):
    """Return x, z and the place of (z, x) in the table."""
    x = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    z = cuda.blockIdx.z
    return x, z, z * pitch + x


@kernel(THREADS, BLOCKS)
def spread_lines(lines, place, step, ny, pitch, out_planes):
    """Set planes to the modes of one variable's lines, and to zero where there is no line.

    lines : pieces of lines; place : (nz * pitch,) int64; out_planes : [nz, ny, pitch]
    Cost: reads each line once, writes planes once.
    """
    x, z, entry = _where(pitch)
    if x >= pitch:
        return
    zero = out_planes.dtype.type(0)
    source = load(place, entry)
    for y in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        re, im = zero, zero
        if source >= 0:
            re, im = load_pair(lines, source + y * step)
        store_pair(out_planes, (z * ny + y) * pitch + x, re, im)


@kernel(THREADS, BLOCKS)
def collect_lines(planes, place, step, ny, pitch, out_lines):
    """Set one variable's lines to the modes of planes: the reverse of `spread_lines`."""
    x, z, entry = _where(pitch)
    if x >= pitch:
        return
    target = load(place, entry)
    if target < 0:
        return
    for y in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        re, im = load_pair(planes, (z * ny + y) * pitch + x)
        store_pair(out_lines, target + y * step, re, im)


@kernel(THREADS, BLOCKS)
def collect_sums(first, second, kx, kz, place, step, ny, pitch, out_lines):
    """Set one variable's lines to k_x first + k_z second, of planes of two variables.

    kx : (pitch,), kz : (nz,) real. Cost: reads two planes where there are lines, writes lines once.
    """
    x, z, entry = _where(pitch)
    if x >= pitch:
        return
    target = load(place, entry)
    if target < 0:
        return
    a, b = load(kx, x), load(kz, z)
    for y in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        at = (z * ny + y) * pitch + x
        re, im = load_pair(first, at)
        more_re, more_im = load_pair(second, at)
        store_pair(out_lines, target + y * step, a * re + b * more_re, a * im + b * more_im)


@kernel(THREADS, BLOCKS)
def add_turned_sum(u, v, w, from_place, place, steps, factors, ny, pitch, out_lines):
    """Add -i times a sum of three variables' lines to one variable's lines.

    u, v, w : lines of the table from_place; steps : of the tables from_place and place; factors : three reals
    """
    x, _, entry = _where(pitch)
    if x >= pitch:
        return
    target, source = load(place, entry), load(from_place, entry)
    if target < 0:
        return
    a, b, c = factors
    for y in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        at = source + y * steps[0]
        u_re, u_im = load_pair(u, at)
        v_re, v_im = load_pair(v, at)
        w_re, w_im = load_pair(w, at)
        at = target + y * steps[1]
        re, im = load_pair(out_lines, at)
        store_pair(
            out_lines, at, re + (a * u_im + b * v_im + c * w_im), im - (a * u_re + b * v_re + c * w_re)
        )


@kernel(LINE_THREADS)
def gather_modes(fields, field, n_fields, places, n, out_modes):
    """Set out_modes [n_fields, n] to the modes at `places` (n,) int64 of fields, which are `field` numbers apart."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        for v in range(n_fields):
            re, im = load_pair(fields, v * field + load(places, i))
            store_pair(out_modes, v * n + i, re, im)


@kernel(LINE_THREADS)
def scatter_modes(modes, field, n_fields, places, n, out_fields):
    """Set the modes at `places` of fields to modes [n_fields, n]: the reverse of `gather_modes`."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        for v in range(n_fields):
            re, im = load_pair(modes, v * n + i)
            store_pair(out_fields, v * field + load(places, i), re, im)


@kernel(LINE_THREADS)
def order_by_lines(field, n_lines, rows, most, start, out_ragged):
    """Set a field as the host stores it (`fourier.modes`), line by line, from rows j_y = 0, 1, ..., -1 of lines.

    field : [rows, n_lines], rows odd or as many as N_y; most : int32, start : int64, of each line
    out_ragged : (n_modes,). Launch: `line_launch(n_lines, rows)`. Not for the step loop, because one side is
        scattered.
    """
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    begin, m = load(start, line), np.int64(load(most, line))
    for row in range(cuda.blockIdx.y, rows, cuda.gridDim.y):
        jy = row if 2 * row < rows else row - rows
        if abs(jy) <= m:
            re, im = load_pair(field, row * n_lines + line)
            store_pair(out_ragged, begin + (jy if jy >= 0 else jy + 2 * m + 1), re, im)


@kernel(LINE_THREADS)
def order_by_rows(ragged, n_lines, rows, most, start, out_field):
    """Set rows of lines from a field as the host stores it, zero where it has no mode: see `order_by_lines`."""
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    zero = out_field.dtype.type(0)
    begin, m = load(start, line), np.int64(load(most, line))
    for row in range(cuda.blockIdx.y, rows, cuda.gridDim.y):
        jy = row if 2 * row < rows else row - rows
        re, im = zero, zero
        if abs(jy) <= m:
            re, im = load_pair(ragged, begin + (jy if jy >= 0 else jy + 2 * m + 1))
        store_pair(out_field, row * n_lines + line, re, im)
