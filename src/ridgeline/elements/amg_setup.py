"""Set-up of the algebraic multigrid hierarchy of the coarse problem: pyamg on one rank, rows to their owners.

One rank gathers the element matrices, assembles, and coarsens (smoothed aggregation: Vanek, Mandel and Brezina,
Computing 56 (1996) 179; by pyamg: Bell, Olson and Schroder, JOSS 7(72) (2022) 4142). A row of the finest matrix
belongs to the lowest rank that has an element at it. A coarse row belongs to the owner of the fine row that it weighs
most in. Rows of a level are numbered by owner, so that a rank's are contiguous. Memory on that one rank: the whole
hierarchy, about 1 kB for each point of the coarse problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyamg
import scipy.sparse as sp
from numpy.typing import NDArray

from ridgeline.elements.multigrid_level import PolynomialLevel, galerkin_matrices

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

COARSEST = 150  # rows of the level that is solved by a dense pseudo-inverse
STRENGTH = 0.02  # of symmetric connections; below it the overlapping levels above have smoothed already
POWER_STEPS = 20


@dataclass
class Rows:
    """One rank's part of a level. Matrices have this rank's rows and global columns.

    matrix: A; restriction: P^T, this rank's rows of the next level; prolongation: P; the last two are None on the
    coarsest level. offsets: int64 [ranks + 1], where each rank's rows begin. spectral_radius: of D^-1 A.
    """

    offsets: Indices
    matrix: Any
    restriction: Any
    prolongation: Any
    spectral_radius: float


@dataclass
class Hierarchy:
    """What one rank gets: its rows of all levels, and the numbers of its coarse points in the finest level.

    number: int64, shape of the coarse elements' points; -1 on Dirichlet sides. coarsest: dense pseudo-inverse.
    """

    levels: list[Rows]
    number: Indices
    coarsest: Array


def assemble(ids: Indices, matrices: Array, n: int) -> Any:
    """Return the sparse sum [n, n] of element matrices [E, c, c] at ids [E, c]; negative ids are left out."""
    rows = np.broadcast_to(ids[:, :, None], matrices.shape)
    columns = np.broadcast_to(ids[:, None, :], matrices.shape)
    kept = (rows >= 0) & (columns >= 0)
    return sp.coo_matrix((matrices[kept], (rows[kept], columns[kept])), shape=(n, n)).tocsr()


def largest_eigenvalue(matrix: Any) -> float:
    """Return an estimate of the spectral radius of D^-1 A by the power method from a fixed vector."""
    inverse = 1.0 / matrix.diagonal()
    u = np.sin(1.0 + 12.9898 * np.arange(matrix.shape[0]))
    value = 1.0
    for _ in range(POWER_STEPS):
        u = inverse * (matrix @ (u / np.linalg.norm(u)))
        value = float(np.linalg.norm(u))
        if value == 0.0:
            return 1.0
    return value


def coarsen(matrix: Any) -> list[tuple[Any, Any]]:
    """Return [(A, P), ..., (A, None)] from the finest to the coarsest level."""
    state = np.random.get_state()  # noqa: NPY002 - pyamg draws from NumPy's global generator
    np.random.seed(1)  # noqa: NPY002
    try:
        hierarchy = pyamg.smoothed_aggregation_solver(
            matrix, strength=("symmetric", {"theta": STRENGTH}), max_coarse=COARSEST, max_levels=20
        )
    finally:
        np.random.set_state(state)  # noqa: NPY002
    return [(level.A.tocsr(), level.P.tocsr() if hasattr(level, "P") else None) for level in hierarchy.levels]


def inverse_of_symmetric(matrix: Array, constant_is_free: bool) -> Array:
    """Return the inverse of a positive definite matrix; the pseudo-inverse if one eigenvalue is 0: a free constant.

    That eigenvalue is the least one, whatever rounding made of it: of a single row there is no
    other to compare it to.
    """
    values, vectors = np.linalg.eigh(matrix)
    first = int(constant_is_free)
    kept = vectors[:, first:]
    return np.asarray(kept / values[first:] @ kept.T)


def _owned_parts(
    levels: list[tuple[Any, Any]], owner: Indices, ranks: int
) -> tuple[list[list[Rows]], Indices]:
    """Return the rows of all levels for every rank, and the new number of each finest row."""
    parts: list[list[Rows]] = [[] for _ in range(ranks)]
    order = np.argsort(owner, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    for matrix, prolongation in levels:
        offsets = np.searchsorted(owner[order], np.arange(ranks + 1))
        matrix = matrix[order][:, order].tocsr()
        radius = 1.0 if prolongation is None else largest_eigenvalue(matrix)  # the coarsest is not smoothed
        below = None
        if prolongation is not None:
            weights = abs(prolongation).tocsc()
            heaviest = np.asarray(weights.argmax(axis=0)).reshape(-1)
            next_owner = owner[heaviest]
            next_order = np.argsort(next_owner, kind="stable")
            prolongation = prolongation[order][:, next_order].tocsr()
            restriction = prolongation.T.tocsr()
            below = np.searchsorted(next_owner[next_order], np.arange(ranks + 1))
        for rank in range(ranks):
            own = slice(offsets[rank], offsets[rank + 1])
            parts[rank].append(
                Rows(
                    offsets.astype(np.int64),
                    matrix[own],
                    None if below is None else restriction[below[rank] : below[rank + 1]],
                    None if below is None else prolongation[own],
                    radius,
                )
            )
        if below is not None:
            owner, order = next_owner, next_order
    return parts, number


def set_up(comm: MPI.Comm, fine: PolynomialLevel, coarse: PolynomialLevel) -> Hierarchy:
    """Return this rank's part of the hierarchy for J^T K J of `fine` on the points of `coarse`. Collective."""
    ids = np.where(coarse.constrained, -1, coarse.ids).reshape(coarse.shape[0], -1)
    gathered = comm.gather((ids, galerkin_matrices(fine, coarse)))
    shares = None
    if gathered is not None:
        all_ids = np.concatenate([part for part, _ in gathered])
        kept = np.unique(all_ids[all_ids >= 0])
        compact = [np.where(part < 0, -1, np.searchsorted(kept, part)) for part, _ in gathered]
        owner = np.empty(len(kept), np.int64)
        for rank in reversed(range(len(gathered))):
            owner[compact[rank][compact[rank] >= 0]] = rank
        matrix = assemble(np.concatenate(compact), np.concatenate([m for _, m in gathered]), len(kept))
        levels = coarsen(matrix)
        parts, number = _owned_parts(levels, owner, len(gathered))
        coarsest = _whole(parts)
        inverse = inverse_of_symmetric(coarsest, constant_is_free=len(kept) == coarse.n_unique)
        shares = [
            Hierarchy(part, np.where(own < 0, -1, number[own]), inverse) for part, own in zip(parts, compact)
        ]
    mine: Hierarchy = comm.scatter(shares)
    return mine


def _whole(parts: list[list[Rows]]) -> Array:
    """Return the coarsest matrix, dense."""
    return np.concatenate([part[-1].matrix.toarray() for part in parts])
