"""Conjugate gradients of the optimised implementation: two passes over vectors an iteration.

HPCG has loops of its own, this one and that of `reference`, and does not call `krylov`: its rules prescribe the
iteration with its preconditioner, and its report wants dot products, vector updates, products and cycles timed apart.
The loop of the specification is also the reference that every result is compared with.

The product A p also sums p.A p, and the last sweep of the multigrid cycle r.z. r -= alpha A p and r.r are one pass. x
+= alpha p waits for p = z + beta p of the next iteration, so that p is read once for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg.cg_passes import blocks
from ridgeline.bench.hpcg.implementation import SLACK, CGResult
from ridgeline.bench.hpcg.multigrid import MultigridLevel
from ridgeline.runtime.regions import Regions
from ridgeline.sparse.halo import HaloVector
from ridgeline.sparse.rows import add_scaled

Array = NDArray[np.float64]
Product = Callable[[HaloVector, Array], float]


class ConjugateGradients:
    """The solver's vectors and scratch, made once. Collective over comm.

    multigrid: the preconditioner, on the finest level. product(x, y): sets y = A x and returns x.y of this rank.
    """

    def __init__(self, comm: MPI.Comm, multigrid: MultigridLevel, product: Product) -> None:
        self._comm, self._multigrid, self._product = comm, multigrid, product
        level = multigrid.level
        self._r, self._ap = np.zeros(level.n_rows), np.zeros(level.n_rows)
        self._z, self._p = HaloVector(comm, level.plan), HaloVector(comm, level.plan)
        self._sums = np.zeros(blocks(level.n_rows))
        self._mine, self._total = np.zeros(1), np.zeros(1)

    def sum(self, value: float) -> float:
        """Return the sum over ranks. Collective: one Allreduce."""
        self._mine[0] = value
        self._comm.Allreduce(self._mine, self._total)
        return float(self._total[0])

    def dot(self, x: Array, y: Array) -> float:
        """Return x.y over all ranks. Collective."""
        return self.sum(self._multigrid.passes.dot(x, y, self._sums))

    def memory(self) -> int:
        """Bytes of the vectors."""
        vectors = self._r, self._ap, self._z.values, self._p.values, self._sums
        return sum(vector.nbytes for vector in vectors)

    def solve(
        self,
        b: Array,
        x: Array,
        max_iterations: int,
        tolerance: float,
        preconditioned: bool,
        regions: Regions,
    ) -> CGResult:
        """Improve x, float64 [n], to solve A x = b: see `Implementation.cg`. Collective over comm.

        p.A p is charged to spmv, and r.z of the cycle to multigrid. The pass r -= alpha A p with r.r and the pass
        over x and p are charged to waxpby.
        """
        r, ap, z, p, sums = self._r, self._ap, self._z, self._p, self._sums
        passes, multigrid, product = self._multigrid.passes, self._multigrid, self._product
        with regions("waxpby"):
            multigrid.bind(r, z)
            multigrid.clear()
            correction = z.owned if preconditioned else r
            p.owned[:] = x
        with regions("spmv"):
            product(p, ap)
        with regions("waxpby"):
            rr = passes.residual(1.0, b, ap, r, sums)
        first = residual = math.sqrt(self._timed_sum(rr, regions))
        history: list[float] = []
        rz = alpha = beta = 0.0
        while len(history) < max_iterations and residual > tolerance * (1.0 + SLACK) * first:
            if preconditioned:
                with regions("multigrid"):
                    rr = multigrid.cycle_dot()
                before, rz = rz, self._timed_sum(rr, regions)
            else:
                before, rz = rz, residual * residual
            with regions("waxpby"):
                if history:
                    beta = rz / before if before else 0.0  # sums that have underflowed: x stays as it is
                passes.direction(alpha, beta, correction, p.values, x)
            with regions("spmv"):
                pap = product(p, ap)
            pap = self._timed_sum(pap, regions)
            alpha = rz / pap if pap else 0.0
            with regions("waxpby"):
                rr = passes.residual(alpha, r, ap, r, sums)
            residual = math.sqrt(self._timed_sum(rr, regions))
            history.append(residual / first)
        with regions("waxpby"):
            add_scaled(x, alpha, p.values, x)
        return CGResult(len(history), residual, first, history)

    def _timed_sum(self, value: float, regions: Regions) -> float:
        with regions("allreduce"):
            return self.sum(value)
