"""Kernels of nodal multigrid on GPUs: the stencil of 27 points, damped Jacobi steps, restriction and interpolation.

The operator is that of `nodal_rows` with one coefficient for all cells: A = Kz My Mx + Mz Ky Mx + Mz My Kx. A thread
block takes a row of nodes. `tables` are the flat tables of the axes (nodal_tables.py), `widths` the lengths of their
rows; they begin `MARGIN` places before the first owned node.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from ridgeline.blocks.multigrid.nodal_rows import MARGIN, MASS, STIFFNESS
from ridgeline.blocks.rows_cuda import MAX_THREADS, THREADS, largest_of_threads
from ridgeline.jit.cuda_device import SIMULATED, device_function, fma, kernel, load, store

if SIMULATED:  # the exact one is slow there

    def multiply_add(a, b, c):
        """Return a * b + c."""
        return a * b + c

else:
    multiply_add = fma


@device_function
def entry(table, width, row, place):
    """Return a number of the table of an axis."""
    return load(table, row * width + place)


@device_function
def apply_at(u, at, row, plane, zero, k, j, i, tables, widths):
    """Return A u in a node. k, j, i: places in the tables; zero: in the type of u."""
    tz, ty, tx = tables
    wz, wy, wx = widths
    applied = zero
    for dx in range(3):
        first, second = zero, zero
        for dz in range(3):
            kz, mz = entry(tz, wz, STIFFNESS + dz, k), entry(tz, wz, MASS + dz, k)
            for dy in range(3):
                ky, my = entry(ty, wy, STIFFNESS + dy, j), entry(ty, wy, MASS + dy, j)
                a, b = kz * my + mz * ky, mz * my
                value = load(u, at + (dz - 1) * plane + (dy - 1) * row + (dx - 1))
                first, second = multiply_add(a, value, first), multiply_add(b, value, second)
        mass, stiffness = entry(tx, wx, MASS + dx, i), entry(tx, wx, STIFFNESS + dx, i)
        applied = multiply_add(stiffness, second, multiply_add(mass, first, applied))
    return applied


@device_function
def diagonal_at(k, j, i, tables, widths):
    """Return the diagonal of A in a node."""
    tz, ty, tx = tables
    wz, wy, wx = widths
    kz, mz = entry(tz, wz, STIFFNESS + 1, k), entry(tz, wz, MASS + 1, k)
    ky, my = entry(ty, wy, STIFFNESS + 1, j), entry(ty, wy, MASS + 1, j)
    kx, mx = entry(tx, wx, STIFFNESS + 1, i), entry(tx, wx, MASS + 1, i)
    return (kz * my + mz * ky) * mx + (mz * my) * kx


@kernel(THREADS)
def relax_nodes(u, b, layout, first, shape, weight, tables, widths, zero_guess, keeps, out, out_rows):
    """Set out = u + weight (b - A u) / diagonal in a box; launch `rows_launch(shape)`.

    Parameters
    ----------
    u, b, out : flat fields of one layout; u is taken as 0 and not read if `zero_guess`
    first, shape : of the box, local
    keeps, out_rows : whether to set out_rows to the largest |b - A u| of each row, NaN where one is NaN
    """
    scratch = cuda.shared.array(MAX_THREADS, np.float64)
    origin, row, plane = layout
    j, k = first[1] + cuda.blockIdx.x, first[0] + cuda.blockIdx.y
    start = origin + k * plane + j * row
    zero = weight - weight
    largest = 0.0
    for i in range(first[2] + cuda.threadIdx.x, first[2] + shape[2], cuda.blockDim.x):
        at = start + i
        own = diagonal_at(k + MARGIN, j + MARGIN, i + MARGIN, tables, widths)
        step = zero
        if own > 0:
            step = weight / own
        if zero_guess == 1:
            store(out, at, step * load(b, at))
        else:
            applied = apply_at(u, at, row, plane, zero, k + MARGIN, j + MARGIN, i + MARGIN, tables, widths)
            residual = load(b, at) - applied
            store(out, at, multiply_add(step, residual, load(u, at)))
            size = abs(np.float64(residual))
            if not size <= largest:
                largest = size
    if keeps == 1:
        store(scratch, cuda.threadIdx.x, largest)
        largest_of_threads(scratch, cuda.threadIdx.x, cuda.blockDim.x)
        if cuda.threadIdx.x == 0:
            store(out_rows, cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x, load(scratch, 0))


@kernel(THREADS)
def set_residual(u, b, layout, first, shape, zero, tables, widths, out):
    """Set out = b - A u in a box; launch `rows_launch(shape)`. zero: 0 in the type of u."""
    origin, row, plane = layout
    j, k = first[1] + cuda.blockIdx.x, first[0] + cuda.blockIdx.y
    start = origin + k * plane + j * row
    for i in range(first[2] + cuda.threadIdx.x, first[2] + shape[2], cuda.blockDim.x):
        at = start + i
        applied = apply_at(u, at, row, plane, zero, k + MARGIN, j + MARGIN, i + MARGIN, tables, widths)
        store(out, at, load(b, at) - applied)


@kernel(THREADS)
def restrict_nodes(residual, layout, centres, weights, longest, zero, coarse, coarse_layout, shape):
    """Set the coarser right-hand side from the residuals of the nodes around; launch `rows_launch(shape)`.

    Parameters
    ----------
    centres : [3, longest], flat, the local node that lies on each coarser one
    weights : [3, 3, longest], flat, of the nodes before, at and after that one
    coarse, coarse_layout, shape : the coarser field, and its owned nodes
    """
    origin, row, plane = layout
    cj, ck = cuda.blockIdx.x, cuda.blockIdx.y
    to = coarse_layout[0] + ck * coarse_layout[2] + cj * coarse_layout[1]
    start = origin + load(centres, ck) * plane + load(centres, longest + cj) * row
    for ci in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        at = start + load(centres, 2 * longest + ci)
        total = zero
        for dz in range(3):
            part_z = load(weights, dz * longest + ck)
            for dy in range(3):
                part = part_z * load(weights, (3 + dy) * longest + cj)
                for dx in range(3):
                    factor = part * load(weights, (6 + dx) * longest + ci)
                    if factor != 0:
                        place = at + (dz - 1) * plane + (dy - 1) * row + (dx - 1)
                        total = multiply_add(factor, load(residual, place), total)
        store(coarse, to + ci, total)


@kernel(THREADS)
def interpolate_nodes(u, layout, first, shape, coarse, coarse_layout, lower, parts, width, out):
    """Set out = u + the interpolated coarser values in a box; launch `rows_launch(shape)`.

    lower, parts : [3, width] and [3, 2, width], flat: for each axis the coarser node at or below each node, and the
    weights of that and of the next; places begin `MARGIN` before the first owned node
    """
    origin, row, plane = layout
    c_origin, c_row, c_plane = coarse_layout
    j, k = first[1] + cuda.blockIdx.x, first[0] + cuda.blockIdx.y
    start = origin + k * plane + j * row
    base = c_origin + load(lower, k + MARGIN) * c_plane + load(lower, width + j + MARGIN) * c_row
    for i in range(first[2] + cuda.threadIdx.x, first[2] + shape[2], cuda.blockDim.x):
        total = load(u, start + i)
        at = base + load(lower, 2 * width + i + MARGIN)
        for dz in range(2):
            part_z = load(parts, dz * width + k + MARGIN)
            for dy in range(2):
                part = part_z * load(parts, (2 + dy) * width + j + MARGIN)
                for dx in range(2):
                    factor = part * load(parts, (4 + dx) * width + i + MARGIN)
                    if factor != 0:  # nodes without weight may lie beyond the ghosts
                        total = multiply_add(factor, load(coarse, at + dz * c_plane + dy * c_row + dx), total)
        store(out, start + i, total)
