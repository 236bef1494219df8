"""Small kernels on fields in the memory of a GPU: fill, copy, shift, mirror at sides, largest values and sums.

A thread block takes a row of cells, and its threads the cells of the row in turn, so that neighbouring threads read
neighbouring numbers. Fields are the flat memory of a `BlockArray`; a layout is its origin, row pitch and plane pitch.

Largest values are exact in any order. Sums are made in float64 in a fixed order for each row, and the host adds the
rows, so that they do not depend on how threads are scheduled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.jit.cuda_device import (
    SIMULATED,
    DeviceArray,
    barrier,
    device_function,
    kernel,
    load,
    part,
    store,
    sum_threads,
)
from ridgeline.parallel.partition import Triple

THREADS = 2 if SIMULATED else 128  # the simulator starts a Python thread for each
MAX_THREADS = 2 if SIMULATED else 256


def device_field(block: Block, dtype: Any) -> BlockArray:
    """Return a field of zeros in device memory, laid out as `BlockArray.allocate` does."""
    plain = BlockArray.allocate(block, dtype)
    return BlockArray(block, cuda.to_device(plain.flat), plain.origin, plain.row_pitch, plain.plane_pitch)


def host_field(field: BlockArray) -> BlockArray:
    """Return a field of zeros in pinned host memory with the layout of a device field."""
    flat = cuda.pinned_array(field.flat.shape, field.flat.dtype)
    flat[:] = 0
    return BlockArray(field.block, flat, field.origin, field.row_pitch, field.plane_pitch)


def upload(host: BlockArray, field: BlockArray, stream: Any) -> None:
    """Put the copy of a whole host field to a device field of its layout on the stream."""
    device: DeviceArray = field.flat
    device.copy_to_device(host.flat, stream=stream)


def download(field: BlockArray, host: BlockArray, stream: Any) -> None:
    """Copy a whole device field to a host field of its layout. Waits for the stream."""
    device: DeviceArray = field.flat
    device.copy_to_host(host.flat, stream=stream)
    stream.synchronize()


def layout_of(field: BlockArray) -> Triple:
    """Return origin, row pitch and plane pitch of a field, as kernels take them."""
    return field.origin, field.row_pitch, field.plane_pitch


def rows_launch(shape: Triple) -> tuple[tuple[int, int], int]:
    """Return grid and thread block for the rows of a box of cells."""
    nz, ny, nx = shape
    return (max(ny, 1), max(nz, 1)), min(THREADS, 1 << max(nx - 1, 0).bit_length())


@kernel(THREADS)
def fill_flat(out, value):
    """Set all numbers of a flat array; launch a grid of any size x THREADS."""
    n = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    while n < out.size:
        store(out, n, value)
        n += cuda.gridDim.x * cuda.blockDim.x


@kernel(THREADS)
def scale_flat(values, factor, out):
    """Set out = factor * values for flat arrays of one size; launch as `fill_flat`."""
    n = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    while n < out.size:
        store(out, n, factor * load(values, n))
        n += cuda.gridDim.x * cuda.blockDim.x


@device_function
def largest_of_threads(scratch, thread, threads):
    """Set scratch[0] to the largest of what the threads of a block stored in shared memory, NaN if one is NaN.

    All threads of the thread block must call it. Thread 0 may then read the result.
    """
    barrier()
    left = threads
    while left > 1:
        half = (left + 1) // 2
        if thread < left - half:
            other = load(scratch, thread + half)
            if not other <= load(scratch, thread):
                store(scratch, thread, other)
        barrier()
        left = half


def flat_launch(size: int) -> tuple[int, int]:
    """Return grid and thread block for a flat array."""
    return max(1, min(-(-size // (4 * THREADS)), 4 if SIMULATED else 4096)), THREADS


@kernel(THREADS)
def copy_rows(source, source_layout, target, target_layout, shape):
    """Copy a box of cells between fields; the layouts' origins are its first cells; launch `rows_launch(shape)`."""
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start = source_layout[0] + k * source_layout[2] + j * source_layout[1]
    to = target_layout[0] + k * target_layout[2] + j * target_layout[1]
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        store(target, to + i, load(source, start + i))


@kernel(THREADS)
def add_to_rows(values, layout, shape, amount):
    """Add a number to a box of cells; launch `rows_launch(shape)`."""
    start = layout[0] + cuda.blockIdx.y * layout[2] + cuda.blockIdx.x * layout[1]
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        store(values, start + i, load(values, start + i) + amount)


@kernel(THREADS)
def mirror_layers(values, begin, layer_step, steps, counts, layers, offset, sign):
    """Set layers beyond a side: offset + sign * the mirror image of the layers inside.

    begin : the first cell of the first layer beyond the side, over the whole extent of that layer
    layer_step : from one layer beyond the side to the next, outwards
    steps, counts : pitches and cells along the other two axes; a thread block takes the cells along the second
    """
    first = begin + cuda.blockIdx.x * steps[0]
    for i in range(cuda.threadIdx.x, counts[1], cuda.blockDim.x):
        at = first + i * steps[1]
        for layer in range(layers):
            inside = load(values, at - (layer + 1) * layer_step)
            store(values, at + layer * layer_step, offset + sign * inside)


def mirror_at(
    field: BlockArray, axis: int, last: bool, layers: int, offset: float, sign: float, stream: Any
) -> None:
    """Set the ghosts beyond one side of a block to offset + sign * their mirror image, over all other ghosts too."""
    begin, outwards, steps, counts = side_of(field, axis, last)
    kind: Any = field.flat.dtype.type
    threads = min(THREADS, 1 << max(counts[1] - 1, 0).bit_length())
    mirror_layers[counts[0], threads, stream](
        field.flat, begin, outwards, steps, counts, layers, kind(offset), kind(sign)
    )


def side_of(
    field: BlockArray, axis: int, last: bool, ghosts: bool = True
) -> tuple[int, int, tuple[int, int], tuple[int, int]]:
    """Return where the first layer beyond a side lies: its first cell, the step outwards, pitches and counts.

    ghosts : whether the layer includes the ghosts along the other axes
    """
    ghost = field.block.ghost if ghosts else 0
    pitches = (field.plane_pitch, field.row_pitch, 1)
    a, b = (d for d in range(3) if d != axis)
    outwards = pitches[axis] if last else -pitches[axis]
    begin = field.origin - ghost * (pitches[a] + pitches[b])
    begin += pitches[axis] * (field.block.shape_local[axis] if last else -1)
    counts = field.block.shape_local[a] + 2 * ghost, field.block.shape_local[b] + 2 * ghost
    return begin, outwards, (pitches[a], pitches[b]), counts


def layer_inside(field: BlockArray, axis: int, last: bool) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """Return where the owned cells at one side lie: the first one, pitches and counts along the other two axes."""
    begin, outwards, steps, counts = side_of(field, axis, last, ghosts=False)
    return begin - outwards, steps, counts


@kernel(THREADS)
def fill_layer(values, begin, steps, counts, value):
    """Set a layer of cells to a number; launch `fill_layer_launch(counts)`."""
    first = begin + cuda.blockIdx.x * steps[0]
    for i in range(cuda.threadIdx.x, counts[1], cuda.blockDim.x):
        store(values, first + i * steps[1], value)


def fill_layer_launch(counts: tuple[int, int]) -> tuple[int, int]:
    """Return grid and thread block for a layer of cells."""
    return max(counts[0], 1), min(THREADS, 1 << max(counts[1] - 1, 0).bit_length())


@kernel(THREADS)
def largest_in_rows(values, layout, shape, out):
    """Set out[row] to the largest |value| of each row of a box, NaN if one is NaN; launch `rows_launch(shape)`."""
    scratch = cuda.shared.array(MAX_THREADS, np.float64)
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start = layout[0] + k * layout[2] + j * layout[1]
    largest = 0.0
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        size = abs(np.float64(load(values, start + i)))
        if not size <= largest:
            largest = size
    store(scratch, cuda.threadIdx.x, largest)
    largest_of_threads(scratch, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out, k * cuda.gridDim.x + j, load(scratch, 0))


@kernel(MAX_THREADS)
def largest_of_all(values, out):
    """Set out[0] to the largest of a flat float64 array, NaN if one is NaN; launch 1 x MAX_THREADS."""
    scratch = cuda.shared.array(MAX_THREADS, np.float64)
    largest = 0.0
    for i in range(cuda.threadIdx.x, values.size, cuda.blockDim.x):
        size = load(values, i)
        if not size <= largest:
            largest = size
    store(scratch, cuda.threadIdx.x, largest)
    largest_of_threads(scratch, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out, 0, load(scratch, 0))


@kernel(THREADS)
def sum_rows(values, layout, shape, weights, out):
    """Set out[row] to the sum of weights[i] * values in each row of a box; launch `rows_launch(shape)`."""
    scratch = cuda.shared.array(MAX_THREADS, np.float64)
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start = layout[0] + k * layout[2] + j * layout[1]
    total = 0.0
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        total += load(weights, i) * np.float64(load(values, start + i))
    store(scratch, cuda.threadIdx.x, total)
    sum_threads(scratch, 1, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out, k * cuda.gridDim.x + j, load(scratch, 0))


class RowReductions:
    """Largest values and sums of boxes of at most so many rows, on one stream. It holds the memory of the rows."""

    def __init__(self, rows: int, stream: Any) -> None:
        self._stream = stream
        self.rows = cuda.device_array(max(rows, 1), np.float64)
        self._one = cuda.device_array(1, np.float64)

    def largest(self, field: BlockArray) -> float:
        """Return the largest |value| of the owned cells, NaN if one is NaN. Waits for the stream."""
        shape = field.block.shape_local
        grid, threads = rows_launch(shape)
        largest_in_rows[grid, threads, self._stream](field.flat, layout_of(field), shape, self.rows)
        return self.largest_row(shape[0] * shape[1])

    def largest_row(self, count: int) -> float:
        """Return the largest of the first numbers in `rows`. Waits for the stream."""
        return self.largest_of(part(self.rows, 0, count))

    def largest_of(self, values: DeviceArray) -> float:
        """Return the largest of a flat float64 array, NaN if one is NaN. Waits for the stream."""
        largest_of_all[1, MAX_THREADS, self._stream](values, self._one)
        return float(self._to_host(self._one)[0])

    def sums(self, field: BlockArray, weights: DeviceArray) -> Any:
        """Return the sums over the owned cells of each row with weights along x, on the host [nz, ny]."""
        shape = field.block.shape_local
        grid, threads = rows_launch(shape)
        sum_rows[grid, threads, self._stream](field.flat, layout_of(field), shape, weights, self.rows)
        return self._to_host(self.rows)[: shape[0] * shape[1]].reshape(shape[:2])

    def _to_host(self, array: DeviceArray) -> Any:
        host = array.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        return host
