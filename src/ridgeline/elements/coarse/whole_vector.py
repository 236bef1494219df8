"""The coarse problem of multigrid: what all its solvers share.

A solver takes an unassembled residual on this rank's coarse elements [E, c_z, c_y, c_x] and returns the correction
at the same points, continuous. Here: small problems, whose vector every rank holds and solves whole. Each rank
sends the sums over its own elements (one Allgatherv) and adds all of them in the order of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.multigrid.level import PolynomialLevel
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.sparse.rows import gather, scatter_add

if TYPE_CHECKING:
    from mpi4py import MPI

Field = NDArray[Any]

WHOLE = 4096  # unknowns of a problem, or of a level of it, that every rank may hold whole


@dataclass(frozen=True)
class CoarseCost:
    """What one rank holds of an algebraic coarse solver, and sends in a cycle.

    rows: of the finest level. Bytes held: distributed, of levels by rows; whole, of levels that every rank has.
    messages, sent: to neighbours, and their bytes; gathered: bytes of the vector that one Allgatherv brings.
    The lists of the sum over elements are beside these; they grow with this rank's elements alone.
    """

    rows: int
    distributed: int
    whole: int
    messages: int
    sent: int
    gathered: int


class CoarseSolver(Protocol):
    """Solves the coarse problem, exactly or by one cycle."""

    def solve(self, residual: Field, correction: Field) -> None:
        """Set the correction from an unassembled residual; both flat, of this rank's coarse points."""

    def describe(self) -> str:
        """Return one line that says what it is."""


class WholeVector:
    """The vector of all distinct points of a level, on every rank: [n_unique].

    Bytes received a call: the points of all ranks, those at borders of ranks once per rank.
    """

    def __init__(self, comm: MPI.Comm, level: PolynomialLevel, dtype: DTypeLike) -> None:
        self.comm, self.n_unique = comm, level.n_unique
        unique, inverse = np.unique(level.ids, return_inverse=True)
        self._point = np.ascontiguousarray(inverse.reshape(-1), np.int64)
        self._ids = np.ascontiguousarray(level.ids.reshape(-1), np.int64)
        self._local = np.zeros(len(unique), dtype)
        self.vector = np.zeros(level.n_unique, dtype)
        in_turn_per_node(comm, lambda: compile_kernels(specialise([gather, scatter_add], dtype)))
        if comm.size > 1:
            self._counts = comm.allgather(len(unique))
            self._all_ids = np.concatenate(comm.allgather(unique))
            self._all = np.zeros(len(self._all_ids), dtype)
            self._target = [self._all, self._counts]

    def assemble(self, residual: Field) -> Field:
        """Return the sums over all elements of all ranks, overwritten by the next call."""
        if self.comm.size == 1:
            scatter_add(self._ids, residual, self.vector)
            return self.vector
        scatter_add(self._point, residual, self._local)
        self.comm.Allgatherv(self._local, self._target)
        scatter_add(self._all_ids, self._all, self.vector)
        return self.vector

    def take(self, vector: Field, correction: Field) -> None:
        """Copy the values at this rank's points."""
        gather(self._ids, vector, correction)
