"""Distributed transpose: a matrix cut by rows becomes cut by columns, and back, through one arena.

    transpose = Transpose(comm, row_counts, column_counts, n_forward=4, n_inverse=3, dtype=np.complex64)
    down = transpose.forward
    ...                    # the row side writes its pieces at arena[down.row_start[variable, row, segment]]
    down.start(0)          # once per chunk of down.chunks, in order
    down.finish()
    ...                    # the column side reads at arena[down.column_start[variable, row, group]]

then the column side writes at `inverse.column_start` and the row side reads at `inverse.row_start` likewise. The
regions of transpose_plan.py say why a side may overwrite what it has read. Source: Yeung et al. (GESTS), Sec. 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.comm.transpose_methods import Exchange, make_exchange
from ridgeline.comm.transpose_plan import LINE, TransposePlan, check_layout

Method = Literal["auto", "alltoallv"]


class Direction:
    """One direction of a transpose. Attributes that the sender and the receiver loop over:

    row_start: int64 [n_variables, my rows, n_segments], arena index of the first number of row i's piece in
        segment s; the numbers of a piece lie side by side.
    segment_columns: int64 [n_segments + 1], first column of each segment; columns numbered over all ranks.
    column_start: int64 [n_variables, all rows, n_groups], the same for my columns of group g.
    group_columns: int64 [n_groups + 1], first of my columns of each group.
    chunks: int64 [n_chunks + 1], parts in which the sender hands over: forward its rows
        chunks[c] ... chunks[c + 1] - 1, inverse its columns.
    """

    def __init__(self, plan: TransposePlan, exchange: Exchange, forward: bool, n_variables: int) -> None:
        self.n_variables = n_variables
        self.row_start = plan.row_start[:n_variables]
        self.segment_columns = plan.segment_columns
        self.column_start = plan.column_start[:n_variables]
        self.group_columns = plan.column_cuts(plan.rank)
        self.chunks = plan.row_cuts(plan.rank) if forward else self.group_columns
        self._exchange = exchange
        self._forward = forward
        self._next = 0
        self._moving = 0

    def start(self, chunk: int, n_variables: int | None = None) -> None:
        """Hand over chunk `chunk`, written before; the first n_variables of it (default all). Collective.

        Chunks are started in order, by all ranks with the same n_variables. Until `finish`, leave what was handed
        over alone. Raises RuntimeError for a chunk out of order, ValueError for more variables than planned.
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
        self._exchange.finish(self._forward, self._moving)
        self._next = 0

    def exchange(self, n_variables: int | None = None) -> None:
        """Start all chunks and finish. Collective."""
        for chunk in range(len(self.chunks) - 1):
            self.start(chunk, n_variables)
        self.finish()

    def bytes_sent(self, n_variables: int | None = None) -> int:
        """Return the bytes that this rank sends to others in one exchange, of all or the first n_variables."""
        n = self.n_variables if n_variables is None else n_variables
        return self._exchange.bytes_sent(self._forward, n)

    def messages(self, n_variables: int | None = None) -> int:
        """Return the messages that this rank sends to others in one exchange, of all or the first n_variables."""
        n = self.n_variables if n_variables is None else n_variables
        return self._exchange.messages(self._forward, n)


class Transpose:
    """A planned transpose between the ranks of `comm`. Built collectively; allocates nothing afterwards.

    Parameters
    ----------
    comm : all ranks that hold a part
    row_counts, column_counts : rows and columns of every rank, in the order of ranks; any may be zero
    n_forward, n_inverse : most variables per exchange from row to column owners, and back
    dtype : complex64 or complex128
    method : "alltoallv" (MPI_Alltoallv, exact counts); "auto" takes it too
    batch : Q, variables per MPI call, 1 to 4
    tile : columns that the column side works on together; groups are multiples of it
    ranks_per_node : None asks MPI which ranks share a node

    Raises ValueError if counts, batch or dtype do not fit.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        row_counts: Sequence[int],
        column_counts: Sequence[int],
        n_forward: int,
        n_inverse: int,
        dtype: DTypeLike,
        *,
        method: Method = "auto",
        batch: int = 1,
        tile: int = 1,
        ranks_per_node: int | None = None,
    ) -> None:
        check_layout(row_counts, column_counts, comm.size)
        kind = np.dtype(dtype)
        if kind.kind != "c":
            raise ValueError(f"a transpose moves complex numbers, not {kind}")
        if not 1 <= batch <= 4:
            raise ValueError(f"batch = {batch} variables per call; allowed are 1 to 4")
        self.comm = comm
        self.method = "alltoallv"
        self.plan = TransposePlan(
            comm.rank,
            tuple(int(n) for n in row_counts),
            tuple(int(n) for n in column_counts),
            max(n_forward, n_inverse),
            batch,
            kind.itemsize,
            tile=tile,
        )
        self.arena = aligned(self.plan.region_size, kind)
        self._exchange = make_exchange(self.method, comm, self.plan, self.arena)
        self.forward = Direction(self.plan, self._exchange, True, n_forward)
        self.inverse = Direction(self.plan, self._exchange, False, n_inverse)

    def memory(self) -> int:
        """Return the bytes of the arena and of the tables."""
        tables = (self.plan.row_start, self.plan.column_start)
        return self.arena.nbytes + sum(table.nbytes for table in tables)

    def describe(self) -> str:
        """Return the method and its messages in words."""
        return f"{self.method}, Q = {self.plan.batch}"


def aligned(n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return n zeros that begin at a cache line."""
    memory = np.zeros(n * dtype.itemsize + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + n * dtype.itemsize].view(dtype)
