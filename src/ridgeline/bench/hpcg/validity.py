"""The tests that make a result of HPCG valid, run on the optimised implementation.

Two tests are those of the rules. CG solves a problem with so dominant a diagonal that its spectrum determines the
number of iterations. The sparse product and the preconditioner must be symmetric. (The third test of the rules, equal
norms of all sets, is rating.norms.) Both detect errors that break symmetry or convergence, but a wrong entry, index
or level that preserves both passes them. There is therefore one more test: product and V-cycle must equal the
reference's to rounding, the exact solution must solve the system, and an exchange of the halo must bring the columns
that the matrix names.

Source: rules of HPCG 3.1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.hpcg.implementation import SLACK
from ridgeline.bench.hpcg.problem import HpcgLevel, SparseMatrix, diagonal_of, levels_of, planes
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.sparse.halo import HaloVector

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.bench.hpcg.implementation import Implementation

Array = NDArray[np.float64]
Operation = Callable[[HaloVector, HaloVector], None]  # y = A x or z = M^-1 r

_NORM = 52.0  # norm of the matrix, as the rules estimate it
_SCALE = 1.0e6  # factor of the dominant diagonal
_SPECIAL = 9  # rows with another factor: as many eigenvalues outside the cluster
_TOLERANCE = 1.0e-12
_MOST_ITERATIONS = 50
_CALLS = 2
EXPECTED_PLAIN, EXPECTED_PRECONDITIONED = 12, 2  # iterations that the rules allow on the spectral problem
# Relative to the largest value. Rounding in another order of summation causes a hundredth of it.
AGREEMENT = 1e-12


def reaches(residual: float, goal: float) -> bool:
    """Return whether a scaled residual is as small as the goal, up to the slack of the rules. A NaN is not."""
    return residual <= goal * (1.0 + SLACK)


@dataclass(frozen=True)
class SpectralTest:
    """The most iterations of CG on the problem with the dominant diagonal, without and with the preconditioner."""

    plain: int
    preconditioned: int

    @property
    def passed(self) -> bool:
        """Whether both are within the rules."""
        return self.plain <= EXPECTED_PLAIN and self.preconditioned <= EXPECTED_PRECONDITIONED


@dataclass(frozen=True)
class SymmetryTest:
    """|x'Ay - y'Ax| / (2 |x| |A| |y| eps), as the rules scale it, of the product and of the preconditioner."""

    spmv: float
    multigrid: float

    @property
    def passed(self) -> bool:
        """Whether both are at most 1, which a NaN is not."""
        return self.spmv <= 1.0 and self.multigrid <= 1.0


@dataclass(frozen=True)
class AgreementTest:
    """The test that goes beyond the rules: largest differences from the reference, relative to the largest value.

    Attributes
    ----------
    spmv, multigrid : the optimised product and V-cycle against the reference's on the same vector
    solution : the difference of A x and b for the exact solution x
    misplaced : entries of all levels' matrices whose column, after an exchange of the halo, is not the one that the
        matrix names
    """

    spmv: float
    multigrid: float
    solution: float
    misplaced: int

    @property
    def passed(self) -> bool:
        """Whether all differences are rounding."""
        differences = self.spmv, self.multigrid, self.solution
        return all(value <= AGREEMENT for value in differences) and self.misplaced == 0  # False for a NaN


def random_values(rows: NDArray[np.int64], seed: int) -> Array:
    """Return numbers in [1, 2), float64 [n], made from the global rows: the same on any number of ranks."""
    bits = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return 1.0 + ((bits ^ (bits >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def spectral_test(implementation: Implementation, matrix: SparseMatrix, b: Array) -> SpectralTest:
    """Run CG on the matrix with a dominant diagonal, twice without and twice with the preconditioner. Collective.

    b: right-hand side [n] in natural order. The diagonal of the implementation is restored afterwards. A run that
    does not reach the tolerance counts as the most iterations.
    """
    rows = matrix.rows_global
    scale = np.where(rows < _SPECIAL, (rows + 2) * _SCALE, _SCALE)
    diagonal = diagonal_of(matrix)
    right, x = implementation.vector(b * scale), implementation.vector()
    most = {}
    implementation.replace_diagonal(diagonal * scale)
    try:
        for preconditioned in (False, True):
            counts = []
            for _ in range(_CALLS):
                x.values.fill(0.0)
                result = implementation.cg(
                    right, x, _MOST_ITERATIONS, _TOLERANCE, preconditioned=preconditioned
                )
                reached = reaches(result.scaled_residual, _TOLERANCE)
                counts.append(result.iterations if reached else _MOST_ITERATIONS)
            most[preconditioned] = max(counts)
    finally:
        implementation.replace_diagonal(diagonal)
    return SpectralTest(plain=most[False], preconditioned=most[True])


def symmetry_test(implementation: Implementation, matrix: SparseMatrix) -> SymmetryTest:
    """Compare x'Ay with y'Ax, and the same for the preconditioner. Collective."""
    x, y = (implementation.vector(random_values(matrix.rows_global, seed)) for seed in (1, 2))
    product = implementation.vector()
    scale = 2.0 * _NORM * implementation.dot(x, x) * implementation.dot(y, y) * sys.float_info.epsilon

    def departure(apply: Operation) -> float:
        apply(y, product)
        forth = implementation.dot(x, product)
        apply(x, product)
        return abs(forth - implementation.dot(y, product)) / scale

    return SymmetryTest(spmv=departure(implementation.spmv), multigrid=departure(implementation.precondition))


def agreement_test(
    comm: MPI.Comm,
    reference: Implementation,
    implementation: Implementation,
    level: HpcgLevel,
    b: Array,
    exact: Array,
) -> AgreementTest:
    """Compare the optimised implementation with the reference's, and both with the problem. Collective over comm.

    level: the finest; b, exact: right-hand side and exact solution [n] in natural order.
    """
    start = random_values(level.matrix.rows_global, 3)

    def result(solver: Implementation, apply: Operation) -> Array:
        x, y = solver.vector(start), solver.vector()
        apply(x, y)
        return solver.natural(y)

    x, y = implementation.vector(exact), implementation.vector()
    implementation.spmv(x, y)
    return AgreementTest(
        spmv=_largest_difference(
            comm, result(implementation, implementation.spmv), result(reference, reference.spmv)
        ),
        multigrid=_largest_difference(
            comm,
            result(implementation, implementation.precondition),
            result(reference, reference.precondition),
        ),
        solution=_largest_difference(comm, implementation.natural(y), b),
        misplaced=misplaced_columns(comm, level),
    )


def _largest_difference(comm: MPI.Comm, value: Array, expected: Array) -> float:
    largest = allreduce_max(comm, [np.abs(value - expected).max(), np.abs(expected).max()])
    return float(largest[0] / largest[1]) if largest[1] != 0 else float("inf")


def misplaced_columns(comm: MPI.Comm, level: HpcgLevel) -> int:
    """Return the number of entries, of all levels and ranks, whose local column holds another row. Collective.

    Every rank fills its rows with their global numbers, which float64 holds exactly, and exchanges the halo. The
    local column of an entry must then hold the global number that the matrix names.
    """
    wrong = 0
    for matrix in levels_of(level):
        numbers = HaloVector(comm, matrix.plan)
        numbers.owned[:] = matrix.rows_global
        numbers.exchange()
        for _, part, expected in planes(matrix.geometry, matrix.indptr):
            columns = matrix.columns[part]
            inside = (columns >= 0) & (columns < numbers.values.size)
            received = numbers.values[np.where(inside, columns, 0)]
            wrong += int(np.count_nonzero(~inside | (received != expected)))
    return int(comm.allreduce(wrong))
