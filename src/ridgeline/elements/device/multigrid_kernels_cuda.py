"""Residual and transfers of Schwarz multigrid on NVIDIA GPUs: twins of those in `multigrid.schwarz_kernels`.

A thread block has one element. Arrays are flat device arrays of one dtype, but for r, which may be of float64 beside
others of float32. Each process compiles these kernels, because the kernel cache has no key for device functions in
their closures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.device.lines_cuda import bounds_of, make_line_products, shared_box
from ridgeline.elements.device.tensor_cuda import (
    fetch_tables,
    make_column,
    make_dot,
    make_row_dot,
    make_stiffness_of,
    make_store,
)
from ridgeline.jit.cuda_device import barrier, device_function, fma, kernel, load, store
from ridgeline.parallel.partition import Triple

MOST_OF_LINES = 42  # numbers of a column and of two rows of matrices that 64 registers hold beside all else


def box_tables(stiffness: Sequence[NDArray[Any]], weights: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return, flat, the matrices D^T W D along z, y, x, and the quadrature weights along z, y, x."""
    return np.concatenate([part.reshape(-1) for part in (*stiffness, *weights)])


@cache
def _make_scaled(m: int, step: int) -> Any:
    """Return scaled(z, weight, at): m points from `at` in steps, each times its weight; they are stored in z, too."""
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

    For axis-aligned elements of (z, y, x) points. factors: [E, 3] as of the CPU's; tables: `box_tables`. Launch E
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
    """Return prolong(below, tables, z): z += J below of each element. Arguments and launch as of `make_restrict`.

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
