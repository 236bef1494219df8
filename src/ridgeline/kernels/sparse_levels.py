"""The order in which Gauss-Seidel may update rows at the same time: levels of dependency of a sparse matrix.

Two rows that share an entry, in either direction, must be updated in the order of their numbers. Level 0 holds the
rows that wait for none; a row of level k waits for one of level k - 1. Rows of one level share no entry, so their
order is free, and sweeping level after level gives what sweeping in the order of the rows gives, to rounding.

Source: Anderson and Saad, "Solving sparse triangular linear systems on parallel computers", Int. J. High Speed
Computing 1 (1989) 73-95 (level scheduling).
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def dependency_levels(indptr, columns):
    """Return the level of every row, int32 [n], the first being 0.

    indptr: int64 [n + 1]; columns: int32 [nnz], those of n and more (external ones) are left out. The pattern need
    not be symmetric: an entry (i, j) orders rows i and j wherever it is stored.
    """
    n = indptr.size - 1
    levels = np.zeros(n, np.int32)
    for row in range(n):
        first, end = indptr[row], indptr[row + 1]
        level = levels[row]
        for place in range(first, end):
            column = columns[place]
            if column < row:
                level = max(level, levels[column] + 1)
        levels[row] = level
        for place in range(first, end):
            column = columns[place]
            if row < column < n:
                levels[column] = max(levels[column], level + 1)
    return levels


@njit(cache=True)
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


def level_order(levels: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Return (order, new_number, level_rows): rows by level, within a level by number (a counting sort).

    levels: int32 [n]. order: int32 [n], the old row of each new one; new_number: int32 [n], its inverse;
    level_rows: int32 [n_levels + 1], the first new row of each level.
    """
    n_levels = int(levels.max(initial=-1)) + 1
    order, new_number = np.empty(levels.size, np.int32), np.empty(levels.size, np.int32)
    level_rows = np.zeros(n_levels + 1, np.int32)
    _sort_by_level(levels, level_rows, order, new_number)
    return order, new_number, level_rows
