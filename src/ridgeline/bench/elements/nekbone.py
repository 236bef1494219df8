"""Nekbone: 100 iterations of conjugate gradients on a brick of spectral elements, the core of Nek5000.

The problem is that of the public Fortran benchmark: (A + 0.1) u = f on a brick of reference elements, u = 0 on the
boundary. A is the stiffness matrix, whose six geometric factors per point are loaded from memory. There is no
preconditioner, and the number of iterations is fixed. Operations are counted as that benchmark counts them:
12 n + 34 per point and iteration, with n = nx1 per direction. The operator with the shift has 12 n + 19 of them,
vectors and dot products have 15. Copies of shared points are counted like all other points. The right side is white
noise made from the points' numbers, so that it does not depend on the ranks.

One pass over memory per iteration (bench/elements/nekbone_kernels.py), element by element, row by row:

    x += alpha p, r -= alpha w (both of the last iteration), p = r + beta p, w = A p, and four sums:
    r.c.r, p.w, r.w, w.c.w; copies of points in w are summed every few elements, while they are in cache

It reads x, r, p, w and 6 factors, and writes x, r, p, w: 14 words = 112 bytes per point and iteration. Not counted:
the lists of the gather-scatter (1 to 2 bytes). c, the inverse multiplicity, is 0 on the boundary and differs between
few elements: one copy of each kind stays in cache. p.w and r.w need no weights, because they are taken before copies
are summed. w.c.w takes each point once: where it has no copies, or where its copies are summed. One Allreduce of the
four sums gives alpha = r.c.r / p.w and what the next direction needs before the next r exists,

    beta = (r.c.r - 2 alpha r.w + alpha^2 w.c.w) / r.c.r.

Only beta comes from this formula: the residual and alpha take r.c.r from r itself, so that its rounding does not
add up. Messages travel while elements inside the rank's part are computed.

Source: Fischer, Heisey, "NEKBONE: Thermal Hydraulics mini-application", 2013, and its public source (counts);
Kronbichler, Sashko, Munch, "Enhancing data locality of the conjugate gradient method for high-order matrix-free
finite-element implementations", IJHPCA 2022, Sec. 3 (one pass).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.elements.nekbone_kernels import SUMS, blocks_of, make_passes, shared_squares
from ridgeline.bench.elements.nekbone_problem import SHIFT, Array, NekboneProblem
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.aligned import aligned_zeros
from ridgeline.runtime.progress import Phases, silent

if TYPE_CHECKING:
    from ridgeline.bench.payload import Memory

BLOCK_POINTS = 2048  # computed between sums of copies: w then is still in the first or second cache
HUGE_PAGE = 2**21  # bytes


def flops_per_point(n: int) -> int:
    """Return Nekbone's count of operations per point (of every element) and iteration."""
    return 12 * n + 34


@dataclass(frozen=True)
class NekboneFigures:
    """One run. seconds: of the slowest rank, for all iterations; flops and bytes: counted, of all ranks.

    residuals: sqrt(r.c.r) before the first iteration and after each. points: of all elements; unique: copies counted
    once. device: "cpu", or the GPU of rank 0.
    """

    nx1: int
    ranks: int
    elements: int
    brick: tuple[int, int, int]
    points: int
    unique: int
    iterations: int
    seconds: float
    flops: float
    bytes: float
    residuals: list[float]
    device: str = "cpu"

    @property
    def rate(self) -> float:
        """Operations/s of all ranks, Nekbone's "Tot MFlops"."""
        return self.flops / self.seconds

    @property
    def unknowns_rate(self) -> float:
        """Points, copies counted once, times iterations over seconds: the figure of CEED's bake-off problem BP5."""
        return self.unique * self.iterations / self.seconds

    @property
    def bandwidth(self) -> float:
        """Counted bytes over seconds, in B/s of all ranks."""
        return self.bytes / self.seconds


class Nekbone(NekboneProblem):
    """The problem on the cores of this rank: arrays [E, n, n, n] float64, compiled passes. Built collectively."""

    host_words = 12  # 6 factors, x, r, p, w, numbers, the start's temporaries

    def __init__(self, comm: MPI.Comm, n: int, elements: int) -> None:
        super().__init__(comm, n, elements)
        self._derivative = np.ascontiguousarray(gll_derivative(n))
        self._factors = self._unit_factors()
        # Together, so that they fill the huge pages that NumPy asks for from 4 MiB on.
        self.x, self.r, self.p, self.w = aligned_zeros((4, *self.ids.shape), np.float64, HUGE_PAGE)
        self._constants = np.zeros(3)  # beta, shift, alpha of the iteration before
        self._sums, self._total = np.zeros(SUMS), np.zeros(SUMS)
        self._passes = in_turn_per_node(comm, self._compiled)

    def solution(self) -> Array:
        """Return x [E, n, n, n] of the last `solve`."""
        return np.asarray(self.x)

    def _unit_factors(self) -> Array:
        """Return G_rr ... G_tt of reference elements [E, blocks, 6, lanes]: weights, and zeros off the diagonal."""
        blocks, lanes = blocks_of(self.n**3)
        cube = np.zeros(blocks * lanes)
        cube[: self.n**3] = self.cube_weights()
        factors = aligned_zeros((len(self.ids), blocks, 6, lanes), np.float64, HUGE_PAGE)
        factors[:, :, [0, 3, 5]] = cube.reshape(blocks, 1, lanes)
        return factors

    def _compiled(self) -> tuple[Any, Any]:
        compile_kernels(specialise([shared_squares]))
        passes: tuple[Any, Any] = make_passes(self.n, max(1, BLOCK_POINTS // self.n**3))
        return passes

    def _arguments(self, first: int, end: int) -> tuple[Any, ...]:
        geometry = self._patterns, self._weights, self._constants, self._factors, self._derivative
        fields = self.x, self.r, self.p, self.w
        return self._order, first, end, *geometry, *self.gather_scatter.local_lists, *fields, self._sums

    def solve(self, iterations: int) -> tuple[float, list[float]]:
        """Run conjugate gradients from x = 0; return seconds on this rank, and the residuals. Collective.

        Communication per iteration: one gather-scatter, one Allreduce of four numbers. self.x is the solution.
        """
        constants, total, update = self._constants, self._total, self._passes[1]
        self.x.fill(0.0)
        self.p.fill(0.0)
        self.w.fill(0.0)
        self.r[...] = self.right_side()
        constants[:] = 0.0, SHIFT, 0.0
        residuals = []
        self.comm.Barrier()
        start = time.perf_counter()
        for _ in range(iterations):
            self._iterate()
            self.comm.Allreduce(self._sums, total)
            rcr, pw, rw, wcw = map(float, total)
            alpha = rcr / pw if pw > 0 else 0.0  # 0 once r is 0, on few points
            following = max(rcr - 2.0 * alpha * rw + alpha * alpha * wcw, 0.0)
            constants[:] = following / rcr if rcr > 0 else 0.0, SHIFT, alpha
            residuals.append(math.sqrt(rcr))
        self._sums[0] = update(self._patterns, self._weights, constants, self.x, self.r, self.p, self.w)
        self.comm.Allreduce(self._sums, total)
        residuals.append(math.sqrt(total[0]))
        return time.perf_counter() - start, residuals

    def _iterate(self) -> None:
        """Make the pass of one iteration and exchange w; leave this rank's sums in self._sums."""
        iterate = self._passes[0]
        inner, shared = self._first_interior, self.gather_scatter.plan.shared
        self._sums.fill(0.0)
        iterate(*self._arguments(0, inner))
        self.gather_scatter.start(self.w)
        iterate(*self._arguments(inner, self._order.size))
        self.gather_scatter.finish(self.w, local=False)
        self._sums[3] += shared_squares(shared.starts, shared.places, shared.source_starts, self.w)


def run_nekbone(
    comm: MPI.Comm,
    n: int,
    elements: int,
    iterations: int = 100,
    memory: Memory = "host",
    progress: Phases | None = None,
) -> NekboneFigures:
    """Run the benchmark as Nekbone does: once to warm up, once timed. Collective, the same on all ranks.

    memory: "host" for the cores of each rank; else on the GPU of each rank, and how messages leave it.
    """
    progress = progress or silent()
    progress.begin(f"nx1 = {n}: set-up and compiling")
    problem = _make_problem(comm, n, elements, memory)
    progress.begin(f"nx1 = {n}: {iterations} iterations to warm up")
    problem.solve(iterations)
    progress.begin(f"nx1 = {n}: {iterations} iterations, timed")
    seconds, residuals = problem.solve(iterations)
    count = problem.grid.n_elements_global
    points = count * n**3
    problem.free()
    return NekboneFigures(
        nx1=n,
        ranks=comm.size,
        elements=count,
        brick=problem.brick,
        points=points,
        unique=problem.unique_points,
        iterations=iterations,
        seconds=float(comm.allreduce(seconds, MPI.MAX)),
        flops=float(flops_per_point(n)) * points * iterations,
        bytes=float(comm.allreduce(problem.bytes_per_iteration())) * iterations,
        residuals=residuals,
        device=comm.bcast(problem.device_name),
    )


def _make_problem(comm: MPI.Comm, n: int, elements: int, memory: Memory) -> NekboneProblem:
    if memory == "host":
        return Nekbone(comm, n, elements)
    from ridgeline.bench.elements.nekbone_cuda import CudaNekbone  # numba-cuda is only needed here

    return CudaNekbone(comm, n, elements, device_buffers=memory == "cuda")
