"""HPCG as its specification writes it: plain compressed rows, natural order, no fusion.

It is the oracle of the optimised implementation, and the benchmark's reference phase runs it. Sums run in the order
of the official code: row entries as generated, vectors from first to last on each rank, then over ranks. Halos are
exchanged before each product with the matrix and before each symmetric Gauss-Seidel sweep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg.implementation import SLACK, CGResult
from ridgeline.bench.hpcg.problem import HpcgLevel, SparseMatrix, replace_diagonal
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.runtime.regions import Regions
from ridgeline.sparse import rows
from ridgeline.sparse.halo import HaloVector

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Coarse:
    """The arrays between a level and the next coarser one: A x of the fine level, residual, correction."""

    product: Array
    index: NDArray[np.int32]
    residual: Array
    correction: HaloVector


class ReferenceImplementation:
    """The plain implementation, an `Implementation` on the arrays of `level`, which it shares."""

    def __init__(self, comm: MPI.Comm, level: HpcgLevel) -> None:
        self.comm, self.level = comm, level
        self.n_rows = level.matrix.n_rows
        self._matrices: list[SparseMatrix] = []
        self._coarse: list[_Coarse] = []
        next_level: HpcgLevel | None = level
        while next_level is not None:
            matrix = next_level.matrix
            self._matrices.append(matrix)
            coarse = next_level.coarse
            if coarse is not None:
                assert next_level.fine_of_coarse is not None  # generated with the coarse level
                n = coarse.matrix.n_rows
                correction = HaloVector(comm, coarse.matrix.plan)
                self._coarse.append(
                    _Coarse(np.empty(matrix.n_rows), next_level.fine_of_coarse, np.empty(n), correction)
                )
            next_level = coarse
        self._r, self._ap = np.empty(self.n_rows), np.empty(self.n_rows)
        self._z, self._p = self.vector(), self.vector()
        self._mine, self._total = np.zeros(1), np.zeros(1)

    def vector(self, natural: Array | None = None) -> HaloVector:
        result = HaloVector(self.comm, self.level.matrix.plan)
        if natural is not None:
            result.owned[:] = natural
        return result

    def natural(self, v: HaloVector) -> Array:
        return v.owned.copy()

    def spmv(self, x: HaloVector, y: HaloVector) -> None:
        self._multiply(self._matrices[0], x, y.owned)

    def precondition(self, r: HaloVector, z: HaloVector) -> None:
        self._cycle(0, r.owned, z)

    def dot(self, x: HaloVector, y: HaloVector) -> float:
        return self._dot(x.owned, y.owned, Regions())

    def replace_diagonal(self, natural: Array) -> None:
        """Set the diagonal of the finest matrix, which `level` shares."""
        replace_diagonal(self.level.matrix, natural)

    def memory(self) -> int:
        total = sum(matrix.nbytes for matrix in self._matrices)
        total += sum(vector.nbytes for vector in (self._r, self._ap, self._z.values, self._p.values))
        for coarse in self._coarse:
            total += coarse.product.nbytes + coarse.index.nbytes
            total += coarse.residual.nbytes + coarse.correction.values.nbytes
        return total

    def _multiply(self, matrix: SparseMatrix, x: HaloVector, y: Array) -> None:
        x.exchange()
        rows.multiply(*matrix.csr, x.values, y)

    def _smooth(self, matrix: SparseMatrix, r: Array, x: HaloVector) -> None:
        x.exchange()
        rows.symmetric_gauss_seidel(*matrix.csr, matrix.diagonal, r, x.values)

    def _cycle(self, depth: int, r: Array, x: HaloVector) -> None:
        matrix = self._matrices[depth]
        x.values.fill(0.0)
        self._smooth(matrix, r, x)
        if depth < len(self._coarse):
            coarse = self._coarse[depth]
            self._multiply(matrix, x, coarse.product)
            rows.restrict_residual(coarse.index, r, coarse.product, coarse.residual)
            self._cycle(depth + 1, coarse.residual, coarse.correction)
            rows.prolong_add(coarse.index, coarse.correction.owned, x.owned)
            self._smooth(matrix, r, x)

    def _dot(self, x: Array, y: Array, regions: Regions) -> float:
        with regions("dot"):
            self._mine[0] = rows.dot(x, y)
        with regions("allreduce"):
            self.comm.Allreduce(self._mine, self._total)
        return float(self._total[0])

    def cg(
        self,
        b: HaloVector,
        x: HaloVector,
        max_iterations: int,
        tolerance: float,
        preconditioned: bool = True,
        regions: Regions | None = None,
    ) -> CGResult:
        regions = regions or Regions()
        with regions("other"):
            matrix, r, z, p, ap = self._matrices[0], self._r, self._z, self._p, self._ap
            with regions("waxpby"):
                p.owned[:] = x.owned
            with regions("spmv"):
                self._multiply(matrix, p, ap)
            with regions("waxpby"):
                rows.add_scaled(b.owned, -1.0, ap, r)
            first = residual = math.sqrt(self._dot(r, r, regions))
            history: list[float] = []
            rz = 0.0
            while len(history) < max_iterations and residual > tolerance * (1.0 + SLACK) * first:
                if preconditioned:
                    with regions("multigrid"):
                        self._cycle(0, r, z)
                else:
                    with regions("waxpby"):
                        z.owned[:] = r
                before, rz = rz, self._dot(r, z.owned, regions)
                with regions("waxpby"):
                    if history:
                        rows.add_scaled(z.owned, rz / before, p.owned, p.owned)
                    else:
                        p.owned[:] = z.owned
                with regions("spmv"):
                    self._multiply(matrix, p, ap)
                curvature = self._dot(p.owned, ap, regions)
                if rz == 0.0 or curvature == 0.0:
                    break
                alpha = rz / curvature
                with regions("waxpby"):
                    rows.add_scaled(x.owned, alpha, p.owned, x.owned)
                    rows.add_scaled(r, -alpha, ap, r)
                residual = math.sqrt(self._dot(r, r, regions))
                history.append(residual / first)
            return CGResult(len(history), residual, first, history)


def kernels() -> list[Specialisation]:
    """Return the kernels of the reference implementation."""
    called = (
        rows.multiply,
        rows.symmetric_gauss_seidel,
        rows.restrict_residual,
        rows.prolong_add,
        rows.dot,
        rows.add_scaled,
    )
    return specialise(called, np.float64)
