"""Products along the lines of a box of points in shared memory, where each line is one thread's.

A thread takes two lines of one direction into registers and multiplies both by a matrix. So it loads each entry of
the matrix once for two multiply-adds, by a load that all threads of a warp share. The products take the place of the
lines: between passes along different directions there is one barrier, within a pass there is none.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.elements.device.tensor_cuda import make_column, make_row_dot
from ridgeline.jit.cuda_device import SIMULATED, WARP, device_function, load, store
from ridgeline.parallel.partition import Triple


class SharedBox(NamedTuple):
    """Points (z, y, x) of a box in shared memory. pitch: of rows; layer: numbers of one layer of z."""

    shape: Triple
    pitch: int
    layer: int

    @property
    def size(self) -> int:
        """Numbers of the box, with what pads its rows."""
        return self.shape[0] * self.layer

    @property
    def threads(self) -> int:
        """Threads of a thread block, full warps: two lines of the direction with the most lines for each."""
        nz, ny, nx = self.shape
        full = 1 if SIMULATED else WARP
        return -(-max(nz * ny, nz * nx, ny * nx) // (2 * full)) * full


def shared_box(shape: Triple) -> SharedBox:
    """Return how a box of (z, y, x) points lies there: rows of an odd pitch, so that lines meet different banks."""
    pitch = shape[2] | 1
    return SharedBox(shape, pitch, shape[1] * pitch)


def bounds_of(threads: int, dtype: DTypeLike, registers: int = 64) -> tuple[int, int]:
    """Return (threads, blocks) for the decorator of a kernel: as many thread blocks as registers leave room for.

    registers: of a thread in float32; float64 may take twice as many.
    """
    threads = -(-threads // WARP) * WARP
    return threads, min(32, max(1, 65536 // (registers * threads * np.dtype(dtype).itemsize // 4)))


@cache
def make_line_products(box: SharedBox, counts: Triple, axis: int, outputs: int, transposed: bool) -> Any:
    """Return multiply(matrix, first, values, thread): lines along `axis` (0: z) become M times them, in place.

    counts: points (z, y, x) of the box that hold numbers before; `outputs` take the place of counts[axis]. The matrix
    begins at matrix[first] in shared memory: M [outputs, inputs], or if `transposed` its transpose [inputs, outputs].
    A thread takes lines thread and thread + box.threads, of slower times faster of the other two directions. Sums go
    over ascending inputs.
    """
    steps = (box.layer, box.pitch, 1)
    inputs, step = counts[axis], steps[axis]
    slow, fast = (a for a in range(3) if a != axis)
    width, lines = counts[fast], counts[slow] * counts[fast]
    slow_step, fast_step, threads = steps[slow], steps[fast], box.threads
    column_of, dot = make_column(inputs, step), make_row_dot(inputs, outputs if transposed else 1)
    next_row = 1 if transposed else inputs

    @device_function
    def multiply(matrix, first, values, thread):
        zero = values.dtype.type(0)
        if thread < lines:
            other = thread + threads
            if other >= lines:
                other = thread  # once more the same: no thread diverges
            here = thread // width * slow_step + thread % width * fast_step
            there = other // width * slow_step + other % width * fast_step
            one, two = column_of(values, here), column_of(values, there)
            for k in range(outputs):
                row = first + k * next_row
                mine, second = dot(one, matrix, row, zero), dot(two, matrix, row, zero)
                store(values, here + k * step, mine)
                store(values, there + k * step, second)

    return multiply


@device_function
def fetch_table(source, begin, count, target, to, thread, threads):
    """Copy source[begin : begin + count] to target[to : to + count] by all threads; a barrier makes it valid."""
    for at in range(thread, count, threads):
        store(target, to + at, load(source, begin + at))
