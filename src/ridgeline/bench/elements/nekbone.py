"""Nekbone: 100 iterations of conjugate gradients on a brick of spectral elements, the core of Nek5000.

The problem is that of the public Fortran benchmark: (A + 0.1) u = f on a brick of reference elements, u = 0 on the
boundary. A is the stiffness matrix, whose six geometric factors per point are loaded from memory. There is no
preconditioner, and the number of iterations is fixed. Operations are counted as that benchmark counts them:
12 n + 34 per point and iteration, with n = nx1 per direction. The operator with the shift has 12 n + 19 of them,
vectors and dot products have 15. Copies of shared points are counted like all other points. The right side is white
noise made from the points' numbers, so that it does not depend on the ranks.

Two passes over memory per iteration (bench/elements/nekbone_kernels.py), element by element in curve order:

    1  x += alpha p (of the last iteration), p = r + beta p, w = A p, p.w: reads x, r, p, 6 factors, writes x, p, w;
       copies of points in w are summed every few elements, while they are in cache
    2  r -= alpha w, r.c.r: reads r, w, writes r

together 15 words = 120 bytes per point and iteration. Not counted: w's lines, which the cache reads before they are
written (8 bytes), and the lists of the gather-scatter (1 to 2 bytes). c, the inverse multiplicity, is 0 on the
boundary and differs between few elements: one copy of each kind stays in cache. The dot product p.w needs no weights,
because it is taken before copies are summed. Messages travel while elements inside the rank's part are computed.

Source: Fischer, Heisey, "NEKBONE: Thermal Hydraulics mini-application", 2013, and its public source (counts).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.elements.nekbone_kernels import make_passes
from ridgeline.bench.node_memory import require_memory
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.mesh import SIDES, ElementGrid, ElementMesh, side_axis
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.progress import Phases, silent

Array = NDArray[np.float64]

SHIFT = 0.1  # of the operator, as in Nekbone
BLOCK_POINTS = 2048  # computed between sums of copies: w then is still in the first or second cache
WORDS = 15  # to and from memory per point and iteration
_ARRAYS = 12  # words held per point: 6 factors, x, r, p, w, numbers, the start's temporaries


def flops_per_point(n: int) -> int:
    """Return Nekbone's count of operations per point (of every element) and iteration."""
    return 12 * n + 34


def brick(count: int) -> tuple[int, int, int]:
    """Return the three factors (z, y, x) of count, ascending, that lie closest together."""
    best = (1, 1, count)
    for a in range(1, round(count ** (1 / 3)) + 1):
        if count % a == 0:
            rest = count // a
            b = next(b for b in range(math.isqrt(rest), 0, -1) if rest % b == 0)
            low, middle, high = sorted((a, b, rest // b))
            best = min(best, (low, middle, high), key=sum)
    return best


@dataclass(frozen=True)
class NekboneFigures:
    """One run. seconds: of the slowest rank, for all iterations; flops and bytes: counted, of all ranks.

    residuals: sqrt(r.c.r) before the first iteration and after each. unique: points, copies counted once.
    """

    nx1: int
    ranks: int
    elements: int
    brick: tuple[int, int, int]
    points: int
    iterations: int
    seconds: float
    flops: float
    bytes: float
    residuals: list[float]

    @property
    def rate(self) -> float:
        """Operations/s of all ranks, Nekbone's "Tot MFlops"."""
        return self.flops / self.seconds

    @property
    def bandwidth(self) -> float:
        """Counted bytes over seconds, in B/s of all ranks."""
        return self.bytes / self.seconds


class Nekbone:
    """The problem on this rank: arrays [E, n, n, n] float64, lists, compiled passes. Built collectively.

    n: GLL points per direction, nx1. elements: per rank, on the average; all ranks together make the brick.
    Raises ConfigError for too little memory, DecompositionError for too few elements.
    """

    def __init__(self, comm: MPI.Comm, n: int, elements: int) -> None:
        self.comm, self.n = comm, n
        self.brick = brick(elements * comm.size)
        require_memory(comm, elements * n**3 * _ARRAYS * 8, "these elements need", "use fewer --elements")
        mesh = ElementMesh.box(self.brick, (1.0, 1.0, 1.0))
        self.grid = ElementGrid(mesh, n - 1, comm.size, comm.rank)
        self.gather_scatter = GatherScatter(comm, self.grid.ids, max_fields=1)
        boundary, interior = self.gather_scatter.boundary_elements, self.gather_scatter.interior_elements
        self._order = np.concatenate([boundary, interior])
        self._first_interior = boundary.size
        self._patterns, self._weights = self._kinds_of_elements()
        self._derivative = np.ascontiguousarray(gll_derivative(n))
        self._factors = self._unit_factors()
        shape = self.grid.ids.shape
        self.x, self.r, self.p, self.w = (np.zeros(shape) for _ in range(4))
        self._constants = np.zeros(3)  # beta, shift, alpha of the iteration before
        self._passes = in_turn_per_node(comm, self._compiled)

    def _kinds_of_elements(self) -> tuple[NDArray[np.int64], Array]:
        """Return the kind of each element, and per kind the inverse multiplicity, 0 on the boundary."""
        weights = self.gather_scatter.inverse_multiplicity()
        for side in SIDES:
            axis, upper = side_axis(side)
            index: list[Any] = [self.grid.side_elements(side), slice(None), slice(None), slice(None)]
            index[1 + axis] = -1 if upper else 0
            weights[tuple(index)] = 0.0
        rows = weights.reshape(len(weights), self.n**3)
        kinds, of_element = np.unique(rows, axis=0, return_inverse=True)
        return of_element.reshape(-1).astype(np.int64), np.ascontiguousarray(
            kinds.reshape(-1, self.n, self.n, self.n)
        )

    def _unit_factors(self) -> Array:
        """Return G_rr ... G_tt [E, 6, n, n, n] of reference elements: the weights, and zeros off the diagonal."""
        _, weights = gauss_lobatto(self.n)
        cube = weights[:, None, None] * weights[:, None] * weights
        factors = np.zeros((len(self.grid.ids), 6, *cube.shape))
        factors[:, [0, 3, 5]] = cube
        return factors

    def _compiled(self) -> tuple[Any, Any]:
        passes: tuple[Any, Any] = make_passes(self.n, max(1, BLOCK_POINTS // self.n**3))
        return passes

    def _direction_arguments(self, first: int, end: int) -> tuple[Any, ...]:
        geometry = self._patterns, self._weights, self._constants, self._factors, self._derivative
        fields = self.x, self.r, self.p, self.w
        return self._order, first, end, *geometry, *self.gather_scatter.local_lists, *fields

    def right_side(self) -> Array:
        """Return f [E, n, n, n]: numbers in [-1, 1) made from the points' numbers, 0 on the boundary."""
        bits = (self.grid.ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        noise = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
        return np.asarray(np.where(self._weights[self._patterns] > 0, noise, 0.0))

    def solve(self, iterations: int) -> tuple[float, list[float]]:
        """Run conjugate gradients from x = 0; return seconds on this rank, and the residuals. Collective.

        Communication per iteration: one gather-scatter, two Allreduces of one number. self.x is the solution.
        """
        direction, residual = self._passes
        whole, inner = self._order.size, self._first_interior
        outer_part, inner_part = self._direction_arguments(0, inner), self._direction_arguments(inner, whole)
        mine, total = np.zeros(1), np.zeros(1)

        def summed(value: float) -> float:
            mine[0] = value
            self.comm.Allreduce(mine, total)
            return float(total[0])

        self.x.fill(0.0)
        self.p.fill(0.0)
        self.r[...] = self.right_side()
        self._constants[:] = 0.0, SHIFT, 0.0
        self.comm.Barrier()
        start = time.perf_counter()
        rcr = summed(residual(self._patterns, self._weights, 0.0, self.w, self.r))
        residuals = [math.sqrt(rcr)]
        for _ in range(iterations):
            pw = direction(*outer_part)
            self.gather_scatter.start(self.w)
            pw += direction(*inner_part)
            self.gather_scatter.finish(self.w, local=False)
            pw = summed(pw)
            alpha = rcr / pw if pw > 0 else 0.0  # 0 once r is 0, on few points
            before = rcr
            rcr = summed(residual(self._patterns, self._weights, alpha, self.w, self.r))
            self._constants[:] = rcr / before if before > 0 else 0.0, SHIFT, alpha
            residuals.append(math.sqrt(rcr))
        self.x += self._constants[2] * self.p
        return time.perf_counter() - start, residuals


def run_nekbone(
    comm: MPI.Comm, n: int, elements: int, iterations: int = 100, progress: Phases | None = None
) -> NekboneFigures:
    """Run the benchmark as Nekbone does: once to warm up, once timed. Collective, the same on all ranks."""
    progress = progress or silent()
    progress.begin(f"nx1 = {n}: set-up and compiling")
    problem = Nekbone(comm, n, elements)
    progress.begin(f"nx1 = {n}: {iterations} iterations to warm up")
    problem.solve(iterations)
    progress.begin(f"nx1 = {n}: {iterations} iterations, timed")
    seconds, residuals = problem.solve(iterations)
    count = problem.grid.n_elements_global
    points = count * n**3
    problem.gather_scatter.free()
    return NekboneFigures(
        nx1=n,
        ranks=comm.size,
        elements=count,
        brick=problem.brick,
        points=points,
        iterations=iterations,
        seconds=float(comm.allreduce(seconds, MPI.MAX)),
        flops=float(flops_per_point(n)) * points * iterations,
        bytes=8.0 * WORDS * points * iterations,
        residuals=residuals,
    )
