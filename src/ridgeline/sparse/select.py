"""Compiled search for the parts of a sparse matrix that are kept apart from its triangles, in a new order of rows.

Triangles are `sparse.runs.Runs`. The matrix itself is compressed sparse rows in natural order: indptr int64 [n + 1],
columns int32 (owned below n, external from n on), values float64. Row and point numbers are int32.
"""

from typing import Any

import numpy as np
from numba import float64, int32, int64, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.sparse.runs import RUNS, WIDTH, Runs
from ridgeline.sparse.transfer import BLOCK_ROWS, RunRows, SparseBlocks, SparseRows

Indices = NDArray[np.int32]


@kernel(lambda: (int32[::1], int64[::1], RUNS))
def _chosen(rows, run_of_row, runs):
    starts = np.empty(rows.size + 1, np.int64)
    slots_of, shifts = np.empty(rows.size, np.int32), np.empty(rows.size, np.int32)
    starts[0] = 0
    for k in range(rows.size):
        run = run_of_row[k]
        slots_of[k] = runs.run_slots[run]
        shifts[k] = rows[k] - runs.run_rows[run]
        starts[k + 1] = starts[k] + runs.run_slots[run + 1] - runs.run_slots[run]
    values = np.empty(starts[-1], np.float64)
    for k in range(rows.size):
        run = run_of_row[k]
        slots = starts[k + 1] - starts[k]
        chunk = np.int64(shifts[k]) // WIDTH * WIDTH
        width = min(np.int64(WIDTH), runs.run_rows[run + 1] - runs.run_rows[run] - chunk)
        place = runs.run_values[run] + chunk * slots + (shifts[k] - chunk)
        for s in range(slots):
            values[starts[k] + s] = runs.values[place + s * width]
    return starts, values, slots_of, shifts


def chosen_rows(rows: Indices, triangle: Runs) -> RunRows:
    """Return the chosen rows [m] of a triangle, in the order given; empty ones stay."""
    run_of_row = np.searchsorted(triangle.run_rows, rows, side="right") - 1
    return RunRows(rows, *_chosen(rows, run_of_row, triangle))


@kernel(lambda: (RUNS, int32[::1]))
def _upper_blocks(runs, coarse_number):
    n = coarse_number.size
    counts = np.zeros(n, np.int32)
    for run in range(runs.run_rows.size - 1):
        first, end = runs.run_rows[run], runs.run_rows[run + 1]
        own = counts[first:end]
        for slot in range(runs.run_slots[run], runs.run_slots[run + 1]):
            points = coarse_number[runs.slot_columns[slot] : runs.slot_columns[slot] + own.size]
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
    for run in range(runs.run_rows.size - 1):
        first, end = runs.run_rows[run], runs.run_rows[run + 1]
        source = runs.run_values[run]
        for chunk in range(first, end, WIDTH):
            width = min(WIDTH, end - chunk)
            for lane in range(width):
                place[lane] = at
                at += counts[chunk + lane]
            for slot in range(runs.run_slots[run], runs.run_slots[run + 1]):
                column = runs.slot_columns[slot] + (chunk - first)
                points, numbers = coarse_number[column : column + width], runs.values[source : source + width]
                for lane in range(width):
                    if points[lane] >= 0:
                        columns[uint64(place[lane])] = points[lane]
                        values[uint64(place[lane])] = numbers[lane]
                        place[lane] += 1
                source += width
    return counts, starts, columns, values


def upper_blocks(upper: Runs, coarse_number: Indices) -> SparseBlocks:
    """Return U P: all rows of a triangle over the columns that a coarse grid has.

    coarse_number [n]: the coarse point of each fine row, -1 for none.
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
    """Return H, its columns counted from the first external one, at the chosen rows [m] that have any.

    external: of `has_external`; csr: (indptr, columns, values). Rows are called by their place k among the chosen.
    """
    labels = np.flatnonzero(external[natural_rows]).astype(np.int32)
    return SparseRows(labels, *_external(natural_rows[labels], *csr))


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([_chosen, _upper_blocks, has_external, _external])
