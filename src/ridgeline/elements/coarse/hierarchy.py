"""Set-up of the algebraic multigrid hierarchy of the coarse problem, distributed over ranks.

The method is smoothed aggregation (Vanek, Mandel and Brezina, Computing 56 (1996) 179). A row of the finest matrix
belongs to the lowest rank that has an element at it, an aggregate to the owner of its root. Each rank computes the
matrices of its elements, and sends its contributions to other ranks' rows to their owners. Levels of at most WHOLE
rows are joined: every rank has all of their rows, and all ranks coarsen them further in the same way.

The roots of the aggregates are a maximal set of rows of which no two are within two strong connections (Bell, Dalton
and Olson, SIAM J. Sci. Comput. 34 (2012) C123). A row becomes a root if its key is the largest within two connections
among the undecided rows. Keys follow from the numbers of mesh points alone, and connections are compared with a
bound, never with each other, so that neither the partition nor rounding decides. Each root takes its neighbours, and
remaining rows join the neighbouring aggregate of largest key.

The hierarchy is the same on any number of ranks, up to rounding and the order of rows. Memory of a rank: its share of
the distributed levels, the joined levels, and 8 bytes for each rank and level.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.elements.coarse.direct import WHOLE
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.multigrid.level import PolynomialLevel, galerkin_matrices
from ridgeline.jit.kernel import compile_kernels
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.sparse import halo
from ridgeline.sparse.distributed import DistributedMatrix, Numbering, assemble, transpose, triple_product

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

COARSEST = 150  # rows of the level that is solved by a dense pseudo-inverse
STRENGTH = 0.02  # of connections; weaker ones were smoothed by the overlapping levels above
POWER_STEPS = 20  # of the power method
# Bits of a key: a float64 can hold it, because keys travel as vectors do.
_BITS = np.uint64(2**52 - 1)
# Larger than all keys.
_ROOT = 2.0**53
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


@dataclass
class AlgebraicLevel:
    """A level: A, P^T to the next level and P from it, both None on the coarsest level.

    names: int64 [rows], the mesh point that each row stands for. spectral_radius: of D^-1 A; 1 on the coarsest level,
    which is not smoothed. The rows of P^T are distributed if those of A are; every rank has all columns of P if it
    has all rows of the next level.
    """

    matrix: DistributedMatrix
    names: Numbers
    spectral_radius: float = 1.0
    restriction: DistributedMatrix | None = None
    prolongation: DistributedMatrix | None = None


@dataclass
class Hierarchy:
    """The levels, and where the finest rows lie among the points of this rank's coarse elements.

    rows: how the finest rows are distributed. number: int64, of the shape of the points: the row of each point, -1 on
    Dirichlet sides. points: the gather-scatter of the points. coarsest: the dense pseudo-inverse.
    """

    levels: list[AlgebraicLevel]
    rows: Numbering
    number: Numbers
    points: GatherScatter
    coarsest: Array


def build_hierarchy(
    comm: MPI.Comm, fine: PolynomialLevel, coarse: PolynomialLevel, overlap: bool = True
) -> Hierarchy:
    """Return this rank's part of the hierarchy for J^T K J of `fine` on the points of `coarse`. Collective.

    overlap: whether the gather-scatter of the points overlaps with computing.
    """
    compile_on_nodes(comm, lambda: compile_kernels(halo.kernels()))
    ids = np.where(coarse.constrained, -1, coarse.ids)
    points = GatherScatter(comm, ids, overlap=overlap)
    rows, names, number = number_rows(comm, ids, points)
    matrix = _assemble_finest(rows, number, galerkin_matrices(fine, coarse))
    levels = coarsen(matrix, names)
    coarsest = levels[-1].matrix.local.toarray()
    inverse = inverse_of_symmetric(coarsest, constant_is_free=rows.total == coarse.n_unique)
    return Hierarchy(levels, rows, number, points, inverse)


def number_rows(comm: MPI.Comm, ids: Numbers, points: GatherScatter) -> tuple[Numbering, Numbers, Numbers]:
    """Return the rows' numbering, the ids of this rank's rows, and the row of each of its points. Collective.

    ids: int64, of the points of this rank's elements, -1 for none. The lowest rank that has a point owns its row.
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


def _assemble_finest(rows: Numbering, number: Numbers, matrices: Array) -> DistributedMatrix:
    """Return the sum of element matrices [E, c, c]; number: the row of each point, -1 for none. Collective."""
    number = number.reshape(matrices.shape[:2])
    row = np.broadcast_to(number[:, :, None], matrices.shape)
    column = np.broadcast_to(number[:, None, :], matrices.shape)
    kept = (row >= 0) & (column >= 0)
    return assemble(rows, rows, row[kept], column[kept], matrices[kept])


def coarsen(finest: DistributedMatrix, names: Numbers) -> list[AlgebraicLevel]:
    """Return the levels from the finest to the coarsest, of at most COARSEST rows. Collective."""
    levels = [_join_rows(AlgebraicLevel(finest, names), WHOLE)]
    while levels[-1].matrix.rows.total > COARSEST:
        level = levels[-1]
        rows = level.matrix.rows
        below, number, below_names = aggregate(level.matrix, level.names, len(levels), STRENGTH)
        if below.total == rows.total:
            below, number, below_names = aggregate(level.matrix, level.names, len(levels), 0.0)
        if below.total == rows.total:
            # No row is connected to another.
            break
        level.spectral_radius = largest_eigenvalue(level.matrix, level.names)
        level.prolongation = prolongation(level, below, number)
        level.restriction = transpose(level.prolongation)
        next_level = AlgebraicLevel(triple_product(level.matrix, level.prolongation), below_names)
        levels.append(_join_rows(next_level, WHOLE))
        level.matrix.finish()
    levels[-1] = _join_rows(levels[-1], levels[-1].matrix.rows.total)
    for level, next_level in pairwise(levels):
        if level.prolongation and next_level.matrix.rows.comm.size < level.matrix.rows.comm.size:
            level.prolongation = level.prolongation.on(next_level.matrix.rows)
    return levels


def _join_rows(level: AlgebraicLevel, most: int) -> AlgebraicLevel:
    """Return a level, with all of its rows on every rank if there are at most `most`. Collective."""
    rows = level.matrix.rows
    if rows.comm.size == 1 or rows.total > most:
        return level
    return AlgebraicLevel(level.matrix.joined(), np.concatenate(rows.comm.allgather(level.names)))


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
    """Return P = (I - 4/3 D^-1 A / spectral radius) T, where T is 1 if a row is in an aggregate. Collective."""
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


def inverse_of_symmetric(matrix: Array, constant_is_free: bool) -> Array:
    """Return the inverse of a positive definite matrix, or the pseudo-inverse if constants are free.

    The eigenvalue of the constant is the smallest one, whatever rounding made of it. A matrix with a single row has
    no other eigenvalue to compare it with.
    """
    values, vectors = np.linalg.eigh(matrix)
    first = int(constant_is_free)
    kept = vectors[:, first:]
    return np.asarray(kept / values[first:] @ kept.T)


def keys_of(names: Numbers, level: int) -> Array:
    """Return distinct keys in 1 ... 2^52 for distinct names below 2^52, in another random order on each level."""
    key = (names.astype(np.uint64) + np.uint64(level << 40)) & _BITS
    # Each step is one to one on 52 bits.
    for odd in _ODD:
        key = (key * odd) & _BITS
        key ^= key >> np.uint64(26)
    return np.asarray(key.astype(np.float64) + 1.0)


class _Strong:
    """The strong connections of a matrix: |a_ij| >= theta sqrt(a_ii a_jj), each row with itself."""

    def __init__(self, matrix: DistributedMatrix, theta: float) -> None:
        local = matrix.local
        n = matrix.rows.count
        row = np.repeat(np.arange(n), np.diff(local.indptr))
        diagonal = matrix.with_external(local.diagonal())
        bound = theta**2 * diagonal[row] * diagonal[local.indices]
        kept = (local.data**2 >= bound) | (row == local.indices)
        self._matrix, self._row, self._column = matrix, row[kept], local.indices[kept]
        self._first = np.searchsorted(self._row, np.arange(n))

    def largest(self, own: Array) -> Array:
        """Return the largest value at each row and its connections. Communication: neighbours."""
        return self._reduce(self._matrix.with_external(own)[self._column])

    def join(self, key: Array, number: Array) -> tuple[Array, Array]:
        """Return the largest key at each row and its connections, and the number beside it."""
        keys, numbers = (self._matrix.with_external(own)[self._column] for own in (key, number))
        best = self._reduce(keys)
        return best, self._reduce(np.where(keys == best[self._row], numbers, -1.0))

    def _reduce(self, values: Array) -> Array:
        return np.maximum.reduceat(values, self._first) if self._first.size else np.zeros(0)


def _find_roots(strong: _Strong, keys: Array, comm: MPI.Comm) -> NDArray[np.bool_]:
    """Return which rows are roots. Collective: about ten times two exchanges with neighbours and one allreduce."""
    # A row's state is its key while it is undecided, then _ROOT or 0.
    state = keys.copy()
    while True:
        open_rows = (state > 0) & (state < _ROOT)
        if not comm.allreduce(bool(open_rows.any()), MPI.LOR):
            return np.asarray(state == _ROOT)
        reached = strong.largest(strong.largest(state))
        state[open_rows & (reached == _ROOT)] = 0.0
        state[open_rows & (reached == keys)] = _ROOT


def aggregate(
    matrix: DistributedMatrix, names: Numbers, level: int, theta: float
) -> tuple[Numbering, Numbers, Numbers]:
    """Return the aggregates' numbering, the aggregate of each row, and the aggregates' names. Collective.

    names: int64 [rows], distinct over all ranks; an aggregate has its root's name and its root's rank as owner.
    """
    comm = matrix.rows.comm
    strong, keys = _Strong(matrix, theta), keys_of(names, level)
    root = _find_roots(strong, keys, comm)
    below = Numbering(comm, int(root.sum()))
    key, number = np.where(root, keys, 0.0), np.full(keys.size, -1.0)
    number[root] = below.own
    for _ in range(2):
        best, beside = strong.join(key, number)
        free = number < 0
        key, number = np.where(free, best, key), np.where(free, beside, number)
    return below, number.astype(np.int64), names[root]
