"""The optimised implementation of HPCG: what the timed sets run.

Rows are ordered by wavefront and triangles are stored as strips of rows (`optimised_matrix`), the multigrid cycle
reads each matrix twice (`multigrid`), and an iteration of conjugate gradients makes two passes over vectors
(`cg_passes`).

HPCG has two loops of its own, `ConjugateGradients` below and the one in `reference`, and does not call `krylov`: its
rules prescribe the iteration with its preconditioner, and its report times dot products, vector updates, products and
cycles separately. The loop of the specification is also the reference that every result is compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg import multigrid
from ridgeline.bench.hpcg.cg_passes import blocks
from ridgeline.bench.hpcg.implementation import SLACK, CGResult
from ridgeline.bench.hpcg.multigrid import MultigridLevel
from ridgeline.bench.hpcg.optimised_matrix import optimise
from ridgeline.bench.hpcg.problem import HpcgLevel
from ridgeline.jit.kernel import Specialisation, check_threads, numba_threads, specialise
from ridgeline.runtime.regions import Regions
from ridgeline.sparse import external_columns, grid_transfer, row_strips, wavefronts
from ridgeline.sparse.external_columns import add_external
from ridgeline.sparse.halo import HaloVector
from ridgeline.sparse.rows import add_scaled

Array = NDArray[np.float64]
Product = Callable[[HaloVector, Array], float]


class ConjugateGradients:
    """Preconditioned conjugate gradients with two passes over vectors an iteration.

    The product A p also sums p.A p, and the last sweep of the multigrid cycle sums r.z. The update r -= alpha A p and
    the sum r.r are one pass. The update x += alpha p waits for p = z + beta p of the next iteration, so that p is
    read once for both. Vectors and scratch are allocated here, once. Construction is collective over comm.

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
        """Return the sum of a number over all ranks. Collective: one allreduce of 8 bytes."""
        self._mine[0] = value
        self._comm.Allreduce(self._mine, self._total)
        return float(self._total[0])

    def dot(self, x: Array, y: Array) -> float:
        """Return x.y over all ranks. Collective: one allreduce of 8 bytes."""
        return self.sum(self._multigrid.passes.dot(x, y, self._sums))

    def memory(self) -> int:
        """Return the bytes of the vectors."""
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

        The sum p.A p is charged to spmv and the sum r.z to multigrid. The pass r -= alpha A p with r.r and the pass
        over x and p are charged to waxpby.
        """
        r, ap, p, sums = self._r, self._ap, self._p, self._sums
        z = self._z.owned if preconditioned else r
        passes, multigrid, product = self._multigrid.passes, self._multigrid, self._product
        with regions("waxpby"):
            multigrid.bind(r, self._z)
            multigrid.clear()
            p.owned[:] = x
        with regions("spmv"):
            product(p, ap)
        with regions("waxpby"):
            rr = passes.residual_dot(1.0, b, ap, r, sums)
        first = residual = math.sqrt(self._timed_sum(rr, regions))
        history: list[float] = []
        rz = alpha = 0.0
        while len(history) < max_iterations and residual > tolerance * (1.0 + SLACK) * first:
            previous_rz = rz
            if preconditioned:
                with regions("multigrid"):
                    rz = multigrid.cycle_dot()
                rz = self._timed_sum(rz, regions)
            else:
                rz = residual * residual
            # In the first iteration alpha and beta are zero: x stays as it is, and p = z.
            beta = rz / previous_rz if previous_rz else 0.0
            with regions("waxpby"):
                passes.update_x_and_p(alpha, beta, z, p.values, x)
            with regions("spmv"):
                pap = product(p, ap)
            pap = self._timed_sum(pap, regions)
            # Where the sums have underflowed, alpha = 0 leaves x as it is.
            alpha = rz / pap if pap else 0.0
            with regions("waxpby"):
                rr = passes.residual_dot(alpha, r, ap, r, sums)
            residual = math.sqrt(self._timed_sum(rr, regions))
            history.append(residual / first)
        with regions("waxpby"):
            add_scaled(x, alpha, p.values, x)
        return CGResult(len(history), residual, first, history)

    def _timed_sum(self, value: float, regions: Regions) -> float:
        with regions("allreduce"):
            return self.sum(value)


class OptimisedImplementation:
    """The optimised implementation of HPCG, an `Implementation`. Building it is HPCG's optimisation phase.

    Parameters
    ----------
    comm : all ranks of the problem
    level : the finest level, read while building and not kept
    n_threads : Numba threads of each rank, used on grids that are large enough. Two or more threads give the same
        bits whatever their number; one thread sweeps the rows in another order and agrees to rounding.

    The attribute `level` is the `OptimisedLevel` with the reordered matrices. Vectors are in its order, and its halo
    plan exchanges them.

    Raises
    ------
    ConfigError : if Numba has fewer threads
    """

    def __init__(self, comm: MPI.Comm, level: HpcgLevel, n_threads: int = 1) -> None:
        check_threads(n_threads, f"{n_threads} threads per rank")
        self.comm, self.n_threads = comm, n_threads
        self.level = optimise(level, n_threads)
        self.n_rows = self.level.n_rows
        with self._threads():
            self.multigrid = MultigridLevel(comm, self.level)
        self._solver = ConjugateGradients(comm, self.multigrid, self._product)

    def vector(self, natural: Array | None = None) -> HaloVector:
        result = HaloVector(self.comm, self.level.plan)
        if natural is not None:
            np.take(natural, self.level.order, out=result.owned)
        return result

    def natural(self, v: HaloVector) -> Array:
        return v.owned[self.level.new_number]

    def spmv(self, x: HaloVector, y: HaloVector) -> None:
        """Set y = A x. Collective: exchanges the halo of x while the product with own columns is computed."""
        with self._threads():
            self._product(x, y.owned)

    def precondition(self, r: HaloVector, z: HaloVector) -> None:
        """Set z = M^-1 r. Collective: two halo exchanges a level."""
        self.multigrid.bind(r.owned, z)
        self.multigrid.clear()
        with self._threads():
            self.multigrid.cycle()

    def dot(self, x: HaloVector, y: HaloVector) -> float:
        with self._threads():
            return self._solver.dot(x.owned, y.owned)

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
        with self._threads(), regions("other"):
            return self._solver.solve(b.owned, x.owned, max_iterations, tolerance, preconditioned, regions)

    def replace_diagonal(self, natural: Array) -> None:
        self.level.set_diagonal(natural)

    def memory(self) -> int:
        return self.level.memory() + self.multigrid.memory() + self._solver.memory()

    def _threads(self) -> AbstractContextManager[None]:
        """Set Numba's threads, so that each index of a parallel loop over threads gets its own thread."""
        return nullcontext() if self.n_threads == 1 else numba_threads(self.n_threads)

    def _product(self, x: HaloVector, y: Array) -> float:
        """Set y = A x and return x.y of this rank. Collective: exchanges the halo of x."""
        level, values = self.level, x.values
        x.start()
        total = self.multigrid.passes.multiply_dot(level.lower, level.upper, level.diagonal, values, y)
        x.finish()
        if not level.external.rows.size:
            return float(total)
        return float(total + add_external(level.external, values[self.n_rows :], values, y))


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels of the optimised implementation on this many threads, those of its building included."""
    optimisation = [
        *wavefronts.kernels(),
        *row_strips.kernels(threads),
        *grid_transfer.selection_kernels(),
        *external_columns.kernels(),
    ]
    return [*optimisation, *multigrid.kernels(threads), *specialise([add_scaled], np.float64)]
