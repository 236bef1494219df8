"""Storage of a triangle of a sparse matrix by runs: successive rows whose columns each move on by one per row.

Rows are ordered by dependency level (`sparse.levels`). If the matrix comes from a grid, the neighbours of successive
rows of a level are mostly successive too. Such rows form a run: they share one column list, and a product loads
vectors of x where compressed rows would gather. Nothing is assumed about the matrix. Runs are found by comparing
column lists; a matrix without any has runs of one row, which are slower and still correct. A row that lacks a few
columns of its run, as rows at the sides of a box do, stays in the run and stores zeros for them. The entries of x at
these columns, which are always rows of this rank, must therefore be finite.

Values are stored run by run, in chunks of WIDTH rows (the last chunk of a run may be narrower), and within a chunk
slot by slot: value s of row l of a chunk of w rows is number s w + l of the chunk. Every run begins at a cache line.
A non-zero costs the 8 bytes of its value, as its column is shared. An upper triangle stores its last run first, so
that a backward sweep reads memory in ascending order, as a forward sweep does in a lower triangle.

Source: the idea of ELLPACK by slices (Monakov, Lokhmotov and Avetisyan, HiPEAC 2010). Columns are implied as in
storage by diagonals (Saad, "Iterative Methods for Sparse Linear Systems", Sec. 3.4).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, int32, int64, types, uint32, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.runtime.aligned import aligned_empty

WIDTH = 8  # rows of a chunk: one vector of 64 bytes
SPARE = 8  # a run may hold one zero in 8 values: to begin another run costs as much as some dozen zeros


class Runs(NamedTuple):
    """A strict triangle stored by runs. Row and column numbers are those of the order by level."""

    run_rows: NDArray[Any]  # int32 [n_runs + 1], first row
    run_slots: NDArray[Any]  # int32 [n_runs + 1], first slot
    slot_columns: NDArray[Any]  # int32 [n_slots], column of the run's first row
    run_values: NDArray[Any]  # int64 [n_runs], first value
    values: NDArray[Any]  # float64 [n_values], with gaps before runs
    level_runs: NDArray[Any]  # int32 [n_levels + 1], first run of each level


# Numba's types of compressed sparse rows (indptr, columns, values) and of `Runs`.
CSR = types.Tuple((int64[::1], int32[::1], float64[::1]))
RUNS = types.NamedTuple((int32[::1], int32[::1], int32[::1], int64[::1], float64[::1], int32[::1]), Runs)


@kernel(lambda: (CSR, *[int32[::1]] * 5, int64[::1], int32[::1], int32[::1]))
def _find_runs(csr, order, new_number, level_rows, run_rows, level_runs, run_shifts, shifts, marks):
    """Set run_rows and level_runs, and the shifts (column - row) of each run, ascending; return the number of runs.

    run_shifts: int32 [n + 1], first shift of each run; shifts: int32 [nnz]; marks: int32 [2 n], zeros, scratch.
    """
    indptr, columns, _ = csr
    n = order.size
    n_runs = 0
    run_shifts[0] = 0
    for level in range(level_rows.size - 1):
        level_runs[level] = n_runs
        row, end = level_rows[level], level_rows[level + 1]
        while row < end:
            begin, first = row, run_shifts[n_runs]
            size, zeros, lowest, highest = 0, 0, 0, 0
            run_rows[n_runs] = begin
            while row < end:
                known, fresh, low, high = 0, 0, lowest, highest
                entries = columns[indptr[order[row]] : indptr[order[row] + 1]]
                for k in range(entries.size):
                    if entries[k] < n:
                        shift = new_number[uint32(entries[k])] - row
                        if shift != 0:
                            if marks[uint64(shift + n)] == n_runs + 1:
                                known += 1
                            else:
                                fresh += 1
                                low, high = min(low, shift), max(high, shift)
                if row > begin:
                    rows, wider = row - begin + 1, size + fresh
                    zeros += size - known + fresh * (rows - 1)
                    if zeros > max(rows * wider // SPARE, wider // 2) or begin + low < 0 or row + high >= n:
                        break
                if fresh > 0:
                    for k in range(entries.size):
                        if entries[k] < n:
                            shift = new_number[uint32(entries[k])] - row
                            if shift != 0 and marks[uint64(shift + n)] != n_runs + 1:
                                marks[uint64(shift + n)] = n_runs + 1
                                shifts[first + size] = shift
                                size += 1
                lowest, highest = low, high
                row += 1
            shifts[first : first + size].sort()
            n_runs += 1
            run_shifts[n_runs] = first + size
    run_rows[n_runs] = n
    level_runs[level_rows.size - 1] = n_runs
    return n_runs


@kernel(lambda: (int32[::1], int64[::1], int32[::1], boolean, int32[::1], int64[::1]))
def _place_runs(run_rows, run_shifts, shifts, upper, run_slots, run_values):
    """Set run_slots and run_values of one triangle; return the length of its values."""
    n_runs = run_rows.size - 1
    run_slots[0] = 0
    for run in range(n_runs):
        slots = 0
        for place in range(run_shifts[run], run_shifts[run + 1]):
            slots += shifts[place] > 0 if upper else shifts[place] < 0
        run_slots[run + 1] = run_slots[run] + slots
    n_values = np.int64(0)
    for place in range(n_runs):
        run = n_runs - 1 - place if upper else place
        run_values[run] = n_values
        size = np.int64(run_slots[run + 1] - run_slots[run]) * (run_rows[run + 1] - run_rows[run])
        n_values += (size + WIDTH - 1) // WIDTH * WIDTH
    return n_values


@kernel(lambda: (CSR, int32[::1], int32[::1], int64[::1], int32[::1], RUNS, RUNS, int32[::1]))
def _fill_runs(csr, order, new_number, run_shifts, shifts, lower, upper, slot_of):
    """Set slot_columns and values of both triangles. slot_of: int32 [2 n], scratch: slot by shift.

    Both triangles are filled in one pass, because the matrix comes from memory and the rows of a run stay in cache.
    Indices are made unsigned for the reason that `sparse.transfer` gives.
    """
    indptr, columns, values = csr
    n = order.size
    for run in range(lower.run_rows.size - 1):
        row, end = lower.run_rows[run], lower.run_rows[run + 1]
        first, above = run_shifts[run], upper.run_slots[run]
        n_lower = lower.run_slots[run + 1] - lower.run_slots[run]
        n_upper = upper.run_slots[run + 1] - above
        for s in range(n_lower + n_upper):  # shifts ascend: lower ones first
            shift = shifts[first + s]
            if s < n_lower:
                lower.slot_columns[lower.run_slots[run] + s] = row + shift
                slot_of[shift + n] = s
            else:
                upper.slot_columns[above + s - n_lower] = row + shift
                slot_of[shift + n] = s - n_lower
        at_lower, at_upper = lower.run_values[run], upper.run_values[run]
        for chunk in range(row, end, WIDTH):
            width = min(WIDTH, end - chunk)
            below = lower.values[at_lower : at_lower + width * n_lower]
            over = upper.values[at_upper : at_upper + width * n_upper]
            below[:] = 0.0
            over[:] = 0.0
            for lane in range(width):
                start, stop = indptr[order[chunk + lane]], indptr[order[chunk + lane] + 1]
                entries, numbers = columns[start:stop], values[start:stop]
                for k in range(entries.size):
                    if entries[k] < n:
                        shift = new_number[uint32(entries[k])] - (chunk + lane)
                        place = uint64(slot_of[uint64(shift + n)] * width + lane)
                        if shift < 0:
                            below[place] = numbers[k]
                        elif shift > 0:
                            over[place] = numbers[k]
            at_lower += width * n_lower
            at_upper += width * n_upper


def make_triangles(
    indptr: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    order: NDArray[Any],
    new_number: NDArray[Any],
    level_rows: NDArray[Any],
) -> tuple[Runs, Runs]:
    """Return the strict lower and upper triangle, in the new order, of a matrix in rows; both have the same runs.

    Parameters
    ----------
    indptr, columns, values : int64 [n + 1], int32 [nnz] and float64 [nnz], rows and columns in the old order; the
        diagonal and external columns (n and above) are left out
    order, new_number, level_rows : of `level_order`
    """
    n = order.size
    csr = (indptr, columns, values)
    run_rows, level_runs = np.empty(n + 1, np.int32), np.empty(level_rows.size, np.int32)
    run_shifts, shifts = np.empty(n + 1, np.int64), np.empty(columns.size, np.int32)
    scratch = np.zeros(2 * n, np.int32)
    n_runs = _find_runs(csr, order, new_number, level_rows, run_rows, level_runs, run_shifts, shifts, scratch)
    run_rows = run_rows[: n_runs + 1].copy()
    triangles = []
    for is_upper in (False, True):
        run_slots, run_values = np.empty(n_runs + 1, np.int32), np.empty(n_runs, np.int64)
        n_values = _place_runs(run_rows, run_shifts, shifts, is_upper, run_slots, run_values)
        slot_columns = np.empty(run_slots[-1], np.int32)
        stored = aligned_empty(n_values, np.float64)
        triangles.append(Runs(run_rows, run_slots, slot_columns, run_values, stored, level_runs))
    lower, upper = triangles
    _fill_runs(csr, order, new_number, run_shifts, shifts, lower, upper, scratch)
    return lower, upper


def deal_runs(runs: Runs, n_threads: int) -> NDArray[Any]:
    """Share the runs of each level among threads: thread t has runs bounds[k, t] ... bounds[k, t + 1] - 1 of level k.

    Returns bounds, int32 [n_levels, n_threads + 1]. The rows of a level are shared as evenly as whole runs allow.
    """
    bounds = np.empty((runs.level_runs.size - 1, n_threads + 1), np.int32)
    _deal(runs.run_rows, runs.level_runs, bounds)
    return bounds


@kernel(lambda: (int32[::1], int32[::1], int32[:, ::1]))
def _deal(run_rows, level_runs, bounds):
    n_threads = bounds.shape[1] - 1
    for level in range(bounds.shape[0]):
        run, end = level_runs[level], level_runs[level + 1]
        first, rows = run_rows[run], run_rows[end] - run_rows[run]
        bounds[level, 0], bounds[level, n_threads] = run, end
        for thread in range(1, n_threads):
            goal = first + rows * thread // n_threads
            while run < end and run_rows[run + 1] + run_rows[run] <= 2 * goal:
                run += 1
            bounds[level, thread] = run


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels that make triangles, and that share them among threads if there are several."""
    sharing = [_deal] if threads > 1 else []
    return specialise([_find_runs, _place_runs, _fill_runs, *sharing])
