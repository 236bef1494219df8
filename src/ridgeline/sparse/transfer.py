"""Passes between two grids of a multigrid method that works with half-products, and over rows at a rank's boundary.

A matrix is A = L + D + U + H. L, D and U are its strictly lower, diagonal and strictly upper part over the rows of
this rank; H holds the columns of other ranks. A backward Gauss-Seidel sweep from zero leaves the half-product
h = D x + U x. The residual then needs L alone, and only at the points of the coarse grid. A correction x + P e of few
points enters the next forward sweep, x_i += (r - H x - L x - h)_i / D_i, by h += U P e alone. A row's own correction
would change x_i and h_i / D_i alike. So x itself is corrected only in what is sent to other ranks.

Values are float64, row and column numbers int32, places int64; vectors are 1-D; the columns of H count from the first
external value. Indices are made unsigned before use: tests for negative ones would take as long as the arithmetic.
Twins named `..._threaded` share the rows among `n_threads` threads, with the same bits.
"""

from typing import NamedTuple

import numpy as np
from numba import float64, int32, int64, prange, types, uint32, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

BLOCK_ROWS = 1024
ONE = uint64(1)


class SparseRows(NamedTuple):
    """Some rows of a matrix. rows: int32 [m]; starts: int64 [m + 1]; columns: int32; values: float64."""

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


class RunRows(NamedTuple):
    """Some rows of a triangle by runs, with the column lists of their runs.

    rows: int32 [m]; starts: int64 [m + 1]; values: float64; slots: int32 [m], the first slot of the row's run;
    shifts: int32 [m], how many rows before it are in the run.
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    values: NDArray[np.float64]
    slots: NDArray[np.int32]
    shifts: NDArray[np.int32]


class SparseBlocks(NamedTuple):
    """All rows of a matrix with few entries each: counts int32 [n]; starts int64: first entry of every 1024 rows."""

    counts: NDArray[np.int32]
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


# As kernels know them.
ROWS = types.NamedTuple((int32[::1], int64[::1], int32[::1], float64[::1]), SparseRows)
RUN_ROWS = types.NamedTuple((int32[::1], int64[::1], float64[::1], int32[::1], int32[::1]), RunRows)
BLOCKS = types.NamedTuple((int32[::1], int64[::1], int32[::1], float64[::1]), SparseBlocks)


@subroutine
def _coarse_residual(first, end, lower, points, slot_columns, r, half_product, x, out):
    for k in range(first, end):
        row = uint32(lower.rows[k])
        start, slot, shift = uint64(lower.starts[k]), uint64(lower.slots[k]), lower.shifts[k]
        total = r[row] - half_product[row]
        for s in range(uint64(lower.starts[k + 1]) - start):
            total -= lower.values[start + s] * x[uint32(slot_columns[slot + s] + shift)]
        out[points[k]] = total


@kernel(lambda: (RUN_ROWS, int32[::1], int32[::1], *[float64[::1]] * 4))
def coarse_residual(lower, points, slot_columns, r, half_product, x, out):
    """Set out[points[k]] = (r - half_product - L x)[rows[k]]: the residual at the coarse points, less H x.

    lower: RunRows of L; ascending rows read r, half_product and x [fine rows] from first to last.
    points: int32, the coarse point of each of these rows; slot_columns: of L's Runs; out: [coarse rows].
    """
    _coarse_residual(0, lower.rows.size, lower, points, slot_columns, r, half_product, x, out)


@kernel(lambda: (int64, RUN_ROWS, int32[::1], int32[::1], *[float64[::1]] * 4), parallel=True)
def coarse_residual_threaded(n_threads, lower, points, slot_columns, r, half_product, x, out):
    """Do as `coarse_residual`, by n_threads threads."""
    n = lower.rows.size
    for thread in prange(n_threads):
        _coarse_residual(
            n * thread // n_threads,
            n * (thread + 1) // n_threads,
            lower,
            points,
            slot_columns,
            r,
            half_product,
            x,
            out,
        )


@kernel(lambda: (int32[::1], int32[::1], *[float64[::1]] * 3))
def correct(rows, points, e, x, saved):
    """Set saved = x at some rows, then x += P e there. points[k]: the coarse point of rows[k]."""
    for k in range(rows.size):
        saved[k] = x[rows[k]]
        x[rows[k]] += e[points[k]]


@kernel(lambda: (int32[::1], float64[::1], float64[::1]))
def restore(rows, saved, x):
    """Set x = saved at some rows: the bits from before `correct` or `move_boundary`."""
    for k in range(rows.size):
        x[rows[k]] = saved[k]


@subroutine
def _add_product(first_block, end_block, blocks, e, half_product):
    for block in range(first_block, end_block):
        p = uint64(blocks.starts[block])
        first, end = block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, half_product.size)
        counts, sums = blocks.counts[first:end], half_product[first:end]
        for i in range(end - first):
            count = counts[i]
            if count:
                total = sums[i]
                for _ in range(count):
                    total += blocks.values[p] * e[uint32(blocks.columns[p])]
                    p += ONE
                sums[i] = total


@kernel(lambda: (BLOCKS, float64[::1], float64[::1]))
def add_product(blocks, e, half_product):
    """Set half_product += B e: B = U P, a SparseBlocks with a column for each point of the coarse grid."""
    _add_product(0, blocks.starts.size - 1, blocks, e, half_product)


@kernel(lambda: (int64, BLOCKS, float64[::1], float64[::1]), parallel=True)
def add_product_threaded(n_threads, blocks, e, half_product):
    """Do as `add_product`, by n_threads threads."""
    n = blocks.starts.size - 1
    for thread in prange(n_threads):
        _add_product(n * thread // n_threads, n * (thread + 1) // n_threads, blocks, e, half_product)


@subroutine
def _product(boundary, k, external):
    total = 0.0
    for p in range(boundary.starts[k], boundary.starts[k + 1]):
        total += boundary.values[p] * external[uint32(boundary.columns[p])]
    return total


@kernel(lambda: (ROWS, *[float64[::1]] * 3))
def add_boundary(boundary, external, x, y):
    """Set y += H external; return x . H external. boundary: SparseRows of H; external: values of other ranks."""
    total = 0.0
    for k in range(boundary.rows.size):
        row = boundary.rows[k]
        product = _product(boundary, k, external)
        y[row] += product
        total += x[row] * product
    return total


@kernel(lambda: (ROWS, float64[::1], float64[::1]))
def subtract_boundary(boundary, external, r):
    """Set r -= H external, for the rows of `boundary`."""
    for k in range(boundary.rows.size):
        r[boundary.rows[k]] -= _product(boundary, k, external)


@kernel(lambda: (ROWS, *[float64[::1]] * 3))
def move_boundary(boundary, external, r, saved):
    """Set saved = r at the rows of `boundary`, then r -= H external: `restore` puts the same bits back."""
    for k in range(boundary.rows.size):
        row = boundary.rows[k]
        saved[k] = r[row]
        r[row] -= _product(boundary, k, external)


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels of this file for levels that `threads` threads share; of all levels, those of one thread."""
    of_one = [coarse_residual, add_product, correct, restore, add_boundary, subtract_boundary, move_boundary]
    return specialise(of_one + ([coarse_residual_threaded, add_product_threaded] if threads > 1 else []))
