"""Faster paths of a distributed transpose: each an `Exchange` that stands in for the plain `Alltoallv`.

- `PaddedAlltoall`: MPI_Alltoall with equal blocks, for which MPI libraries have their best algorithms.
- `NodeStaged`: first within nodes, then between them, with fewer and larger messages.
- `SharedExchange`: no messages at all, for ranks of one node that share the arena.

Which of them a transpose takes is decided in `tuned_transpose`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from mpi4py.util.dtlib import from_numpy_dtype
from numpy.typing import NDArray

from ridgeline.fourier.exchanges.plain_transpose import Exchange, TransposePlan
from ridgeline.fourier.exchanges.shared_memory import SharedArray
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.errors import DecompositionError

Part = tuple[int, int]  # (arena index, numbers)


class PaddedAlltoall(Exchange):
    """One MPI_Alltoall per batch, blocks padded to the largest.

    MPI_Alltoall copies each rank's block for itself as well. Here that block holds nothing, because a rank's own part
    of the matrix stays where it is.
    """

    def __init__(self, comm: MPI.Comm, plan: TransposePlan, arena: NDArray[Any]) -> None:
        self._comm = comm
        self._plan = plan
        self._arena = arena
        self._types: dict[tuple[int, int], MPI.Datatype] = {}

    def _type(self, width: int, whole: int) -> MPI.Datatype:
        """Return a type of `width` variables of a padded block, as wide as `whole` of them."""
        if (width, whole) not in self._types:
            block = self._plan.largest_block
            inner = from_numpy_dtype(self._arena.dtype).Create_contiguous(block * width)
            self._types[width, whole] = inner.Create_resized(0, whole * block * self._plan.itemsize).Commit()
            inner.Free()
        return self._types[width, whole]

    def start(self, forward: bool, chunk: int, n: int) -> None:
        plan = self._plan
        if plan.size == 1 or not plan.largest_block:
            return
        for batch in range(-(-n // plan.batch)):
            whole = plan.batch_width(batch)
            kind = self._type(plan.batch_width(batch, n), whole)
            send, receive = (plan.place(batch, 0, side) for side in (forward, not forward))
            span = plan.size * whole * plan.largest_block
            self._comm.Alltoall(
                [self._arena[send : send + span], 1, kind], [self._arena[receive : receive + span], 1, kind]
            )

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        plan = self._plan
        others = plan.size - 1 if plan.largest_block else 0
        return others * n * plan.largest_block * plan.itemsize, others * -(-n // plan.batch)

    def free(self) -> None:
        for kind in self._types.values():
            kind.Free()
        self._types.clear()


@dataclass(frozen=True)
class Nodes:
    """The ranks of each node: ranks[node][place], the same number on every node."""

    ranks: tuple[tuple[int, ...], ...]

    @property
    def n_places(self) -> int:
        """Ranks of a node."""
        return len(self.ranks[0])

    def find(self, rank: int) -> tuple[int, int]:
        """Return (node, place) of a rank."""
        return next((n, ranks.index(rank)) for n, ranks in enumerate(self.ranks) if rank in ranks)


def find_nodes(comm: MPI.Comm, ranks_per_node: int | None) -> Nodes | None:
    """Return the nodes of a communicator, None if they have unequal numbers of its ranks. Collective.

    With ranks_per_node the ranks are cut into nodes of that many, whatever node they are on.
    """
    layout = find_layout(comm, ranks_per_node)
    ranks = tuple(tuple(layout.ranks_on(node)) for node in range(layout.n_nodes))
    return Nodes(ranks) if len({len(on_node) for on_node in ranks}) == 1 else None


def require_nodes(nodes: Nodes | None, size: int) -> Nodes:
    """Return the nodes; raise DecompositionError if there are none of equal size."""
    if nodes is None:
        raise DecompositionError(
            f'model.transpose.method = "node" requires that the {size} ranks are divided equally over the nodes. '
            f'Use another number of ranks or model.transpose.method = "auto".'
        )
    return nodes


def staging_size(plan: TransposePlan, nodes: Nodes) -> int:
    """Return the numbers that pass through this rank between the two phases, of one batch."""
    node, place = nodes.find(plan.rank)
    pairs = [
        (near, far[place]) for near in nodes.ranks[node] for n, far in enumerate(nodes.ranks) if n != node
    ]
    width = plan.batch_width(0)
    return width * max(
        sum(plan.block(*pair) for pair in pairs), sum(plan.block(*pair[::-1]) for pair in pairs)
    )


class NodeStaged(Exchange):
    """Two phases, within a node and then between nodes, each with one MPI_Alltoallw per batch.

    Rank (node n, place l) sends what is for place l' of any node to (n, l'). Then (n, l') sends to each (n', l') what
    its node has for it. What stays in the node arrives in the first phase. Messages between nodes are as many times
    larger as a node has ranks. The data crosses memory once more, which pays where messages would be so small that
    their number counts.

    arena: with `staging_size` numbers after the plan's.
    """

    def __init__(self, comm: MPI.Comm, plan: TransposePlan, arena: NDArray[Any], nodes: Nodes) -> None:
        self._plan = plan
        self._arena = arena
        self._nodes = nodes
        self._node, self._place = nodes.find(plan.rank)
        self._within = comm.Split(self._node, self._place)
        self._between = comm.Split(self._place, self._node)
        self._number = from_numpy_dtype(arena.dtype)
        self._calls: dict[tuple[bool, int, int], list[tuple[MPI.Comm, _Datatypes, _Datatypes]]] = {}

    def start(self, forward: bool, chunk: int, n: int) -> None:
        for batch in range(-(-n // self._plan.batch)):
            for comm, send, receive in self._batch(forward, batch, n):
                comm.Alltoallw(send.spec, receive.spec)

    def _batch(self, forward: bool, batch: int, n: int) -> list[tuple[MPI.Comm, _Datatypes, _Datatypes]]:
        """Return (communicator, sent, received) of the two phases, which are made when they are first needed."""
        key = forward, batch, n
        if key not in self._calls:
            self._calls[key] = self._plan_batch(forward, self._plan.batch_width(batch, n), batch)
        return self._calls[key]

    def _plan_batch(
        self, forward: bool, width: int, batch: int
    ) -> list[tuple[MPI.Comm, _Datatypes, _Datatypes]]:
        plan, ranks = self._plan, self._nodes.ranks
        n_nodes, n_places = len(ranks), self._nodes.n_places
        node, place, me = self._node, self._place, plan.rank

        def size(source: int, target: int) -> int:
            return width * (plan.block(source, target) if forward else plan.block(target, source))

        def sent(target: int) -> Part:
            return plan.place(batch, target, forward), size(me, target)

        def received(source: int) -> Part:
            return plan.place(batch, source, not forward), size(source, me)

        staged: dict[tuple[int, int], Part] = {}  # (far node, place of the source in this node)
        at = plan.arena_size
        for far in range(n_nodes):
            for near in range(n_places):
                if far != node:
                    count = size(ranks[node][near], ranks[far][place])
                    staged[far, near] = at, count
                    at += count

        own = me, me
        send_1 = [[sent(far[p]) for far in ranks if (me, far[p]) != own] for p in range(n_places)]
        receive_1 = []
        for p in range(n_places):
            parts = [staged[far, p] for far in range(n_nodes) if far != node]
            here = [] if p == place else [received(ranks[node][p])]
            # In the order of nodes, as the sender has them.
            receive_1.append(parts[:node] + here + parts[node:])
        send_2 = [[] if f == node else [staged[f, p] for p in range(n_places)] for f in range(n_nodes)]
        receive_2 = [[] if f == node else [received(source) for source in ranks[f]] for f in range(n_nodes)]
        return [
            (self._within, self._side(send_1), self._side(receive_1)),
            (self._between, self._side(send_2), self._side(receive_2)),
        ]

    def _side(self, messages: list[list[Part]]) -> _Datatypes:
        return _Datatypes(self._arena, self._number, messages)

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        n_bytes = n_messages = 0
        for batch in range(-(-n // self._plan.batch)):
            for comm, send, _ in self._batch(forward, batch, n):
                others = [size for peer, size in enumerate(send.sizes) if peer != comm.rank and size]
                n_bytes += sum(others)
                n_messages += len(others)
        return n_bytes, n_messages

    def free(self) -> None:
        for phases in self._calls.values():
            for _, send, receive in phases:
                send.free()
                receive.free()
        self._calls.clear()
        self._within.Free()
        self._between.Free()


class _Datatypes:
    """One side of an MPI_Alltoallw: the parts of the arena that each rank receives or sends, in order."""

    def __init__(self, arena: NDArray[Any], number: MPI.Datatype, messages: list[list[Part]]) -> None:
        item = arena.dtype.itemsize
        self.sizes = [item * sum(count for _, count in parts) for parts in messages]
        self._types = []
        for parts in messages:
            filled = [(place, count) for place, count in parts if count]
            kind = number.Create_hindexed(
                [count for _, count in filled], [place * item for place, _ in filled]
            )
            self._types.append(kind.Commit())
        n = len(messages)
        # Places are in the types: MPI before version 4 has no others that reach past 2 GiB.
        self.spec: list[Any] = [arena, np.ones(n, np.int64), np.zeros(n, np.int64), self._types]

    def free(self) -> None:
        """Free the datatypes."""
        for kind in self._types:
            kind.Free()


class SharedExchange(Exchange):
    """No messages: each entry has one place in shared memory, which both of its owners use in turn.

    memory: the arena, laid out as `TransposePlan.begins` says. From the end of an inverse exchange to the next
    forward one an entry belongs to its row owner, otherwise to its column owner. Two exchanges in one direction need
    an `open` between them, which waits for the readers of the first.
    """

    def __init__(self, plan: TransposePlan, memory: SharedArray) -> None:
        self._plan = plan
        self._memory = memory
        self._forward: bool | None = None  # the last exchange, whose results others may still read

    def open(self, forward: bool) -> None:
        if self._forward == forward:
            self._memory.wait()
            self._forward = None

    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Note the direction. Raises RuntimeError for a second exchange in a direction that was not opened."""
        if self._forward == forward:
            raise RuntimeError(
                "two exchanges in the same direction follow each other, and others may still read the first. Open "
                "the second one before it starts."
            )
        self._forward = forward

    def finish(self) -> None:
        self._memory.wait()

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        """Return (bytes, 0): what others read of this rank in one exchange, without a message."""
        plan, me = self._plan, self._plan.rank
        others = [peer for peer in range(plan.size) if peer != me]
        entries = sum(plan.block(me, peer) if forward else plan.block(peer, me) for peer in others)
        return n * entries * plan.itemsize, 0

    def free(self) -> None:
        self._memory.free()
