"""The Helmholtz operator h1 K + h2 B of each element on NVIDIA GPUs: the twin of `elements.helmholtz`, unassembled.

An element has n x n threads, each with a column of n points (`tensor_cuda`). There are two forms, as on CPUs:

- axis-aligned elements: w = W (A_x + A_y + A_z + h2 B) u, with A = 1 / w D^T w D scaled for the element. The whole
  element lies in shared memory. A thread keeps its column of u, and its rows of A_x and A_y, in registers; no thread
  waits for another within the element. No array of the geometry is read: 2 words per point.
- curved elements: the march of `make_stiffness` with six factors per point, and the mass if h2 is not 0: 8 or 9
  words.

Thread blocks of the components of one element are neighbours, so that they share its factors in the second-level
cache. Arguments common to the kernels, device arrays flat and of float64 unless said otherwise: order: int32,
elements, of which first ... end - 1 are computed. fields: of u and out [fields, stride]; launch blocks(end - first) x
fields thread blocks of (n, n, layout.elements).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.elements.device.tensor_cuda import (
    fetch_tables,
    launch_bounds,
    layout_of,
    make_column,
    make_lines,
    make_stiffness,
    make_store,
)
from ridgeline.jit.cuda_device import SIMULATED, barrier, device_function, fma, kernel, load, store

THREADS = 8 if SIMULATED else 256  # of kernels with one point per thread


def line_tables(derivative: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, flat, the stiffness matrix of one direction without its weights, 1 / w D^T w D [n, n], and w [n]."""
    line = (derivative.T * weights) @ derivative / weights[:, None]
    return np.concatenate([line.reshape(-1), weights])


@device_function
def element_of_block(order, first, end, fields, elements, block, part):
    """Return (component, element, mine) of a thread; an element that is not `mine` is computed but not stored.

    elements: of a thread block; block, part: numbers of the thread block, and of the element in it. Threads beyond
    the end compute the last element again, for the barriers.
    """
    group = block // fields
    place = first + group * elements + part
    return block - group * fields, load(order, min(place, end - 1)), place < end


@cache
def make_helmholtz_of_boxes(n: int) -> Any:
    """Return kernel(order, first, end, fields, stride, u, h1, h2, scale, volume, tables, out), axis-aligned.

    scale: [E, 3]; volume: [E]; tables: `line_tables`.
    Each process compiles it, because the kernel cache has no key for the device functions in its closure.
    """
    layout = layout_of(n)
    square, cube, elements, pitch, layer = n * n, n**3, layout.elements, layout.pitch, layout.layer
    tables_size, size, threads = square + n, n * layer, layout.threads
    shared_size = size * elements
    column_of, put, row_of = make_column(n, square), make_store(n, layer), make_column(n, 1)
    lines = make_lines(n)

    @kernel(*launch_bounds(n, np.float64))
    def helmholtz_of_boxes(order, first, end, fields, stride, u, h1, h2, scale, volume, tables, out):
        mine_tables = cuda.shared.array(tables_size, np.float64)
        values = cuda.shared.array(shared_size, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(tables, mine_tables, (part * n + j) * n + i, threads)
        component, element, mine = element_of_block(
            order, first, end, fields, elements, cuda.blockIdx.x, cuda.threadIdx.z
        )
        at = component * stride + element * cube + j * n + i
        own = values[part * size : (part + 1) * size]
        column = column_of(u, at)
        put(column, own, j * pitch + i)
        x, y, z = load(scale, 3 * element), load(scale, 3 * element + 1), load(scale, 3 * element + 2)
        jacobian = load(volume, element)
        barrier()
        stiffness = h1 * jacobian
        a_x, a_y, a_z, shift = stiffness * x * x, stiffness * y * y, stiffness * z * z, h2 * jacobian
        row_x, row_y = row_of(mine_tables, i * n), row_of(mine_tables, j * n)
        weight = load(mine_tables, square + i) * load(mine_tables, square + j)
        for k in range(n):
            along_x, along_y, along_z = lines(row_x, row_y, column, mine_tables, k * n, own, k, i, j)
            w = fma(a_x, along_x, shift * load(own, k * layer + j * pitch + i))
            w = fma(a_y, along_y, w)
            w = fma(a_z, along_z, w)
            if mine:
                store(out, at, weight * load(mine_tables, square + k) * w)
            at += square

    return helmholtz_of_boxes


@cache
def _make_sums(m: int, step: int) -> Any:
    """Return put(column, h1, mass, mass_at, h2, u, at, out): out = h1 column + h2 mass u at m points."""
    rest = _make_sums(m - 1, step) if m > 1 else None

    @device_function
    def last(column, h1, mass, mass_at, h2, u, at, out):
        store(out, at, fma(h2 * load(mass, mass_at), load(u, at), h1 * column[0]))

    if rest is None:
        return last

    @device_function
    def put(column, h1, mass, mass_at, h2, u, at, out):
        last(column, h1, mass, mass_at, h2, u, at, out)
        rest(column[1:], h1, mass, mass_at + step, h2, u, at + step, out)

    return put


@cache
def _make_products(m: int, step: int) -> Any:
    """Return put(column, factor, values, at), which stores factor times each of m entries at values[at] ..."""
    rest = _make_products(m - 1, step) if m > 1 else None

    @device_function
    def last(column, factor, values, at):
        store(values, at, factor * column[0])

    if rest is None:
        return last

    @device_function
    def put(column, factor, values, at):
        last(column, factor, values, at)
        rest(column[1:], factor, values, at + step)

    return put


@cache
def make_helmholtz(n: int) -> Any:
    """Return kernel(order, first, end, fields, stride, u, h1, h2, factors, mass, tables, out), curved elements.

    factors: [E, 6, n, n, n]; mass: [E, n, n, n], read where h2 is not 0; tables: `derivative_tables`.
    Each process compiles it, because the kernel cache has no key for the device functions in its closure.
    """
    layout = layout_of(n)
    square, cube, elements, layers_size = n * n, n**3, layout.elements, 3 * layout.layer
    tables_size, shared_size, threads = 3 * square, layers_size * elements, layout.threads
    stiffness, column_of = make_stiffness(n, np.dtype(np.float64)), make_column(n, square)
    with_mass, without = _make_sums(n, square), _make_products(n, square)

    @kernel(*launch_bounds(n, np.float64))
    def helmholtz(order, first, end, fields, stride, u, h1, h2, factors, mass, tables, out):
        mine_tables = cuda.shared.array(tables_size, np.float64)
        layers = cuda.shared.array(shared_size, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(tables, mine_tables, (part * n + j) * n + i, threads)
        component, element, mine = element_of_block(
            order, first, end, fields, elements, cuda.blockIdx.x, cuda.threadIdx.z
        )
        at = component * stride + element * cube + j * n + i
        own = layers[part * layers_size : (part + 1) * layers_size]
        result = stiffness(column_of(u, at), factors, element * 6 * cube, mine_tables, own, i, j)
        # What the march does not need is computed again after it, because the columns need its registers.
        component, element, mine = element_of_block(
            order, first, end, fields, elements, cuda.blockIdx.x, cuda.threadIdx.z
        )
        mass_at = element * cube + j * n + i
        at = component * stride + mass_at
        if mine and h2 != 0.0:
            with_mass(result, h1, mass, mass_at, h2, u, at, out)
        elif mine:
            without(result, h1, out, at)

    return helmholtz


@kernel(THREADS)
def zero_points(places, values):
    """values[places] = 0; places: int64. Launch ceil(places / THREADS) x THREADS."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < places.size:
        store(values, load(places, i), 0.0)


@kernel(THREADS)
def invert_diagonal(h1, h2, stiffness, mass, out):
    """out = 1 / (h1 stiffness + h2 mass), of assembled diagonals. Launch ceil(points / THREADS) x THREADS."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < out.size:
        store(out, i, 1.0 / (h1 * load(stiffness, i) + h2 * load(mass, i)))
