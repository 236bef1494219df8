"""Direct stiffness summation: combine the copies of points that spectral elements share, on all ranks.

    gather_scatter = GatherScatter(comm, grid.ids)       # once
    ...                                                  # compute gather_scatter.boundary_elements of w
    gather_scatter.start(w)                              # their shared points travel
    ...                                                  # compute gather_scatter.interior_elements
    gather_scatter.finish(w)                             # every copy is the sum over all copies

Each rank first combines its own copies of a point, and sends one number per shared point to each rank that has the
point. It then combines all contributions in the order of ranks, so that all copies get the same bits, in every run.
Points inside an element never travel. Lists, buffers and persistent requests are made once; a call allocates nothing.

The kernels take places as flat indices (int32) into one field. Groups of two, four and eight copies (faces, edges and
corners of hexahedra) have loops of their own; any other number goes through a list with starts. Groups are sorted by
when their last element is processed, so that a loop over elements can combine the groups that it has just completed
while they are in cache: `bounds[c, i]` groups of class c are complete before the i-th element processed. The copies
of a group are combined in the order of the list, in pairs.

Source: Deville, Fischer, Mund, "High-Order Methods for Incompressible Fluid Flow", 2002, Sec. 4.5.1 (Q Q^T).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from mpi4py import MPI
from numba import int32, int64
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.gather_scatter_plan import make_plan
from ridgeline.jit.kernel import compile_kernels, kernel, specialise, subroutine
from ridgeline.parallel.communicator import compile_on_nodes

ADD, MIN, MAX = range(3)
OPERATIONS = {"add": ADD, "min": MIN, "max": MAX}
BLOCK = 8  # elements whose pairs, fours, ... are combined in turn: the next class then finds them in cache
CHUNK_BYTES = 2**19  # of fields just computed that stay in a second-level cache until their copies are summed
# Of all messages: ranks start exchanges in the same order, and MPI keeps that order.
_TAG = 471
_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))

Operation = Literal["add", "min", "max"]
Array = NDArray[Any]
# Computes some elements of some fields.
Compute = Callable[[range, NDArray[np.int64]], None]


@subroutine(inline="always")
def _combine(operation, a, b):
    if operation == ADD:
        return a + b
    return min(a, b) if operation == MIN else max(a, b)


@subroutine(inline="always")
def combine_local(operation, pairs, fours, eights, starts, others, bounds, first, end, v):
    """Combine the groups of one field v [n] that are complete with the elements processed at first ... end.

    Return the sum of the squares of the combined values, each counted once; it costs nothing where it is not used.

    operation: a constant; the others as elements.gather_scatter_plan.LocalGroups has them.
    """
    # Four sums take turns, so that none waits for the one before.
    squares = second = third = fourth = 0.0
    for g in range(bounds[0, first], bounds[0, end]):
        a, b = np.uint32(pairs[g, 0]), np.uint32(pairs[g, 1])
        value = _combine(operation, v[a], v[b])
        v[a] = value
        v[b] = value
        squares, second, third, fourth = second, third, fourth, squares + value * value
    for g in range(bounds[1, first], bounds[1, end]):
        a, b = np.uint32(fours[g, 0]), np.uint32(fours[g, 1])
        c, d = np.uint32(fours[g, 2]), np.uint32(fours[g, 3])
        value = _combine(operation, _combine(operation, v[a], v[b]), _combine(operation, v[c], v[d]))
        v[a] = value
        v[b] = value
        v[c] = value
        v[d] = value
        squares, second, third, fourth = second, third, fourth, squares + value * value
    for g in range(bounds[2, first], bounds[2, end]):
        places = eights[g]
        low = _combine(operation, v[places[0]], v[places[1]])
        low = _combine(operation, low, _combine(operation, v[places[2]], v[places[3]]))
        high = _combine(operation, v[places[4]], v[places[5]])
        high = _combine(operation, high, _combine(operation, v[places[6]], v[places[7]]))
        value = _combine(operation, low, high)
        for i in range(8):
            v[places[i]] = value
        squares += value * value
    for g in range(bounds[3, first], bounds[3, end]):
        value = v[others[starts[g]]]
        for i in range(starts[g] + 1, starts[g + 1]):
            value = _combine(operation, value, v[others[i]])
        for i in range(starts[g], starts[g + 1]):
            v[others[i]] = value
        squares += value * value
    return (squares + second) + (third + fourth)


@cache
def make_kernels(operation: int) -> Any:
    """Return the compiled (local, gather, scatter) for ADD, MIN or MAX.

    local(pairs, fours, eights, starts, others, bounds, first, end, u): combine the groups that are complete with the
        elements processed at first ... end. All copies of such a group are on this rank.
    gather(starts, places, send_index, u, partial, message): partial[f, k] = the combined copies of shared point k
        on this rank; message[slot, f] = partial[f, send_index[slot]].
    scatter(starts, places, source_starts, sources, message, partial, u): combine what the ranks have of shared
        point k in the order of ranks, and put it into all copies. Source -1 is this rank's partial, any other one is
        a slot of the message.
    u : (m, n) fields of one dtype, changed in place (not by gather)

    Cost: reads and writes each copy once; 4 bytes of list per copy and field.
    """

    @kernel(
        lambda T: (*[int32[:, ::1]] * 3, *[int32[::1]] * 2, int64[:, ::1], int64, int64, T[:, ::1]),
        nogil=True,
    )
    def local(pairs, fours, eights, starts, others, bounds, first, end, u):
        for f in range(u.shape[0]):
            for begin in range(first, end, BLOCK):
                stop = min(begin + BLOCK, end)
                combine_local(operation, pairs, fours, eights, starts, others, bounds, begin, stop, u[f])

    @kernel(lambda T: (*[int32[::1]] * 3, *[T[:, ::1]] * 3), nogil=True)
    def gather(starts, places, send_index, u, partial, message):
        for f in range(u.shape[0]):
            v = u[f]
            for k in range(starts.size - 1):
                value = v[places[starts[k]]]
                for i in range(starts[k] + 1, starts[k + 1]):
                    value = _combine(operation, value, v[places[i]])
                partial[f, k] = value
        for slot in range(send_index.size):
            for f in range(u.shape[0]):
                message[slot, f] = partial[f, send_index[slot]]

    @kernel(lambda T: (*[int32[::1]] * 4, *[T[:, ::1]] * 3), nogil=True)
    def scatter(starts, places, source_starts, sources, message, partial, u):
        for f in range(u.shape[0]):
            v = u[f]
            for k in range(starts.size - 1):
                source = sources[source_starts[k]]
                value = partial[f, k] if source < 0 else message[source, f]
                for i in range(source_starts[k] + 1, source_starts[k + 1]):
                    source = sources[i]
                    other = partial[f, k] if source < 0 else message[source, f]
                    value = _combine(operation, value, other)
                for i in range(starts[k], starts[k + 1]):
                    v[places[i]] = value

    return local, gather, scatter


@dataclass(frozen=True)
class _FieldMessages:
    """Messages of m fields of one dtype: send, receive [slots, m], partial [m, shared points], and requests."""

    send: Array
    receive: Array
    partial: Array
    sends: list[MPI.Prequest]
    receives: list[MPI.Prequest]


class GatherScatter:
    """Plan sums over the copies of the points that this rank's elements share, also with those of other ranks.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks.
    ids : array
        int64, any shape whose first axis is this rank's elements, of which there may be none. Equal numbers >= 0
        are copies of one point; -1 is left out.
    max_fields : int
        The most fields that one call may combine; it determines the size of the buffers.
    overlap : bool
        Whether messages travel while the caller and `finish` compute; without it `start` waits for the messages. The
        sums have the same bits.

    Raises
    ------
    ValueError
        On all ranks, for other negative numbers or more than 2**31 - 1 points on a rank.

    Notes
    -----
    Collective. The calls of a plan send one message to each rank with points in common.

    Examples
    --------
    How many elements share each point, with two ranks, started by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.elements.gather_scatter import GatherScatter
    >>> from ridgeline.elements.mesh import BoxMesh, ElementGrid
    >>> comm = MPI.COMM_WORLD
    >>> grid = ElementGrid(BoxMesh.box((1, 1, 2), (1.0, 1.0, 2.0)), 3, comm.size, comm.rank)
    >>> copies = np.ones(grid.shape)
    >>> GatherScatter(comm, grid.ids).sum(copies)
    >>> int((copies == 2).sum()), float(copies.max())  # of the face between the ranks
    (16, 2.0)
    """

    def __init__(
        self, comm: MPI.Comm, ids: NDArray[np.int64], max_fields: int = 4, overlap: bool = True
    ) -> None:
        self.comm = comm
        self.shape = ids.shape
        self.max_fields, self.overlap = max_fields, overlap
        self.plan = make_plan(comm, np.ascontiguousarray(ids, np.int64))
        slots, points = self.plan.shared.send_index.size, self.plan.shared.starts.size - 1
        self._send = np.zeros(slots * max_fields)
        self._receive = np.zeros(slots * max_fields)
        self._partial = np.zeros(points * max_fields)
        self._exchanges: dict[tuple[DTypeLike, int], _FieldMessages] = {}
        # Freeing is local. If it were left to the end of the program, MPI would complain of each request.
        self._finalizer = weakref.finalize(self, _free, self._exchanges)
        self._active: tuple[int, DTypeLike, Operation, int] | None = None
        self.compile()

    @property
    def boundary_elements(self) -> NDArray[np.int64]:
        """Local elements, int64, that share points with other ranks; they must be final before `start`."""
        return self.plan.boundary

    @property
    def interior_elements(self) -> NDArray[np.int64]:
        """Local elements, int64, that share no point with other ranks; they must be final before `finish`."""
        return self.plan.interior

    def compile(
        self, operations: Iterable[Operation] = ("add",), dtypes: Iterable[DTypeLike] = ("float64",)
    ) -> None:
        """Compile the kernels of these operations and dtypes, or load them from the cache. Collective."""
        kernels = [kernel for name in operations for kernel in make_kernels(OPERATIONS[name])]
        wanted = [each for dtype in dtypes for each in specialise(kernels, dtype)]
        compile_on_nodes(self.comm, lambda: compile_kernels(wanted))

    def _fields(self, u: Array) -> Array:
        """Return u as [fields, points]. Raise ValueError if it does not fit."""
        if u.shape != self.shape and u.shape[1:] != self.shape:
            raise ValueError(f"an array of shape {u.shape} does not match points of shape {self.shape}")
        if u.dtype not in _DTYPES or not u.flags.c_contiguous:
            raise ValueError(
                f"fields must be C-contiguous float64 or float32, not {u.dtype} with strides {u.strides}"
            )
        fields = 1 if u.shape == self.shape else u.shape[0]
        if fields > self.max_fields:
            raise ValueError(
                f"{fields} fields are too many for one call, which may have at most max_fields = {self.max_fields}"
            )
        return u.reshape(fields, -1) if u.size else u.reshape(fields, 0)

    def _exchange(self, dtype: DTypeLike, m: int) -> _FieldMessages:
        """Return views of the buffers and requests for m fields of a dtype, made at their first use."""
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
        """Send the shared points of u. The boundary elements of u must be final, and stay so until `finish`.

        u is not changed. Communication: one message to each neighbour; this call waits for them if not `overlap`.
        """
        if self._active is not None:
            raise RuntimeError("a gather-scatter is in progress. Finish it before the next start.")
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

        All elements of u must be final. local: False if the caller has already combined the points of this rank alone
        for all elements, by the kernel `local` of `make_kernels` with `local_lists`.
        Raises RuntimeError if `start` was not called for u.
        """
        if self._active is None or self._active[0] != u.ctypes.data:
            raise RuntimeError("the gather-scatter of this array was not started")
        _, dtype, operation, m = self._active
        fields = self._fields(u)
        combine_groups, _, scatter = make_kernels(OPERATIONS[operation])
        if local:
            combine_groups(*self.local_lists, 0, self.shape[0], fields)
        shared = self.plan.shared
        if shared.ranks:
            exchange = self._exchange(dtype, m)
            MPI.Request.Waitall(exchange.receives)
            scatter(
                shared.starts,
                shared.places,
                shared.source_starts,
                shared.sources,
                exchange.receive,
                exchange.partial,
                fields,
            )
            MPI.Request.Waitall(exchange.sends)
        self._active = None

    def sum_computed(self, u: Array, compute: Compute, batch: int = 1) -> None:
        """Let compute(fields, elements) set all of u, and sum the copies of every point. Collective among neighbours.

        compute is called for some elements at a time. Elements that share points with other ranks come first, and
        their messages travel while the others are computed. Copies on this rank alone are summed while they are in a
        second-level cache. The sums have the same bits as those of `sum`.

        u: as in `combine`. batch: how many fields, given as a range, compute sets in one call.
        """
        self._compute(u, compute, batch, self.boundary_elements, 0)
        self.start(u)
        self._compute(u, compute, batch, self.interior_elements, len(self.boundary_elements))
        self.finish(u, local=False)

    def _compute(
        self, u: Array, compute: Compute, batch: int, elements: NDArray[np.int64], before: int
    ) -> None:
        """Let elements be computed, after `before` others, and sum the points of this rank that they complete."""
        fields = self._fields(u)
        combine_groups, _, _ = make_kernels(OPERATIONS["add"])
        step = max(1, CHUNK_BYTES * self.shape[0] // max(fields[:batch].nbytes, 1))
        for field in range(0, len(fields), batch):
            for first in range(0, len(elements), step):
                chunk = elements[first : first + step]
                compute(range(field, field + batch), chunk)
                start = before + first
                combine_groups(*self.local_lists, start, start + len(chunk), fields[field : field + batch])

    @property
    def local_lists(self) -> tuple[Array, ...]:
        """The lists for the kernel `local`, which combines a block of elements that was just computed.

        The kernel's `first` and `end` count elements in the order boundary_elements, then interior_elements.
        """
        return self.plan.local.arrays

    def multiplicity(self) -> NDArray[np.float64]:
        """Return the number of copies of each point on all ranks, of the shape of ids; 1 where ids is -1."""
        count = np.ones(self.shape)
        self.sum(count)
        return count

    def inverse_multiplicity(self) -> NDArray[np.float64]:
        """Return 1 / multiplicity, the weights with which a sum over copies is a sum over points."""
        return np.asarray(1.0 / self.multiplicity())

    @property
    def messages(self) -> int:
        """How many messages this rank sends, and receives, in a call."""
        return len(self.plan.shared.ranks)

    @property
    def bytes_sent(self) -> int:
        """How many bytes this rank sends, and receives, in a call for each float64 field."""
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
        """Return the sizes of the lists: points, groups by number of copies, neighbours, bytes."""
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
        """Free the requests now rather than with the object, which cannot be used afterwards."""
        self._finalizer()


def _free(exchanges: dict[tuple[DTypeLike, int], _FieldMessages]) -> None:
    for exchange in exchanges.values():
        for request in (*exchange.receives, *exchange.sends):
            request.Free()
    exchanges.clear()
