"""HPCG's linear system: compressed sparse rows on each rank, with halo plans, on every level of the multigrid.

The operator has 26 on the diagonal and -1 for each of up to 26 neighbours; rows at the boundary have fewer. The
right side makes all ones the solution. Local rows in natural order, x fastest; local columns: the rank's rows, then
external ones (sparse/halo.py). Whoever solves may use the matrix and `fine_of_coarse`, not the geometry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg import problem_kernels
from ridgeline.bench.hpcg.geometry import HpcgGeometry, coarsen
from ridgeline.bench.hpcg.rating import LevelSize
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.sparse import halo, rows
from ridgeline.sparse.halo import HaloPlanner, SparseHaloPlan

Array = NDArray[np.float64]
Indices = NDArray[np.int32]
Numbers = NDArray[np.int64]

LEVELS = 4


@dataclass
class SparseMatrix:
    """One rank's rows.

    indptr: int64 [n + 1]; columns: int32 (local), values: float64, both [non-zeros]; diagonal: int64 [n], place of
    the diagonal in values; rows_global: int64 [n]; total_nonzeros: of all ranks. `planes` has global column numbers.
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
        """Rows of this rank."""
        return self.diagonal.size

    @property
    def csr(self) -> tuple[Numbers, Indices, Array]:
        """Return (indptr, columns, values) with local columns, as rows.rows takes them."""
        return self.indptr, self.columns, self.values

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of this rank."""
        arrays = (*self.csr, self.diagonal, self.rows_global, self.plan.send_index)
        return sum(array.nbytes for array in arrays)


@dataclass
class HpcgLevel:
    """A grid level. fine_of_coarse: int32 [rows of coarse], the row of each coarse row; None on the coarsest."""

    matrix: SparseMatrix
    fine_of_coarse: Indices | None
    coarse: HpcgLevel | None


def generate_matrix(comm: MPI.Comm, geometry: HpcgGeometry) -> tuple[SparseMatrix, Array]:
    """Return the matrix of a geometry and its right side, float64 [n]. Collective over comm."""
    n = geometry.n_rows
    box = geometry.origin, geometry.local, geometry.whole
    indptr, diagonal = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    problem_kernels.row_starts(*box, indptr)
    nonzeros = int(indptr[-1])
    columns, values, right_side = np.empty(nonzeros, np.int32), np.empty(nonzeros), np.empty(n)
    problem_kernels.fill_values(*box, indptr, values, diagonal, right_side)
    rows = row_numbers(geometry)
    planner = HaloPlanner(comm, rows)
    for of_rows, of_columns, numbers in planes(geometry, indptr):
        planner.locate(of_rows, numbers, columns[of_columns])
    plan = planner.plan(columns)
    total = comm.allreduce(nonzeros)
    return SparseMatrix(geometry, indptr, columns, values, diagonal, rows, total, plan), right_side


def row_numbers(geometry: HpcgGeometry) -> Numbers:
    """Return the number in the whole box of each row of a rank, int64 [n]."""
    x, y, z = (np.arange(first, first + count) for first, count in zip(geometry.origin, geometry.local))
    return (x + geometry.gnx * (y[:, None] + geometry.gny * z[:, None, None])).reshape(-1)


def planes(geometry: HpcgGeometry, indptr: Numbers) -> Iterator[tuple[Numbers, slice, Numbers]]:
    """Yield the columns of a rank's rows by global numbers, a plane of points at a time, which caches hold.

    Each time: indptr [rows of the plane + 1], which non-zeros these are, and their columns' numbers, int64. The last
    is overwritten by the next plane.
    """
    nx, ny, nz = geometry.local
    x, y, z = geometry.origin
    starts = indptr[:: nx * ny]
    numbers = np.empty(int(np.diff(starts).max()), np.int64)
    for plane in range(nz):
        part = numbers[: starts[plane + 1] - starts[plane]]
        problem_kernels.fill_columns((x, y, z + plane), (nx, ny, 1), geometry.whole, part)
        of_rows = indptr[plane * nx * ny : (plane + 1) * nx * ny + 1]
        yield of_rows, slice(int(starts[plane]), int(starts[plane + 1])), part


def generate_problem(
    comm: MPI.Comm, geometry: HpcgGeometry, levels: int = LEVELS
) -> tuple[HpcgLevel, Array, Array]:
    """Return the finest level, the right side and the exact solution, float64 [n]. Collective over comm.

    levels: grids, each with every second point of the one before. Raises ConfigError on all ranks if the local box
    cannot be halved so often.
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
            problem_kernels.every_second(level.matrix.geometry.local, index)
        level = HpcgLevel(matrix, index, level)
    assert level is not None  # there is at least one
    return level, right_side, np.ones(geometry.n_rows)


def replace_diagonal(matrix: SparseMatrix, values: Array) -> None:
    """Put values [n], in natural order, on the diagonal. No communication."""
    matrix.values[matrix.diagonal] = values


def diagonal_of(matrix: SparseMatrix) -> Array:
    """Return the diagonal [n] in natural order."""
    result = np.empty(matrix.n_rows)
    rows.gather(matrix.diagonal, matrix.values, result)
    return result


def levels_of(level: HpcgLevel) -> list[SparseMatrix]:
    """Return the matrices of a level and all below, finest first."""
    matrices = []
    each: HpcgLevel | None = level
    while each is not None:
        matrices.append(each.matrix)
        each = each.coarse
    return matrices


def level_sizes(level: HpcgLevel) -> tuple[LevelSize, ...]:
    """Return rows and non-zeros, on all ranks, of a level and all below, finest first."""
    return tuple(
        LevelSize(int(matrix.geometry.total_rows), int(matrix.total_nonzeros)) for matrix in levels_of(level)
    )


def kernels() -> list[Specialisation]:
    """Return the kernels that make the problem, and those of its vectors."""
    of_diagonal = specialise([rows.gather], np.float64)
    return [*problem_kernels.kernels(), *halo.kernels(), *of_diagonal]
