"""Kernels of cell-centred multigrid on GPUs: the equation of one cell, and the passes that apply it.

The equation, its coefficients and the order of its sums are those of `cell_kernels`. Each Chebyshev step is a launch
that reads one field and writes another; restriction computes the residual of the cells of an aggregate where it needs
them, and the first step after a correction is a launch behind the one that corrects.

A thread block takes a row of cells. `table` is the flat array of `local_factors`, [3, 3, width], whose places count
from the first ghost; an `equation` is (factors, width, ghost), and `fields` are the coefficients (a, fz, fy, fx), of
which a lies like x and the faces have a layout of their own.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from ridgeline.blocks.multigrid.cell_rows import DIAGONAL, LO, UP
from ridgeline.blocks.rows_cuda import MAX_THREADS, THREADS, largest_of_threads
from ridgeline.jit.cuda_device import device_function, kernel, load, store


@device_function
def factor_at(factors, width, axis, which, place):
    """Return lo, up or their sum of a cell along one axis."""
    return load(factors, (3 * axis + which) * width + place)


@device_function
def diagonal_at(k, j, i, at, face, face_row, face_plane, variable, alpha, fields, factors, width):
    """Return the diagonal of a cell. k, j, i: places in the tables; at, face: in x and in the faces' fields."""
    if variable == 0:
        both = factor_at(factors, width, 0, DIAGONAL, k) + factor_at(factors, width, 1, DIAGONAL, j)
        return (alpha + both) + factor_at(factors, width, 2, DIAGONAL, i)
    a, fz, fy, fx = fields
    lz, uz = factor_at(factors, width, 0, LO, k), factor_at(factors, width, 0, UP, k)
    ly, uy = factor_at(factors, width, 1, LO, j), factor_at(factors, width, 1, UP, j)
    lo, up = factor_at(factors, width, 2, LO, i), factor_at(factors, width, 2, UP, i)
    value = load(a, at) + (lz * load(fz, face) + uz * load(fz, face + face_plane))
    value += ly * load(fy, face) + uy * load(fy, face + face_row)
    return value + (lo * load(fx, face) + up * load(fx, face + 1))


@device_function
def sum_at(k, j, i, at, face, row, plane, face_row, face_plane, b, x, variable, fields, factors, width):
    """Return b + the weighted neighbours of a cell."""
    lz, uz = factor_at(factors, width, 0, LO, k), factor_at(factors, width, 0, UP, k)
    ly, uy = factor_at(factors, width, 1, LO, j), factor_at(factors, width, 1, UP, j)
    lo, up = factor_at(factors, width, 2, LO, i), factor_at(factors, width, 2, UP, i)
    if variable == 0:
        total = load(b, at) + (lz * load(x, at - plane) + uz * load(x, at + plane))
        total += ly * load(x, at - row) + uy * load(x, at + row)
        return total + (lo * load(x, at - 1) + up * load(x, at + 1))
    _, fz, fy, fx = fields
    total = load(b, at) + (ly * load(fy, face)) * load(x, at - row)
    total += (uy * load(fy, face + face_row)) * load(x, at + row)
    total += (lz * load(fz, face)) * load(x, at - plane)
    total += (uz * load(fz, face + face_plane)) * load(x, at + plane)
    low, high = (lo * load(fx, face)) * load(x, at - 1), (up * load(fx, face + 1)) * load(x, at + 1)
    return total + (low + high)


@device_function
def residual_at(k, j, i, layout, face_layout, ghost, b, x, variable, alpha, fields, factors, width):
    """Return b - A x in the local cell (k, j, i)."""
    origin, row, plane = layout
    at = origin + k * plane + j * row + i
    face = face_layout[0] + k * face_layout[2] + j * face_layout[1] + i
    k, j, i = k + ghost, j + ghost, i + ghost
    total = sum_at(
        k, j, i, at, face, row, plane, face_layout[1], face_layout[2], b, x, variable, fields, factors, width
    )  # fmt: skip
    own = diagonal_at(
        k, j, i, at, face, face_layout[1], face_layout[2], variable, alpha, fields, factors, width
    )  # fmt: skip
    return total - own * load(x, at)


@kernel(THREADS)
def relax_cells(
    x, b, layout, face_layout, ghost, first, shape, tau, from_zero, variable, alpha, fields, factors, width, out
):  # fmt: skip
    """Set out = x + tau (T^-1 (b + neighbours) - x) in a box, T the diagonal; launch `rows_launch(shape)`.

    Parameters
    ----------
    x, b, out : flat fields of one layout; x is taken as 0 and not read if `from_zero`
    first, shape : of the box, local
    variable, alpha, fields, factors, width : the equation
    """
    origin, row, plane = layout
    j, k = first[1] + cuda.blockIdx.x, first[0] + cuda.blockIdx.y
    start = origin + k * plane + j * row
    face_start = face_layout[0] + k * face_layout[2] + j * face_layout[1]
    for i in range(first[2] + cuda.threadIdx.x, first[2] + shape[2], cuda.blockDim.x):
        at, face = start + i, face_start + i
        own = diagonal_at(
            k + ghost, j + ghost, i + ghost, at, face, face_layout[1], face_layout[2], variable, alpha, fields,
            factors, width,
        )  # fmt: skip
        if from_zero == 1:
            store(out, at, tau * (load(b, at) / own))
        else:
            total = sum_at(
                k + ghost, j + ghost, i + ghost, at, face, row, plane, face_layout[1], face_layout[2], b, x,
                variable, fields, factors, width,
            )  # fmt: skip
            here = load(x, at)
            store(out, at, here + tau * (total / own - here))


@kernel(THREADS)
def restrict_residual(
    x, b, layout, face_layout, ghost, variable, alpha, fields, factors, width, starts, shares, longest, coarse,
    coarse_layout, shape,
):  # fmt: skip
    """Set the coarser right-hand side to the means of b - A x over aggregates; launch `rows_launch(shape)`.

    Parameters
    ----------
    starts : [3, longest], for each axis the first local cells of the aggregates and the end of the last
    shares : [3, width], of each cell in its aggregate, by places of the tables
    coarse, coarse_layout, shape : the field on the natural block of the coarser level, and its owned cells
    """
    cj, ck = cuda.blockIdx.x, cuda.blockIdx.y
    to = coarse_layout[0] + ck * coarse_layout[2] + cj * coarse_layout[1]
    k0, k1 = load(starts, ck), load(starts, ck + 1)
    j0, j1 = load(starts, longest + cj), load(starts, longest + cj + 1)
    for ci in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        i0, i1 = load(starts, 2 * longest + ci), load(starts, 2 * longest + ci + 1)
        total = load(b, 0) - load(b, 0)  # 0 in the type of the field
        for k in range(k0, k1):
            for j in range(j0, j1):
                weight = load(shares, k + ghost) * load(shares, width + j + ghost)
                row = load(shares, 2 * width + i0 + ghost) * residual_at(
                    k, j, i0, layout, face_layout, ghost, b, x, variable, alpha, fields, factors, width
                )  # fmt: skip
                if i1 - i0 == 2:
                    row += load(shares, 2 * width + i0 + 1 + ghost) * residual_at(
                        k, j, i0 + 1, layout, face_layout, ghost, b, x, variable, alpha, fields, factors, width
                    )  # fmt: skip
                total += weight * row
        store(coarse, to + ci, total)


@kernel(THREADS)
def add_correction(
    x, layout, ghost, first, shape, one, coarse, coarse_layout, coarse_ghost, near, other, weights, width
):  # fmt: skip
    """Add the interpolated coarser values to x in a box; launch `rows_launch(shape)`.

    near, other, weights : [3, width], flat, as `local_interpolation` has them; places of coarser cells count from
    the first ghost
    one : 1 in the type of the field
    """
    origin, row, plane = layout
    c_origin, c_row, c_plane = coarse_layout
    corner = c_origin - coarse_ghost * (c_plane + c_row + 1)
    j, k = first[1] + cuda.blockIdx.x, first[0] + cuda.blockIdx.y
    wz, wy = load(weights, k + ghost), load(weights, width + j + ghost)
    near_z, other_z = load(near, k + ghost) * c_plane, load(other, k + ghost) * c_plane
    near_y, other_y = load(near, width + j + ghost) * c_row, load(other, width + j + ghost) * c_row
    start = origin + k * plane + j * row
    r00, r01 = corner + near_z + near_y, corner + near_z + other_y
    r10, r11 = corner + other_z + near_y, corner + other_z + other_y
    for i in range(first[2] + cuda.threadIdx.x, first[2] + shape[2], cuda.blockDim.x):
        wx = load(weights, 2 * width + i + ghost)
        a, c = load(near, 2 * width + i + ghost), load(other, 2 * width + i + ghost)
        own = (one - wz) * ((one - wy) * load(coarse, r00 + a) + wy * load(coarse, r01 + a))
        own += wz * ((one - wy) * load(coarse, r10 + a) + wy * load(coarse, r11 + a))
        far = (one - wz) * ((one - wy) * load(coarse, r00 + c) + wy * load(coarse, r01 + c))
        far += wz * ((one - wy) * load(coarse, r10 + c) + wy * load(coarse, r11 + c))
        store(x, start + i, load(x, start + i) + ((one - wx) * own + wx * far))


@kernel(THREADS)
def find_residual(
    x, b, layout, face_layout, ghost, shape, variable, alpha, fields, factors, width, keeps, out, out_rows
):  # fmt: skip
    """Set out_rows to the largest |b - A x| of each row, and out = b - A x if `keeps`; launch `rows_launch(shape)`.

    out : a field of the layout of x, not read or written unless `keeps`
    out_rows : float64, NaN where a residual is NaN
    """
    scratch = cuda.shared.array(MAX_THREADS, np.float64)
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start = layout[0] + k * layout[2] + j * layout[1]
    largest = 0.0
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        residual = residual_at(
            k, j, i, layout, face_layout, ghost, b, x, variable, alpha, fields, factors, width
        )
        size = abs(np.float64(residual))
        if not size <= largest:
            largest = size
        if keeps == 1:
            store(out, start + i, residual)
    store(scratch, cuda.threadIdx.x, largest)
    largest_of_threads(scratch, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_rows, k * cuda.gridDim.x + j, load(scratch, 0))
