"""A distributed transpose by the method that suits the machine: the plain path, or the fastest of several, measured.

    transpose = Transpose(comm, row_counts, column_counts, 4, 3, np.complex64, TransposeTuning())
    forward = transpose.forward
    forward.open()
    ...                    # the row side writes its pieces at arena[forward.row_start[variable, row, segment]]
    forward.start(0)       # once per chunk of forward.chunks, in order
    forward.finish()
    ...                    # the column side reads at arena[forward.column_start[variable, row, group]]

Back, the column side writes at `inverse.column_start` and the row side reads at `inverse.row_start`. How it works is
in `plain_transpose`; the methods beside MPI_Alltoallv are in `fast_transposes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.exchanges.fast_transposes import (
    Nodes,
    NodeStaged,
    PaddedAlltoall,
    SharedExchange,
    find_nodes,
    require_nodes,
    staging_size,
)
from ridgeline.fourier.exchanges.plain_transpose import (
    Alltoallv,
    Direction,
    Exchange,
    TransposePlan,
    check_layout,
    check_limits,
)
from ridgeline.fourier.exchanges.shared_memory import SharedArray, can_share
from ridgeline.fourier.tuning import Method, TransposeTuning
from ridgeline.parallel.autotuner import TuningResult, choose
from ridgeline.runtime.aligned import aligned_zeros
from ridgeline.runtime.errors import DecompositionError

MOST_PADDING = 1.5  # "auto" leaves out padded blocks that hold more than this of the numbers


class Transpose:
    """A planned transpose between the ranks of `comm`. Built collectively; allocates nothing afterwards.

    Parameters
    ----------
    comm : all ranks that hold a part
    row_counts, column_counts : rows and columns of every rank, in the order of ranks; any may be zero
    n_forward, n_inverse : most variables per exchange from row to column owners, and back
    dtype : complex64 or complex128
    tuning : the method, or "auto", and how messages are batched
    tile : columns that the column side works on together; groups are multiples of it
    agreement : ranks that must choose the same method in "auto", such as all rows of a process grid, each of which is
        a `comm` of the same size. None: the ranks of comm
    allocate : makes the arena of n numbers of a dtype; None for host memory. MPI must be able to use the memory (a
        device's too), and "shared" is not possible with it

    Attributes
    ----------
    arena : 1-D array of numbers, which lie where the tables of the directions say; with "shared" those of all ranks
    forward, inverse : the two `Direction`s
    method, plan : the method in use, and its layout of the arena
    trial : the methods that "auto" timed, there and back, and the chosen one; None where there was no choice

    Raises
    ------
    ValueError : if counts or dtype do not fit
    DecompositionError : for "node" with unequal nodes, for "shared" on several nodes or without enough shared memory,
        and for more numbers than the MPI library can address
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
            raise ValueError(f"a transpose exchanges complex numbers, not {self._dtype}")
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
        shares = False
        if method in ("auto", "shared"):
            fits = can_share(comm, self._agreement, self._base.shared_size * self._dtype.itemsize)
            shares = fits and self._in_host and comm.size <= (tuning.ranks_per_node or comm.size)
        if method == "shared" and not shares:
            raise DecompositionError(
                f'model.transpose.method = "shared" requires all {comm.size} ranks of an exchange on one node, and '
                f"{self._base.shared_size * self._dtype.itemsize} bytes for each of them in /dev/shm. Use "
                f'model.transpose.method = "auto".'
            )
        self._set_up("alltoallv" if method == "auto" else method, nodes)
        self.trial = self._choose_fastest(nodes, shares, tuning.ranks_per_node) if method == "auto" else None

    def _choose_fastest(self, nodes: Nodes | None, shares: bool, ranks_per_node: int | None) -> TuningResult:
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
        trial = choose(
            {name: partial(self._round_trip, name, nodes) for name in fitting}, key, self._agreement
        )
        self.free()
        self._set_up(next(name for name in fitting if name == trial.taken), nodes)
        return trial

    def _all_agree(self, flag: bool) -> bool:
        return bool(self._agreement.allreduce(flag, MPI.LAND))

    def _set_up(self, method: Method, nodes: Nodes | None) -> None:
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
            self._exchange = SharedExchange(plan, memory)
        else:
            check_limits(plan.arena_size + extra, MPI.Get_version()[0])
            self.arena = self._own = self._allocate(plan.arena_size + extra, self._dtype)
            if method == "alltoall":
                self._exchange = PaddedAlltoall(self.comm, plan, self.arena)
            elif method == "node" and nodes is not None:
                self._exchange = NodeStaged(self.comm, plan, self.arena, nodes)
            else:
                self._exchange = Alltoallv(self.comm, plan, self.arena, overlap=method == "ialltoallv")
        self.plan = plan
        self.forward = Direction(plan, self._exchange, True, self._n_forward)
        self.inverse = Direction(plan, self._exchange, False, self._n_inverse)

    def _round_trip(self, method: Method, nodes: Nodes | None) -> Mapping[str, float]:
        """Exchange there and back by a method, with writing and reading what others get. Collective.

        Reading counts, because with "shared" numbers go from one core to another only when they are read. It is left
        out where the arena is not in host memory, which excludes "shared". Only one method has an arena at a time.
        """
        if method != self.method:
            self.free()
            self._set_up(method, nodes)
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
        """Fill the arena with zeros, with "shared" that of all ranks. Collective."""
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
            return "none on one rank"
        if self.method == "shared":
            read = (self.forward.bytes_sent() + self.inverse.bytes_sent()) / 2**20
            return f"shared memory, of which other ranks read {read:.3g} MiB"
        words = [f"{self.method}, Q = {self.plan.batch}"]
        for name, direction in (("forward", self.forward), ("inverse", self.inverse)):
            messages = direction.messages()
            each = direction.bytes_sent() / max(messages, 1) / 2**20
            words.append(f"{name} {messages} messages of {each:.3g} MiB")
        return ", ".join(words)
