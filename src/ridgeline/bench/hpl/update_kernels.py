"""Compiled parts of the update: which rows change places, moving them, and the update of a tile of columns.

The exchanges of a panel's pivots, one after the other, amount to one permutation. Rows of A that become rows of U are
its sources. Each row outside the top block that gave one up is a target, and takes a row of the top block. So every
number that moves is read once and written once.
"""

import numpy as np
from numba import float64, int64, types

from ridgeline.bench.hpl.blas_calls import solve_unit_lower, subtract_product
from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

_MATRIX = float64[::1, :]
_INDICES = int64[::1]


@kernel(lambda: (float64[::1], int64, _INDICES, _INDICES, _INDICES), nogil=True)
def compose_exchanges(pivots, first, sources, targets, taken):
    """Turn exchanges into a permutation; return the number of targets.

    pivots: global row that was exchanged with row first + j, in order of j, as float64 [width]. On return
    sources[j] is the global row that becomes row j of U, and targets[i] the global row, outside the top block, that
    takes row taken[i] of the top block; int64 [width] each.
    """
    width = pivots.size
    for j in range(width):
        sources[j] = first + j
    count = 0
    for j in range(width):
        row = np.int64(pivots[j])
        if row < first + width:
            sources[j], sources[row - first] = sources[row - first], sources[j]
            continue
        at = 0
        while at < count and targets[at] != row:
            at += 1
        incoming = row
        if at == count:
            targets[at] = row
            count += 1
        else:
            incoming = first + taken[at]
        taken[at] = sources[j] - first  # a row of the top block: what is outside has not been here yet
        sources[j] = incoming
    return count


@subroutine
def _permute(a, u, first, sources, targets, taken, start, stop):
    for column in range(start, stop):
        for j in range(sources.size):
            u[j, column] = a[sources[j], column]
        for i in range(targets.size):
            a[targets[i], column] = a[first + taken[i], column]


@kernel(
    lambda: (
        types.intp, types.intp, _MATRIX, _MATRIX, _MATRIX, _MATRIX,
        _INDICES, _INDICES, _INDICES, int64, int64, int64, int64,
    ),
    nogil=True,
)  # fmt: skip
def update_tile(gemm, trsm, below, top, u, a, sources, targets, taken, rows, skip, start, stop):
    """Update columns start ... stop - 1 of a process's part by a panel: rows of U, triangular solve, product.

    below, top: of the panel; u: room for rows of U, [nb, columns]; a: [at least rows, columns]. sources, targets,
    taken: local indices of rows that change places here, empty where `u` has its rows already; skip: rows of the
    top block on the process that has it, which gets them from U, 0 elsewhere.
    """
    first, width = rows - below.shape[0], top.shape[0]
    if sources.size > 0:
        _permute(a, u, first, sources, targets, taken, start, stop)
    tile = u[:width, start:stop]
    solve_unit_lower(trsm, top, tile)
    if skip > 0:
        for column in range(start, stop):
            for j in range(width):
                a[first + j, column] = u[j, column]
    subtract_product(gemm, below[skip:, :], tile, a[first + skip : rows, start:stop])


@kernel(lambda: (_MATRIX, _INDICES, int64, int64, _MATRIX), nogil=True)
def pack_rows(a, rows, start, stop, out):
    """Copy rows of columns start ... stop - 1 of a into out [rows.size, stop - start]."""
    for column in range(start, stop):
        for i in range(rows.size):
            out[i, column - start] = a[rows[i], column]


@kernel(lambda: (_MATRIX, _INDICES, int64, int64, _MATRIX), nogil=True)
def unpack_rows(packed, rows, start, stop, out):
    """Copy packed [rows.size, stop - start] into rows of columns start ... stop - 1 of out."""
    for column in range(start, stop):
        for i in range(rows.size):
            out[rows[i], column] = packed[i, column - start]


@kernel(lambda: (_MATRIX, int64, int64, _MATRIX), nogil=True)
def copy_block(a, first, start, out):
    """Copy the block of a that begins at (first, start) into out."""
    for column in range(out.shape[1]):
        for row in range(out.shape[0]):
            out[row, column] = a[first + row, start + column]


@kernel(lambda: (types.intp, _MATRIX, _MATRIX, _MATRIX), nogil=True)
def subtract_matrices(gemm, left, right, out):
    """Compute out <- out - left right: a product alone, for its rate."""
    subtract_product(gemm, left, right, out)


def kernels() -> list[Specialisation]:
    """Return all kernels of this module."""
    return specialise([compose_exchanges, update_tile, pack_rows, unpack_rows, copy_block])
