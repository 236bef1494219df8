"""The gather-scatter of fields in GPU memory: sums of the copies of points, on all ranks.

    shared = CudaGatherScatter(comm, gather_scatter.plan, device_buffers, fields=3)
    shared.sum(values)                      # every copy is the sum over all copies, of 1 to 3 fields
    shared.sum_computed(values, compute)    # the same; compute queues kernels of some elements on the stream

or in parts, for several streams:

    ...                                     # compute boundary elements, on a stream
    shared.start(values, stream)            # pack their shared points and copy them to where MPI sends from
    ...                                     # queue interior elements on another stream
    shared.exchange()                       # the host waits for the neighbours
    shared.finish(values, stream)           # every copy of a point that ranks share is the sum
    shared.combine(values, other)           # the same for points of this rank alone

The lists and the order of sums are those of `gather_scatter`, so that results have the same bits. In the kernels each
group of copies has one thread, so that nothing is added atomically. Lists, buffers and persistent requests are made
once; a call allocates nothing.

Lists are flat int32 device arrays; values, partial and message are flat device arrays of float64 or float32. Kernels
of several fields [m, stride] have a row of thread blocks for each field (grid's y). A message is [slots, m],
a partial [m, points].
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.gather_scatter_plan import GatherScatterPlan
from ridgeline.jit.cuda_device import (
    SIMULATED,
    DeviceArray,
    device_function,
    flat,
    kernel,
    load,
    store,
    sum_threads,
)

THREADS = 8 if SIMULATED else 256
_BLOCKS = 8  # of a multiprocessor: its 2048 threads
_TAG = 472

# Computes elements first ... end - 1 in the order of processing.
Compute = Callable[[int, int], None]


def grid_of(count: int) -> int:
    """Return the number of thread blocks of THREADS for `count` groups, points or slots."""
    return -(-count // THREADS)


@device_function
def _combine_group(lists, counts, g, values, first):
    """Put the sum over group g's copies into each of them, of the field that begins at values[first]; return it.

    lists, counts: as in `combine_groups`. Each class of groups has variables of its own, because the type of a sum is
    that of the values.
    """
    pairs, fours, eights, rest = counts
    fours_at = 2 * pairs
    eights_at = fours_at + 4 * fours
    starts_at = eights_at + 8 * eights
    if g < pairs:
        a, b = first + load(lists, 2 * g), first + load(lists, 2 * g + 1)
        of_pair = load(values, a) + load(values, b)
        store(values, a, of_pair)
        store(values, b, of_pair)
        return of_pair
    if g < pairs + fours:
        at = fours_at + 4 * (g - pairs)
        a, b = first + load(lists, at), first + load(lists, at + 1)
        c, d = first + load(lists, at + 2), first + load(lists, at + 3)
        of_four = (load(values, a) + load(values, b)) + (load(values, c) + load(values, d))
        store(values, a, of_four)
        store(values, b, of_four)
        store(values, c, of_four)
        store(values, d, of_four)
        return of_four
    if g < pairs + fours + eights:
        at = eights_at + 8 * (g - pairs - fours)
        low = load(values, first + load(lists, at)) + load(values, first + load(lists, at + 1))
        low += load(values, first + load(lists, at + 2)) + load(values, first + load(lists, at + 3))
        high = load(values, first + load(lists, at + 4)) + load(values, first + load(lists, at + 5))
        high += load(values, first + load(lists, at + 6)) + load(values, first + load(lists, at + 7))
        of_eight = low + high
        for place in range(8):
            store(values, first + load(lists, at + place), of_eight)
        return of_eight
    if g < pairs + fours + eights + rest:
        at = starts_at + g - pairs - fours - eights
        others_at = starts_at + rest + 1
        begin, end = others_at + load(lists, at), others_at + load(lists, at + 1)
        of_others = load(values, first + load(lists, begin))
        for place in range(begin + 1, end):
            of_others += load(values, first + load(lists, place))
        for place in range(begin, end):
            store(values, first + load(lists, place), of_others)
        return of_others
    return 0.0


@kernel(THREADS, _BLOCKS)
def combine_groups(lists, counts, values, out_squares, first, step):
    """Put the sum over a group's copies into each of them, of one field of float64.

    lists: pairs, fours, eights, starts and others of `LocalGroups`, one after the other; counts: how many pairs,
    fours, eights and others there are. The sum of squares of the sums of thread block b goes to
    out_squares[first + b step]. Launch grid_of(sum(counts)) x THREADS.

    Cost: reads and writes each copy once, 4 bytes of list per copy.
    """
    scratch = cuda.shared.array(THREADS, np.float64)
    g = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    value = _combine_group(lists, counts, g, values, 0)
    store(scratch, cuda.threadIdx.x, value * value)
    sum_threads(scratch, 1, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_squares, first + cuda.blockIdx.x * step, scratch[0])


@kernel(THREADS, _BLOCKS)
def combine_fields(lists, counts, stride, values):
    """Put the sum over a group's copies into each of them, of m fields [m, stride], float64 or float32.

    lists, counts: as in `combine_groups`. Launch (grid_of(sum(counts)), m) x THREADS.
    """
    g = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    _combine_group(lists, counts, g, values, cuda.blockIdx.y * stride)


@kernel(THREADS, _BLOCKS)
def gather_shared(starts, places, stride, values, out_partial):
    """out_partial[c, k] = the sum over this rank's copies of shared point k.

    Launch (grid_of(points), m) x THREADS.
    """
    k = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    points, first = starts.size - 1, cuda.blockIdx.y * stride
    if k < points:
        begin, end = load(starts, k), load(starts, k + 1)
        value = load(values, first + load(places, begin))
        for i in range(begin + 1, end):
            value += load(values, first + load(places, i))
        store(out_partial, cuda.blockIdx.y * points + k, value)


@kernel(THREADS, _BLOCKS)
def pack_shared(send_index, points, partial, out_message):
    """out_message[slot, c] = partial[c, send_index[slot]]; launch (grid_of(slots), m) x THREADS."""
    slot = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if slot < send_index.size:
        value = load(partial, cuda.blockIdx.y * points + load(send_index, slot))
        store(out_message, slot * cuda.gridDim.y + cuda.blockIdx.y, value)


@device_function
def _scatter_point(starts, places, source_starts, sources, message, partial, k, values, stride):
    """Put the sum of all ranks' parts of shared point k into this rank's copies; return it."""
    field, fields, points = cuda.blockIdx.y, cuda.gridDim.y, starts.size - 1
    begin, end = load(source_starts, k), load(source_starts, k + 1)
    source = load(sources, begin)
    mine = load(partial, field * points + k)
    value = mine if source < 0 else load(message, source * fields + field)
    for i in range(begin + 1, end):
        source = load(sources, i)
        value += mine if source < 0 else load(message, source * fields + field)
    for i in range(load(starts, k), load(starts, k + 1)):
        store(values, field * stride + load(places, i), value)
    return value


@kernel(THREADS, _BLOCKS)
def scatter_shared(
    starts, places, source_starts, sources, message, partial, values, out_squares, first, step
):
    """Add what the ranks have of each shared point in the order of ranks, and put it into all of this rank's copies.

    Source -1 is this rank's partial, any other one is a slot of the message. One field of float64. Squares are
    divided by the number of ranks that have the point; out_squares as in `combine_groups`. Launch
    grid_of(points) x THREADS.
    """
    scratch = cuda.shared.array(THREADS, np.float64)
    k = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    square = 0.0
    if k < starts.size - 1:
        value = _scatter_point(starts, places, source_starts, sources, message, partial, k, values, 0)
        square = value * value / (load(source_starts, k + 1) - load(source_starts, k))
    store(scratch, cuda.threadIdx.x, square)
    sum_threads(scratch, 1, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_squares, first + cuda.blockIdx.x * step, scratch[0])


@kernel(THREADS, _BLOCKS)
def scatter_fields(starts, places, source_starts, sources, message, partial, stride, values):
    """As `scatter_shared`, of m fields [m, stride], without squares; launch (grid_of(points), m) x THREADS."""
    k = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if k < starts.size - 1:
        _scatter_point(starts, places, source_starts, sources, message, partial, k, values, stride)


class SquareSums(NamedTuple):
    """Where thread blocks put their sums of squares: block b at flat[first + b step], float64 device memory."""

    flat: DeviceArray
    first: int
    step: int


class _Messages(NamedTuple):
    """Messages of m fields: device buffers, what MPI sends from and receives into, and requests."""

    partial: DeviceArray
    send: DeviceArray
    receive: DeviceArray
    mpi_send: DeviceArray | NDArray[Any]
    mpi_receive: DeviceArray | NDArray[Any]
    receives: list[MPI.Prequest]
    sends: list[MPI.Prequest]


def device_bytes(plan: GatherScatterPlan, fields: int = 1, dtype: DTypeLike = np.float64) -> int:
    """Return the bytes that the lists and buffers of a plan take on the device, for up to `fields` fields."""
    local, shared = plan.local, plan.shared
    lists = sum(array.nbytes for array in local.arrays[:5]) + 4 * (plan.boundary.size + plan.interior.size)
    if shared.ranks:
        of_shared = (shared.starts, shared.places, shared.send_index, shared.source_starts, shared.sources)
        lists += sum(array.nbytes for array in of_shared)
    return lists + np.dtype(dtype).itemsize * fields * (2 * shared.send_index.size + shared.starts.size - 1)


class CudaGatherScatter:
    """A planned gather-scatter of values in the memory of this rank's GPU, which is the current one.

    order: int32 device array, local elements in the order of processing; the first n_boundary of them share points
    with other ranks.

    Parameters
    ----------
    plan : the plan of the CPU's `GatherScatter`; its lists are copied to the device
    device_buffers : give device memory to MPI, which must be GPU-aware. Otherwise messages go through pinned host
        memory, by one copy each way
    fields : the most fields that one call may combine
    dtype : of values, float64 or float32
    stream : of `sum` and `sum_computed`, if they are called without one
    """

    def __init__(
        self,
        comm: MPI.Comm,
        plan: GatherScatterPlan,
        device_buffers: bool,
        *,
        fields: int = 1,
        dtype: DTypeLike = np.float64,
        stream: Any = 0,
    ) -> None:
        local, shared = plan.local, plan.shared
        self._comm, self._max_fields, self.stream = comm, fields, stream
        self.order = cuda.to_device(np.concatenate([plan.boundary, plan.interior]).astype(np.int32))
        self.n_boundary, self.n_elements = plan.boundary.size, plan.boundary.size + plan.interior.size
        self.counts = len(local.pairs), len(local.fours), len(local.eights), local.starts.size - 1
        self._lists = cuda.to_device(np.concatenate([array.reshape(-1) for array in local.arrays[:5]]))
        self.points, self._slots = shared.starts.size - 1, shared.send_index.size
        self._messages: dict[int, _Messages] = {}
        self._active = 0  # fields under way
        self._finalizer = weakref.finalize(self, _free, self._messages)
        self._staged = not device_buffers
        if not shared.ranks:
            return
        self._ranks, self._ends = shared.ranks, shared.offsets.tolist()
        self._starts, self._places = cuda.to_device(shared.starts), cuda.to_device(shared.places)
        self._send_index = cuda.to_device(shared.send_index)
        self._sources = cuda.to_device(shared.source_starts), cuda.to_device(shared.sources)
        self._partial = cuda.device_array(self.points * fields, dtype)
        self._send, self._receive = (cuda.device_array(self._slots * fields, dtype) for _ in range(2))
        self._mpi_send, self._mpi_receive = self._send, self._receive
        if self._staged:
            self._mpi_send, self._mpi_receive = (
                cuda.pinned_array(self._slots * fields, dtype) for _ in range(2)
            )
            self._mpi_send[:] = 0.0
        self._ready = cuda.event()

    def _messages_of(self, m: int) -> _Messages:
        """Return views of the buffers and requests for m fields, made at their first use."""
        if m not in self._messages:
            if m > self._max_fields:
                raise ValueError(
                    f"{m} fields are too many for one call, which may have at most fields = {self._max_fields}"
                )
            buffers = (self._send, self._receive, self._mpi_send, self._mpi_receive)
            send, receive, mpi_send, mpi_receive = (buffer[: self._slots * m] for buffer in buffers)
            receives, sends = [], []
            for rank, a, b in zip(self._ranks, self._ends[:-1], self._ends[1:]):
                receives.append(self._comm.Recv_init(mpi_receive[a * m : b * m], rank, _TAG))
                sends.append(self._comm.Send_init(mpi_send[a * m : b * m], rank, _TAG))
            partial = self._partial[: self.points * m]
            self._messages[m] = _Messages(partial, send, receive, mpi_send, mpi_receive, receives, sends)
        return self._messages[m]

    @property
    def blocks(self) -> tuple[int, int]:
        """Thread blocks of `combine` and of `finish`, each of which leaves a sum of squares."""
        return grid_of(sum(self.counts)), grid_of(self.points)

    def sum(self, values: DeviceArray, stream: Any = None) -> None:
        """Replace every copy of a point by the sum over all copies.

        values: contiguous device array of this rank's points, [E, n, n, n] or flat, or of several fields,
        [c, E, n, n, n] or [c, points]. The host waits for messages on several ranks, never on one. Communication:
        one message to each neighbour. Raises ValueError for more fields than buffers were made for.
        """
        self.sum_computed(values, _nothing, stream)

    def sum_computed(self, values: DeviceArray, compute: Compute, stream: Any = None) -> None:
        """Let compute(first, end) queue the kernels of elements order[first:end] on the stream, and sum the copies.

        values: as in `sum`. Elements that share points with other ranks come first; their messages travel while the
        other elements are computed.
        """
        stream = self.stream if stream is None else stream
        n_boundary = self.n_boundary
        if n_boundary:
            compute(0, n_boundary)
        self.start(values, stream)
        if self.n_elements > n_boundary:
            compute(n_boundary, self.n_elements)
        self.combine(values, stream)
        self.exchange()
        self.finish(values, stream)

    def start(self, values: DeviceArray, stream: Any) -> None:
        """Queue the packing of the shared points of values on the stream, where values must be final."""
        if not self._slots:
            return
        self._active = fields = field_count(values)
        messages = self._messages_of(fields)
        gather_shared[(grid_of(self.points), fields), THREADS, stream](
            self._starts, self._places, values.size // fields, flat(values), messages.partial
        )
        pack_shared[(grid_of(self._slots), fields), THREADS, stream](
            self._send_index, self.points, messages.partial, messages.send
        )
        if self._staged:
            messages.send.copy_to_host(messages.mpi_send, stream=stream)
        self._ready.record(stream)

    def exchange(self) -> None:
        """Wait for the packed points and exchange messages. Communication: one message to each neighbour."""
        if not self._slots:
            return
        messages = self._messages[self._active]
        MPI.Prequest.Startall(messages.receives)
        self._ready.synchronize()
        MPI.Prequest.Startall(messages.sends)
        MPI.Request.Waitall([*messages.receives, *messages.sends])

    def finish(self, values: DeviceArray, stream: Any, squares: SquareSums | None = None) -> None:
        """Put the sums over all ranks into the copies of shared points.

        squares: where this rank's part of the sum of their squares goes; for one field of float64.
        """
        if not self._slots:
            return
        messages, fields = self._messages[self._active], self._active
        if self._staged:
            messages.receive.copy_to_device(messages.mpi_receive, stream=stream)
        lists = (self._starts, self._places, *self._sources, messages.receive, messages.partial)
        grid = grid_of(self.points), fields
        if squares is None:
            scatter_fields[grid, THREADS, stream](*lists, values.size // fields, flat(values))
        else:
            scatter_shared[grid, THREADS, stream](*lists, values, *squares)

    def combine(self, values: DeviceArray, stream: Any, squares: SquareSums | None = None) -> None:
        """Put the sums of points that no other rank has into their copies. squares: as in `finish`."""
        groups = sum(self.counts)
        if not groups:
            return
        if squares is None:
            fields = field_count(values)
            combine_fields[(grid_of(groups), fields), THREADS, stream](
                self._lists, self.counts, values.size // fields, flat(values)
            )
        else:
            combine_groups[grid_of(groups), THREADS, stream](self._lists, self.counts, values, *squares)

    def free(self) -> None:
        """Free the requests now rather than with the object, which cannot be used afterwards."""
        self._finalizer()


def field_count(values: DeviceArray) -> int:
    """Return how many fields an array [c, E, n, n, n] or [c, points] has; 1 if it has one axis less."""
    return int(values.shape[0]) if values.ndim in (2, 5) else 1


def _nothing(first: int, end: int) -> None:
    """Compute nothing, because the values are already there."""


def _free(messages: dict[int, _Messages]) -> None:
    for each in messages.values():
        for request in (*each.receives, *each.sends):
            request.Free()
    messages.clear()
