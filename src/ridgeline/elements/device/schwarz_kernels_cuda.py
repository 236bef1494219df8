"""The kernels of Schwarz multigrid on NVIDIA GPUs: the twins of those in `multigrid.schwarz_kernels`.

Sweep: a thread block solves on one extended element, all of it in shared memory. A thread loads columns along z from
global memory, so that neighbouring threads read neighbouring points. Six passes of products along lines follow, z, y,
x and back, with the eigenvalues between them. Sums within a product have the CPU's order; the directions have the
opposite order, so that results differ by rounding. Residual and transfers: a thread block has one element.

Arrays are flat device arrays of one dtype, except r, which may be of float64 beside others of float32: the finest
level rounds what it loads. n, m, f, faces, neighbours, mine and total: as in `schwarz_kernels`. Each process compiles
these kernels, because the kernel cache has no key for device functions in a closure.

Counted for compute capability 9.0 and float32, the sweep needs 46, 55 and 64 registers at n = 4, 8 and 12. It spills
none, and needs 1.5, 5.6 and 13.9 KiB of shared memory, so that 32, 36 and 32 warps fit on a multiprocessor.

Eigenvectors lie beside the element in shared memory if both fit into STATIC_SHARED. In float64 at n = 16 they do not:
57.5 KB. The eigenvectors are then read from global memory, where a warp shares each load and the first-level cache
has them. The box of 18^3 points alone takes 45.6 KiB without padded rows, so that lines along x meet a bank twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.device.tensor_cuda import (
    SharedBox,
    bounds_of,
    fetch_table,
    fetch_tables,
    make_column,
    make_dot,
    make_line_products,
    make_row_dot,
    make_stiffness_of,
    make_store,
    shared_box,
)
from ridgeline.jit.cuda_device import SIMULATED, barrier, device_function, fma, kernel, load, store
from ridgeline.parallel.partition import Triple

THREADS = 8 if SIMULATED else 256  # of kernels with one point per thread
STATIC_SHARED = 48 * 1024  # bytes of shared memory that a kernel may declare statically
OWN, EDGE = (
    -1,
    -2,
)  # kinds of columns that lie beyond no face: the element's own, or one that no element needs
MOST_OF_LINES = 42  # numbers of a column and of two rows of matrices for which 64 registers are enough
_BLOCKS = 8


@cache
def _make_side(ny: int, nx: int) -> Any:
    """Return side(line) = (face, place, slot, step) of a column of the extended element, lines y-slowest of [my, mx].

    face: the face that the column lies beyond, or OWN or EDGE. place: of its first point in the element that it is
    read from, which is the element across the face. slot, step: where its points lie among those of the face.
    """
    mx = nx + 2

    @device_function
    def side(line):
        j, i = line // mx - 1, line % mx - 1
        of_x, of_y = i >= 0 and i < nx, j >= 0 and j < ny
        if of_x and of_y:
            return OWN, j * nx + i, j * nx + i, 0
        if of_y:
            if i < 0:
                return 0, j * nx + nx - 2, j, ny
            return 1, j * nx + 1, j, ny
        if of_x:
            if j < 0:
                return 2, (ny - 2) * nx + i, i, nx
            return 3, nx + i, i, nx
        return EDGE, 0, 0, 0

    return side


@cache
def _make_fetch(shape: Triple, box: SharedBox, dtype: DTypeLike) -> Any:
    """Return fetch(line, e, r, neighbours, mine, total, a), which loads a column of the extended element.

    line: y-slowest of [my, mx]; a: the box of m points in shared memory.
    """
    nz, ny, nx = shape
    mx, plane, points = nx + 2, ny * nx, nz * ny * nx
    face = max(nz * ny, nz * nx, plane)
    pitch, layer, top = box.pitch, box.layer, (nz + 1) * box.layer
    real = np.dtype(dtype).type
    zero = real(0)
    side, column_of, put = _make_side(ny, nx), make_column(nz, plane), make_store(nz, layer)

    @device_function
    def other(mine, total, there, slot):
        """Return what the other rank contributes to a point of a face's slot; zero if there is no other rank."""
        value = zero
        if there < OWN:
            at = (-2 - there) * face + slot
            value = load(total, at) - load(mine, at)
        return value

    @device_function
    def end(r, mine, total, there, place, slot):
        """Return the point beyond an end of an own column."""
        if there >= 0:
            return real(load(r, there * points + place))
        return other(mine, total, there, slot)

    @device_function
    def fetch(line, e, r, neighbours, mine, total, a):
        which, place, slot, step = side(line)
        at = line // mx * pitch + line % mx
        there = e
        if which >= 0:
            there = load(neighbours, 6 * e + which)
        elif which == EDGE:
            there = -1
        if there >= 0:
            put(column_of(r, there * points + place), a, at + layer)
        else:
            for k in range(nz):
                store(a, at + (k + 1) * layer, other(mine, total, there, slot + k * step))
        low, high = zero, zero
        if which == OWN:
            low = end(r, mine, total, load(neighbours, 6 * e + 4), place + (nz - 2) * plane, slot)
            high = end(r, mine, total, load(neighbours, 6 * e + 5), place + plane, slot)
        store(a, at, low)
        store(a, at + top, high)

    return fetch


@cache
def _make_leave(shape: Triple, box: SharedBox) -> Any:
    """Return leave(line, e, a, z, ghosts), which stores own columns to z, and shell points to ghosts."""
    nz, ny, nx = shape
    mx, plane, points = nx + 2, ny * nx, nz * ny * nx
    face = max(nz * ny, nz * nx, plane)
    pitch, layer, top = box.pitch, box.layer, (nz + 1) * box.layer
    side, column_of, put = _make_side(ny, nx), make_column(nz, layer), make_store(nz, plane)

    @device_function
    def leave(line, e, a, z, ghosts):
        which, place, slot, step = side(line)
        at = line // mx * pitch + line % mx
        if which == OWN:
            put(column_of(a, at + layer), z, e * points + place)
            store(ghosts, (6 * e + 4) * face + slot, load(a, at))
            store(ghosts, (6 * e + 5) * face + slot, load(a, at + top))
        elif which >= 0:
            begin = (6 * e + which) * face + slot
            for k in range(nz):
                store(ghosts, begin + k * step, load(a, at + (k + 1) * layer))

    return leave


class SweepLayout(NamedTuple):
    """The shared memory of a thread block of the sweep: the extended element, and possibly its eigenpairs.

    tables: how many numbers of eigenpairs, 0 if they are read from global memory. itemsize: bytes of a number.
    """

    box: SharedBox
    tables: int
    itemsize: int

    @property
    def bytes(self) -> int:
        """Shared memory of a thread block."""
        return self.itemsize * (self.box.size + self.tables)


def sweep_layout(shape: Triple, dtype: DTypeLike) -> SweepLayout:
    """Return the fastest layout that fits into STATIC_SHARED, for elements of (z, y, x) points.

    There is one for up to 16 points in each direction, in float32 and float64.
    """
    nz, ny, nx = shape
    wide = mz, my, mx = nz + 2, ny + 2, nx + 2
    padded, plain = shared_box(wide), SharedBox(wide, mx, my * mx)
    tables = sum(m * m + m for m in (mz, my, mx))
    itemsize = np.dtype(dtype).itemsize
    first, second = (SweepLayout(padded, count, itemsize) for count in (tables, 0))
    if first.bytes <= STATIC_SHARED:
        return first
    return second if second.bytes <= STATIC_SHARED else SweepLayout(plain, 0, itemsize)


@cache
def _make_solve(box: SharedBox) -> Any:
    """Return solve(matrices, matrix, numbers, number, a, thread): a becomes K_e^-1 of it, all in shared memory.

    matrix: where the eigenvectors along x, y and z begin in `matrices`; number: where the eigenvalues begin in
    `numbers`. The first barrier makes a, and tables that are in shared memory, valid. Each thread can then read its
    columns of z.
    """
    wide = mz, my, mx = box.shape
    pitch, layer, threads, rows = box.pitch, box.layer, box.threads, mz * my
    forward_z, forward_y, forward_x = (make_line_products(box, wide, a, wide[a], True) for a in range(3))
    back_z, back_y, back_x = (make_line_products(box, wide, a, wide[a], False) for a in range(3))

    @device_function
    def divide(numbers, of_x, of_y, of_z, a, thread):
        """Divide by the sums of eigenvalues on the lines along x that are this thread's."""
        zero = a.dtype.type(0)
        for line in range(thread, rows, threads):
            k, j = line // my, line % my
            at, base = k * layer + j * pitch, load(numbers, of_z + k) + load(numbers, of_y + j)
            for i in range(mx):
                total = base + load(numbers, of_x + i)
                store(a, at + i, load(a, at + i) / total if total > zero else zero)

    @device_function
    def solve(matrices, matrix, numbers, number, a, thread):
        barrier()
        forward_z(matrices, matrix[2], a, thread)
        barrier()
        forward_y(matrices, matrix[1], a, thread)
        barrier()
        forward_x(matrices, matrix[0], a, thread)
        divide(numbers, number[0], number[1], number[2], a, thread)
        back_x(matrices, matrix[0], a, thread)
        barrier()
        back_y(matrices, matrix[1], a, thread)
        barrier()
        back_z(matrices, matrix[2], a, thread)

    return solve


@cache
def make_sweep(shape: Triple, dtype: DTypeLike) -> Any:
    """Return sweep(r, neighbours, mine, total, index, vectors, values, z, ghosts) for elements of (z, y, x) points.

    It does the same as the sweep of the CPU's `make_sweep`, with the same arguments; r may be of float64. Launch E
    thread blocks of sweep_layout(shape, dtype).box.threads. Reads r once and its layers beside faces twice, writes z
    and ghosts. 12 m^4 flops an element.
    """
    layout = sweep_layout(shape, dtype)
    box = layout.box
    mz, my, mx = box.shape
    threads, real = box.threads, np.dtype(dtype).type
    fetch, leave = _make_fetch(shape, box, np.dtype(dtype)), _make_leave(shape, box)
    solve = _make_solve(box)
    x_at, y_at, z_at = 0, mx * mx, mx * mx + my * my  # where tables begin: vectors, then values
    of_x = z_at + mz * mz
    of_y, of_z = of_x + mx, of_x + mx + my
    size, tables_size, columns = box.size, layout.tables, my * mx

    @kernel(*bounds_of(threads, dtype))
    def sweep(r, neighbours, mine, total, index, vectors, values, z, ghosts):
        tables = cuda.shared.array(tables_size, real)
        a = cuda.shared.array(size, real)
        e, thread = cuda.blockIdx.x, cuda.threadIdx.x
        fetch_table(vectors, load(index, 6 * e), mx * mx, tables, x_at, thread, threads)
        fetch_table(vectors, load(index, 6 * e + 1), my * my, tables, y_at, thread, threads)
        fetch_table(vectors, load(index, 6 * e + 2), mz * mz, tables, z_at, thread, threads)
        fetch_table(values, load(index, 6 * e + 3), mx, tables, of_x, thread, threads)
        fetch_table(values, load(index, 6 * e + 4), my, tables, of_y, thread, threads)
        fetch_table(values, load(index, 6 * e + 5), mz, tables, of_z, thread, threads)
        for line in range(thread, columns, threads):
            fetch(line, e, r, neighbours, mine, total, a)
        solve(tables, (x_at, y_at, z_at), tables, (of_x, of_y, of_z), a, thread)
        for line in range(thread, columns, threads):
            leave(line, e, a, z, ghosts)

    @kernel(*bounds_of(threads, dtype))
    def sweep_of_large(r, neighbours, mine, total, index, vectors, values, z, ghosts):
        a = cuda.shared.array(size, real)
        e, thread = cuda.blockIdx.x, cuda.threadIdx.x
        for line in range(thread, columns, threads):
            fetch(line, e, r, neighbours, mine, total, a)
        matrix = load(index, 6 * e), load(index, 6 * e + 1), load(index, 6 * e + 2)
        number = load(index, 6 * e + 3), load(index, 6 * e + 4), load(index, 6 * e + 5)
        solve(vectors, matrix, values, number, a, thread)
        for line in range(thread, columns, threads):
            leave(line, e, a, z, ghosts)

    return sweep if tables_size else sweep_of_large


@cache
def make_collect(shape: Triple) -> Any:
    """Return collect(neighbours, ghosts, mine, total, z) as in the CPU's `make_sweep`, with its order of sums.

    Launch ceil(points / THREADS) x THREADS. Reads and writes z, and reads ghosts once.
    """
    nz, ny, nx = shape
    plane, points, face = ny * nx, nz * ny * nx, max(nz * ny, nz * nx, ny * nx)

    @device_function
    def ghost(neighbours, ghosts, mine, total, e, f, slot):
        """Return the solution of the element across face f there."""
        there = load(neighbours, 6 * e + f)
        value = ghosts.dtype.type(0)
        if there >= 0:
            value = load(ghosts, (there * 6 + (f ^ 1)) * face + slot)
        elif there < OWN:
            at = (-2 - there) * face + slot
            value = load(total, at) - load(mine, at)
        return value

    @device_function
    def both(neighbours, ghosts, mine, total, e, f, at, last, slot, value):
        """Return the value with what lies across the lower face f, and across the upper one, at layer `at`."""
        if at == 1:
            value += ghost(neighbours, ghosts, mine, total, e, f, slot)
        if at == last - 1:
            value += ghost(neighbours, ghosts, mine, total, e, f + 1, slot)
        return value

    @kernel(THREADS, _BLOCKS)
    def collect(neighbours, ghosts, mine, total, z):
        p = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if p >= z.size:
            return
        e, q = p // points, p % points
        k, j, i = q // plane, q % plane // nx, q % nx
        value = load(z, p)
        value = both(neighbours, ghosts, mine, total, e, 0, i, nx - 1, k * ny + j, value)
        value = both(neighbours, ghosts, mine, total, e, 2, j, ny - 1, k * nx + i, value)
        value = both(neighbours, ghosts, mine, total, e, 4, k, nz - 1, j * nx + i, value)
        store(z, p, value)

    return collect


@kernel(THREADS, _BLOCKS)
def pack_faces(places, values, mine, total):
    """mine = total = values[places], 0 where a place is -1. Launch ceil(places / THREADS) x THREADS."""
    s = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if s < places.size:
        place = load(places, s)
        value = mine.dtype.type(0)
        if place >= 0:
            value = mine.dtype.type(load(values, place))
        store(mine, s, value)
        store(total, s, value)


@kernel(THREADS, _BLOCKS)
def scale_points(factors, values):
    """values *= factors. Launch ceil(points / THREADS) x THREADS."""
    p = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if p < values.size:
        store(values, p, load(values, p) * load(factors, p))


def box_tables(stiffness: Sequence[NDArray[Any]], weights: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return, flat, the matrices D^T W D along z, y, x, and the quadrature weights along z, y, x."""
    return np.concatenate([part.reshape(-1) for part in (*stiffness, *weights)])


@cache
def _make_scaled(m: int, step: int) -> Any:
    """Return scaled(z, weight, at): m points from `at` in steps, each times its weight; they are also stored in z."""
    column_of, put = make_column(m, step), make_store(m, step)

    @cache
    def products(count: int) -> Any:
        if count == 0:
            return device_function(lambda a, b: ())
        rest = products(count - 1)
        return device_function(lambda a, b: (a[0] * b[0],) + rest(a[1:], b[1:]))  # noqa: RUF005

    multiply = products(m)

    @device_function
    def scaled(z, weight, at):
        column = multiply(column_of(z, at), column_of(weight, at))
        put(column, z, at)
        return column

    return scaled


@cache
def make_residual_of_boxes(shape: Triple, dtype: DTypeLike) -> Any:
    """Return residual(r, weight, share, factors, tables, z, left): z *= weight, left = share r - K_e z, unassembled.

    For axis-aligned elements of (z, y, x) points. factors: [E, 3] as on the CPU; tables: `box_tables`. Launch E
    thread blocks of (n_x, n_y). Reads r, weight, share and z, writes z and left: 6 words a point.
    """
    nz, ny, nx = shape
    box = shared_box(shape)
    pitch, layer, plane, cube, threads = box.pitch, box.layer, ny * nx, nz * ny * nx, ny * nx
    of_y, of_x = nz * nz, nz * nz + ny * ny
    weights_z = of_x + nx * nx
    weights_y, weights_x = weights_z + nz, weights_z + nz + ny
    tables_size, size, real = weights_x + nx, box.size, np.dtype(dtype).type
    scaled, put = _make_scaled(nz, plane), make_store(nz, layer)
    row_x, row_y = make_column(nx, 1), make_column(ny, 1)
    along_x, along_y, along_z = make_row_dot(nx, 1), make_row_dot(ny, pitch), make_dot(nz)

    registers = 64 if nz + ny + nx <= MOST_OF_LINES else 80

    @kernel(*bounds_of(threads, dtype, registers))
    def residual_of_boxes(r, weight, share, factors, tables, z, left):
        mine = cuda.shared.array(tables_size, real)
        values = cuda.shared.array(size, real)
        e, i, j = cuda.blockIdx.x, cuda.threadIdx.x, cuda.threadIdx.y
        fetch_tables(tables, mine, j * nx + i, threads)
        at = e * cube + j * nx + i
        column = scaled(z, weight, at)
        put(column, values, j * pitch + i)
        f, g, h = load(factors, 3 * e), load(factors, 3 * e + 1), load(factors, 3 * e + 2)
        barrier()
        zero = real(0)
        matrix_x, matrix_y = row_x(mine, of_x + i * nx), row_y(mine, of_y + j * ny)
        w_x, w_y = load(mine, weights_x + i), load(mine, weights_y + j)
        f, g, h = f * w_y, g * w_x, h * (w_y * w_x)
        for k in range(nz):
            force = f * along_x(matrix_x, values, k * layer + j * pitch, zero)
            force = fma(g, along_y(matrix_y, values, k * layer + i, zero), force)
            force = fma(h, along_z(mine, k * nz, column, zero), load(mine, weights_z + k) * force)
            store(left, at, fma(load(share, at), real(load(r, at)), -force))
            at += plane

    return residual_of_boxes


@cache
def _make_left(m: int, step: int, dtype: DTypeLike) -> Any:
    """Return put(column, share, r, at, left): left = share r - column at m points."""
    real = np.dtype(dtype).type
    if m == 0:
        return device_function(lambda column, share, r, at, left: None)
    rest = _make_left(m - 1, step, np.dtype(dtype))

    @device_function
    def put(column, share, r, at, left):
        store(left, at, fma(load(share, at), real(load(r, at)), -column[0]))
        rest(column[1:], share, r, at + step, left)

    return put


@cache
def make_residual(shape: Triple, starts: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Return residual(r, weight, share, factors, tables, z, left) as `make_residual_of_boxes`, for curved elements.

    factors: [E, 6, n_z, n_y, n_x]; tables, starts: `tables_of` the derivative matrices. Reads six more words a point.
    """
    nz, ny, nx = shape
    box = shared_box(shape)
    plane, cube, threads = ny * nx, nz * ny * nx, ny * nx
    tables_size, layers_size = starts[-1] + nz * nz, 3 * box.layer
    stiffness = make_stiffness_of(shape, starts, np.dtype(dtype))
    scaled, put, real = _make_scaled(nz, plane), _make_left(nz, plane, np.dtype(dtype)), np.dtype(dtype).type

    @kernel(*bounds_of(threads, dtype))
    def residual(r, weight, share, factors, tables, z, left):
        mine = cuda.shared.array(tables_size, real)
        layers = cuda.shared.array(layers_size, real)
        e, i, j = cuda.blockIdx.x, cuda.threadIdx.x, cuda.threadIdx.y
        fetch_tables(tables, mine, j * nx + i, threads)
        at = e * cube + j * nx + i
        column = scaled(z, weight, at)
        put(stiffness(column, factors, e * 6 * cube, mine, layers, i, j), share, r, at, left)

    return residual


@cache
def make_restrict(fine: Triple, coarse: Triple, dtype: DTypeLike) -> Any:
    """Return restrict(left, tables, below): below = J^T left of each element, unassembled.

    fine, coarse: points (z, y, x). tables: J_z, J_y, J_x [fine, coarse], flat. Launch E thread blocks of
    shared_box(fine).threads.
    """
    (nz, ny, nx), (cz, cy, cx) = fine, coarse
    box = shared_box(fine)
    pitch, layer, threads, plane, real = box.pitch, box.layer, box.threads, ny * nx, np.dtype(dtype).type
    y_at, x_at, tables_size = nz * cz, nz * cz + ny * cy, nz * cz + ny * cy + nx * cx
    points, few, rows, size = nz * plane, cz * cy * cx, cz * cy, box.size
    column_of, put = make_column(nz, plane), make_store(nz, layer)
    along_z = make_line_products(box, fine, 0, cz, True)
    along_y = make_line_products(box, (cz, ny, nx), 1, cy, True)
    along_x = make_line_products(box, (cz, cy, nx), 2, cx, True)
    row_of, put_row = make_column(cx, 1), make_store(cx, 1)

    @kernel(*bounds_of(threads, dtype))
    def restrict(left, tables, below):
        mine = cuda.shared.array(tables_size, real)
        a = cuda.shared.array(size, real)
        e, thread = cuda.blockIdx.x, cuda.threadIdx.x
        fetch_tables(tables, mine, thread, threads)
        for line in range(thread, plane, threads):
            put(column_of(left, e * points + line), a, line // nx * pitch + line % nx)
        barrier()
        along_z(mine, 0, a, thread)
        barrier()
        along_y(mine, y_at, a, thread)
        barrier()
        along_x(mine, x_at, a, thread)
        for line in range(thread, rows, threads):
            row = row_of(a, line // cy * layer + line % cy * pitch)
            put_row(row, below, e * few + line * cx)

    return restrict


@cache
def make_prolong(fine: Triple, coarse: Triple, dtype: DTypeLike) -> Any:
    """Return prolong(below, tables, z): z += J below of each element. Arguments and launch as for `make_restrict`.

    The first and last rows of the matrices are unit vectors, so that copies of shared points stay equal.
    """
    (nz, ny, nx), (cz, cy, cx) = fine, coarse
    box = shared_box(fine)
    pitch, layer, threads, plane, real = box.pitch, box.layer, box.threads, ny * nx, np.dtype(dtype).type
    y_at, x_at, tables_size = nz * cz, nz * cz + ny * cy, nz * cz + ny * cy + nx * cx
    points, few, rows, size = nz * plane, cz * cy * cx, cz * cy, box.size
    row_of, put_row = make_column(cx, 1), make_store(cx, 1)
    along_x = make_line_products(box, coarse, 2, nx, False)
    along_y = make_line_products(box, (cz, cy, nx), 1, ny, False)
    along_z = make_line_products(box, (cz, ny, nx), 0, nz, False)

    @kernel(*bounds_of(threads, dtype))
    def prolong(below, tables, z):
        mine = cuda.shared.array(tables_size, real)
        a = cuda.shared.array(size, real)
        e, thread = cuda.blockIdx.x, cuda.threadIdx.x
        fetch_tables(tables, mine, thread, threads)
        for line in range(thread, rows, threads):
            put_row(row_of(below, e * few + line * cx), a, line // cy * layer + line % cy * pitch)
        barrier()
        along_x(mine, x_at, a, thread)
        barrier()
        along_y(mine, y_at, a, thread)
        barrier()
        along_z(mine, 0, a, thread)
        for line in range(thread, plane, threads):
            here = line // nx * pitch + line % nx
            at = e * points + line
            for k in range(nz):
                store(z, at + k * plane, load(z, at + k * plane) + load(a, here + k * layer))

    return prolong
