"""Transpose in two phases: within a node, then between nodes, with messages as many times larger as a node has ranks.

Rank (node n, place l) gives what is for place l' of any node to (n, l'); then (n, l') sends to each (n', l') what its
node has for it. What stays in the node arrives in the first phase. The data crosses memory once more; worth it where
messages would be so small that their number counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from mpi4py.util.dtlib import from_numpy_dtype
from numpy.typing import NDArray

from ridgeline.fourier.exchanges.transpose_methods import Blocking
from ridgeline.fourier.exchanges.transpose_plan import TransposePlan
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.errors import DecompositionError

Part = tuple[int, int]  # (arena index, numbers)


@dataclass(frozen=True)
class Nodes:
    """Which ranks share a node: ranks[node][place], as many on each."""

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

    ranks_per_node: cut the ranks into nodes of that many, whatever node they are on.
    """
    layout = find_layout(comm, ranks_per_node)
    found = tuple(tuple(layout.ranks_on(node)) for node in range(layout.n_nodes))
    return Nodes(found) if len({len(ranks) for ranks in found}) == 1 else None


def require_nodes(nodes: Nodes | None, size: int) -> Nodes:
    """Return the nodes; raise DecompositionError if there are none of equal size."""
    if nodes is None:
        raise DecompositionError(
            f'transpose.method = "node" needs as many of the {size} ranks on every node; '
            f'use another number of ranks or transpose.method = "auto"'
        )
    return nodes


def staging_size(plan: TransposePlan, nodes: Nodes) -> int:
    """Return the numbers that pass through this rank between the phases, of one batch."""
    node, place = nodes.find(plan.rank)
    pairs = [
        (near, far[place]) for near in nodes.ranks[node] for n, far in enumerate(nodes.ranks) if n != node
    ]
    width = plan.batch_width(0)
    return width * max(
        sum(plan.block(*pair) for pair in pairs), sum(plan.block(*pair[::-1]) for pair in pairs)
    )


class NodeStaged(Blocking):
    """The two phases, each one MPI_Alltoallw per batch. arena: with `staging_size` numbers after the plan's."""

    def __init__(self, comm: MPI.Comm, plan: TransposePlan, arena: NDArray[Any], nodes: Nodes) -> None:
        self._plan = plan
        self._arena = arena
        self._nodes = nodes
        self._node, self._place = nodes.find(plan.rank)
        self._within = comm.Split(self._node, self._place)
        self._between = comm.Split(self._place, self._node)
        self._number = from_numpy_dtype(arena.dtype)
        self._calls: dict[tuple[bool, int, int], list[tuple[MPI.Comm, _Datatypes, _Datatypes]]] = {}

    def _batch(self, forward: bool, batch: int, n: int) -> list[tuple[MPI.Comm, _Datatypes, _Datatypes]]:
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
        take_1 = []
        for p in range(n_places):
            parts = [staged[far, p] for far in range(n_nodes) if far != node]
            here = [] if p == place else [received(ranks[node][p])]
            # In the order of nodes, as the sender has them.
            take_1.append(parts[:node] + here + parts[node:])
        send_2 = [[] if f == node else [staged[f, p] for p in range(n_places)] for f in range(n_nodes)]
        take_2 = [[] if f == node else [received(source) for source in ranks[f]] for f in range(n_nodes)]
        return [
            (self._within, self._side(send_1), self._side(take_1)),
            (self._between, self._side(send_2), self._side(take_2)),
        ]

    def _side(self, messages: list[list[Part]]) -> _Datatypes:
        return _Datatypes(self._arena, self._number, messages)

    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Exchange all batches."""
        for batch in range(-(-n // self._plan.batch)):
            for comm, send, receive in self._batch(forward, batch, n):
                comm.Alltoallw(send.spec, receive.spec)

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        """Return (bytes, messages) that this rank sends to others in one exchange, of both phases."""
        n_bytes = n_messages = 0
        for batch in range(-(-n // self._plan.batch)):
            for comm, send, _ in self._batch(forward, batch, n):
                others = [size for peer, size in enumerate(send.sizes) if peer != comm.rank and size]
                n_bytes += sum(others)
                n_messages += len(others)
        return n_bytes, n_messages

    def free(self) -> None:
        """Free datatypes and communicators."""
        for phases in self._calls.values():
            for _, send, receive in phases:
                send.free()
                receive.free()
        self._calls.clear()
        self._within.Free()
        self._between.Free()


class _Datatypes:
    """One side of an MPI_Alltoallw: for each rank the parts of the arena that it gets or gives, in order."""

    def __init__(self, arena: NDArray[Any], number: MPI.Datatype, messages: list[list[Part]]) -> None:
        item = arena.dtype.itemsize
        self.sizes = [item * sum(count for _, count in parts) for parts in messages]
        self._types = []
        for parts in messages:
            kept = [(place, count) for place, count in parts if count]
            kind = number.Create_hindexed([count for _, count in kept], [place * item for place, _ in kept])
            self._types.append(kind.Commit())
        n = len(messages)
        # Places are in the types: MPI before version 4 has no others that reach past 2 GiB.
        self.spec: list[Any] = [arena, np.ones(n, np.int64), np.zeros(n, np.int64), self._types]

    def free(self) -> None:
        """Free the datatypes."""
        for kind in self._types:
            kind.Free()
