"""Transforms in z on NVIDIA GPUs that load lines, or store them: packing costs no pass of its own.

Arrays, tables and their names are those of `kernels_cuda`. A thread block has some neighbouring columns x of a plane
y, all z of them. It loads what the table says where a mode is kept, transforms it, and writes planes once. The way
back reads planes once, transforms them, and writes the modes that are kept, or sums of two variables' modes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.fourier.device.block_fft_cuda import (
    FORWARD,
    INVERSE,
    in_turn,
    join,
    make_block_fft,
)
from ridgeline.fourier.device.block_plans import ColumnShape, column_shape
from ridgeline.jit.cuda_device import device_function, kernel, load, load_pair, store_pair


def _shape_of(n: int, dtype: Any, summed: bool = False) -> ColumnShape:
    shape = column_shape(n, dtype, summed)
    if shape is None:
        raise ValueError(f"columns of {n} points have no transform within thread blocks")
    return shape


@cache
def _make_entries(shape: ColumnShape) -> Any:
    """Return entries(place, t, at, pitch): of what a thread holds, the places of lines, -1 where there is none."""
    step = shape.plan.threads

    def one(m: int) -> Any:
        z = m * step
        return device_function(lambda place, at, pitch: (np.int32(load(place, at + z * pitch)),))

    return join([one(m) for m in range(shape.plan.held)])


@cache
def _make_fetch_lines(held: int) -> Any:
    """Return fetch(lines, entries, ahead): the modes at entries + ahead, 0 where an entry is -1."""

    @device_function
    def one(lines, entry, ahead):
        zero = lines.dtype.type(0)
        if entry >= 0:
            return load_pair(lines, entry + ahead)
        return zero, zero

    if held == 1:
        return device_function(lambda lines, entries, ahead: (one(lines, entries[0], ahead),))
    rest = _make_fetch_lines(held - 1)
    return device_function(
        lambda lines, entries, ahead: (one(lines, entries[0], ahead),) + rest(lines, entries[1:], ahead)  # noqa: RUF005
    )


@cache
def _make_fetch_planes(shape: ColumnShape) -> Any:
    """Return fetch(planes, at, step): the modes at `at` and every `step` from there."""
    return join([_fetch_at(m) for m in range(shape.plan.held)])


def _fetch_at(m: int) -> Any:
    return device_function(lambda planes, at, step: (load_pair(planes, at + m * step),))


@cache
def _make_put_planes(shape: ColumnShape) -> Any:
    """Return put(x, planes, at, step), the reverse of fetching planes."""

    def one(m: int) -> Any:
        @device_function
        def put(x, planes, at, step):
            store_pair(planes, at + m * step, x[m][0], x[m][1])

        return put

    return in_turn([one(m) for m in range(shape.plan.held)])


@cache
def _make_put_lines(held: int) -> Any:
    """Return put(x, lines, entries, ahead): store modes at entries + ahead, but where an entry is -1."""

    def one(m: int) -> Any:
        @device_function
        def put(x, lines, entries, ahead):
            if entries[m] >= 0:
                store_pair(lines, entries[m] + ahead, x[m][0], x[m][1])

        return put

    return in_turn([one(m) for m in range(held)])


@cache
def make_spread(n: int, dtype: Any) -> Any:
    """Return the kernel spread(lines, place, step, ny, pitch, twiddles, out_planes). Launch: `ColumnShape.launch`.

    It sets planes to one variable's modes in x at points in z, zero where there is no line: `spread_lines` and the
    inverse transform. twiddles : of N_z points. Cost: reads each line once, writes planes once.
    """
    shape = _shape_of(n, dtype)
    plan, columns, _ = shape
    fft = make_block_fft(plan.n, dtype, INVERSE, columns)
    entries_of, fetch, put = _make_entries(shape), _make_fetch_lines(plan.held), _make_put_planes(shape)
    room, threads = plan.room * columns, plan.threads

    @kernel(shape.threads, shape.blocks)
    def spread(lines, place, step, ny, pitch, twiddles, out_planes):
        shared = cuda.shared.array(room, dtype)
        column, t = cuda.threadIdx.x % columns, cuda.threadIdx.x // columns
        x = cuda.blockIdx.x * columns + column
        inside = x < pitch
        x = x if inside else pitch - 1  # all threads pass the barriers
        y = cuda.blockIdx.y
        if y >= ny:
            return  # all threads: it was launched to be compiled
        entries = entries_of(place, t * pitch + x, pitch)
        found = fft(fetch(lines, entries, y * step), t, column, twiddles, shared)
        if inside:
            put(found, out_planes, (t * ny + y) * pitch + x, threads * ny * pitch)

    return spread


@cache
def make_collect(n: int, dtype: Any) -> Any:
    """Return the kernel collect(planes, place, step, ny, pitch, twiddles, out_lines): the reverse of `make_spread`.

    It is the forward transform and `collect_lines`. Cost: reads planes once, writes each line once.
    """
    shape = _shape_of(n, dtype)
    plan, columns, _ = shape
    fft = make_block_fft(plan.n, dtype, FORWARD, columns)
    entries_of, fetch, put = _make_entries(shape), _make_fetch_planes(shape), _make_put_lines(plan.held)
    room, threads = plan.room * columns, plan.threads

    @kernel(shape.threads, shape.blocks)
    def collect(planes, place, step, ny, pitch, twiddles, out_lines):
        shared = cuda.shared.array(room, dtype)
        column, t = cuda.threadIdx.x % columns, cuda.threadIdx.x // columns
        x = cuda.blockIdx.x * columns + column
        inside = x < pitch
        x = x if inside else pitch - 1
        y = cuda.blockIdx.y
        if y >= ny:
            return  # all threads: it was launched to be compiled
        modes = fetch(planes, (t * ny + y) * pitch + x, threads * ny * pitch)
        found = fft(modes, t, column, twiddles, shared)
        if inside:
            put(found, out_lines, entries_of(place, t * pitch + x, pitch), y * step)

    return collect


@cache
def _make_add(held: int) -> Any:
    """Return add(total, x, factors) = total + factor x of tuples of pairs; factors has a number for each."""

    @device_function
    def one(total, x, factor):
        return total[0] + factor * x[0], total[1] + factor * x[1]

    if held == 1:
        return device_function(lambda total, x, factors: (one(total[0], x[0], factors[0]),))
    rest = _make_add(held - 1)
    return device_function(
        lambda total, x, factors: (
            (one(total[0], x[0], factors[0]),) + rest(total[1:], x[1:], factors[1:])  # noqa: RUF005
        )
    )


@cache
def make_collect_sum(n: int, dtype: Any) -> Any:
    """Return the kernel of sums, which sets lines to k_x a + k_z b: two forward transforms and `collect_sums`:

        collect_sum(planes, first, apart, count, kx, kz, place, step, ny, pitch, twiddles, out_lines)

    planes : of all variables; a begins at number `first`, b `apart` numbers later
    count : 2, which the compiler must not know: unrolled, the loop takes registers for both

    Cost: reads two planes once, writes each line once.
    """
    shape = _shape_of(n, dtype, summed=True)
    plan, columns, _ = shape
    fft = make_block_fft(plan.n, dtype, FORWARD, columns)
    entries_of, fetch, put = _make_entries(shape), _make_fetch_planes(shape), _make_put_lines(plan.held)
    room, threads, added = plan.room * columns, plan.threads, _make_add(plan.held)
    factors_of = join([_factor_at(m * threads) for m in range(plan.held)])
    zero, one = np.dtype(dtype).type(0), np.dtype(dtype).type(1)
    nothing = ((zero, zero),) * plan.held

    @kernel(shape.threads, shape.blocks)
    def collect_sum(planes, first, apart, count, kx, kz, place, step, ny, pitch, twiddles, out_lines):
        shared = cuda.shared.array(room, dtype)
        column, t = cuda.threadIdx.x % columns, cuda.threadIdx.x // columns
        x = cuda.blockIdx.x * columns + column
        inside = x < pitch
        x = x if inside else pitch - 1
        y = cuda.blockIdx.y
        if y >= ny:
            return  # all threads: it was launched to be compiled
        at = first + (t * ny + y) * pitch + x
        total = nothing
        a, b = load(kx, x), zero
        for _ in range(count):
            found = fft(fetch(planes, at, threads * ny * pitch), t, column, twiddles, shared)
            total = added(total, found, factors_of(kz, t, (a, b)))
            at += apart
            a, b = zero, one
        if inside:
            put(total, out_lines, entries_of(place, t * pitch + x, pitch), y * step)

    return collect_sum


def _factor_at(z: int) -> Any:
    return device_function(lambda kz, t, line: (line[0] + line[1] * load(kz, t + z),))
