"""Direct stiffness summation: combine the copies of points that spectral elements share, on all ranks.

    gather_scatter = GatherScatter(comm, grid.ids)       # once
    ...                                                  # compute gather_scatter.boundary_elements of w
    gather_scatter.start(w)                              # their shared points travel
    ...                                                  # compute gather_scatter.interior_elements
    gather_scatter.finish(w)                             # every copy holds the sum over all copies

Each rank first combines its own copies of a point, and sends one number per shared point to each rank that has it. It
then combines all contributions in the order of ranks. So all copies get the same bits, in every run. Points inside an
element never travel. Lists, buffers and persistent requests are made once; a call allocates no array.

Source: Deville, Fischer, Mund, "High-Order Methods for Incompressible Fluid Flow", 2002, Sec. 4.5.1 (Q Q^T).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.gather_scatter_kernels import OPERATIONS, make_kernels
from ridgeline.elements.gather_scatter_plan import make_plan
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import in_turn_per_node

Operation = Literal["add", "min", "max"]
Array = NDArray[Any]
Compute = Callable[[range, NDArray[np.int64]], None]  # of fields and elements

_TAG = 471  # of all messages: ranks start exchanges in the same order, and MPI keeps that order
_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))
CHUNK_BYTES = 2**19  # of fields just computed that stay in a second-level cache until their copies are summed


@dataclass(frozen=True)
class _FieldMessages:
    """Messages of m fields of one dtype: send, receive [slots, m], partial [m, shared points], and requests."""

    send: Array
    receive: Array
    partial: Array
    sends: list[MPI.Prequest]
    receives: list[MPI.Prequest]


class GatherScatter:
    """A planned gather-scatter over the points of this rank's elements. Built collectively.

    boundary_elements, interior_elements: int64, local elements that do, and do not, share points with other ranks.
    """

    def __init__(
        self, comm: MPI.Comm, ids: NDArray[np.int64], max_fields: int = 4, overlap: bool = True
    ) -> None:
        """Find the shared points. Collective.

        ids: int64, any shape whose first axis is this rank's elements (it may have none). Equal numbers >= 0 are
        copies of one point; -1 takes no part. max_fields: fields that one call may combine; buffers are made for as
        many. overlap: whether messages travel while the caller and `finish` compute; without it `start` waits for
        them, and the sums have the same bits. Raises ValueError on all ranks for other negative numbers and more
        than 2**31 - 1 points on a rank.
        """
        self.comm = comm
        self.shape = ids.shape
        self.max_fields, self.overlap = max_fields, overlap
        self.plan = make_plan(comm, np.ascontiguousarray(ids, np.int64))
        slots, points = self.plan.shared.send_index.size, self.plan.shared.starts.size - 1
        self._send = np.zeros(slots * max_fields)
        self._receive = np.zeros(slots * max_fields)
        self._partial = np.zeros(points * max_fields)
        self._exchanges: dict[tuple[DTypeLike, int], _FieldMessages] = {}
        # Freeing is local; left to the end of the program, MPI would complain of each request.
        self._finalizer = weakref.finalize(self, _free, self._exchanges)
        self._active: tuple[int, DTypeLike, Operation, int] | None = None
        self.compile()

    @property
    def boundary_elements(self) -> NDArray[np.int64]:
        """Local elements that share points with other ranks: they must be final before `start`."""
        return self.plan.boundary

    @property
    def interior_elements(self) -> NDArray[np.int64]:
        """Local elements that share no point with other ranks: they must be final before `finish`."""
        return self.plan.interior

    def compile(
        self, operations: Iterable[Operation] = ("add",), dtypes: Iterable[DTypeLike] = ("float64",)
    ) -> None:
        """Compile the kernels of these operations and dtypes, or load them from the cache. Collective."""
        kernels = [kernel for name in operations for kernel in make_kernels(OPERATIONS[name])]
        wanted = [each for dtype in dtypes for each in specialise(kernels, dtype)]
        in_turn_per_node(self.comm, lambda: compile_kernels(wanted))

    def _fields(self, u: Array) -> Array:
        """Return u as [fields, points]; raise ValueError if it does not fit."""
        if u.shape != self.shape and u.shape[1:] != self.shape:
            raise ValueError(f"an array of shape {u.shape} does not fit points of shape {self.shape}")
        if u.dtype not in _DTYPES or not u.flags.c_contiguous:
            raise ValueError(f"fields must be C-contiguous float64 or float32, not {u.dtype} {u.strides}")
        fields = 1 if u.shape == self.shape else u.shape[0]
        if fields > self.max_fields:
            raise ValueError(f"{fields} fields in one call; at most max_fields = {self.max_fields}")
        return u.reshape(fields, -1) if u.size else u.reshape(fields, 0)

    def _exchange(self, dtype: DTypeLike, m: int) -> _FieldMessages:
        """Return views of the buffers, and requests, for m fields of a dtype, made at first use."""
        key = (dtype, m)
        if key not in self._exchanges:
            shared = self.plan.shared
            send, receive, partial = (
                buffer.view(dtype)[: buffer.size // self.max_fields * m]
                for buffer in (self._send, self._receive, self._partial)
            )
            parts = [slice(a * m, b * m) for a, b in zip(shared.offsets[:-1], shared.offsets[1:])]
            self._exchanges[key] = _FieldMessages(
                send.reshape(-1, m),
                receive.reshape(-1, m),
                partial.reshape(m, -1) if partial.size else partial.reshape(m, 0),
                [self.comm.Send_init(send[part], rank, _TAG) for part, rank in zip(parts, shared.ranks)],
                [self.comm.Recv_init(receive[part], rank, _TAG) for part, rank in zip(parts, shared.ranks)],
            )
        return self._exchanges[key]

    def sum(self, u: Array) -> None:
        """Replace every copy of a point by the sum over all copies: `combine(u, "add")`."""
        self.combine(u, "add")

    def combine(self, u: Array, operation: Operation = "add") -> None:
        """Combine the copies of every point by "add", "min" or "max", in place. Collective among neighbours.

        u: float64 or float32, of the shape of ids or [fields, *that], C-ordered.
        Raises ValueError if u does not fit, RuntimeError if a started exchange is not finished.
        """
        self.start(u, operation)
        self.finish(u)

    def start(self, u: Array, operation: Operation = "add") -> None:
        """Send the shared points of u; the boundary elements of u must be final, and stay so until `finish`.

        Changes nothing in u. Communication: one message to each neighbour; waits for them without `overlap` alone.
        """
        if self._active is not None:
            raise RuntimeError("a gather-scatter is under way; finish it before the next start")
        fields = self._fields(u)
        dtype, m = u.dtype, len(fields)
        self._active = (u.ctypes.data, dtype, operation, m)
        shared = self.plan.shared
        if not shared.ranks:
            return
        exchange = self._exchange(dtype, m)
        MPI.Prequest.Startall(exchange.receives)
        _, gather, _ = make_kernels(OPERATIONS[operation])
        gather(shared.starts, shared.places, shared.send_index, fields, exchange.partial, exchange.send)
        MPI.Prequest.Startall(exchange.sends)
        if not self.overlap:
            MPI.Request.Waitall([*exchange.receives, *exchange.sends])

    def finish(self, u: Array, local: bool = True) -> None:
        """Combine the points of this rank alone, wait for the neighbours, and combine the shared points.

        All elements of u must be final. local=False: the caller has already combined the points of this rank alone
        (`sum_computed`, or elements.gather_scatter_kernels `local` with `local_lists`, for all of its elements).
        Raises RuntimeError if u was not started.
        """
        if self._active is None or self._active[0] != u.ctypes.data:
            raise RuntimeError("this array's gather-scatter was not started")
        _, dtype, operation, m = self._active
        fields = self._fields(u)
        combine_local, _, scatter = make_kernels(OPERATIONS[operation])
        if local:
            combine_local(*self.local_lists, 0, self.shape[0], fields)
        shared = self.plan.shared
        if shared.ranks:
            exchange = self._exchange(dtype, m)
            MPI.Request.Waitall(exchange.receives)
            sources = shared.source_starts, shared.sources, exchange.receive, exchange.partial
            scatter(shared.starts, shared.places, *sources, fields)
            MPI.Request.Waitall(exchange.sends)
        self._active = None

    def sum_computed(self, u: Array, compute: Compute, together: int = 1) -> None:
        """Let compute(fields, elements) set all of u, and sum the copies of every point. Collective among neighbours.

        u: as `combine` takes it. fields: a range, of as many as are computed together. Elements come some at a time,
        those with points of other ranks first, whose messages travel meanwhile. Copies on this rank alone are summed
        while they are in a second-level cache. The sums have the bits of `sum`.
        """
        self._compute(u, compute, together, self.boundary_elements, 0)
        self.start(u)
        self._compute(u, compute, together, self.interior_elements, len(self.boundary_elements))
        self.finish(u, local=False)

    def _compute(
        self, u: Array, compute: Compute, together: int, elements: NDArray[np.int64], before: int
    ) -> None:
        """Let elements be computed, `before` others being done, and sum this rank's points that they complete."""
        fields = self._fields(u)
        combine_local, _, _ = make_kernels(OPERATIONS["add"])
        step = max(1, CHUNK_BYTES * self.shape[0] // max(fields[:together].nbytes, 1))
        for field in range(0, len(fields), together):
            those = range(field, field + together)
            for first in range(0, len(elements), step):
                chunk = elements[first : first + step]
                compute(those, chunk)
                start = before + first
                combine_local(*self.local_lists, start, start + len(chunk), fields[field : field + together])

    @property
    def local_lists(self) -> tuple[Array, ...]:
        """Lists for the kernel `local`, to combine a block of elements that was just computed.

        The kernel's first ... end count elements in the order boundary_elements, then interior_elements.
        """
        return self.plan.local.arrays

    def multiplicity(self) -> NDArray[np.float64]:
        """Return the number of copies of each point on all ranks, of the shape of ids; 1 where it is -1."""
        count = np.ones(self.shape)
        self.sum(count)
        return count

    def inverse_multiplicity(self) -> NDArray[np.float64]:
        """Return 1 / multiplicity: weights that make a sum over copies a sum over points."""
        return np.asarray(1.0 / self.multiplicity())

    @property
    def messages(self) -> int:
        """Messages that this rank sends per call (and receives)."""
        return len(self.plan.shared.ranks)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sends per call and float64 field (and receives)."""
        return self.plan.shared.send_index.size * 8

    def memory(self) -> int:
        """Return the bytes of lists and buffers on this rank."""
        shared = self.plan.shared
        arrays: list[Array] = [
            *self.plan.local.arrays,
            self.plan.boundary,
            self.plan.interior,
            self._send,
            self._receive,
        ]
        arrays += [self._partial, shared.starts, shared.places, shared.send_index, shared.source_starts]
        return sum(array.nbytes for array in (*arrays, shared.sources, shared.offsets))

    def describe(self) -> dict[str, int]:
        """Return what the lists hold: points, groups by number of copies, neighbours, bytes."""
        local, shared = self.plan.local, self.plan.shared
        return {
            "points": int(np.prod(self.shape)),
            "unique": self.plan.n_unique,
            "pairs": len(local.pairs),
            "fours": len(local.fours),
            "eights": len(local.eights),
            "others": local.starts.size - 1,
            "shared": shared.starts.size - 1,
            "neighbours": len(shared.ranks),
            "bytes_sent": self.bytes_sent,
            "memory": self.memory(),
        }

    def free(self) -> None:
        """Free the requests now instead of with the object; it is of no use afterwards."""
        self._finalizer()


def _free(exchanges: dict[tuple[DTypeLike, int], _FieldMessages]) -> None:
    for exchange in exchanges.values():
        for request in (*exchange.receives, *exchange.sends):
            request.Free()
    exchanges.clear()
