"""Nekbone on one NVIDIA GPU per rank: the same conjugate gradients as on CPUs, with everything on the device.

An iteration is one pass over the fields (bench/elements/nekbone_kernels_cuda.py) and one over the copies of points
that elements share. Then the sums that thread blocks leave are folded. Copies cannot be summed within the pass,
because no thread block knows when others are done. Beta and alpha are computed on the device; one rank waits for
nothing before the last iteration. Several ranks meet in one Allreduce of four numbers, which takes them through the
host.

Elements that share points with other ranks are computed first, on an urgent stream. Their points travel while the
others are computed on a second stream.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda

from ridgeline.bench.elements.nekbone_kernels import SUMS
from ridgeline.bench.elements.nekbone_kernels_cuda import (
    FOLD_ROWS,
    FOLD_THREADS,
    P,
    R,
    W,
    X,
    fold_sums,
    make_iterate,
    make_update,
    next_constants,
)
from ridgeline.bench.elements.nekbone_problem import SHIFT, Array, NekboneProblem
from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter, SquareSums, device_bytes
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS, derivative_tables, layout_of
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.jit.cuda_device import make_stream
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.runtime.errors import DeviceError

_FACTORS, _FIELDS = 6, 4
_DIAGONAL = 0, 3, 5  # of the factors
_COPY_BYTES = 20  # per copy of a shared point: read, written, and its place


class CudaNekbone(NekboneProblem):
    """The problem on the GPU of this rank: fields and factors float64 in device memory. Built collectively.

    device_buffers: hand device memory to MPI, which must be GPU-aware; else messages take pinned host memory.
    Raises DeviceError if there is no GPU, too little memory on it, or no kernel for n.
    """

    host_words = 10  # of which 9.3 were seen at the start, at nx1 = 8

    def __init__(self, comm: MPI.Comm, n: int, elements: int, device_buffers: bool) -> None:
        if not LEAST_POINTS <= n <= MOST_POINTS:
            raise DeviceError(
                f"nx1 = {n} has no GPU kernel; choose --nx1 from {LEAST_POINTS} to {MOST_POINTS}, or --device cpu"
            )
        self._device = select_device(comm)
        self.device_name = str(self._device)
        super().__init__(comm, n, elements)
        plan, self._layout = self.gather_scatter.plan, layout_of(n)
        self._count, points = len(self.ids), self.ids.size
        order = np.stack([self._order, self._patterns[self._order]], axis=1).astype(np.int32)
        parts = {
            "factors": 8.0 * _FACTORS * points,
            "fields": 8.0 * _FIELDS * points,
            "lists": float(device_bytes(plan) + order.nbytes + self._weights.nbytes),
        }
        require_device_memory(comm, self._device, parts, "use fewer --elements or more GPUs (-n)")
        self._elements = cuda.to_device(order.reshape(-1))
        self._pattern_weights = cuda.to_device(self._weights.reshape(-1))
        self._tables = cuda.to_device(derivative_tables(gll_derivative(n)).reshape(-1))
        self._factors = self._unit_factors()
        self._fields = cuda.device_array(_FIELDS * points, np.float64)
        self._w = self._field(W)
        self._constants = cuda.device_array(3, np.float64)  # beta, shift, alpha of the iteration before
        self._shared = CudaGatherScatter(comm, plan, device_buffers)
        self._plan_sums()
        self._rest, self._urgent = make_stream(), make_stream(urgent=True)
        self._known, self._packed, self._summed = cuda.event(), cuda.event(), cuda.event()

    def _unit_factors(self) -> Any:
        """Return G_rr ... G_tt of reference elements on the device, flat [E, 6, n, n, n], element by element."""
        one = np.zeros((_FACTORS, self.n**3))
        one[_DIAGONAL, :] = self.cube_weights()
        factors = cuda.device_array(self._count * one.size, np.float64)
        some = max(1, 2**24 // one.size)  # elements that one copy takes
        part = np.tile(one.reshape(-1), min(some, self._count))
        for first in range(0, self._count, some):
            size = min(some, self._count - first) * one.size
            factors[first * one.size : first * one.size + size].copy_to_device(part[:size])
        return factors

    def _plan_sums(self) -> None:
        """Decide which rows of sums the thread blocks of each kernel have, and allocate them and their folds."""
        inner, blocks = self._first_interior, self._layout.blocks
        of_boundary, of_interior = blocks(inner), blocks(self._count - inner)
        of_combine, of_finish = self._shared.blocks
        passes = of_boundary + of_interior
        rows = max(passes + of_combine + of_finish, blocks(self._count), 1)
        self._of_boundary, self._rows = of_boundary, rows
        self._sums = cuda.to_device(np.zeros(rows * SUMS))
        squares = SUMS - 1  # their place in a row
        self._combined = SquareSums(self._sums, passes * SUMS + squares, SUMS)
        self._finished = SquareSums(self._sums, (passes + of_combine) * SUMS + squares, SUMS)
        self._folds: list[Any] = []
        while rows > 1 or not self._folds:
            rows = -(-rows // FOLD_ROWS)
            self._folds.append(cuda.device_array(rows * SUMS, np.float64))
        self._total = self._folds[-1]
        self._mine, self._all = (cuda.pinned_array(SUMS, np.float64) for _ in range(2))

    def _field(self, which: int) -> Any:
        points = self.ids.size
        return self._fields[which * points : (which + 1) * points]

    def solution(self) -> Array:
        """Return x [E, n, n, n] of the last `solve`, copied from the device."""
        return np.asarray(self._field(X).copy_to_host()).reshape(self.ids.shape)

    def bytes_per_iteration(self) -> float:
        """Return the counted bytes to and from memory of an iteration on this rank."""
        plan = self.gather_scatter.plan
        local = plan.local
        lists = (local.pairs, local.fours, local.eights, local.others, plan.shared.places)
        return super().bytes_per_iteration() + _COPY_BYTES * sum(places.size for places in lists)

    def solve(self, iterations: int) -> tuple[float, list[float]]:
        """Run conjugate gradients from x = 0; return seconds on this rank, and the residuals. Collective.

        Communication per iteration: one gather-scatter, one Allreduce of four numbers; none on one rank.
        """
        zeros = np.zeros(self.ids.size)
        for field in (X, P, W):
            self._field(field).copy_to_device(zeros)
        self._field(R).copy_to_device(self.right_side().reshape(-1))
        self._constants.copy_to_device(np.array([0.0, SHIFT, 0.0]))
        self._sums.copy_to_device(np.zeros(self._sums.size))
        residuals = cuda.device_array(iterations + 1, np.float64)
        cuda.synchronize()
        self.comm.Barrier()
        start = time.perf_counter()
        for step in range(iterations):
            self._iterate()
            self._next(step, self._rows, residuals)
        grid, block = self._layout.blocks(self._count), (self.n, self.n, self._layout.elements)
        make_update(self.n)[grid, block, self._rest](
            self._elements, self._count, self._pattern_weights, self._constants, self._fields, self._sums
        )
        self._next(iterations, grid, residuals)
        self._rest.synchronize()
        return time.perf_counter() - start, residuals.copy_to_host().tolist()

    def _iterate(self) -> None:
        """Put the pass of one iteration on the streams and exchange w; leave sums in their rows."""
        inner, w = self._first_interior, self._w
        if inner:
            self._known.wait(self._urgent)
            self._pass(0, inner, 0, self._urgent)
            self._shared.start(w, self._urgent)
            self._packed.record(self._urgent)
        self._pass(inner, self._count, self._of_boundary, self._rest)
        if inner:
            self._packed.wait(self._rest)
        self._shared.combine(w, self._rest, self._combined)
        if inner:
            self._shared.exchange()
            self._shared.finish(w, self._urgent, self._finished)
            self._summed.record(self._urgent)
            self._summed.wait(self._rest)

    def _pass(self, first: int, end: int, row: int, stream: Any) -> None:
        """Put `iterate` for the elements at first ... end of the order on a stream."""
        if end > first:
            block = (self.n, self.n, self._layout.elements)
            make_iterate(self.n)[self._layout.blocks(end - first), block, stream](
                self._elements, first, end, self._pattern_weights, self._constants, self._factors, self._tables,
                self._fields, self._sums, row,
            )  # fmt: skip

    def _next(self, step: int, rows: int, residuals: Any) -> None:
        """Add up the rows of sums and of ranks, and set the constants of the next iteration. Collective."""
        source = self._sums
        for target in self._folds:
            fold_sums[target.size // SUMS, FOLD_THREADS, self._rest](source, rows, target)
            source, rows = target, target.size // SUMS
        if self.comm.size > 1:
            self._total.copy_to_host(self._mine, stream=self._rest)
            self._rest.synchronize()
            self.comm.Allreduce(self._mine, self._all)
            self._total.copy_to_device(self._all, stream=self._rest)
        next_constants[1, 1, self._rest](self._total, step, self._constants, residuals)
        self._known.record(self._rest)

    def free(self) -> None:
        """Free what MPI holds; the object is of no use afterwards."""
        self._shared.free()
        super().free()
