"""The gather-scatter of fields in GPU memory: sums of the copies of points, on all ranks.

    shared = CudaGatherScatter(comm, gather_scatter.plan, device_buffers, fields=3)
    shared.sum(values)                      # every copy holds the sum over all copies, of 1 to 3 fields
    shared.sum_computed(values, compute)    # likewise; compute puts kernels of some elements on the stream

or in parts, for several streams:

    ...                                     # compute boundary elements, on a stream
    shared.start(values, stream)            # their shared points are packed, and on their way to where MPI sends from
    ...                                     # put interior elements on another stream
    shared.exchange()                       # the host waits for the neighbours
    shared.finish(values, stream)           # every copy of a point that ranks share holds the sum
    shared.combine(values, other)           # likewise for points of this rank alone

The lists and the order of sums are those of `gather_scatter`, so that results have the same bits. Lists, buffers and
persistent requests are made once; a call allocates nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.elements.device.gather_scatter_kernels_cuda import (
    THREADS,
    combine_fields,
    combine_groups,
    gather_shared,
    grid_of,
    pack_shared,
    scatter_fields,
    scatter_shared,
)
from ridgeline.elements.gather_scatter_plan import GatherScatterPlan
from ridgeline.jit.cuda_device import flat

_TAG = 472

Compute = Callable[[int, int], None]  # of elements first ... end - 1 in the order of processing


class SquareSums(NamedTuple):
    """Where thread blocks put their sums of squares: block b at flat[first + b step], float64 device memory."""

    flat: Any
    first: int
    step: int


class _Messages(NamedTuple):
    """Messages of m fields: device buffers, what MPI sends from and receives into, and requests."""

    partial: Any
    send: Any
    receive: Any
    mpi_send: Any
    mpi_receive: Any
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

    order: int32 device array, local elements in the order of processing, of which the first n_boundary share points
    with other ranks.
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
        """Copy the lists to the device and make buffers. Local.

        device_buffers: hand device memory to MPI, which must be GPU-aware. Else messages take pinned host memory, by
        one copy each way. fields: that one call may combine, at most; dtype: of values, float64 or float32. stream:
        of `sum` and `sum_computed`, if they are not told another.
        """
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
        """Return views of the buffers, and requests, for m fields, made at their first use."""
        if m not in self._messages:
            if m > self._max_fields:
                raise ValueError(f"{m} fields in one call; at most fields = {self._max_fields}")
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

    def sum(self, values: Any, stream: Any = None) -> None:
        """Replace every copy of a point by the sum over all copies.

        values: contiguous device array of this rank's points, [E, n, n, n] or flat, or of several fields,
        [c, E, n, n, n] or [c, points]. The host waits for messages on several ranks, never on one. Communication:
        one message to each neighbour. Raises ValueError for more fields than buffers were made for.
        """
        self.sum_computed(values, _nothing, stream)

    def sum_computed(self, values: Any, compute: Compute, stream: Any = None) -> None:
        """Let compute(first, end) put the kernels of elements order[first:end] on the stream, and sum the copies.

        values: as of `sum`. Elements that share points with other ranks come first; their messages travel while the
        others are computed.
        """
        stream = self.stream if stream is None else stream
        inner = self.n_boundary
        if inner:
            compute(0, inner)
        self.start(values, stream)
        if self.n_elements > inner:
            compute(inner, self.n_elements)
        self.combine(values, stream)
        self.exchange()
        self.finish(values, stream)

    def start(self, values: Any, stream: Any) -> None:
        """Put the packing of the shared points of values on the stream; they must be final there."""
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
        """Wait for what was packed, and for the messages of the neighbours. Communication: one with each."""
        if not self._slots:
            return
        messages = self._messages[self._active]
        MPI.Prequest.Startall(messages.receives)
        self._ready.synchronize()
        MPI.Prequest.Startall(messages.sends)
        MPI.Request.Waitall([*messages.receives, *messages.sends])

    def finish(self, values: Any, stream: Any, squares: SquareSums | None = None) -> None:
        """Put the sums over all ranks into the copies of shared points.

        squares: where their squares go, this rank's part; for one field of float64.
        """
        if not self._slots:
            return
        messages, fields = self._messages[self._active], self._active
        if self._staged:
            messages.receive.copy_to_device(messages.mpi_receive, stream=stream)
        lists = self._starts, self._places, *self._sources, messages.receive, messages.partial
        grid = grid_of(self.points), fields
        if squares is None:
            scatter_fields[grid, THREADS, stream](*lists, values.size // fields, flat(values))
        else:
            scatter_shared[grid, THREADS, stream](*lists, values, *squares)

    def combine(self, values: Any, stream: Any, squares: SquareSums | None = None) -> None:
        """Put the sums of points that no other rank has into their copies. squares: as of `finish`."""
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
        """Free the requests now instead of with the object; it is of no use afterwards."""
        self._finalizer()


def field_count(values: Any) -> int:
    """Return how many fields an array [c, E, n, n, n] or [c, points] holds; 1 if it has one axis less."""
    return int(values.shape[0]) if values.ndim in (2, 5) else 1


def _nothing(first: int, end: int) -> None:
    """Compute nothing: the values are there."""


def _free(messages: dict[int, _Messages]) -> None:
    for each in messages.values():
        for request in (*each.receives, *each.sends):
            request.Free()
    messages.clear()
