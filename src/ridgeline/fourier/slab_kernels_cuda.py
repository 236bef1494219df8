"""Packing between lines and planes of slabs on NVIDIA GPUs: only modes of lines that are kept are moved.

Complex numbers are pairs of reals in flat device arrays; all counts are complex numbers. *Lines* are [y, line], lines
contiguous; *planes* are [z, y, x] with rows of `pitch`. A table says where the line of (z, x) lies in a variable: at
place[z * pitch + x], or nowhere where that is -1, and step[z * pitch + x] on from one y to the next. So these kernels
know no difference between the lines of one rank and the pieces of several. A warp's threads lie along x, where lines
of one j_z are contiguous on both sides. Launch as `launch_shape` says.
"""

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, WARP, device_function, kernel, load, load_pair, store_pair

THREADS = 4 if SIMULATED else 128
BLOCKS = 12  # that fit on a multiprocessor: 1536 threads, each with a number or more under way
ROWS_PER_THREAD = 8  # at most; a thread reads the table once for them


def launch_shape(nz: int, ny: int, pitch: int) -> tuple[tuple[int, int, int], int]:
    """Return grid and block for planes [nz, ny, pitch]."""
    threads = min(THREADS, -(-pitch // WARP) * WARP)
    return (-(-pitch // threads), -(-ny // ROWS_PER_THREAD), nz), threads


@device_function
def _where(pitch):
    """Return x, z and the place of (z, x) in the table."""
    x = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    z = cuda.blockIdx.z
    return x, z, z * pitch + x


@kernel(THREADS, BLOCKS)
def spread_lines(lines, place, step, ny, pitch, out_planes):
    """Set planes to the modes of one variable's lines, and to zero where there is no line.

    lines : pieces of lines; place : (nz * pitch,) int64; step : (nz * pitch,) int32; out_planes : [nz, ny, pitch]
    Cost: reads each line once, writes planes once.
    """
    x, z, entry = _where(pitch)
    if x >= pitch:
        return
    zero = out_planes.dtype.type(0)
    source, pieces = load(place, entry), np.int64(load(step, entry))
    for y in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        re, im = zero, zero
        if source >= 0:
            re, im = load_pair(lines, source + y * pieces)
        store_pair(out_planes, (z * ny + y) * pitch + x, re, im)


@kernel(THREADS, BLOCKS)
def collect_lines(planes, place, step, ny, pitch, out_lines):
    """Set one variable's lines to the modes of planes: the reverse of `spread_lines`."""
    x, z, entry = _where(pitch)
    if x >= pitch:
        return
    target, pieces = load(place, entry), np.int64(load(step, entry))
    if target < 0:
        return
    for y in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        re, im = load_pair(planes, (z * ny + y) * pitch + x)
        store_pair(out_lines, target + y * pieces, re, im)


@kernel(THREADS, BLOCKS)
def collect_sums(first, second, kx, kz, place, step, ny, pitch, out_lines):
    """Set one variable's lines to k_x first + k_z second, of planes of two variables.

    kx : (pitch,), kz : (nz,) real. Cost: reads two planes where there are lines, writes lines once.
    """
    x, z, entry = _where(pitch)
    if x >= pitch:
        return
    target, pieces = load(place, entry), np.int64(load(step, entry))
    if target < 0:
        return
    a, b = load(kx, x), load(kz, z)
    for y in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        at = (z * ny + y) * pitch + x
        re, im = load_pair(first, at)
        more_re, more_im = load_pair(second, at)
        store_pair(out_lines, target + y * pieces, a * re + b * more_re, a * im + b * more_im)


@kernel(THREADS, BLOCKS)
def add_turned_sum(lines, variable, factors, place, step, ny, pitch, out_lines):
    """Add -i times a sum of three variables' lines to one variable's lines, where `place` has them.

    lines : variables that follow each other by `variable` numbers; factors : three reals
    """
    x, _, entry = _where(pitch)
    if x >= pitch:
        return
    target, pieces = load(place, entry), np.int64(load(step, entry))
    if target < 0:
        return
    a, b, c = factors
    for y in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        at = target + y * pieces
        u_re, u_im = load_pair(lines, at)
        v_re, v_im = load_pair(lines, at + variable)
        w_re, w_im = load_pair(lines, at + 2 * variable)
        re, im = load_pair(out_lines, at)
        store_pair(
            out_lines, at, re + (a * u_im + b * v_im + c * w_im), im - (a * u_re + b * v_re + c * w_re)
        )
