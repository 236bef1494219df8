"""The tests that make a result of HPCG valid, on the optimised version.

Two tests are those of the rules. CG solves a problem with so dominant a diagonal that its spectrum fixes the number
of iterations. The sparse product and the preconditioner must be symmetric. (The third test of the rules, equal norms
of all sets, is rating.norms.) Both see errors that break symmetry or convergence; a wrong entry, index or level that
keeps both passes them. So there is one more test. Product and V-cycle must equal the reference's to rounding, and the
exact solution must solve the system. An exchange of the halo must bring the columns that the matrix names.

Source: rules of HPCG 3.1.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.hpcg.problem import HpcgLevel, SparseMatrix, diagonal_of, levels_of, planes
from ridgeline.bench.hpcg.record import AgreementTest, SpectralTest, SymmetryTest, reaches
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.sparse.halo import HaloVector

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.bench.hpcg.implementation import Implementation

Array = NDArray[np.float64]

_NORM = 52.0  # of the matrix, as the rules estimate it
_SCALE = 1.0e6  # of the dominant diagonal
_SPECIAL = 9  # rows with a scale of their own: as many eigenvalues apart from the cluster
_TOLERANCE = 1.0e-12
_MOST_ITERATIONS = 50
_CALLS = 2


def random_values(rows: NDArray[np.int64], seed: int) -> Array:
    """Return numbers in [1, 2), float64 [n], made from the global rows: the same on any ranks."""
    bits = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return 1.0 + ((bits ^ (bits >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def spectral_test(implementation: Implementation, matrix: SparseMatrix, b: Array) -> SpectralTest:
    """Run CG on the matrix with a dominant diagonal, twice each way. b: right side [n], natural order. Collective.

    The diagonal of `path` is restored. A run that does not reach the tolerance counts as the most iterations.
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

    def departure(apply: str) -> float:
        getattr(implementation, apply)(y, product)
        forth = implementation.dot(x, product)
        getattr(implementation, apply)(x, product)
        return abs(forth - implementation.dot(y, product)) / scale

    return SymmetryTest(spmv=departure("spmv"), multigrid=departure("precondition"))


def agreement_test(
    comm: MPI.Comm,
    reference: Implementation,
    implementation: Implementation,
    level: HpcgLevel,
    b: Array,
    exact: Array,
) -> AgreementTest:
    """Compare the optimised implementation with the reference's, and both with the problem. Collective over comm.

    level: the finest; b, exact: right side and exact solution [n], natural order.
    """
    start = random_values(level.matrix.rows_global, 3)

    def difference(apply: str) -> float:
        results = []
        for each in (reference, implementation):
            x, y = each.vector(start), each.vector()
            getattr(each, apply)(x, y)
            results.append(each.natural(y))
        return _largest_difference(comm, results[1], results[0])

    x, y = implementation.vector(exact), implementation.vector()
    implementation.spmv(x, y)
    return AgreementTest(
        spmv=difference("spmv"),
        multigrid=difference("precondition"),
        solution=_largest_difference(comm, implementation.natural(y), b),
        misplaced=misplaced_columns(comm, level),
    )


def _largest_difference(comm: MPI.Comm, value: Array, expected: Array) -> float:
    largest = allreduce_max(comm, [np.abs(value - expected).max(), np.abs(expected).max()])
    return float(largest[0] / largest[1]) if largest[1] != 0 else float("inf")


def misplaced_columns(comm: MPI.Comm, level: HpcgLevel) -> int:
    """Return how many entries of all levels and ranks find another row's number in their column. Collective.

    Every rank fills its rows with their global numbers (exact in float64) and exchanges the halo.
    """
    wrong = 0
    for matrix in levels_of(level):
        numbers = HaloVector(comm, matrix.plan)
        numbers.owned[:] = matrix.rows_global
        numbers.exchange()
        for _, part, expected in planes(matrix.geometry, matrix.indptr):
            columns = matrix.columns[part]
            inside = (columns >= 0) & (columns < numbers.values.size)
            found = numbers.values[np.where(inside, columns, 0)]
            wrong += int(np.count_nonzero(~inside | (found != expected)))
    return int(comm.allreduce(wrong))
