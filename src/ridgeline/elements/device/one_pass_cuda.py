"""The stiffness operator with a shift on one NVIDIA GPU per rank, fused with conjugate gradients: twin of `one_pass`.

An iteration is one pass over the fields and one over the copies of points that elements share; then the sums that
thread blocks leave are added up. Copies cannot be summed within the pass, because no thread block knows when others
have finished. The kernels of the passes:

    iterate   x += alpha p, r -= alpha w, p = r + beta p, w = A p before copies are summed; sums of each thread block
    update    x += alpha p, r -= alpha w: after the last iteration

A thread has a column of n points (elements/device/tensor_cuda.py). It loads four rows of x, r, p, w and the weight
before it stores any, because the compiler must assume that a store changes what is loaded after it.

Elements that share points with other ranks are computed first, on an urgent stream. Their points travel while the
other elements are computed on a second stream.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter, SquareSums, device_bytes
from ridgeline.elements.device.tensor_cuda import (
    REGISTERS,
    derivative_tables,
    fetch_tables,
    launch_bounds,
    layout_of,
    make_column,
    make_stiffness,
)
from ridgeline.elements.one_pass import WORDS, Array, ElementKinds
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.jit.cuda_device import (
    DeviceArray,
    device_function,
    fma,
    kernel,
    load,
    make_stream,
    store,
    sum_threads,
)
from ridgeline.krylov.cg import SUMS
from ridgeline.krylov.device.one_pass_cg_cuda import CudaStepLengths

if TYPE_CHECKING:
    from ridgeline.elements.gather_scatter import GatherScatter


ROWS = 4  # of a column, loaded at a time
X, R, P, W = range(4)  # the order of the fields
_FACTORS, _FIELDS = 6, 4
_COPY_BYTES = 20  # per copy of a shared point: read, written, and its place


@cache
def _make_step(rows: int, pitch: int) -> Any:
    """Return step(weight, x, r, p, w, fields, stride, at, alpha, beta, mine) for columns of `rows` points.

    Stores x, r and p if the element is `mine`. Returns the column of p, and the sum of weight r r.
    """
    rest = _make_step(rows - 1, pitch) if rows > 1 else None

    @device_function
    def first(weight, x, r, p, w, fields, stride, at, alpha, beta, mine):
        value = fma(-alpha, w[0], r[0])
        if weight[0] == 0.0:
            value = 0.0
        direction = fma(beta, p[0], value)
        if mine:
            store(fields, at, fma(alpha, p[0], x[0]))
            store(fields, stride + at, value)
            store(fields, 2 * stride + at, direction)
        return (direction,), weight[0] * value * value

    if rest is None:
        return first

    @device_function
    def step(weight, x, r, p, w, fields, stride, at, alpha, beta, mine):
        mine_first, square = first(weight, x, r, p, w, fields, stride, at, alpha, beta, mine)
        others, squares = rest(
            weight[1:], x[1:], r[1:], p[1:], w[1:], fields, stride, at + pitch, alpha, beta, mine
        )
        return mine_first + others, square + squares

    return step


@cache
def make_advance(n: int, rows: int | None = None) -> Any:
    """Return advance(fields, stride, at, weights, weight_at, alpha, beta, mine), for columns of n points.

    Loads ROWS points of all five at a time. Returns the column of p and the sum of weight r r.
    """
    square, rows = n * n, n if rows is None else rows
    batch = min(ROWS, rows)
    column, step = make_column(batch, square), _make_step(batch, square)

    @device_function
    def advance_some(fields, stride, at, weights, weight_at, alpha, beta, mine):
        x, r = column(fields, at), column(fields, stride + at)
        p, w = column(fields, 2 * stride + at), column(fields, 3 * stride + at)
        return step(column(weights, weight_at), x, r, p, w, fields, stride, at, alpha, beta, mine)

    if rows == batch:
        return advance_some
    rest, ahead = make_advance(n, rows - batch), batch * square

    @device_function
    def advance(fields, stride, at, weights, weight_at, alpha, beta, mine):
        some, squares = advance_some(fields, stride, at, weights, weight_at, alpha, beta, mine)
        others, further = rest(fields, stride, at + ahead, weights, weight_at + ahead, alpha, beta, mine)
        return some + others, squares + further

    return advance


@cache
def _make_last(rows: int, pitch: int) -> Any:
    """Return last(result, p, weight, r, shift, fields, at, mine) for columns of `rows` points; at: of w.

    Stores w, and returns p.w, r.w and w.w, the last over points without copies.
    """
    rest = _make_last(rows - 1, pitch) if rows > 1 else None

    @device_function
    def first(result, p, weight, r, shift, fields, at, mine):
        value = fma(shift * weight[0], p[0], result[0])
        if mine:
            store(fields, at, value)
        alone = value if weight[0] == 1.0 else 0.0
        return p[0] * value, r[0] * value, alone * alone

    if rest is None:
        return first

    @device_function
    def last(result, p, weight, r, shift, fields, at, mine):
        pw, rw, ww = first(result, p, weight, r, shift, fields, at, mine)
        others = rest(result[1:], p[1:], weight[1:], r[1:], shift, fields, at + pitch, mine)
        return pw + others[0], rw + others[1], ww + others[2]

    return last


@cache
def make_finish(n: int, rows: int | None = None) -> Any:
    """Return finish(result, p, weights, weight_at, shift, fields, stride, at, mine), as `_make_last` for a column.

    result: the column of K p. r, which was stored shortly before, is loaded again, ROWS points at a time.
    """
    square, rows = n * n, n if rows is None else rows
    batch = min(ROWS, rows)
    column, last = make_column(batch, square), _make_last(batch, square)

    @device_function
    def finish_some(result, p, weights, weight_at, shift, fields, stride, at, mine):
        weight, r = column(weights, weight_at), column(fields, stride + at)
        return last(result, p, weight, r, shift, fields, 3 * stride + at, mine)

    if rows == batch:
        return finish_some
    rest, ahead = make_finish(n, rows - batch), batch * square

    @device_function
    def finish(result, p, weights, weight_at, shift, fields, stride, at, mine):
        pw, rw, ww = finish_some(result, p, weights, weight_at, shift, fields, stride, at, mine)
        others = rest(
            result[batch:], p[batch:], weights, weight_at + ahead, shift, fields, stride, at + ahead, mine
        )
        return pw + others[0], rw + others[1], ww + others[2]

    return finish


@cache
def make_iterate(n: int, registers: int = REGISTERS) -> Any:
    """Return the kernel iterate(order, first, end, weights, constants, factors, tables, fields, sums, row).

    order: flat int32 [E, 2]: an element, and its kind, in the order of processing; those at first ... end are
    computed. weights: flat [kinds, n, n, n], inverse multiplicity, 0 at constrained points; constants: alpha, beta,
    shift; factors: flat [E, 6, n, n, n]; tables: flat `derivative_tables`; fields: flat x, r, p, w [4, E, n, n, n],
    all float64 device arrays. sums: flat [rows, 4]; thread block b leaves r.c.r, p.w, r.w and w.c.w at row + b, the
    last over points without copies. registers: as in `launch_bounds`.
    Launch layout.blocks(end - first) thread blocks of (n, n, layout.elements).

    Cost: reads x, r, p, w and six factors, writes x, r, p, w: 14 words per point.
    """
    layout = layout_of(n)
    square, cube, elements = n * n, n**3, layout.elements
    tables_size, layers_size = 3 * square, 3 * layout.layer
    shared_size, sums_size, threads = layers_size * elements, SUMS * layout.threads, layout.threads
    advance, stiffness, finish = make_advance(n), make_stiffness(n, np.float64), make_finish(n)

    @kernel(*launch_bounds(n, np.float64, registers))
    def iterate(order, first, end, weights, constants, factors, tables, fields, sums, row):
        own_tables = cuda.shared.array(tables_size, np.float64)
        layers = cuda.shared.array(shared_size, np.float64)
        scratch = cuda.shared.array(sums_size, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        thread = (part * n + j) * n + i
        fetch_tables(tables, own_tables, thread, threads)
        place = first + cuda.blockIdx.x * elements + part
        mine = place < end
        # Threads beyond the end compute the last element again, for the barriers.
        place = min(place, end - 1)
        element = load(order, 2 * place)
        alpha, beta = load(constants, 0), load(constants, 1)
        stride = fields.size // 4
        at = element * cube + j * n + i
        weight_at = load(order, 2 * place + 1) * cube + j * n + i
        own = layers[part * layers_size : (part + 1) * layers_size]
        p, rcr = advance(fields, stride, at, weights, weight_at, alpha, beta, mine)
        store(scratch, thread, rcr if mine else 0.0)
        result = stiffness(p, factors, element * 6 * cube, own_tables, own, i, j)
        # What the march does not need is loaded again after it, because the columns need its registers.
        shift = load(constants, 2)
        at = load(order, 2 * place) * cube + j * n + i
        weight_at = load(order, 2 * place + 1) * cube + j * n + i
        pw, rw, ww = finish(result, p, weights, weight_at, shift, fields, stride, at, mine)
        store(scratch, threads + thread, pw if mine else 0.0)
        store(scratch, 2 * threads + thread, rw if mine else 0.0)
        store(scratch, 3 * threads + thread, ww if mine else 0.0)
        sum_threads(scratch, SUMS, thread, threads)
        if thread < SUMS:
            store(sums, (row + cuda.blockIdx.x) * SUMS + thread, load(scratch, thread * threads))

    return iterate


@cache
def make_update(n: int) -> Any:
    """Return the kernel update(order, count, weights, constants, fields, sums); arguments as for `make_iterate`.

    It leaves r.c.r in the first of the four sums of each row and 0 in the others. p is then meaningless.
    """
    layout = layout_of(n)
    cube, elements, threads = n**3, layout.elements, layout.threads
    advance = make_advance(n)

    @kernel(*launch_bounds(n, np.float64))
    def update(order, count, weights, constants, fields, sums):
        scratch = cuda.shared.array(threads, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        thread = (part * n + j) * n + i
        place = cuda.blockIdx.x * elements + part
        mine = place < count
        place = min(place, count - 1)
        at, weight_at = (
            load(order, 2 * place) * cube + j * n + i,
            load(order, 2 * place + 1) * cube + j * n + i,
        )
        alpha, beta = load(constants, 0), load(constants, 1)
        _, rcr = advance(fields, fields.size // 4, at, weights, weight_at, alpha, beta, mine)
        store(scratch, thread, rcr if mine else 0.0)
        sum_threads(scratch, 1, thread, threads)
        if thread < SUMS:
            store(sums, cuda.blockIdx.x * SUMS + thread, scratch[0] if thread == 0 else 0.0)

    return update


def device_parts(gather_scatter: GatherScatter, kinds: ElementKinds) -> dict[str, float]:
    """Return the bytes of `CudaOnePassStiffness` on the device, by their use."""
    points = float(np.prod(gather_scatter.shape))
    lists = device_bytes(gather_scatter.plan) + 8 * kinds.of_element.size + kinds.weights.nbytes
    return {"factors": 8 * _FACTORS * points, "fields": 8 * _FIELDS * points, "lists": float(lists)}


class CudaOnePassStiffness:
    """A in the memory of this rank's GPU, which is the current one: a `krylov.cg.OnePassOperator`.

    gather_scatter, kinds, factors, shift: as in `OnePassStiffness`. device_buffers: give device memory to MPI, which
    must be GPU-aware; otherwise messages go through pinned host memory. Construction is collective.
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
        # alpha and beta of the iteration before, and the shift.
        self._constants = cuda.to_device(np.array([0.0, 0.0, shift]))
        self._shared = CudaGatherScatter(comm, plan, device_buffers)
        self._rest, self._urgent = make_stream(), make_stream(urgent=True)
        self._packed, self._summed = cuda.event(), cuda.event()

        # Which rows of sums the thread blocks of each kernel have.
        blocks = self._layout.blocks
        of_boundary, of_interior = blocks(self._first_interior), blocks(self._count - self._first_interior)
        of_combine, of_finish = self._shared.blocks
        passes = of_boundary + of_interior
        rows = max(passes + of_combine + of_finish, blocks(self._count), 1)
        self._of_boundary = of_boundary
        self.steps = CudaStepLengths(comm, self._constants, rows, self._rest)
        self._sums, squares = self.steps.sums, SUMS - 1  # their place in a row
        self._sums_of_update = self._sums[: blocks(self._count) * SUMS]
        self._combined = SquareSums(self._sums, passes * SUMS + squares, SUMS)
        self._finished = SquareSums(self._sums, (passes + of_combine) * SUMS + squares, SUMS)

    def _on_device(self, factors: Array) -> DeviceArray:
        """Return factors on the device, flat [E, 6, n, n, n], some elements at a time."""
        size = _FACTORS * self.n**3
        result = cuda.device_array(self._count * size, np.float64)
        chunk = max(1, 2**24 // size)
        for first in range(0, self._count, chunk):
            end = min(first + chunk, self._count)
            part = np.broadcast_to(factors, (self._count, *factors.shape[1:]))[first:end]
            result[first * size : end * size].copy_to_device(np.ascontiguousarray(part).reshape(-1))
        return result

    def _field(self, which: int) -> DeviceArray:
        return self._fields[which * self._points : (which + 1) * self._points]

    def start(self, b: Array, iterations: int) -> None:
        """Prepare a solve with the right-hand side b [E, n, n, n] on the host, which is 0 at constrained points."""
        self.steps.reset(iterations)
        zeros = np.zeros(self._points)
        for field in (X, P, W):
            self._field(field).copy_to_device(zeros)
        self._field(R).copy_to_device(b.reshape(-1))
        cuda.synchronize()

    def solution(self) -> Array:
        """Return x [E, n, n, n], copied from the device."""
        return np.asarray(self._field(X).copy_to_host()).reshape(self.shape)

    def iterate(self) -> DeviceArray:
        """Queue the pass of one iteration on the streams and exchange w; return the array where the sums will be."""
        n_boundary, w = self._first_interior, self._w
        if n_boundary:
            self.steps.known.wait(self._urgent)
            self._pass(0, n_boundary, 0, self._urgent)
            self._shared.start(w, self._urgent)
            self._packed.record(self._urgent)
        self._pass(n_boundary, self._count, self._of_boundary, self._rest)
        if n_boundary:
            self._packed.wait(self._rest)
        self._shared.combine(w, self._rest, self._combined)
        if n_boundary:
            self._shared.exchange()
            self._shared.finish(w, self._urgent, self._finished)
            self._summed.record(self._urgent)
            self._summed.wait(self._rest)
        return self._sums

    def _pass(self, first: int, end: int, row: int, stream: Any) -> None:
        """Queue `iterate` for the elements at first ... end of the order on a stream."""
        if end > first:
            block = (self.n, self.n, self._layout.elements)
            make_iterate(self.n)[self._layout.blocks(end - first), block, stream](
                self._elements,
                first,
                end,
                self._weights,
                self._constants,
                self._factors,
                self._tables,
                self._fields,
                self._sums,
                row,
            )

    def update(self) -> DeviceArray:
        """Queue the update of x and r after the last iteration; return the array where the sums will be."""
        grid, block = self._layout.blocks(self._count), (self.n, self.n, self._layout.elements)
        make_update(self.n)[grid, block, self._rest](
            self._elements, self._count, self._weights, self._constants, self._fields, self._sums
        )
        return self._sums_of_update

    def bytes_per_iteration(self) -> float:
        """Return the counted bytes to and from memory of an iteration on this rank, including those of copies."""
        local, shared = self._host.plan.local, self._host.plan.shared
        lists = (local.pairs, local.fours, local.eights, local.others, shared.places)
        return 8.0 * WORDS * self._points + _COPY_BYTES * sum(places.size for places in lists)

    def free(self) -> None:
        """Free the requests of both gather-scatters; the object cannot be used afterwards."""
        self._shared.free()
        self._host.free()
