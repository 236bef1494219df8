"""Distributed transpose: a matrix cut by rows becomes cut by columns, and back, through one arena.

    transpose = Transpose(comm, row_counts, column_counts, 4, 3, np.complex64, TransposeTuning())
    down = transpose.forward
    down.open()
    ...                    # the row side writes its pieces at arena[down.row_start[variable, row, segment]]
    down.start(0)          # once per chunk of down.chunks, in order
    down.finish()
    ...                    # the column side reads at arena[down.column_start[variable, row, group]]

then the column side writes at `inverse.column_start` and the row side reads at `inverse.row_start` likewise. The
regions of transpose_plan.py say why a side may overwrite what it has read. Source: Yeung et al. (GESTS), Sec. 2.1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.exchanges.shared_memory import SharedArray, can_share
from ridgeline.fourier.exchanges.transpose_methods import Alltoallv, Exchange, PaddedAlltoall
from ridgeline.fourier.exchanges.transpose_node import (
    Nodes,
    NodeStaged,
    find_nodes,
    require_nodes,
    staging_size,
)
from ridgeline.fourier.exchanges.transpose_plan import TransposePlan, check_layout, check_limits
from ridgeline.fourier.exchanges.transpose_shared import InPlace
from ridgeline.fourier.tuning import Method, TransposeTuning
from ridgeline.parallel.autotuner import TuningResult, choose
from ridgeline.runtime.aligned import aligned_zeros
from ridgeline.runtime.errors import DecompositionError

MOST_PADDING = 1.5  # "auto" leaves out padded blocks that hold more than this of the numbers


class Direction:
    """One direction of a transpose. Attributes that the sender and the receiver loop over:

    row_start: int64 [n_variables, my rows, n_segments], arena index of the first number of row i's piece in
        segment s. The numbers of a piece lie side by side.
    segment_columns: int64 [n_segments + 1], first column of each segment; columns numbered over all ranks.
    column_start: int64 [n_variables, all rows, n_groups], the same for my columns of group g.
    group_columns: int64 [n_groups + 1], first of my columns of each group.
    chunks: int64 [n_chunks + 1], parts in which the sender hands over: forward its rows
        chunks[c] ... chunks[c + 1] - 1, inverse its columns.
    under_way: seconds of wall time between the first `start` and the end of `finish`, over all exchanges so far. What
        is computed between them counts: no message was moved in less.
    """

    def __init__(self, plan: TransposePlan, exchange: Exchange, forward: bool, n_variables: int) -> None:
        self.n_variables = n_variables
        self.row_start = plan.row_start[:n_variables]
        self.segment_columns = plan.segment_columns
        self.column_start = plan.column_start[:n_variables]
        self.group_columns = plan.column_cuts(plan.rank)
        self.chunks = plan.row_cuts(plan.rank) if forward else self.group_columns
        self._plan = plan
        self._exchange = exchange
        self._forward = forward
        self._next = 0
        self._moving = 0
        self._begin = self.under_way = 0.0

    def open(self) -> None:
        """Wait until what is handed over next may be written. Collective, before the sender writes.

        Only "shared" ever waits: after an exchange in this same direction, whose receivers may still read.
        """
        self._exchange.open(self._forward)

    def start(self, chunk: int, n_variables: int | None = None) -> None:
        """Hand over chunk `chunk`, written before; the first n_variables of it (default all). Collective.

        Chunks are started in order, by all ranks with the same n_variables. Until `finish`, leave what was handed
        over alone; what receivers have of further variables is undefined then. Raises RuntimeError for a chunk out
        of order or an exchange that was not opened, ValueError for more variables than planned.
        """
        n = self.n_variables if n_variables is None else n_variables
        if chunk != self._next or (chunk and n != self._moving):
            raise RuntimeError(
                f"chunk {chunk} with {n} variables cannot start now; "
                f"start chunks in order and with equal variables, the next is {self._next}"
            )
        if not 1 <= n <= self.n_variables:
            raise ValueError(
                f"{n} variables cannot be exchanged; the transpose was planned for {self.n_variables}"
            )
        if chunk == 0:
            self._begin = time.perf_counter()
        self._next += 1
        self._moving = n
        self._exchange.start(self._forward, chunk, n)

    def progress(self) -> None:
        """Let MPI move on what was started; worth a call now and then while computing. Not collective."""
        self._exchange.progress()

    def finish(self) -> None:
        """Wait until all that others handed over is here and what was handed over may be overwritten. Collective.

        Raises RuntimeError unless every chunk was started.
        """
        if self._next != len(self.chunks) - 1:
            raise RuntimeError(f"the exchange has {len(self.chunks) - 1} chunks, {self._next} were started")
        self._exchange.finish()
        self._next = 0
        self.under_way += time.perf_counter() - self._begin

    def exchange(self, n_variables: int | None = None) -> None:
        """Start all chunks and finish; the exchange is open. Collective."""
        for chunk in range(len(self.chunks) - 1):
            self.start(chunk, n_variables)
        self.finish()

    def regions(self, chunk: int) -> list[tuple[int, int]]:
        """Return (begin, end) in the arena of all that others get of a chunk."""
        plan, found = self._plan, []
        for batch in range(-(-self.n_variables // plan.batch)):
            for peer in range(plan.size):
                if peer != plan.rank:
                    pair = (plan.rank, peer) if self._forward else (peer, plan.rank)
                    place = plan.place(batch, peer, self._forward)
                    parts = plan.parts(*pair, batch, self._forward, chunk, self.n_variables)
                    found += [(place + begin, place + begin + count) for begin, count in parts]
        return found

    def bytes_sent(self, n_variables: int | None = None) -> int:
        """Return the bytes that this rank sends to others in one exchange, of all or the first n_variables.

        As handed to MPI: with the padding of "alltoall" and both phases of "node". Of "shared": what others read.
        """
        return self._exchange.traffic(self._forward, n_variables or self.n_variables)[0]

    def messages(self, n_variables: int | None = None) -> int:
        """Return the messages that this rank sends to others in one exchange, of all or the first n_variables."""
        return self._exchange.traffic(self._forward, n_variables or self.n_variables)[1]

    def bytes_held(self, n_variables: int | None = None) -> int:
        """Return the bytes that this rank hands over, its own block included: P2P x R of the paper's Eq. 13."""
        plan, n = self._plan, n_variables or self.n_variables
        if self._forward:
            entries = plan.row_counts[plan.rank] * sum(plan.column_counts)
        else:
            entries = sum(plan.row_counts) * plan.column_counts[plan.rank]
        return n * entries * plan.itemsize


class Transpose:
    """A planned transpose between the ranks of `comm`. Built collectively; allocates nothing afterwards.

    Parameters
    ----------
    comm : all ranks that hold a part
    row_counts, column_counts : rows and columns of every rank, in the order of ranks; any may be zero
    n_forward, n_inverse : most variables per exchange from row to column owners, and back
    dtype : complex64 or complex128
    tuning : how they travel
    tile : columns that the column side works on together; groups are multiples of it
    agreement : ranks that take the same method in "auto", such as all rows of a process grid. Each such row is a
        `comm` of the same size. None: those of comm
    allocate : makes the arena of n numbers of a dtype, where "shared" is out of the question then; None: host memory.
        MPI must know the memory (a device's too)

    Attributes: arena: numbers, where the tables of directions say; of "shared" those of all ranks. trial: the methods
    that "auto" timed, there and back, and the one that is taken; None where there was no choice.

    Raises ValueError if counts or dtype do not fit, DecompositionError for "node" with unequal nodes or for more
    numbers than the MPI library can address. So it does for "shared" on several nodes, or without room.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        row_counts: Sequence[int],
        column_counts: Sequence[int],
        n_forward: int,
        n_inverse: int,
        dtype: DTypeLike,
        tuning: TransposeTuning,
        *,
        tile: int = 1,
        agreement: MPI.Comm | None = None,
        allocate: Callable[[int, np.dtype[Any]], Any] | None = None,
    ) -> None:
        check_layout(row_counts, column_counts, comm.size)
        self._dtype = np.dtype(dtype)
        if self._dtype.kind != "c":
            raise ValueError(f"a transpose moves complex numbers, not {self._dtype}")
        self.comm = comm
        self._agreement = comm if agreement is None else agreement
        self._allocate = allocate or aligned_zeros
        self._in_host = allocate is None
        self._base = TransposePlan(
            comm.rank,
            tuple(int(n) for n in row_counts),
            tuple(int(n) for n in column_counts),
            max(n_forward, n_inverse),
            tuning.batch,
            self._dtype.itemsize,
            tile=tile,
        )
        self._n_forward, self._n_inverse, self._n_chunks = n_forward, n_inverse, tuning.n_chunks
        alone = comm.size == 1 and tuning.method in ("auto", "shared")
        method: Method = "alltoallv" if alone else tuning.method
        nodes = find_nodes(comm, tuning.ranks_per_node) if method in ("auto", "node") else None
        shares = method in ("auto", "shared") and self._can_share(tuning.ranks_per_node)
        if method == "shared" and not shares:
            raise DecompositionError(
                f'transpose.method = "shared" needs all {comm.size} ranks of an exchange on one node with room for '
                f'{self._base.shared_size * self._dtype.itemsize} bytes of each in /dev/shm; use "auto"'
            )
        self._use("alltoallv" if method == "auto" else method, nodes)
        self.trial = self._take_fastest(nodes, shares, tuning.ranks_per_node) if method == "auto" else None

    def _can_share(self, ranks_per_node: int | None) -> bool:
        """Return whether all ranks may have the arena in one memory. Collective."""
        fits = can_share(self.comm, self._agreement, self._base.shared_size * self._dtype.itemsize)
        return fits and self._in_host and self.comm.size <= (ranks_per_node or self.comm.size)

    def _take_fastest(self, nodes: Nodes | None, shares: bool, ranks_per_node: int | None) -> TuningResult:
        """Use the fastest method that fits. Collective, the same on all ranks."""
        plan = self._base
        fitting: list[Method] = ["alltoallv", "ialltoallv"]
        entries = sum(plan.row_counts) * sum(plan.column_counts)
        if self._all_agree(plan.largest_block * plan.size**2 <= MOST_PADDING * entries):
            fitting.append("alltoall")
        if self._all_agree(nodes is not None and 1 < nodes.n_places < plan.size):
            fitting.append("node")
        if shares:
            fitting.append("shared")
        key = (
            f"transpose {sum(plan.row_counts)} x {sum(plan.column_counts)} {self._dtype} over {plan.size} ranks, "
            f"{ranks_per_node or 'all'} on a node; {self._n_forward} and {self._n_inverse} variables, "
            f"Q = {plan.batch}, {self._n_chunks} chunks, tiles of {plan.tile}{' on a device' * (not self._in_host)}"
        )
        trial = choose({name: partial(self._try, name, nodes) for name in fitting}, key, self._agreement)
        self.free()
        self._use(next(name for name in fitting if name == trial.taken), nodes)
        return trial

    def _all_agree(self, flag: bool) -> bool:
        return bool(self._agreement.allreduce(flag, MPI.LAND))

    def _use(self, method: Method, nodes: Nodes | None) -> None:
        """Lay out the arena for a method and make its exchange. Collective."""
        plan, extra = self._base, 0
        if method == "alltoall":
            plan = replace(plan, padded=True)
        elif method == "ialltoallv":
            tiles = min(-(-n // plan.tile) for n in plan.column_counts)
            most = max(1, self._n_chunks)
            plan = replace(plan, n_chunks=min(most, *plan.row_counts) or 1, n_groups=min(most, tiles) or 1)
        elif method == "node":
            nodes = require_nodes(nodes, plan.size)
            extra = staging_size(plan, nodes)
        self.method = method
        self._exchange: Exchange
        if method == "shared":
            memory = SharedArray(self.comm, plan.shared_size, self._dtype)
            plan = replace(plan, batch=plan.n_variables, begins=memory.begin)
            self.arena, self._own = memory.whole, memory.own
            self._exchange = InPlace(plan, memory)
        else:
            check_limits(plan.arena_size + extra, MPI.Get_version()[0])
            self.arena = self._own = self._allocate(plan.arena_size + extra, self._dtype)
            self._exchange = self._messages(method, plan, nodes)
        self.plan = plan
        self.forward = Direction(plan, self._exchange, True, self._n_forward)
        self.inverse = Direction(plan, self._exchange, False, self._n_inverse)

    def _messages(self, method: Method, plan: TransposePlan, nodes: Nodes | None) -> Exchange:
        """Return the exchange of a method that sends messages. Collective."""
        if method == "alltoall":
            return PaddedAlltoall(self.comm, plan, self.arena)
        if method == "node" and nodes is not None:
            return NodeStaged(self.comm, plan, self.arena, nodes)
        return Alltoallv(self.comm, plan, self.arena, overlap=method == "ialltoallv")

    def _try(self, method: Method, nodes: Nodes | None) -> Mapping[str, float]:
        """Exchange there and back by a method, with writing and reading what others get. Collective.

        Reading counts because with "shared" it is then that numbers go from one core to another. Where that is out of
        the question, the arena may be on a device. One method has an arena at a time.
        """
        if method != self.method:
            self.free()
            self._use(method, nodes)
        real = np.empty(0, self._dtype).real.dtype
        for direction, other in ((self.forward, self.inverse), (self.inverse, self.forward)):
            direction.open()
            for chunk in range(len(direction.chunks) - 1):
                for first, last in direction.regions(chunk):
                    self.arena[first:last] = 0
                direction.start(chunk)
            direction.finish()
            for chunk in range(len(other.chunks) - 1 if self._in_host else 0):
                for first, last in other.regions(chunk):
                    self.arena[first:last].view(real).sum()
        return {}

    def clear(self) -> None:
        """Fill the arena with zeros, of "shared" for all ranks. Collective."""
        self._own[...] = 0
        self.comm.Barrier()

    @property
    def workspace(self) -> NDArray[Any] | None:
        """The arena, free for other uses between exchanges; None where others may still read it."""
        return None if self.method == "shared" else self.arena

    def free(self) -> None:
        """Free what is MPI's: datatypes, communicators, shared memory. Not usable afterwards. Collective."""
        self._exchange.free()
        del self.arena, self._own

    @property
    def under_way(self) -> float:
        """Seconds of wall time that exchanges of either direction were under way so far (see `Direction`)."""
        return self.forward.under_way + self.inverse.under_way

    def memory(self) -> int:
        """Return the bytes of the arena and of the tables."""
        tables = (self.plan.row_start, self.plan.column_start)
        return int(self._own.nbytes) + sum(table.nbytes for table in tables)

    def describe(self) -> str:
        """Return the method and this rank's messages in words."""
        if self.plan.size == 1:
            return "one rank, nothing moves"
        if self.method == "shared":
            read = (self.forward.bytes_sent() + self.inverse.bytes_sent()) / 2**20
            return f"shared, others read {read:.3g} MiB in place"
        words = [f"{self.method}, Q = {self.plan.batch}"]
        for name, direction in (("forward", self.forward), ("inverse", self.inverse)):
            messages = direction.messages()
            each = direction.bytes_sent() / max(messages, 1) / 2**20
            words.append(f"{name} {messages} messages of {each:.3g} MiB")
        return ", ".join(words)
