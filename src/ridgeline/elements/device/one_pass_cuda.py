"""The stiffness operator with a shift on one NVIDIA GPU per rank, fused with conjugate gradients: twin of `one_pass`.

An iteration is one pass over the fields (one_pass_kernels_cuda.py) and one over the copies of points that elements
share. Then the sums that thread blocks leave are folded. Copies cannot be summed within the pass, because no thread
block knows when others are done.

Elements that share points with other ranks are computed first, on an urgent stream. Their points travel while the
others are computed on a second stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter, SquareSums, device_bytes
from ridgeline.elements.device.one_pass_kernels_cuda import P, R, W, X, make_iterate, make_update
from ridgeline.elements.device.tensor_cuda import derivative_tables, layout_of
from ridgeline.elements.one_pass import WORDS, Array, ElementKinds
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.jit.cuda_device import make_stream
from ridgeline.krylov.device.one_pass_cg_cuda import CudaStepLengths
from ridgeline.krylov.one_pass_cg import SUMS

if TYPE_CHECKING:
    from ridgeline.elements.gather_scatter import GatherScatter

_FACTORS, _FIELDS = 6, 4
_COPY_BYTES = 20  # per copy of a shared point: read, written, and its place


def device_parts(gather_scatter: GatherScatter, kinds: ElementKinds) -> dict[str, float]:
    """Return the bytes that `CudaOnePassStiffness` takes on the device, by what they are for."""
    points = float(np.prod(gather_scatter.shape))
    lists = device_bytes(gather_scatter.plan) + 8 * kinds.of_element.size + kinds.weights.nbytes
    return {"factors": 8 * _FACTORS * points, "fields": 8 * _FIELDS * points, "lists": float(lists)}


class CudaOnePassStiffness:
    """A in the memory of this rank's GPU, the current one; an `OnePassOperator`. Made collectively.

    gather_scatter, kinds, factors, shift: as of `OnePassStiffness`. device_buffers: hand device memory to MPI, which
    must be GPU-aware; else messages take pinned host memory.
    """

    def __init__(
        self,
        gather_scatter: GatherScatter,
        kinds: ElementKinds,
        factors: Array,
        shift: float,
        device_buffers: bool,
    ) -> None:
        plan, comm = gather_scatter.plan, gather_scatter.comm
        self._host, self.shape, self.n = gather_scatter, gather_scatter.shape, gather_scatter.shape[-1]
        self._count, self._first_interior = self.shape[0], plan.boundary.size
        self._layout, self._points = layout_of(self.n), int(np.prod(self.shape))
        order = np.concatenate([plan.boundary, plan.interior])
        order = np.stack([order, kinds.of_element[order]], axis=1).astype(np.int32)
        self._elements = cuda.to_device(order.reshape(-1))
        self._weights = cuda.to_device(kinds.weights.reshape(-1))
        self._tables = cuda.to_device(derivative_tables(gll_derivative(self.n)).reshape(-1))
        self._factors = self._on_device(factors)
        self._fields = cuda.device_array(_FIELDS * self._points, np.float64)
        self._w = self._field(W)
        self._constants = cuda.to_device(
            np.array([0.0, 0.0, shift])
        )  # alpha and beta of the iteration before
        self._shared = CudaGatherScatter(comm, plan, device_buffers)
        self._rest, self._urgent = make_stream(), make_stream(urgent=True)
        self._packed, self._summed = cuda.event(), cuda.event()
        self._plan_sums()

    def _on_device(self, factors: Array) -> Any:
        """Return factors on the device, flat [E, 6, n, n, n], some elements at a time."""
        size = _FACTORS * self.n**3
        result = cuda.device_array(self._count * size, np.float64)
        some = max(1, 2**24 // size)  # elements that one copy takes
        for first in range(0, self._count, some):
            end = min(first + some, self._count)
            part = np.broadcast_to(factors, (self._count, *factors.shape[1:]))[first:end]
            result[first * size : end * size].copy_to_device(np.ascontiguousarray(part).reshape(-1))
        return result

    def _plan_sums(self) -> None:
        """Decide which rows of sums the thread blocks of each kernel have, and make the step lengths."""
        inner, blocks = self._first_interior, self._layout.blocks
        of_boundary, of_interior = blocks(inner), blocks(self._count - inner)
        of_combine, of_finish = self._shared.blocks
        passes = of_boundary + of_interior
        rows = max(passes + of_combine + of_finish, blocks(self._count), 1)
        self._of_boundary = of_boundary
        self.steps = CudaStepLengths(self._host.comm, self._constants, rows, self._rest)
        self._sums, squares = self.steps.sums, SUMS - 1  # their place in a row
        self._sums_of_update = self._sums[: blocks(self._count) * SUMS]
        self._combined = SquareSums(self._sums, passes * SUMS + squares, SUMS)
        self._finished = SquareSums(self._sums, (passes + of_combine) * SUMS + squares, SUMS)

    def _field(self, which: int) -> Any:
        return self._fields[which * self._points : (which + 1) * self._points]

    def start(self, b: Array, iterations: int) -> None:
        """Prepare a solve with the right-hand side b [E, n, n, n], 0 at constrained points: x, p, w = 0, r = b."""
        self.steps.reset(iterations)
        zeros = np.zeros(self._points)
        for field in (X, P, W):
            self._field(field).copy_to_device(zeros)
        self._field(R).copy_to_device(b.reshape(-1))
        cuda.synchronize()

    def solution(self) -> Array:
        """Return x [E, n, n, n], copied from the device."""
        return np.asarray(self._field(X).copy_to_host()).reshape(self.shape)

    def iterate(self) -> Any:
        """Put the pass of one iteration on the streams and exchange w; return where sums will be."""
        inner, w = self._first_interior, self._w
        if inner:
            self.steps.known.wait(self._urgent)
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
        return self._sums

    def _pass(self, first: int, end: int, row: int, stream: Any) -> None:
        """Put `iterate` for the elements at first ... end of the order on a stream."""
        if end > first:
            block = (self.n, self.n, self._layout.elements)
            make_iterate(self.n)[self._layout.blocks(end - first), block, stream](
                self._elements, first, end, self._weights, self._constants, self._factors, self._tables,
                self._fields, self._sums, row,
            )  # fmt: skip

    def update(self) -> Any:
        """Put the update of x and r after the last iteration on a stream; return where sums will be."""
        grid, block = self._layout.blocks(self._count), (self.n, self.n, self._layout.elements)
        make_update(self.n)[grid, block, self._rest](
            self._elements, self._count, self._weights, self._constants, self._fields, self._sums
        )
        return self._sums_of_update

    def bytes_per_iteration(self) -> float:
        """Return the counted bytes to and from memory of an iteration on this rank, those of copies among them."""
        local, shared = self._host.plan.local, self._host.plan.shared
        lists = (local.pairs, local.fours, local.eights, local.others, shared.places)
        return 8.0 * WORDS * self._points + _COPY_BYTES * sum(places.size for places in lists)

    def free(self) -> None:
        """Free what MPI holds, of the gather-scatter too; the object is of no use afterwards."""
        self._shared.free()
        self._host.free()
