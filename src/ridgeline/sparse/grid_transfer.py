"""Passes between two grids of a multigrid method with half-products.

A matrix is A = L + D + U + H. L, D and U are its strictly lower, diagonal and strictly upper part over the rows of
this rank; H holds the columns of other ranks (`sparse.external_columns`). A backward Gauss-Seidel sweep from zero
leaves the half-product h = D x + U x. The residual then needs L alone, and only at the points of the coarse grid.

A correction x + d, with d = P e at a few points, need not be made. The next forward sweep sets, with L x of renewed
values,

    x_i + (r - H x - L x - h)_i / D_i                             without the correction,
    x_i + d_i + (r - H x - L x - h - D d - U d)_i / D_i           with it, because h = D x + U x gains D d + U d,

and in the second line d_i cancels. What remains of the correction is h += U P e (`add_product`). No other row of this
rank reads x_i before the sweep has renewed it; other ranks do, in H x, so `correct` changes x where they get it.

The first part of the file has the passes. The second part extracts what they need from the triangles of a matrix,
which are `sparse.row_strips.Strips`: chosen rows of L, and the product U P.

Values are float64, row, column and point numbers int32, places int64; vectors are 1-D. Indices are made unsigned
before use, because Numba's tests for negative indices would take as long as the arithmetic. Kernels named
`..._threaded` share the rows among `n_threads` threads, with the same bits.
"""

from typing import NamedTuple

import numpy as np
from numba import float64, int32, int64, prange, types, uint32, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.sparse.row_strips import STRIPS, WIDTH, Strips

Indices = NDArray[np.int32]
BLOCK_ROWS = 1024
ONE = uint64(1)


class StripRows(NamedTuple):
    """Some rows of a triangle by strips; they use the column lists of their strips.

    rows: int32 [m]; starts: int64 [m + 1]; values: float64; slots: int32 [m], the first slot of the row's strip;
    shifts: int32 [m], the row's place in its strip.
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    values: NDArray[np.float64]
    slots: NDArray[np.int32]
    shifts: NDArray[np.int32]


class SparseBlocks(NamedTuple):
    """A matrix with few entries in a row. counts: int32 [n]; starts: int64, first entry of every BLOCK_ROWS rows."""

    counts: NDArray[np.int32]
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


# Numba's types of these tuples.
STRIP_ROWS = types.NamedTuple((int32[::1], int64[::1], float64[::1], int32[::1], int32[::1]), StripRows)
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


@kernel(lambda: (STRIP_ROWS, int32[::1], int32[::1], *[float64[::1]] * 4))
def coarse_residual(lower, points, slot_columns, r, half_product, x, out):
    """Set out[points[k]] = (r - half_product - L x)[rows[k]]: the residual at the coarse points, without H x.

    lower: StripRows of L; if the rows ascend, r, half_product and x [fine rows] are read in order. points: int32, the
    coarse point of each of these rows; slot_columns: of L's Strips; out: [coarse rows].
    """
    _coarse_residual(0, lower.rows.size, lower, points, slot_columns, r, half_product, x, out)


@kernel(lambda: (int64, STRIP_ROWS, int32[::1], int32[::1], *[float64[::1]] * 4), parallel=True)
def coarse_residual_threaded(n_threads, lower, points, slot_columns, r, half_product, x, out):
    """Make the pass `coarse_residual` by n_threads threads."""
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
    """Set saved = x at some rows, then add P e to x there. points[k]: the coarse point of rows[k]."""
    for k in range(rows.size):
        saved[k] = x[rows[k]]
        x[rows[k]] += e[points[k]]


@kernel(lambda: (int32[::1], float64[::1], float64[::1]))
def restore(rows, saved, x):
    """Set x = saved at some rows, which undoes `correct` or `external_columns.move_external` to the last bit."""
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
    """Add U P e to half_product. blocks: U P, with a column for each point of the coarse grid."""
    _add_product(0, blocks.starts.size - 1, blocks, e, half_product)


@kernel(lambda: (int64, BLOCKS, float64[::1], float64[::1]), parallel=True)
def add_product_threaded(n_threads, blocks, e, half_product):
    """Make the pass `add_product` by n_threads threads."""
    n = blocks.starts.size - 1
    for thread in prange(n_threads):
        _add_product(n * thread // n_threads, n * (thread + 1) // n_threads, blocks, e, half_product)


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels of the passes: those of one thread, and with threads > 1 the threaded ones as well."""
    serial = [coarse_residual, add_product, correct, restore]
    threaded = [coarse_residual_threaded, add_product_threaded] if threads > 1 else []
    return specialise([*serial, *threaded])


@kernel(lambda: (int32[::1], int64[::1], STRIPS))
def _extract(rows, strip_of_row, strips):
    starts = np.empty(rows.size + 1, np.int64)
    slots_of, shifts = np.empty(rows.size, np.int32), np.empty(rows.size, np.int32)
    starts[0] = 0
    for k in range(rows.size):
        strip = strip_of_row[k]
        slots_of[k] = strips.strip_slots[strip]
        shifts[k] = rows[k] - strips.strip_rows[strip]
        starts[k + 1] = starts[k] + strips.strip_slots[strip + 1] - strips.strip_slots[strip]
    values = np.empty(starts[-1], np.float64)
    for k in range(rows.size):
        strip = strip_of_row[k]
        slots = starts[k + 1] - starts[k]
        chunk = np.int64(shifts[k]) // WIDTH * WIDTH
        width = min(np.int64(WIDTH), strips.strip_rows[strip + 1] - strips.strip_rows[strip] - chunk)
        place = strips.strip_values[strip] + chunk * slots + (shifts[k] - chunk)
        for s in range(slots):
            values[starts[k] + s] = strips.values[place + s * width]
    return starts, values, slots_of, shifts


def extract_rows(rows: Indices, triangle: Strips) -> StripRows:
    """Return some rows [m] of a triangle, in the order given; empty rows are kept."""
    strip_of_row = np.searchsorted(triangle.strip_rows, rows, side="right") - 1
    return StripRows(rows, *_extract(rows, strip_of_row, triangle))


@kernel(lambda: (STRIPS, int32[::1]))
def _upper_blocks(strips, coarse_number):
    n = coarse_number.size
    counts = np.zeros(n, np.int32)
    for strip in range(strips.strip_rows.size - 1):
        first, end = strips.strip_rows[strip], strips.strip_rows[strip + 1]
        own = counts[first:end]
        for slot in range(strips.strip_slots[strip], strips.strip_slots[strip + 1]):
            points = coarse_number[strips.slot_columns[slot] : strips.slot_columns[slot] + own.size]
            for lane in range(own.size):
                own[lane] += points[lane] >= 0
    starts = np.zeros(-(-n // BLOCK_ROWS) + 1, np.int64)
    place = np.empty(WIDTH, np.int64)
    total = np.int64(0)
    for row in range(n):
        if row % BLOCK_ROWS == 0:
            starts[row // BLOCK_ROWS] = total
        total += counts[row]
    starts[-1] = total
    columns = np.empty(total, np.int32)
    values = np.empty(total, np.float64)
    at = np.int64(0)
    for strip in range(strips.strip_rows.size - 1):
        first, end = strips.strip_rows[strip], strips.strip_rows[strip + 1]
        source = strips.strip_values[strip]
        for chunk in range(first, end, WIDTH):
            width = min(WIDTH, end - chunk)
            for lane in range(width):
                place[lane] = at
                at += counts[chunk + lane]
            for slot in range(strips.strip_slots[strip], strips.strip_slots[strip + 1]):
                column = strips.slot_columns[slot] + (chunk - first)
                points, numbers = (
                    coarse_number[column : column + width],
                    strips.values[source : source + width],
                )
                for lane in range(width):
                    if points[lane] >= 0:
                        columns[uint64(place[lane])] = points[lane]
                        values[uint64(place[lane])] = numbers[lane]
                        place[lane] += 1
                source += width
    return counts, starts, columns, values


def upper_blocks(upper: Strips, coarse_number: Indices) -> SparseBlocks:
    """Return U P: all rows of the upper triangle, at the columns that are points of the coarse grid.

    coarse_number: int32 [n], the coarse point of each fine row, or -1.
    """
    return SparseBlocks(*_upper_blocks(upper, coarse_number))


def selection_kernels() -> list[Specialisation]:
    """Return the kernels that extract parts of a matrix."""
    return specialise([_extract, _upper_blocks])
