"""HPCG with rows in dependency order, triangles by runs, and few passes: what the optimised phase measures."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg import passes
from ridgeline.bench.hpcg.cg import ConjugateGradients
from ridgeline.bench.hpcg.implementation import CGResult
from ridgeline.bench.hpcg.multigrid import MultigridLevel
from ridgeline.bench.hpcg.optimise import optimise
from ridgeline.bench.hpcg.problem import HpcgLevel
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.jit.numba_threads import check_threads, numba_threads
from ridgeline.runtime.regions import Regions
from ridgeline.sparse import levels, runs, select
from ridgeline.sparse.halo import HaloVector
from ridgeline.sparse.rows import add_scaled
from ridgeline.sparse.transfer import add_boundary

Array = NDArray[np.float64]


class OptimisedImplementation:
    """The optimised implementation: see `Implementation`. Building it is HPCG's optimisation phase.

    comm: all ranks of the problem. level: read while building, not kept. n_threads: of Numba, per rank, where a grid
    is large enough. Any number of several gives the same bits, one (other order of rows) agrees to rounding. `level`,
    an OptimisedLevel, holds the structures; vectors are in its order and exchange by its halo plan. Raises
    ConfigError if Numba has fewer threads.
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
        """Return a vector with these values, given in natural order, or zeros."""
        result = HaloVector(self.comm, self.level.plan)
        if natural is not None:
            np.take(natural, self.level.order, out=result.owned)
        return result

    def natural(self, v: HaloVector) -> Array:
        """Return a copy of the owned values in natural order."""
        return v.owned[self.level.new_number]

    def spmv(self, x: HaloVector, y: HaloVector) -> None:
        """y := A x. Collective: exchanges the halo of x while the product over own columns is made."""
        with self._threads():
            self._product(x, y.owned)

    def precondition(self, r: HaloVector, z: HaloVector) -> None:
        """z := M^-1 r; r comes back bit for bit. Collective: two halo exchanges a level."""
        self.multigrid.bind(r.owned, z)
        self.multigrid.clear()
        with self._threads():
            self.multigrid.cycle()

    def dot(self, x: HaloVector, y: HaloVector) -> float:
        """Return x.y. Collective: one Allreduce."""
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
        """Solve A x = b from the x given: see `Implementation`; regions as `ConjugateGradients.solve` says."""
        regions = regions or Regions()
        with self._threads(), regions("other"):
            return self._solver.solve(b.owned, x.owned, max_iterations, tolerance, preconditioned, regions)

    def replace_diagonal(self, natural: Array) -> None:
        """Put natural [n] on the diagonal of the finest matrix. No communication."""
        self.level.set_diagonal(natural)

    def memory(self) -> int:
        """Bytes of the new matrices and of this implementation's vectors on this rank."""
        return self.level.memory() + self.multigrid.memory() + self._solver.memory()

    def _threads(self) -> AbstractContextManager[None]:
        """Give each index of a parallel loop over threads a thread of its own; without more threads nothing."""
        return nullcontext() if self.n_threads == 1 else numba_threads(self.n_threads)

    def _product(self, x: HaloVector, y: Array) -> float:
        """Set y = A x and return x.y of this rank. Collective: exchanges the halo of x."""
        level, values = self.level, x.values
        x.start()
        total = self.multigrid.passes.multiply_dot(level.lower, level.upper, level.diagonal, values, y)
        x.finish()
        if not level.boundary.rows.size:
            return float(total)
        return float(total + add_boundary(level.boundary, values[self.n_rows :], values, y))


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels of the optimised implementation on this many threads."""
    of_the_phase = [*levels.kernels(), *runs.kernels(threads), *select.kernels()]
    return [*of_the_phase, *passes.kernels(threads), *specialise([add_scaled], np.float64)]
