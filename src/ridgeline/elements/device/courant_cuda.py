"""The largest convective speed in units of the spacing of points, on NVIDIA GPUs: the twin of `elements.courant`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.elements.device.helmholtz_cuda import THREADS, element_of_block
from ridgeline.elements.device.tensor_cuda import launch_bounds, layout_of, make_column
from ridgeline.jit.cuda_device import barrier, device_function, fma, kernel, load, store

_REGISTERS = 64  # of a thread


@device_function
def _larger(a, b):
    """Return the larger number, or NaN if there is one."""
    return b if b > a or b != b else a


@device_function
def _largest_of_threads(scratch, thread, threads):
    """Leave the largest of the threads' numbers, scratch[thread], at scratch[0]. All threads must call it."""
    barrier()
    left = threads
    while left > 1:
        half = (left + 1) // 2
        if thread < left - half:
            store(scratch, thread, _larger(load(scratch, thread), load(scratch, thread + half)))
        barrier()
        left = half


@cache
def make_courant(n: int, axis_aligned: bool) -> Any:
    """Return kernel(order, first, end, velocity, metrics, spacing, out).

    Thread block b leaves at out[b] the largest |U_r| / dr + |U_s| / ds + |U_t| / dt over its elements' points, or NaN
    if a velocity is NaN. velocity: flat [3, E, n, n, n]; metrics: [E, 9, n, n, n] of curved elements, scale [E, 3] of
    axis-aligned ones; spacing: the inverse spacing, [n]; order: int32. Launch blocks(end - first) thread blocks of
    (n, n, layout.elements). Cost: reads velocity (and metrics). Each process compiles it (see `tensor_cuda`).
    """
    layout = layout_of(n)
    square, cube, elements, threads = n * n, n**3, layout.elements, layout.threads
    nine = make_column(9, cube)

    @kernel(*launch_bounds(n, np.float64, _REGISTERS))
    def courant(order, first, end, velocity, metrics, spacing, out):
        scratch = cuda.shared.array(threads, np.float64)
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        thread = (cuda.threadIdx.z * n + j) * n + i
        _, element, _ = element_of_block(order, first, end, 1, elements, cuda.blockIdx.x, cuda.threadIdx.z)
        field, most = velocity.size // 3, 0.0
        at, metrics_at = element * cube + j * n + i, element * 9 * cube + j * n + i
        of_x, of_y = load(spacing, i), load(spacing, j)
        for k in range(n):
            x, y, z = load(velocity, at), load(velocity, field + at), load(velocity, 2 * field + at)
            if axis_aligned:
                r, s = load(metrics, 3 * element) * x, load(metrics, 3 * element + 1) * y
                t = load(metrics, 3 * element + 2) * z
            else:
                r_x, r_y, r_z, s_x, s_y, s_z, t_x, t_y, t_z = nine(metrics, metrics_at)
                r = fma(r_x, x, fma(r_y, y, r_z * z))
                s = fma(s_x, x, fma(s_y, y, s_z * z))
                t = fma(t_x, x, fma(t_y, y, t_z * z))
            most = _larger(most, fma(abs(r), of_x, fma(abs(s), of_y, abs(t) * load(spacing, k))))
            at += square
            metrics_at += square
        store(scratch, thread, most)
        _largest_of_threads(scratch, thread, threads)
        if thread == 0:
            store(out, cuda.blockIdx.x, load(scratch, 0))

    return courant


@kernel(THREADS)
def largest(values, count, out):
    """out[0] = the largest of values[:count], or NaN if there is one. Launch one thread block of THREADS."""
    scratch = cuda.shared.array(THREADS, np.float64)
    thread, most = cuda.threadIdx.x, 0.0
    for place in range(thread, count, THREADS):
        most = _larger(most, load(values, place))
    store(scratch, thread, most)
    _largest_of_threads(scratch, thread, THREADS)
    if thread == 0:
        store(out, 0, load(scratch, 0))
