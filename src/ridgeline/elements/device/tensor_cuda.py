"""The stiffness operator of one element on NVIDIA GPUs: n x n threads, each with a column of n points in registers.

    K u = D_r^T (G_rr u_r + G_rs u_s + G_rt u_t) + D_s^T (...) + D_t^T (...)

Threads (i, j) march in step along k, from layer to layer of the element. A layer of u lies in shared memory, where
the derivatives along x and y are taken. The derivative along z uses the thread's own column, and so does its
transpose. The six factors of a point are loaded once, a layer ahead of their use. Memory is therefore read and
written once, with two barriers per layer.

A column is a tuple whose length is a constant of the kernel. Functions for n entries are composed of those for n - 1,
so that every entry is a register. In layer k the column is rotated by k places, so that its first entry is always
that of the layer. The rows of D along z are stored rotated in the same way.

The same code serves n = 2 to 16, float64 and float32, and the simulator. All fused multiply-adds are explicit.

Schwarz multigrid has products along the lines of a box of points in shared memory instead (`make_line_products`). A
thread loads two lines of one direction into registers and multiplies both by a matrix, so that it loads each entry of
the matrix once for two multiply-adds, by a load that all threads of a warp share. The products replace the lines:
there is one barrier between passes along different directions, and none within a pass.

Source: Swirydowicz, Chalmers, Karakus, Warburton, "Acceleration of tensor-product operations for high-order finite
element methods", IJHPCA 2019, Sec. 4 (threads of a layer, column in registers).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.cuda_device import SIMULATED, WARP, barrier, device_function, fma, kernel, load, store
from ridgeline.parallel.partition import Triple

LEAST_POINTS, MOST_POINTS = 2, 16
REGISTERS = 128  # of a thread, at most, in float64
# Most points per direction for which factors are loaded a layer ahead; with more, columns need the registers.
MOST_AHEAD = 13
# Threads of a thread block: the most, and the least where elements are small.
_MOST_THREADS, _FEW_THREADS = 256, 64


class ElementLayout(NamedTuple):
    """How elements of n points per direction are mapped to threads and to shared memory.

    elements: of a thread block, which has n x n x elements threads. pitch: of rows of a layer; it is odd, so that
    threads of a column meet different banks. layer: numbers of one layer.
    """

    n: int
    elements: int
    pitch: int
    layer: int

    @property
    def threads(self) -> int:
        """Threads of a thread block."""
        return self.n * self.n * self.elements

    def blocks(self, count: int) -> int:
        """Return the number of thread blocks for `count` elements."""
        return -(-count // self.elements)


def layout_of(n: int) -> ElementLayout:
    """Return `square_layout(n)`. Raises ValueError unless n is between LEAST_POINTS and MOST_POINTS."""
    if not LEAST_POINTS <= n <= MOST_POINTS:
        raise ValueError(
            f"n = {n} points per direction are not possible. GPU kernels exist for {LEAST_POINTS} to {MOST_POINTS}."
        )
    return square_layout(n)


@cache
def square_layout(n: int) -> ElementLayout:
    """Return the layout with the fullest warps, and among these the one with the fewest elements."""

    def idle(elements: int) -> tuple[float, int]:
        threads = elements * n * n
        return -threads / (-(-threads // WARP) * WARP), elements

    most = max(1, _MOST_THREADS // (n * n))
    few = min(most, -(-_FEW_THREADS // (n * n)))
    pitch = n | 1
    return ElementLayout(n, min(range(few, most + 1), key=idle), pitch, n * pitch)


def launch_bounds(n: int, dtype: DTypeLike, registers: int = REGISTERS) -> tuple[int, int]:
    """Return (threads, blocks) for the decorator of a kernel: as many thread blocks as registers leave room for.

    registers: of a thread in float64; float32 may take half of them.
    """
    threads = -(-square_layout(n).threads // WARP) * WARP
    registers = registers if np.dtype(dtype).itemsize == 8 else registers // 2
    return threads, min(32, max(1, 65536 // (registers * threads)))


def derivative_tables(derivative: NDArray[Any]) -> NDArray[Any]:
    """Return [3, n, n] for kernels: D^T, D, and D whose row k is rotated by k places, of the dtype of D."""
    n = len(derivative)
    turned = np.stack([np.roll(row, -k) for k, row in enumerate(derivative)])
    return np.ascontiguousarray(np.stack([derivative.T, derivative, turned[:n]]))


@device_function
def fetch_tables(source, target, thread, threads):
    """Copy the tables of `derivative_tables`, flat, into shared memory; valid for others after a barrier."""
    for at in range(thread, source.size, threads):
        store(target, at, load(source, at))


@cache
def make_dot(m: int) -> Any:
    """Return dot(table, at, column, total) = total + sum over m of table[at + m] column[m]."""
    if m == 0:
        return device_function(lambda table, at, column, total: total)
    rest = make_dot(m - 1)

    @device_function
    def dot(table, at, column, total):
        return rest(table, at + 1, column[1:], fma(load(table, at), column[0], total))

    return dot


@cache
def make_row_dot(m: int, step: int) -> Any:
    """Return dot(row, values, at, total) = total + sum over m of row[m] values[at + m step]; row: a tuple."""
    if m == 0:
        return device_function(lambda row, values, at, total: total)
    rest = make_row_dot(m - 1, step)

    @device_function
    def dot(row, values, at, total):
        return rest(row[1:], values, at + step, fma(row[0], load(values, at), total))

    return dot


@cache
def make_add(m: int) -> Any:
    """Return add(table, at, factor, column), the column with table[at + m] factor added to each entry m."""
    if m == 1:
        return device_function(lambda table, at, factor, column: (fma(load(table, at), factor, column[0]),))
    rest = make_add(m - 1)

    @device_function
    def add(table, at, factor, column):
        return (fma(load(table, at), factor, column[0]),) + rest(table, at + 1, factor, column[1:])  # noqa: RUF005

    return add


@cache
def make_column(m: int, step: int) -> Any:
    """Return column(values, at), the tuple of values[at], values[at + step] ..., m of them."""
    if m == 1:
        return device_function(lambda values, at: (load(values, at),))
    rest = make_column(m - 1, step)

    @device_function
    def column(values, at):
        return (load(values, at),) + rest(values, at + step)  # noqa: RUF005

    return column


@cache
def make_lines(n: int) -> Any:
    """Return lines(row_x, row_y, column, table, at, values, k, i, j): a product along x, one along y, one along z.

    values: the element in shared memory, n layers of the pitch of `layout_of(n)`; column: the thread's own of it;
    row_x, row_y: rows i and j of a matrix, tuples; table[at]: where its row k begins. With the derivative matrix
    these are the derivatives along r, s and t at point (k, j, i).
    """
    layout = layout_of(n)
    pitch, layer = layout.pitch, layout.layer
    along_x, along_y, along_z = make_row_dot(n, 1), make_row_dot(n, pitch), make_dot(n)

    @device_function
    def lines(row_x, row_y, column, table, at, values, k, i, j):
        zero = values.dtype.type(0)
        x = along_x(row_x, values, k * layer + j * pitch, zero)
        y = along_y(row_y, values, k * layer + i, zero)
        return x, y, along_z(table, at, column, zero)

    return lines


@cache
def make_stiffness(n: int, dtype: DTypeLike) -> Any:
    """Return stiffness(column, factors, at, tables, layers, i, j), a device function of n x n threads.

    column: the thread's u at (i, j) of all n layers, a tuple. factors: flat [E, 6, n, n, n]. at: where the factors of
    the element begin. tables: `derivative_tables` in shared memory. layers: 3 layers in shared memory, this element's
    own. It returns the thread's column of K u. All threads of the thread block must call it. There are two barriers
    in each layer; the first one also makes the tables valid.
    """
    square = n * n
    return make_stiffness_of((n, n, n), (0, 0, square, square, 2 * square), np.dtype(dtype))


def tables_of(derivatives: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Return the flat tables of D_z, D_y, D_x for `make_stiffness_of`, of their dtype, and where each begins."""
    of_z, of_y, of_x = derivatives
    turned = np.stack([np.roll(row, -k) for k, row in enumerate(of_z)])
    parts = [of_x.T, of_y.T, of_x, of_y, turned]
    starts = np.cumsum([0, *(part.size for part in parts[:-1])]).tolist()
    return np.concatenate([part.reshape(-1) for part in parts]), tuple(starts)


@cache
def make_stiffness_of(shape: Triple, starts: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Return `make_stiffness` for elements of (z, y, x) points and n_y x n_x threads.

    starts: where D_x^T, D_y^T, D_x, D_y and the rotated D_z begin in the tables.
    """
    real = np.dtype(dtype).type
    nz, ny, nx = shape
    pitch, square, cube = nx | 1, ny * nx, nz * ny * nx
    layer = ny * pitch
    transposed_x, transposed_y, plain_x, plain_y, turned = starts
    nothing = tuple(real(0) for _ in range(nz))
    zero, ahead = real(0), nz <= MOST_AHEAD
    dot, add, six = make_dot(nz), make_add(nz), make_column(6, cube)

    @device_function
    def stiffness(column, factors, at, tables, layers, i, j):
        result = nothing
        here, row = j * pitch + i, j * pitch
        at += j * nx + i
        factor = six(factors, at)
        for k in range(nz):
            if not ahead:
                factor = six(factors, at)
            at += square
            following = factor
            if ahead and k + 1 < nz:
                following = six(factors, at)
            store(layers, here, column[0])
            barrier()
            u_r, u_s, u_t = zero, zero, dot(tables, turned + k * nz, column, zero)
            for m in range(nx):
                u_r = fma(load(tables, transposed_x + m * nx + i), load(layers, row + m), u_r)
            for m in range(ny):
                u_s = fma(load(tables, transposed_y + m * ny + j), load(layers, m * pitch + i), u_s)
            g_rr, g_rs, g_rt, g_ss, g_st, g_tt = factor
            store(layers, layer + here, fma(g_rr, u_r, fma(g_rs, u_s, g_rt * u_t)))
            store(layers, 2 * layer + here, fma(g_rs, u_r, fma(g_ss, u_s, g_st * u_t)))
            f_t = fma(g_rt, u_r, fma(g_st, u_s, g_tt * u_t))
            barrier()
            result = add(tables, turned + k * nz, f_t, result)
            # Two sums, so that neither waits for the other.
            first, second = result[0], zero
            for m in range(nx):
                first = fma(load(tables, plain_x + m * nx + i), load(layers, layer + row + m), first)
            for m in range(ny):
                second = fma(
                    load(tables, plain_y + m * ny + j), load(layers, 2 * layer + m * pitch + i), second
                )
            result = result[1:] + (first + second,)  # noqa: RUF005
            column = column[1:] + (column[0],)  # noqa: RUF005
            factor = following
        return result

    return stiffness


@cache
def make_store(m: int, step: int) -> Any:
    """Return put(column, values, at), which stores the m entries of a column at values[at], values[at + step] ..."""
    if m == 0:
        return device_function(lambda column, values, at: None)
    rest = make_store(m - 1, step)

    @device_function
    def put(column, values, at):
        store(values, at, column[0])
        rest(column[1:], values, at + step)

    return put


@cache
def make_stiffness_kernel(n: int, dtype: DTypeLike, registers: int = REGISTERS) -> Any:
    """Return the kernel apply(u, factors, tables, count, out): out = K u of each element by itself (CEED's BK5).

    u, out: flat [E, n, n, n]; factors: flat [E, 6, n, n, n]; tables: flat `derivative_tables`, all device arrays of
    one dtype; count: elements; registers: as in `launch_bounds`. Launch layout.blocks(count) thread blocks of
    (n, n, layout.elements) threads. Each process compiles the kernel, because the kernel cache has no key for the
    device functions in its closure.

    Cost: reads u and six factors, writes out: 8 words per point.
    """
    layout = layout_of(n)
    square, cube, elements, layers_size = n * n, n**3, layout.elements, 3 * layout.layer
    stiffness, column_of, put = (
        make_stiffness(n, np.dtype(dtype)),
        make_column(n, square),
        make_store(n, square),
    )
    tables_size, shared_size = 3 * square, 3 * layout.layer * layout.elements
    real = np.dtype(dtype).type

    @kernel(*launch_bounds(n, dtype, registers))
    def apply(u, factors, tables, count, out):
        mine = cuda.shared.array(tables_size, real)
        layers = cuda.shared.array(shared_size, real)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(tables, mine, (part * n + j) * n + i, square * elements)
        place = cuda.blockIdx.x * elements + part
        # Threads beyond the last element compute it again, for the barriers.
        element = min(place, count - 1)
        at = element * cube + j * n + i
        own = layers[part * layers_size : (part + 1) * layers_size]
        result = stiffness(column_of(u, at), factors, element * 6 * cube, mine, own, i, j)
        if place < count:
            put(result, out, at)

    return apply


class SharedBox(NamedTuple):
    """Points (z, y, x) of a box in shared memory. pitch: of rows; layer: numbers of one layer of z."""

    shape: Triple
    pitch: int
    layer: int

    @property
    def size(self) -> int:
        """Numbers of the box, including the padding of its rows."""
        return self.shape[0] * self.layer

    @property
    def threads(self) -> int:
        """Threads of a thread block, full warps: two lines of the direction with the most lines for each."""
        nz, ny, nx = self.shape
        full = 1 if SIMULATED else WARP
        return -(-max(nz * ny, nz * nx, ny * nx) // (2 * full)) * full


def shared_box(shape: Triple) -> SharedBox:
    """Return the layout of a box of (z, y, x) points: rows have an odd pitch, so that lines meet different banks."""
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
    """Return multiply(matrix, first, values, thread): multiply the lines along `axis` (0: z) by M, in place.

    counts: the points (z, y, x) of the box that have values before; `outputs` replaces counts[axis]. The matrix
    begins at matrix[first] in shared memory: M [outputs, inputs], or if `transposed` its transpose [inputs, outputs].
    A thread multiplies the lines `thread` and thread + box.threads, counted with the faster of the other two
    directions first. Sums go over ascending inputs.
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
                # The same line again, so that no thread diverges.
                other = thread
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
