"""The stage between lines and planes on NVIDIA GPUs, transforms in z included: in two passes, or fused in one.

`CufftZStage` packs with the kernels of `kernels_cuda` and transforms with cuFFT. `FusedZStage` does both in one pass,
with the kernels of this file: transforms in z that load lines, or store them, so that packing costs no pass of its
own. Both take pieces of lines and their tables (see `kernels_cuda`, whose names are used here), and variables by
number in the planes of `DevicePipeline`. Their results differ by rounding.

In the fused kernels a thread block has some neighbouring columns x of a plane y, with all z of them. It loads what
the table says where a mode is kept, transforms it, and writes planes once. The way back reads planes once, transforms
them, and writes the modes that are kept, or sums of two variables' modes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np
from numba import cuda

from ridgeline.fourier.device.block_fft_cuda import (
    FORWARD,
    INVERSE,
    in_turn,
    join,
    make_block_fft,
    twiddle_factors,
)
from ridgeline.fourier.device.block_plans import ColumnShape, column_shape
from ridgeline.fourier.device.fft_cuda import DevicePlan
from ridgeline.fourier.device.kernels_cuda import collect_lines, collect_sums, spread_lines
from ridgeline.fourier.device.layout import DeviceArray
from ridgeline.jit.cuda_clock import DeviceClock
from ridgeline.jit.cuda_device import device_function, kernel, load, load_pair, part, store_pair


def _shape_of(n: int, dtype: Any, summed: bool = False) -> ColumnShape:
    shape = column_shape(n, dtype, summed)
    if shape is None:
        raise ValueError(f"there is no transform within thread blocks for columns of {n} points")
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


Table = tuple[DeviceArray, int, int, int]  # place, step, ny, pitch of `kernels_cuda`


class PlaneBuffers:
    """Planes of all variables, flat, of so many reals each, and the stream and clock of work on them."""

    def __init__(self, planes: DeviceArray, size: int, stream: Any, clock: DeviceClock) -> None:
        self.all, self.size, self.stream, self.clock = planes, size, stream, clock

    def of(self, variable: int) -> DeviceArray:
        """Return the planes of one variable."""
        return part(self.all, variable * self.size, (variable + 1) * self.size)


class DeviceZStage(Protocol):
    """Brings variables from lines to planes and back."""

    def compile(self, lines: DeviceArray, k: DeviceArray, table: Table) -> None:
        """Compile or load the kernels by launching them on nothing; k: real device array."""

    def spread(self, lines: DeviceArray, table: Table, variable: int, whole: bool) -> None:
        """Set a variable's planes to lines, at points in z, including the columns without modes if `whole`."""

    def leave(self, variable: int) -> None:
        """Begin the way back of a variable's planes; called once for each time that they are set."""

    def collect(self, variable: int, table: Table, out_lines: DeviceArray) -> None:
        """Set lines to a variable's planes, at modes in z, after `leave`."""

    def collect_sum(
        self, pair: tuple[int, int], k: tuple[DeviceArray, DeviceArray], table: Table, out_lines: DeviceArray
    ) -> None:
        """Set lines to k_x first + k_z second of two variables, after `leave`. k: (pitch,) and (N_z,)."""


class CufftZStage:
    """cuFFT in place, and a pass that packs. launch: of the packing kernels, see `kernels_cuda.launch_shape`."""

    def __init__(self, buffers: PlaneBuffers, plan: DevicePlan, launch: tuple[Any, ...]) -> None:
        self._buffers, self._plan, self._launch = buffers, plan, launch

    def compile(self, lines: DeviceArray, k: DeviceArray, table: Table) -> None:
        launch, table = (1, 1, self._buffers.stream), (table[0], table[1], 0, 0)
        spread_lines[launch](lines, *table, lines)
        collect_lines[launch](lines, *table, lines)
        collect_sums[launch](lines, lines, k, k, *table, lines)

    def spread(self, lines: DeviceArray, table: Table, variable: int, whole: bool) -> None:
        del whole
        buffers = self._buffers
        planes = buffers.of(variable)
        with buffers.clock("pack"):
            spread_lines[self._launch](lines, *table, planes)
        with buffers.clock("fft"):
            self._plan.run(planes, planes, buffers.stream, inverse=True)

    def leave(self, variable: int) -> None:
        """Transform a variable's planes."""
        buffers = self._buffers
        planes = buffers.of(variable)
        with buffers.clock("fft"):
            self._plan.run(planes, planes, buffers.stream)

    def collect(self, variable: int, table: Table, out_lines: DeviceArray) -> None:
        with self._buffers.clock("pack"):
            collect_lines[self._launch](self._buffers.of(variable), *table, out_lines)

    def collect_sum(
        self, pair: tuple[int, int], k: tuple[DeviceArray, DeviceArray], table: Table, out_lines: DeviceArray
    ) -> None:
        sources = map(self._buffers.of, pair)
        with self._buffers.clock("pack"):
            collect_sums[self._launch](*sources, *k, *table, out_lines)


class FusedZStage:
    """One pass each way, which transforms in shared memory.

    n: N_z, one of `block_plans.SIZES`; n_columns: columns of planes that may have modes.
    """

    def __init__(self, buffers: PlaneBuffers, n: int, n_columns: int, dtype: Any) -> None:
        self._buffers, self._n, self._n_columns = buffers, n, n_columns
        self._kind: Any = np.dtype(dtype).type  # hashable, unlike a dtype in general
        self._kernels = {
            name: make(n, self._kind)
            for name, make in (("spread", make_spread), ("collect", make_collect), ("sum", make_collect_sum))
        }
        self._twiddles = cuda.to_device(twiddle_factors(n, self._kind))

    def _launch(self, table: Table, whole: bool = False, summed: bool = False) -> tuple[Any, ...]:
        shape = column_shape(self._n, self._kind, summed)
        assert shape is not None, "its kernel was made"
        return (*shape.launch(table[3] if whole else self._n_columns, table[2]), self._buffers.stream)

    def compile(self, lines: DeviceArray, k: DeviceArray, table: Table) -> None:
        place = table[0], table[1], 0, 1
        for name, first in (("spread", (lines,)), ("collect", (lines,)), ("sum", (lines, 0, 0, 0, k, k))):
            launch = (1, 1), self._launch(table, summed=name == "sum")[1], self._buffers.stream
            self._kernels[name][launch](*first, *place, self._twiddles, lines)

    def spread(self, lines: DeviceArray, table: Table, variable: int, whole: bool) -> None:
        with self._buffers.clock("fft"):
            self._kernels["spread"][self._launch(table, whole)](
                lines, *table, self._twiddles, self._buffers.of(variable)
            )

    def leave(self, variable: int) -> None:
        """Do nothing: `collect` transforms."""

    def collect(self, variable: int, table: Table, out_lines: DeviceArray) -> None:
        with self._buffers.clock("fft"):
            self._kernels["collect"][self._launch(table)](
                self._buffers.of(variable), *table, self._twiddles, out_lines
            )

    def collect_sum(
        self, pair: tuple[int, int], k: tuple[DeviceArray, DeviceArray], table: Table, out_lines: DeviceArray
    ) -> None:
        first, second = (variable * self._buffers.size // 2 for variable in pair)
        with self._buffers.clock("fft"):
            self._kernels["sum"][self._launch(table, summed=True)](
                self._buffers.all, first, second - first, 2, *k, *table, self._twiddles, out_lines
            )
