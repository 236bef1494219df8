"""Passes between two grids of a multigrid method with half-products, and over rows at a rank's boundary.

A matrix is A = L + D + U + H. L, D and U are its strictly lower, diagonal and strictly upper part over the rows of
this rank; H holds the columns of other ranks. A backward Gauss-Seidel sweep from zero leaves the half-product
h = D x + U x. The residual then needs L alone, and only at the points of the coarse grid. A correction x + P e of a
few points enters the next forward sweep, x_i += (r - H x - L x - h)_i / D_i, through h += U P e alone, because a
row's own correction changes x_i and h_i / D_i alike. Therefore x itself is corrected only where other ranks get it.

The first part of the file has the passes. The second part extracts what they need from a matrix: chosen rows of L,
the product U P, and H. There the matrix is compressed sparse rows in natural order, indptr int64 [n + 1], columns
int32 (own ones below n, external ones from n on), values float64; its triangles are `sparse.row_strips.Strips`.

Values are float64, row, column and point numbers int32, places int64; vectors are 1-D; the columns of H count from
the first external value. Indices are made unsigned before use, because Numba's tests for negative indices would take
as long as the arithmetic. Kernels named `..._threaded` share the rows among `n_threads` threads, with the same bits.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float64, int32, int64, prange, types, uint32, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.sparse.row_strips import STRIPS, WIDTH, Strips

Indices = NDArray[np.int32]
BLOCK_ROWS = 1024
ONE = uint64(1)


class SparseRows(NamedTuple):
    """Some rows of a matrix. rows: int32 [m]; starts: int64 [m + 1]; columns: int32; values: float64."""

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


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
ROWS = types.NamedTuple((int32[::1], int64[::1], int32[::1], float64[::1]), SparseRows)
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
    """Set x = saved at some rows, which undoes `correct` or `move_boundary` to the last bit."""
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


@subroutine
def _product(boundary, k, external):
    total = 0.0
    for p in range(boundary.starts[k], boundary.starts[k + 1]):
        total += boundary.values[p] * external[uint32(boundary.columns[p])]
    return total


@kernel(lambda: (ROWS, *[float64[::1]] * 3))
def add_boundary(boundary, external, x, y):
    """Add H external to y; return x . H external. boundary: SparseRows of H; external: values of other ranks."""
    total = 0.0
    for k in range(boundary.rows.size):
        row = boundary.rows[k]
        product = _product(boundary, k, external)
        y[row] += product
        total += x[row] * product
    return total


@kernel(lambda: (ROWS, float64[::1], float64[::1]))
def subtract_boundary(boundary, external, r):
    """Subtract H external from r, at the rows of `boundary`."""
    for k in range(boundary.rows.size):
        r[boundary.rows[k]] -= _product(boundary, k, external)


@kernel(lambda: (ROWS, *[float64[::1]] * 3))
def move_boundary(boundary, external, r, saved):
    """Set saved = r at the rows of `boundary`, then subtract H external from r; `restore` undoes it."""
    for k in range(boundary.rows.size):
        row = boundary.rows[k]
        saved[k] = r[row]
        r[row] -= _product(boundary, k, external)


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels of the passes: those of one thread, and with threads > 1 the threaded ones as well."""
    serial = [coarse_residual, add_product, correct, restore, add_boundary, subtract_boundary, move_boundary]
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


@kernel(lambda: (int64[::1], int32[::1]))
def has_external(indptr, columns):
    """Return which rows have an external column, bool [n], in the order of the rows."""
    n = indptr.size - 1
    result = np.empty(n, np.bool_)
    for row in range(n):
        external = False
        for p in range(indptr[row], indptr[row + 1]):
            external |= columns[p] >= n
        result[row] = external
    return result


@kernel(lambda: (int32[::1], int64[::1], int32[::1], float64[::1]))
def _external(natural_rows, indptr, columns, values):
    n = indptr.size - 1
    starts = np.empty(natural_rows.size + 1, np.int64)
    starts[0] = 0
    for k in range(natural_rows.size):
        count = 0
        for p in range(indptr[natural_rows[k]], indptr[natural_rows[k] + 1]):
            count += columns[p] >= n
        starts[k + 1] = starts[k] + count
    out_columns = np.empty(starts[-1], np.int32)
    out_values = np.empty(starts[-1], np.float64)
    at = 0
    for k in range(natural_rows.size):
        for p in range(indptr[natural_rows[k]], indptr[natural_rows[k] + 1]):
            if columns[p] >= n:
                out_columns[at] = columns[p] - n
                out_values[at] = values[p]
                at += 1
    return starts, out_columns, out_values


def external_rows(
    natural_rows: Indices, external: NDArray[np.bool_], csr: tuple[NDArray[Any], ...]
) -> SparseRows:
    """Return H at those of the rows [m] that have external columns, which count from the first external one.

    external: of `has_external`; csr: (indptr, columns, values). The result numbers rows by their place in
    natural_rows.
    """
    labels = np.flatnonzero(external[natural_rows]).astype(np.int32)
    return SparseRows(labels, *_external(natural_rows[labels], *csr))


def selection_kernels() -> list[Specialisation]:
    """Return the kernels that extract parts of a matrix."""
    return specialise([_extract, _upper_blocks, has_external, _external])
