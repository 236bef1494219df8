"""HPCG's linear system: compressed sparse rows on each rank, with halo plans, on every level of the multigrid.

The operator has 26 on the diagonal and -1 for each of up to 26 neighbours; rows at the boundary have fewer. The
right-hand side makes all ones the solution. Local rows are in natural order, x fastest. Local columns are the rank's
rows, followed by external ones (sparse/halo.py). A solver may use the matrix and `fine_of_coarse`, but not the
geometry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numba import float64, int32, int64, types
from numpy.typing import NDArray

from ridgeline.bench.hpcg.geometry import HpcgGeometry, coarsen
from ridgeline.bench.hpcg.rating import LevelSize
from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.sparse import halo, rows
from ridgeline.sparse.halo import HaloPlanner, SparseHaloPlan

Array = NDArray[np.float64]
Indices = NDArray[np.int32]
Numbers = NDArray[np.int64]

LEVELS = 4
_TRIPLE = types.UniTuple(int64, 3)


@dataclass
class SparseMatrix:
    """The n rows of one rank.

    Attributes
    ----------
    indptr : int64 [n + 1]
    columns, values : int32 local columns and float64, both [non-zeros]; `planes` yields global column numbers
    diagonal : int64 [n], the place of the diagonal in values
    rows_global : int64 [n], the global number of each row
    total_nonzeros : the non-zeros of all ranks
    plan : exchanges the halo of a vector
    """

    geometry: HpcgGeometry
    indptr: Numbers
    columns: Indices
    values: Array
    diagonal: Numbers
    rows_global: Numbers
    total_nonzeros: int
    plan: SparseHaloPlan

    @property
    def n_rows(self) -> int:
        """The rows of this rank."""
        return self.diagonal.size

    @property
    def csr(self) -> tuple[Numbers, Indices, Array]:
        """(indptr, columns, values) with local columns, as the kernels of `sparse.rows` take them."""
        return self.indptr, self.columns, self.values

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays of this rank."""
        arrays = (*self.csr, self.diagonal, self.rows_global, self.plan.send_index)
        return sum(array.nbytes for array in arrays)


@dataclass
class HpcgLevel:
    """A grid level. fine_of_coarse: int32 [rows of coarse], the row of each coarse row; None on the coarsest."""

    matrix: SparseMatrix
    fine_of_coarse: Indices | None
    coarse: HpcgLevel | None


def generate_matrix(comm: MPI.Comm, geometry: HpcgGeometry) -> tuple[SparseMatrix, Array]:
    """Return the matrix of a geometry and its right-hand side, float64 [n]. Collective over comm."""
    n = geometry.n_rows
    box = geometry.origin, geometry.local, geometry.whole
    indptr, diagonal = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    row_starts(*box, indptr)
    nonzeros = int(indptr[-1])
    columns, values, right_side = np.empty(nonzeros, np.int32), np.empty(nonzeros), np.empty(n)
    fill_values(*box, indptr, values, diagonal, right_side)
    rows = row_numbers(geometry)
    planner = HaloPlanner(comm, rows)
    for plane_indptr, entries, numbers in planes(geometry, indptr):
        planner.locate(plane_indptr, numbers, columns[entries])
    plan = planner.plan(columns)
    total = comm.allreduce(nonzeros)
    return SparseMatrix(geometry, indptr, columns, values, diagonal, rows, total, plan), right_side


def row_numbers(geometry: HpcgGeometry) -> Numbers:
    """Return the number in the whole box of each row of a rank, int64 [n]."""
    x, y, z = (np.arange(first, first + count) for first, count in zip(geometry.origin, geometry.local))
    return (x + geometry.gnx * (y[:, None] + geometry.gny * z[:, None, None])).reshape(-1)


def planes(geometry: HpcgGeometry, indptr: Numbers) -> Iterator[tuple[Numbers, slice, Numbers]]:
    """Yield the global column numbers of a rank's rows, a plane of points at a time, which caches hold.

    Each item is: the part of indptr [rows of the plane + 1], the slice of the plane's non-zeros, and the global
    numbers of their columns, int64. The next plane overwrites the numbers.
    """
    nx, ny, nz = geometry.local
    x, y, z = geometry.origin
    starts = indptr[:: nx * ny]
    numbers = np.empty(int(np.diff(starts).max()), np.int64)
    for plane in range(nz):
        part = numbers[: starts[plane + 1] - starts[plane]]
        fill_columns((x, y, z + plane), (nx, ny, 1), geometry.whole, part)
        plane_indptr = indptr[plane * nx * ny : (plane + 1) * nx * ny + 1]
        yield plane_indptr, slice(int(starts[plane]), int(starts[plane + 1])), part


def generate_problem(
    comm: MPI.Comm, geometry: HpcgGeometry, levels: int = LEVELS
) -> tuple[HpcgLevel, Array, Array]:
    """Return the finest level, the right-hand side and the exact solution, float64 [n]. Collective over comm.

    levels: number of grids, each with every second point of the grid before. Raises ConfigError on all ranks if the
    local box cannot be halved so often.
    """
    geometries = [geometry]
    for _ in range(levels - 1):
        geometries.append(coarsen(geometries[-1]))
    finest, right_side = generate_matrix(comm, geometry)
    matrices = [finest, *(generate_matrix(comm, coarser)[0] for coarser in geometries[1:])]
    level: HpcgLevel | None = None
    for matrix in reversed(matrices):
        index = None
        if level is not None:
            index = np.empty(level.matrix.n_rows, np.int32)
            every_second(level.matrix.geometry.local, index)
        level = HpcgLevel(matrix, index, level)
    assert level is not None  # there is at least one
    return level, right_side, np.ones(geometry.n_rows)


def replace_diagonal(matrix: SparseMatrix, values: Array) -> None:
    """Set the diagonal to values [n] in natural order. No communication."""
    matrix.values[matrix.diagonal] = values


def diagonal_of(matrix: SparseMatrix) -> Array:
    """Return a copy of the diagonal, float64 [n], in natural order."""
    result = np.empty(matrix.n_rows)
    rows.gather(matrix.diagonal, matrix.values, result)
    return result


def levels_of(level: HpcgLevel) -> list[SparseMatrix]:
    """Return the matrices of a level and of all coarser ones, finest first."""
    matrices = []
    each: HpcgLevel | None = level
    while each is not None:
        matrices.append(each.matrix)
        each = each.coarse
    return matrices


def level_sizes(level: HpcgLevel) -> tuple[LevelSize, ...]:
    """Return the rows and non-zeros of all ranks, for a level and all coarser ones, finest first."""
    return tuple(
        LevelSize(int(matrix.geometry.total_rows), int(matrix.total_nonzeros)) for matrix in levels_of(level)
    )


# The kernels. A box of the finest or a coarser grid is given by three triples (x, y, z): `origin`, its first point;
# `local`, its sizes; `whole`, the sizes of the global box. Rows are at most 27 points, cut off at the whole box's
# boundary.


@subroutine
def _points(place, count):
    """Return how many of the points place - 1, place, place + 1 lie in 0 ... count - 1."""
    return 1 + (place > 0) + (place < count - 1)


@kernel(lambda: (*[_TRIPLE] * 3, int64[::1]))
def row_starts(origin, local, whole, indptr):
    """Set indptr[i + 1] to the non-zeros of rows 0 ... i."""
    row, total = 0, 0
    indptr[0] = 0
    for z in range(origin[2], origin[2] + local[2]):
        in_z = _points(z, whole[2])
        for y in range(origin[1], origin[1] + local[1]):
            in_plane = in_z * _points(y, whole[1])
            for x in range(origin[0], origin[0] + local[0]):
                total += in_plane * _points(x, whole[0])
                row += 1
                indptr[row] = total


@kernel(lambda: (*[_TRIPLE] * 3, int64[::1]))
def fill_columns(origin, local, whole, columns):
    """Write the global column numbers [non-zeros] of all rows, in the order z, y, x of the neighbour."""
    p = 0
    for z in range(origin[2], origin[2] + local[2]):
        for y in range(origin[1], origin[1] + local[1]):
            for x in range(origin[0], origin[0] + local[0]):
                low, high = max(x - 1, 0), min(x + 2, whole[0])
                for other_z in range(max(z - 1, 0), min(z + 2, whole[2])):
                    for other_y in range(max(y - 1, 0), min(y + 2, whole[1])):
                        line = whole[0] * (other_y + whole[1] * other_z)
                        for other_x in range(low, high):
                            columns[p] = line + other_x
                            p += 1


@kernel(lambda: (*[_TRIPLE] * 3, int64[::1], float64[::1], int64[::1], float64[::1]))
def fill_values(origin, local, whole, indptr, values, diagonal, right_side):
    """Write the values 26 and -1 [non-zeros], the places of the diagonal in them [n], and the right-hand side [n].

    The right-hand side of a row is 26 - (its non-zeros - 1). indptr: as `row_starts` writes it.
    """
    values[:] = -1.0
    row = 0
    for z in range(origin[2], origin[2] + local[2]):
        for y in range(origin[1], origin[1] + local[1]):
            lines = (z > 0) * _points(y, whole[1]) + (y > 0)  # lines of neighbours before the row's own line
            for x in range(origin[0], origin[0] + local[0]):
                diagonal[row] = indptr[row] + lines * _points(x, whole[0]) + (x > 0)
                values[diagonal[row]] = 26.0
                right_side[row] = 26.0 - (indptr[row + 1] - indptr[row] - 1)
                row += 1


@kernel(lambda: (_TRIPLE, int32[::1]))
def every_second(coarse, fine_of_coarse):
    """Set fine_of_coarse[c] to the fine row at twice the point of coarse row c. coarse: sizes of the coarse box."""
    row = 0
    for z in range(coarse[2]):
        for y in range(coarse[1]):
            for x in range(coarse[0]):
                fine_of_coarse[row] = 2 * x + 2 * coarse[0] * (2 * y + 2 * coarse[1] * 2 * z)
                row += 1


def kernels() -> list[Specialisation]:
    """Return the kernels that generate the problem, and those of its vectors."""
    generation = specialise([row_starts, fill_columns, fill_values, every_second])
    return [*generation, *halo.kernels(), *specialise([rows.gather], np.float64)]
