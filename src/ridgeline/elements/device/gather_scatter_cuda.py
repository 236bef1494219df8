"""The gather-scatter of one float64 field in GPU memory: sums of the copies of points, on all ranks.

    shared = CudaGatherScatter(comm, gather_scatter.plan, device_buffers)
    ...                                     # compute boundary elements, on a stream
    shared.start(values, stream)            # their shared points are packed, and on their way to where MPI sends from
    ...                                     # put interior elements on another stream
    shared.exchange()                       # the host waits for the neighbours
    shared.finish(values, stream, sums)     # every copy of a point that ranks share holds the sum
    shared.combine(values, other, sums)     # likewise for points of this rank alone

The lists and the order of sums are those of `gather_scatter`, so that results have the same bits. Lists, buffers and
persistent requests are made once; a call allocates nothing.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numba import cuda

from ridgeline.elements.device.gather_scatter_kernels_cuda import (
    THREADS,
    combine_groups,
    gather_shared,
    grid_of,
    pack_shared,
    scatter_shared,
)
from ridgeline.elements.gather_scatter_plan import GatherScatterPlan

_TAG = 472


class SquareSums(NamedTuple):
    """Where thread blocks put their sums of squares: block b at flat[first + b step], float64 device memory."""

    flat: Any
    first: int
    step: int


def device_bytes(plan: GatherScatterPlan) -> int:
    """Return the bytes that the lists and buffers of a plan take on the device."""
    local, shared = plan.local, plan.shared
    lists = sum(array.nbytes for array in local.arrays[:5])
    lists += sum(
        array.nbytes
        for array in (shared.starts, shared.places, shared.send_index, shared.source_starts, shared.sources)
    )
    return lists + 8 * (2 * shared.send_index.size + shared.starts.size - 1)


class CudaGatherScatter:
    """A planned gather-scatter of values in the memory of this rank's GPU, which is the current one.

    device_buffers: hand device memory to MPI, which must be GPU-aware. Else messages take pinned host memory, by one
    copy each way.
    """

    def __init__(self, comm: MPI.Comm, plan: GatherScatterPlan, device_buffers: bool) -> None:
        local, shared = plan.local, plan.shared
        self.counts = len(local.pairs), len(local.fours), len(local.eights), local.starts.size - 1
        self._lists = cuda.to_device(np.concatenate([array.reshape(-1) for array in local.arrays[:5]]))
        self.points, self._slots = shared.starts.size - 1, shared.send_index.size
        self._requests: list[list[MPI.Prequest]] = [[], []]
        self._finalizer = weakref.finalize(self, _free, self._requests)
        self._staged = not device_buffers
        if not shared.ranks:
            return
        self._starts, self._places = cuda.to_device(shared.starts), cuda.to_device(shared.places)
        self._send_index = cuda.to_device(shared.send_index)
        self._sources = cuda.to_device(shared.source_starts), cuda.to_device(shared.sources)
        self._partial = cuda.device_array(self.points, np.float64)
        self._send, self._receive = (cuda.device_array(self._slots, np.float64) for _ in range(2))
        self._mpi_send, self._mpi_receive = self._send, self._receive
        if self._staged:
            self._mpi_send, self._mpi_receive = (cuda.pinned_array(self._slots, np.float64) for _ in range(2))
            self._mpi_send[:] = 0.0
        self._ready = cuda.event()
        ends = shared.offsets.tolist()
        for rank, a, b in zip(shared.ranks, ends[:-1], ends[1:]):
            self._requests[0].append(comm.Recv_init(self._mpi_receive[a:b], rank, _TAG))
            self._requests[1].append(comm.Send_init(self._mpi_send[a:b], rank, _TAG))

    @property
    def blocks(self) -> tuple[int, int]:
        """Thread blocks of `combine` and of `finish`, each of which leaves a sum of squares."""
        return grid_of(sum(self.counts)), grid_of(self.points)

    def start(self, values: Any, stream: Any) -> None:
        """Put the packing of the shared points of values (flat, float64) on the stream; they must be final there."""
        if not self._slots:
            return
        gather_shared[grid_of(self.points), THREADS, stream](
            self._starts, self._places, values, self._partial
        )
        pack_shared[grid_of(self._slots), THREADS, stream](self._send_index, self._partial, self._send)
        if self._staged:
            self._send.copy_to_host(self._mpi_send, stream=stream)
        self._ready.record(stream)

    def exchange(self) -> None:
        """Wait for what was packed, and for the messages of the neighbours. Communication: one with each."""
        if not self._slots:
            return
        receives, sends = self._requests
        MPI.Prequest.Startall(receives)
        self._ready.synchronize()
        MPI.Prequest.Startall(sends)
        MPI.Request.Waitall([*receives, *sends])

    def finish(self, values: Any, stream: Any, squares: SquareSums) -> None:
        """Put the sums over all ranks into the copies of shared points; their squares are this rank's part."""
        if not self._slots:
            return
        if self._staged:
            self._receive.copy_to_device(self._mpi_receive, stream=stream)
        scatter_shared[grid_of(self.points), THREADS, stream](
            self._starts, self._places, *self._sources, self._receive, self._partial, values, *squares
        )

    def combine(self, values: Any, stream: Any, squares: SquareSums) -> None:
        """Put the sums of points that no other rank has into their copies."""
        if sum(self.counts):
            combine_groups[grid_of(sum(self.counts)), THREADS, stream](
                self._lists, self.counts, values, *squares
            )

    def free(self) -> None:
        """Free the requests now instead of with the object; it is of no use afterwards."""
        self._finalizer()


def _free(kinds: list[list[MPI.Prequest]]) -> None:
    for requests in kinds:
        for request in requests:
            request.Free()
        requests.clear()
