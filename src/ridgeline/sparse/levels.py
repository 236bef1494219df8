"""Dependency levels of a sparse matrix: which rows Gauss-Seidel may update at the same time.

Two rows that share an entry, in either direction, must be updated in the order of their numbers. Level 0 holds the
rows that depend on none; a row of level k depends on one of level k - 1. Rows of one level share no entry, so their
order is free. A sweep level by level gives the result of a sweep in the order of the rows, to rounding.

Levels of the whole matrix are few and wide, as threads need them. But the vector entries that a level reads were
written several levels before, and the matrix that was read since then has flushed them from the caches. A single
thread therefore takes one block of successive rows after the other, and orders the rows by level inside each block;
`block_rows` chooses the size of the blocks.

Source: Anderson and Saad, "Solving sparse triangular linear systems on parallel computers", Int. J. High Speed
Computing 1 (1989) 73-95 (level scheduling).
"""

from typing import Any

import numpy as np
from numba import int32, int64, uint32
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise

LEAST_BLOCK = 8192  # rows; in smaller blocks a level has too few rows for their updates to overlap
WHOLE = np.iinfo(np.int32).max  # rows of a block that holds any matrix
SAMPLES = 4096  # rows that `block_rows` looks at


@kernel(lambda: (int64[::1], int32[::1]))
def block_rows(indptr, columns):
    """Return how many successive rows one thread should order by level at a time.

    The far columns of a row are those more than half as far away as its farthest. Each of SAMPLES rows votes for the
    mean distance of its far columns. The block is the first multiple of the distance with most votes that has
    LEAST_BLOCK rows or more. On a grid that is a number of whole planes.
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

    indptr: int64 [n + 1]; columns: int32 [nnz], of which external ones (n and above) are ignored. The pattern need
    not be symmetric: an entry (i, j) orders rows i and j wherever it is stored. block: rows of a block, whose levels
    begin above those of the previous block; WHOLE makes levels of the whole matrix.
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
    """Sort rows by level, and by number within a level (a counting sort).

    levels: int32 [n], of `dependency_levels`.

    Returns
    -------
    order : int32 [n], the old row of each new row
    new_number : int32 [n], the inverse of order
    level_rows : int32 [n_levels + 1], the first new row of each level
    """
    n_levels = int(levels.max(initial=-1)) + 1
    order, new_number = np.empty(levels.size, np.int32), np.empty(levels.size, np.int32)
    level_rows = np.zeros(n_levels + 1, np.int32)
    _sort_by_level(levels, level_rows, order, new_number)
    return order, new_number, level_rows


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([block_rows, dependency_levels, _sort_by_level])
