"""Set-up of the algebraic multigrid hierarchy of the coarse problem, distributed over ranks.

Smoothed aggregation (Vanek, Mandel and Brezina, Computing 56 (1996) 179) with the aggregates of `aggregates`.
A row of the finest matrix belongs to the lowest rank that has an element at it, an aggregate to the owner of its
root. Each rank computes the matrices of its elements, and sends what it adds to other ranks' rows to their owners.
Levels of at most WHOLE rows are joined: every rank holds them and coarsens them further alike.

The hierarchy is the same on any number of ranks up to rounding and the order of rows. Memory of a rank: its share of
the levels, the joined ones, 8 bytes a rank and level.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ridgeline.elements.coarse.aggregates import aggregate
from ridgeline.elements.coarse.whole_vector import WHOLE
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.multigrid.level import PolynomialLevel, galerkin_matrices
from ridgeline.jit.kernel import compile_kernels
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.sparse import halo
from ridgeline.sparse.distributed import DistributedMatrix, Numbering, assemble, transpose, triple_product

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

COARSEST = 150  # rows of the level that is solved by a dense pseudo-inverse
STRENGTH = 0.02  # of connections; below it the overlapping levels above have smoothed already
POWER_STEPS = 20


@dataclass
class AlgebraicLevel:
    """A level: A, P^T to the next level and P from it, both None on the coarsest.

    names: int64 [rows], the mesh point that stands for each row; spectral_radius: of D^-1 A. The rows of P^T are
    distributed if A's are; every rank has all columns of P if it has all rows of the next level.
    """

    matrix: DistributedMatrix
    names: Numbers
    spectral_radius: float = 1.0  # the coarsest level is not smoothed
    restriction: DistributedMatrix | None = None
    prolongation: DistributedMatrix | None = None


@dataclass
class Hierarchy:
    """The levels, and how the finest rows lie among the points of this rank's coarse elements.

    rows: the finest rows as they are distributed; number: int64, shape of the points, the row of each, -1 on
    Dirichlet sides; points: their gather-scatter; coarsest: dense pseudo-inverse.
    """

    levels: list[AlgebraicLevel]
    rows: Numbering
    number: Numbers
    points: GatherScatter
    coarsest: Array


def largest_eigenvalue(matrix: DistributedMatrix, names: Numbers) -> float:
    """Return an estimate of the spectral radius of D^-1 A by the power method from a fixed vector. Collective."""
    inverse = 1.0 / matrix.local.diagonal()
    u = np.sin(1.0 + 12.9898 * (names % 1000003))
    value = 1.0
    for _ in range(POWER_STEPS):
        norm = float(np.sqrt(matrix.rows.comm.allreduce(float(u @ u))))
        if norm == 0.0:
            return 1.0
        u = inverse * matrix.multiply(u / norm)
        value = float(np.sqrt(matrix.rows.comm.allreduce(float(u @ u))))
    return value or 1.0


def prolongation(level: AlgebraicLevel, below: Numbering, number: Numbers) -> DistributedMatrix:
    """Return P = (I - 4/3 D^-1 A / spectral radius) T; T is 1 where a row is in an aggregate. Collective."""
    matrix = level.matrix
    everywhere = matrix.with_external(number).astype(np.int64)
    numbers, place = np.unique(everywhere, return_inverse=True)
    one = sp.csr_matrix(
        (np.ones(place.size), place, np.arange(place.size + 1)), shape=(place.size, numbers.size)
    )
    local = matrix.local
    damping = np.repeat(4.0 / 3.0 / level.spectral_radius / local.diagonal(), np.diff(local.indptr))
    damped = sp.csr_matrix((damping * local.data, local.indices, local.indptr), shape=local.shape)
    smooth = (one[: matrix.rows.count] - damped @ one).tocoo()
    return assemble(matrix.rows, below, matrix.rows.first + smooth.row, numbers[smooth.col], smooth.data)


def coarsen(finest: DistributedMatrix, names: Numbers) -> list[AlgebraicLevel]:
    """Return the levels from the finest to the coarsest, of at most COARSEST rows. Collective."""
    levels = [_joined(AlgebraicLevel(finest, names), WHOLE)]
    while levels[-1].matrix.rows.total > COARSEST:
        level = levels[-1]
        rows = level.matrix.rows
        below, number, below_names = aggregate(level.matrix, level.names, len(levels), STRENGTH)
        if below.total == rows.total:
            below, number, below_names = aggregate(level.matrix, level.names, len(levels), 0.0)
        if below.total == rows.total:
            break  # no row meets another
        level.spectral_radius = largest_eigenvalue(level.matrix, level.names)
        level.prolongation = prolongation(level, below, number)
        level.restriction = transpose(level.prolongation)
        next_level = AlgebraicLevel(triple_product(level.matrix, level.prolongation), below_names)
        levels.append(_joined(next_level, WHOLE))
        level.matrix.finish()
    levels[-1] = _joined(levels[-1], levels[-1].matrix.rows.total)
    for level, next_level in pairwise(levels):
        if level.prolongation and next_level.matrix.rows.comm.size < level.matrix.rows.comm.size:
            level.prolongation = level.prolongation.on(next_level.matrix.rows)
    return levels


def _joined(level: AlgebraicLevel, most: int) -> AlgebraicLevel:
    """Return a level, with all of its rows on every rank if they are at most `most`. Collective."""
    rows = level.matrix.rows
    if rows.comm.size == 1 or rows.total > most:
        return level
    return AlgebraicLevel(level.matrix.joined(), np.concatenate(rows.comm.allgather(level.names)))


def inverse_of_symmetric(matrix: Array, constant_is_free: bool) -> Array:
    """Return the inverse of a positive definite matrix; the pseudo-inverse if one eigenvalue is 0: a free constant.

    That eigenvalue is the least one, whatever rounding made of it: of a single row there is no
    other to compare it to.
    """
    values, vectors = np.linalg.eigh(matrix)
    first = int(constant_is_free)
    kept = vectors[:, first:]
    return np.asarray(kept / values[first:] @ kept.T)


def set_up(comm: MPI.Comm, fine: PolynomialLevel, coarse: PolynomialLevel, overlap: bool = True) -> Hierarchy:
    """Return this rank's part of the hierarchy for J^T K J of `fine` on the points of `coarse`. Collective.

    overlap: of the gather-scatter of the points.
    """
    in_turn_per_node(comm, lambda: compile_kernels(halo.kernels()))
    ids = np.where(coarse.constrained, -1, coarse.ids)
    points = GatherScatter(comm, ids, overlap=overlap)
    rows, names, number = number_rows(comm, ids, points)
    matrix = _finest(rows, number, galerkin_matrices(fine, coarse))
    levels = coarsen(matrix, names)
    coarsest = levels[-1].matrix.local.toarray()
    inverse = inverse_of_symmetric(coarsest, constant_is_free=rows.total == coarse.n_unique)
    return Hierarchy(levels, rows, number, points, inverse)


def number_rows(comm: MPI.Comm, ids: Numbers, points: GatherScatter) -> tuple[Numbering, Numbers, Numbers]:
    """Return the rows' numbering, the ids of this rank's rows, and the row of each of its points. Collective.

    ids: int64, points of this rank's elements, -1 for none. The lowest rank that has a point owns its row.
    """
    points.compile(operations=("min", "max"))
    owner = np.full(ids.shape, float(comm.rank))
    points.combine(owner, "min")
    own = (owner == comm.rank) & (ids >= 0)
    names = np.unique(ids[own])
    rows = Numbering(comm, names.size)
    number = np.full(ids.shape, -1.0)
    number[own] = rows.first + np.searchsorted(names, ids[own])
    points.combine(number, "max")
    return rows, names, number.astype(np.int64)


def _finest(rows: Numbering, number: Numbers, matrices: Array) -> DistributedMatrix:
    """Return the sum of element matrices [E, c, c]; number: the row of each point, -1 for none. Collective."""
    number = number.reshape(matrices.shape[:2])
    row = np.broadcast_to(number[:, :, None], matrices.shape)
    column = np.broadcast_to(number[:, None, :], matrices.shape)
    kept = (row >= 0) & (column >= 0)
    return assemble(rows, rows, row[kept], column[kept], matrices[kept])
