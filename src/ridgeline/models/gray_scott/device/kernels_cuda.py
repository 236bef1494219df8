"""The Gray-Scott sweep on NVIDIA GPUs: one fused pass over u and v, the GPU twin of `kernels`.

    sweep = make_sweep(dtype, row_pitch, shape, generator)
    launch = launch_shape(box, ...)
    sweep[launch.grid, launch.block, stream](
        u, v, (origin, plane_pitch), box, launch.planes, offset_global, wrap, step, key, coefficients,
        out_u, out_v)

advances the cells of a box from (u, v) at time step `step` to (out_u, out_v) at `step + 1`.

- u, v, out_u, out_v: flat device arrays of one layout (`BlockArray` with `PAD_ROWS` rows more at either end), of
  one dtype, float64 or float32. u and v hold valid ghosts around the box, of faces only.
- box = (z0, z1, y0, y1, x0, x1): local cells z0 <= k < z1 and so on. Any box is allowed.
- offset_global: global index (z, y, x) of local cell 0.
- wrap = (nz, ny, nx): the block's extent in each direction in which it is periodic with itself, otherwise 0. There
  the sweep also writes a boundary cell's new value into the ghost at the other end, so that no exchange has to fill
  the ghosts of a whole grid on one GPU.
- key: `cuda_random.device_key(seed)`, or () for no noise (these are two compilations); generator: how random numbers
  are made from it.
- coefficients: `device_coefficients(c)`.

A cell's new value is bit for bit that of the CPU sweep. The expressions and their order are the same, with fused
multiply-adds only where `physics.point_update` has them. (Every product that is added there is in an explicit fused
multiply-add, so that the compiler finds nothing to contract.)

Loops: a thread takes the four rows of an aligned group at one x, which draw from one Philox block. It marches in z
with three planes of its column of both fields in registers. A warp's 32 threads lie along x. A cell of the next plane
is therefore fetched from memory once, and its neighbours in x and y come from the first-level cache. Each thread
works on eight cells at a time. The row pitch is a constant of the compiled kernel, so that every access is a moving
pointer plus an immediate.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.blocks.overlap import CellRange
from ridgeline.jit.cuda_device import (
    WARP,
    device_function,
    fma,
    kernel,
    load,
    store,
    store_streaming,
)
from ridgeline.jit.cuda_random import SCALE, how_drawn, numbers
from ridgeline.jit.random import PHILOX_7, WORDS, Generator
from ridgeline.models.gray_scott.physics import Coefficients, point_update

_update = device_function(point_update(fma))


class DeviceKernel(Protocol):
    """A kernel that is compiled when it is first launched, by kernel[grid, block, stream](*arguments)."""

    def __getitem__(self, launch: tuple[Any, ...], /) -> Callable[..., None]: ...


class Stream(Protocol):
    """A stream of the device, as `cuda_device.make_stream` returns it."""

    def synchronize(self) -> None:
        """Wait for all that was put on the stream."""


class Shape(NamedTuple):
    """Threads of a launch, which change nothing but the speed."""

    threads: int  # per block, at most
    blocks: int  # that fit on a multiprocessor
    streaming: bool = False  # stores are the first that the cache evicts
    waves: int = 1  # a box is cut in z until it fills the device with thread blocks that often, at least
    march: int = 8  # planes through which a thread block marches at most


def default_shape(dtype: DTypeLike) -> Shape:
    """Return the shape for fields of `dtype`, the fastest on an H200.

    A thread has 128 registers in float64 and 64 in float32. Short marches are faster than long ones, although more
    planes are read twice: thread blocks that run at the same time are then near each other, and find these planes in
    the second-level cache.
    """
    return Shape(512, 1, streaming=True) if np.dtype(dtype) == np.float64 else Shape(512, 2)


class BoxLaunch(NamedTuple):
    """A launch of the sweep over one box.

    Threads start at the box's first x, rounded down to whole warps if the thread block is as wide as one.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    planes: int  # that a thread block marches through


def launch_shape(box: CellRange, y_offset: int, shape: Shape, multiprocessors: int) -> BoxLaunch:
    """Return how to launch the sweep over a box that is not empty; y_offset is the global y of local row 0.

    Thread blocks run to their end, so that work on other streams can start only between waves of them.
    """
    z0, z1, y0, y1, x0, x1 = box
    first_x = x0 - x0 % WARP if x1 - x0 >= WARP else x0
    width = x1 - first_x
    groups = (y1 - 1 + y_offset) // WORDS - (y0 + y_offset) // WORDS + 1
    if width >= WARP:
        along_x = min((4 * WARP, 2 * WARP, WARP), key=lambda n: -(-width // n) * n)
    else:
        along_x = min(WARP // 2, 1 << (width - 1).bit_length())
    along_y = min(shape.threads // along_x, groups)
    columns, rows = -(-width // along_x), -(-groups // along_y)

    device = multiprocessors * shape.blocks
    least = max(
        -(-(z1 - z0) // shape.march), -(-shape.waves * device // (columns * rows)) if shape.waves > 1 else 1
    )
    planes = planes_of_chunks(z1 - z0, columns * rows, device, beyond=1, least=least)
    return BoxLaunch((columns, rows, -(-(z1 - z0) // planes)), (along_x, along_y, 1), planes)


def planes_of_chunks(planes: int, per_chunk: int, device: int, beyond: int, least: int = 1) -> int:
    """Return how many planes a thread block marches through where a box is cut in z into chunks.

    per_chunk: thread blocks of a chunk; device: those that run at a time; beyond: planes that a thread block reads
    at either end besides; least: chunks, where there are planes enough.
    """

    def cost(chunks: int) -> float:
        of_chunk = -(-planes // chunks)
        waves = per_chunk * -(-planes // of_chunk) / device
        # A block reads more planes than it writes, and reading is half of the traffic. The last wave may not fill the
        # device. Blocks of a wave do not end at the same time; they differ by some twentieth of it.
        return (1 + beyond / of_chunk) * math.ceil(waves) / waves * (1 + 0.05 / math.ceil(waves))

    return -(-planes // min(range(min(planes, least), planes + 1), key=cost))


def device_coefficients(c: Coefficients) -> tuple[Any, ...]:
    """Return the coefficients that depend on the case, as kernels take them.

    They are few, because each argument makes a launch slower. The noise absorbs the power of two that turns words
    into uniform numbers, which is exact.
    """
    return (*c[:4], c.noise * type(c.noise)(SCALE), c.dt)


@device_function
def column(field, at, pitch):
    """Return the cells of the four rows of a group."""
    return load(field, at), load(field, at + pitch), load(field, at + 2 * pitch), load(field, at + 3 * pitch)


@device_function
def _point(u, v, at, u_c, v_c, u_s, v_s, u_n, v_n, u_b, v_b, u_a, v_a, r, c):
    """Return the new u, v of one cell: c centre, s and n rows before and after, b and a planes below and above."""
    sum_u = ((load(u, at - 1) + load(u, at + 1)) + (u_s + u_n)) + (u_b + u_a)
    sum_v = ((load(v, at - 1) + load(v, at + 1)) + (v_s + v_n)) + (v_b + v_a)
    return _update(u_c, v_c, sum_u, sum_v, r, c)


@device_function
def points(u, v, at, pitch, u_c, v_c, u_s, v_s, u_n, v_n, u_b, v_b, u_a, v_a, r, c):
    """Return the new u and v of a group's four cells.

    Neighbours in x come from u and v, where the first cell is at `at` and rows are `pitch` apart. c, b, a: columns;
    s, n: the cells before and after the group; r: four random numbers.
    """
    p0, q0 = _point(
        u, v, at, u_c[0], v_c[0], u_s, v_s, u_c[1], v_c[1], u_b[0], v_b[0], u_a[0], v_a[0], r[0], c
    )
    p1, q1 = _point(
        u, v, at + pitch,
        u_c[1], v_c[1], u_c[0], v_c[0], u_c[2], v_c[2], u_b[1], v_b[1], u_a[1], v_a[1], r[1], c,
    )  # fmt: skip
    p2, q2 = _point(
        u, v, at + 2 * pitch,
        u_c[2], v_c[2], u_c[1], v_c[1], u_c[3], v_c[3], u_b[2], v_b[2], u_a[2], v_a[2], r[2], c,
    )  # fmt: skip
    p3, q3 = _point(
        u, v, at + 3 * pitch,
        u_c[3], v_c[3], u_c[2], v_c[2], u_n, v_n, u_b[3], v_b[3], u_a[3], v_a[3], r[3], c,
    )  # fmt: skip
    return (p0, p1, p2, p3), (q0, q1, q2, q3)


@device_function
def _put(out_u, out_v, at, new_u, new_v, k, j, i, y0, y1, wrap, pitch, plane):
    """Store one cell if its row is in the box, and its copies in ghosts across periodic boundaries."""
    if j < y0 or j >= y1:
        return
    store(out_u, at, new_u)
    store(out_v, at, new_v)
    nz, ny, nx = wrap
    if nx > 0:
        if i == 0:
            store(out_u, at + nx, new_u)
            store(out_v, at + nx, new_v)
        if i == nx - 1:
            store(out_u, at - nx, new_u)
            store(out_v, at - nx, new_v)
    if ny > 0:
        if j == 0:
            store(out_u, at + ny * pitch, new_u)
            store(out_v, at + ny * pitch, new_v)
        if j == ny - 1:
            store(out_u, at - ny * pitch, new_u)
            store(out_v, at - ny * pitch, new_v)
    if nz > 0:
        if k == 0:
            store(out_u, at + nz * plane, new_u)
            store(out_v, at + nz * plane, new_v)
        if k == nz - 1:
            store(out_u, at - nz * plane, new_u)
            store(out_v, at - nz * plane, new_v)


@device_function
def put(out_u, out_v, at, p, q, k, j, i, y0, y1, wrap, pitch, plane):
    """Store a group's four cells, of those rows that are in the box, and their copies in ghosts."""
    _put(out_u, out_v, at, p[0], q[0], k, j, i, y0, y1, wrap, pitch, plane)
    _put(out_u, out_v, at + pitch, p[1], q[1], k, j + 1, i, y0, y1, wrap, pitch, plane)
    _put(out_u, out_v, at + 2 * pitch, p[2], q[2], k, j + 2, i, y0, y1, wrap, pitch, plane)
    _put(out_u, out_v, at + 3 * pitch, p[3], q[3], k, j + 3, i, y0, y1, wrap, pitch, plane)


@device_function
def store_column(field, at, pitch, values):
    """Store the cells of the four rows of a group."""
    store(field, at, values[0])
    store(field, at + pitch, values[1])
    store(field, at + 2 * pitch, values[2])
    store(field, at + 3 * pitch, values[3])


@device_function
def _stream_column(field, at, pitch, values):
    """Store the cells of the four rows of a group so that the cache evicts them first."""
    store_streaming(field, np.uint64(at), values[0])
    store_streaming(field, np.uint64(at + pitch), values[1])
    store_streaming(field, np.uint64(at + 2 * pitch), values[2])
    store_streaming(field, np.uint64(at + 3 * pitch), values[3])


@cache
def make_sweep(
    dtype: DTypeLike, row_pitch: int, shape: Shape | None = None, generator: Generator = PHILOX_7
) -> DeviceKernel:
    """Return the sweep (see the module) for fields of `dtype` whose rows lie `row_pitch` cells apart.

    shape: None for `default_shape`; others are for measuring.
    """
    threads, blocks, streaming, *_ = shape or default_shape(dtype)
    real = np.dtype(dtype).type
    drawn, pitch = how_drawn(dtype, generator), row_pitch

    @kernel(threads, blocks)
    def sweep(u, v, layout, box, planes, offset_global, wrap, step, key, coefficients, out_u, out_v):
        origin, plane = layout
        z0, z1, y0, y1, x0, x1 = box
        oz, oy, ox = offset_global
        du, dv, feed, loss, noise, dt = coefficients
        c = Coefficients(du, dv, feed, loss, noise, dt, real(1.0), real(-6.0))
        i = x0 + cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if cuda.blockDim.x >= WARP:
            i -= x0 % WARP
        group = (y0 + oy) // 4 + cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
        j = group * 4 - oy
        k = z0 + cuda.blockIdx.z * planes
        if i < x0 or i >= x1 or j >= y1 or k >= z1:
            return
        end = min(k + planes, z1)
        whole = j >= y0 and j + 4 <= y1
        at_edge = (wrap[2] > 0 and (i == 0 or i == wrap[2] - 1)) or (
            wrap[1] > 0 and (j == 0 or j + 4 >= wrap[1])
        )
        plain = whole and not at_edge
        at = origin + k * plane + j * pitch + i
        above = at + plane
        u_b, v_b = column(u, at - plane, pitch), column(v, at - plane, pitch)
        u_c, v_c = column(u, at, pitch), column(v, at, pitch)
        while k < end:
            u_a, v_a = column(u, above, pitch), column(v, above, pitch)
            u_s, v_s = load(u, at - pitch), load(v, at - pitch)
            u_n, v_n = load(u, at + 4 * pitch), load(v, at + 4 * pitch)
            r = numbers(i + ox, group, k + oz, step, key, drawn, real)
            p, q = points(u, v, at, pitch, u_c, v_c, u_s, v_s, u_n, v_n, u_b, v_b, u_a, v_a, r, c)
            if not plain or k == 0 or k == wrap[0] - 1:
                put(out_u, out_v, at, p, q, k, j, i, y0, y1, wrap, pitch, plane)
            elif streaming:
                _stream_column(out_u, at, pitch, p)
                _stream_column(out_v, at, pitch, q)
            else:
                store_column(out_u, at, pitch, p)
                store_column(out_v, at, pitch, q)
            u_b, u_c, v_b, v_c = u_c, u_a, v_c, v_a
            at = above
            above += plane
            k += 1

    compiled: DeviceKernel = sweep
    return compiled
