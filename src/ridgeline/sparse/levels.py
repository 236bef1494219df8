"""The order in which Gauss-Seidel may update rows at the same time: levels of dependency of a sparse matrix.

Two rows that share an entry, in either direction, must be updated in the order of their numbers. Level 0 holds the
rows that wait for none; a row of level k waits for one of level k - 1. Rows of one level share no entry, so their
order is free. A sweep level after level gives the result of a sweep in the order of the rows, to rounding.

Levels of the whole matrix are few and wide, which threads need. But the vector entries that a level reads were
written several levels ago. The matrix that has streamed by since has flushed them from the caches. So one thread
takes blocks of successive rows one after the other, by level inside each block: `block_rows` finds their size.

Source: Anderson and Saad, "Solving sparse triangular linear systems on parallel computers", Int. J. High Speed
Computing 1 (1989) 73-95 (level scheduling).
"""

from typing import Any

import numpy as np
from numba import int32, int64, uint32
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise

LEAST_BLOCK = 8192  # rows; below, the rows of a level are too few to overlap
WHOLE = np.iinfo(np.int32).max  # rows of a block that holds any matrix
SAMPLES = 4096  # rows that `block_rows` looks at


@kernel(lambda: (int64[::1], int32[::1]))
def block_rows(indptr, columns):
    """Return how many successive rows one thread should order by level at a time.

    It is a multiple of the distance at which most rows have the middle of their farthest columns. These are the
    columns more than half as far as the farthest. It is the first of LEAST_BLOCK or more: on a grid, whole planes.
    Looks at SAMPLES rows.
    """
    n = indptr.size - 1
    votes = np.zeros(n + 1, np.int64)
    step = max(1, n // SAMPLES)
    for row in range(step // 2, n, step):
        far = 0
        for place in range(indptr[row], indptr[row + 1]):
            if columns[place] < n:
                far = max(far, row - columns[place])
        total, count = 0, 0
        for place in range(indptr[row], indptr[row + 1]):
            if columns[place] < n and 2 * (row - columns[place]) > far:
                total += row - columns[place]
                count += 1
        if count:
            votes[total // count] += 1
    distance = max(1, votes.argmax())
    return (LEAST_BLOCK + distance - 1) // distance * distance


@kernel(lambda: (int64[::1], int32[::1], int64))
def dependency_levels(indptr, columns, block=WHOLE):
    """Return the level of every row, int32 [n], the first being 0.

    indptr: int64 [n + 1]; columns: int32 [nnz], those of n and more (external ones) are left out. The pattern need
    not be symmetric: an entry (i, j) orders rows i and j wherever it is stored. block: rows of a block; the levels of
    one begin above those of the block before. WHOLE: levels of the whole matrix.
    """
    n = indptr.size - 1
    levels = np.zeros(n, np.int32)
    start, lowest, top = 0, 0, -1
    for row in range(n):
        if row - start == block:
            start, lowest = row, top + 1
        entries = columns[indptr[row] : indptr[row + 1]]
        level = max(lowest, levels[row])
        for k in range(entries.size):
            column = uint32(entries[k])  # tests for negative indices would take as long as the rest
            if start <= column < row:
                level = max(level, levels[column] + 1)
        levels[row] = level
        top = max(top, level)
        for k in range(entries.size):
            column = uint32(entries[k])
            if row < column < n:
                levels[column] = max(levels[column], level + 1)
    return levels


@kernel(lambda: (*[int32[::1]] * 4,))
def _sort_by_level(levels, level_rows, order, new_number):
    for row in range(levels.size):
        level_rows[levels[row] + 1] += 1
    for level in range(level_rows.size - 1):
        level_rows[level + 1] += level_rows[level]
    for row in range(levels.size):
        place = level_rows[levels[row]]
        level_rows[levels[row]] += 1
        order[place] = row
        new_number[row] = place
    for level in range(level_rows.size - 1, 0, -1):
        level_rows[level] = level_rows[level - 1]
    level_rows[0] = 0


def level_order(levels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (order, new_number, level_rows): rows by level, within a level by number (a counting sort).

    levels: int32 [n]. order: int32 [n], the old row of each new one; new_number: int32 [n], its inverse;
    level_rows: int32 [n_levels + 1], the first new row of each level.
    """
    n_levels = int(levels.max(initial=-1)) + 1
    order, new_number = np.empty(levels.size, np.int32), np.empty(levels.size, np.int32)
    level_rows = np.zeros(n_levels + 1, np.int32)
    _sort_by_level(levels, level_rows, order, new_number)
    return order, new_number, level_rows


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([block_rows, dependency_levels, _sort_by_level])
