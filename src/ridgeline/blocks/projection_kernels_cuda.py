"""Kernels of the projections on GPUs: divergences at nodes and cells, and corrections by gradients.

The formulas and tables are those of `projection_kernels`. Layouts are (origin, row pitch, plane pitch), `tables` the
flat tables of the axes along (z, y, x) and `widths` the lengths of their rows. A thread block takes a row.
"""

from __future__ import annotations

from numba import cuda

from ridgeline.blocks.projection_kernels import (
    HALF_LEFT,
    HALF_RIGHT,
    PER_DISTANCE,
    PER_WIDTH,
    SLOPE_LEFT,
    SLOPE_RIGHT,
)
from ridgeline.blocks.rows_cuda import THREADS
from ridgeline.jit.cuda_device import device_function, kernel, load, store


@device_function
def four_cells(field, at, row, plane, f00, f01, f10, f11):
    """Return the weighted sum of the four cells around an edge along x, of which `at` is the uppermost."""
    low = f00 * load(field, at - plane - row) + f01 * load(field, at - plane)
    return low + (f10 * load(field, at - row) + f11 * load(field, at))


@kernel(THREADS)
def set_divergence_at_nodes(velocity, layout, tables, widths, shape, out, out_layout):
    """Set out at the owned nodes as `set_nodal_divergence` does; launch `rows_launch(shape)`."""
    along_z, along_y, along_x = velocity
    tz, ty, tx = tables
    wz, wy, wx = widths
    origin, row, plane = layout
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    zl, zr = load(tz, HALF_LEFT * wz + k), load(tz, HALF_RIGHT * wz + k)
    yl, yr = load(ty, HALF_LEFT * wy + j), load(ty, HALF_RIGHT * wy + j)
    sz, sz2 = load(tz, SLOPE_LEFT * wz + k), -load(tz, SLOPE_RIGHT * wz + k)
    sy, sy2 = load(ty, SLOPE_LEFT * wy + j), -load(ty, SLOPE_RIGHT * wy + j)
    start, to = origin + k * plane + j * row, out_layout[0] + k * out_layout[2] + j * out_layout[1]
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        at = start + i
        left = four_cells(along_x, at - 1, row, plane, zl * yl, zl * yr, zr * yl, zr * yr)
        right = four_cells(along_x, at, row, plane, zl * yl, zl * yr, zr * yl, zr * yr)
        across = load(tx, SLOPE_LEFT * wx + i) * left - load(tx, SLOPE_RIGHT * wx + i) * right
        left = four_cells(along_y, at - 1, row, plane, zl * sy, zl * sy2, zr * sy, zr * sy2)
        left += four_cells(along_z, at - 1, row, plane, sz * yl, sz * yr, sz2 * yl, sz2 * yr)
        right = four_cells(along_y, at, row, plane, zl * sy, zl * sy2, zr * sy, zr * sy2)
        right += four_cells(along_z, at, row, plane, sz * yl, sz * yr, sz2 * yl, sz2 * yr)
        along = load(tx, HALF_LEFT * wx + i) * left + load(tx, HALF_RIGHT * wx + i) * right
        store(out, to + i, across + along)


@kernel(THREADS)
def add_gradient_at_cells(phi, phi_layout, tables, widths, shape, quarter, fields, layout):
    """Add 4 quarter times the mean of grad phi over each owned cell; launch `rows_launch(shape)`."""
    tz, ty, tx = tables
    wz, wy, wx = widths
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    row, plane = phi_layout[1], phi_layout[2]
    start, to = phi_layout[0] + k * plane + j * row, layout[0] + k * layout[2] + j * layout[1]
    per_z = quarter * load(tz, PER_WIDTH * wz + k)
    per_y = quarter * load(ty, PER_WIDTH * wy + j)
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        at, c = start + i, to + i
        a00, a01 = load(phi, at), load(phi, at + row)
        a10, a11 = load(phi, at + plane), load(phi, at + plane + row)
        b00, b01 = load(phi, at + 1), load(phi, at + row + 1)
        b10, b11 = load(phi, at + plane + 1), load(phi, at + plane + row + 1)
        low_a, high_a, low_b, high_b = a00 + a01, a10 + a11, b00 + b01, b10 + b11
        store(fields[0], c, load(fields[0], c) + per_z * ((high_a - low_a) + (high_b - low_b)))
        across = ((a01 - a00) + (a11 - a10)) + ((b01 - b00) + (b11 - b10))
        store(fields[1], c, load(fields[1], c) + per_y * across)
        per_x = quarter * load(tx, PER_WIDTH * wx + i)
        store(fields[2], c, load(fields[2], c) + per_x * ((low_b + high_b) - (low_a + high_a)))


@kernel(THREADS)
def set_divergence_at_cells(faces, layout, tables, widths, shape, factor, out, out_layout):
    """Set out at the owned cells to factor times the divergence at faces; launch `rows_launch(shape)`."""
    tz, ty, tx = tables
    wz, wy, wx = widths
    origin, row, plane = layout
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start, to = origin + k * plane + j * row, out_layout[0] + k * out_layout[2] + j * out_layout[1]
    per_z, per_y = load(tz, PER_WIDTH * wz + k), load(ty, PER_WIDTH * wy + j)
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        at = start + i
        across = (load(faces[0], at + plane) - load(faces[0], at)) * per_z
        across += (load(faces[1], at + row) - load(faces[1], at)) * per_y
        along = (load(faces[2], at + 1) - load(faces[2], at)) * load(tx, PER_WIDTH * wx + i)
        store(out, to + i, factor * (across + along))


@kernel(THREADS)
def subtract_gradient_at_faces(phi, phi_layout, tables, widths, shape, faces, layout):
    """Subtract grad phi at the faces of the owned cells, the last ones included; launch `rows_launch(shape + 1)`."""
    tz, ty, tx = tables
    wz, wy, wx = widths
    nz, ny, nx = shape
    row, plane = phi_layout[1], phi_layout[2]
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start, to = phi_layout[0] + k * plane + j * row, layout[0] + k * layout[2] + j * layout[1]
    per_z, per_y = load(tz, PER_DISTANCE * wz + k), load(ty, PER_DISTANCE * wy + j)
    for i in range(cuda.threadIdx.x, nx + 1, cuda.blockDim.x):
        at, c = start + i, to + i
        here = load(phi, at)
        if i < nx and j < ny:
            store(faces[0], c, load(faces[0], c) - per_z * (here - load(phi, at - plane)))
        if i < nx and k < nz:
            store(faces[1], c, load(faces[1], c) - per_y * (here - load(phi, at - row)))
        if j < ny and k < nz:
            per_x = load(tx, PER_DISTANCE * wx + i)
            store(faces[2], c, load(faces[2], c) - per_x * (here - load(phi, at - 1)))
