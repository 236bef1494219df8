"""The plain path of a distributed transpose, from the layout of its memory to the end of MPI_Alltoallv.

A matrix of `rows x columns`, whose entries hold n variables each, is cut by rows on one side (the *row owners*: some
rows, all columns) and by columns on the other side (the *column owners*: all rows, some columns). Every rank is both.
An exchange takes the matrix from row owners to column owners (*forward*) or back (*inverse*), in four steps:

1. `TransposePlan` says where every number lies in the rank's *arena*, a 1-D array.
2. The sending side packs: it writes its pieces at the arena indices of `Direction.row_start` (forward) or
   `Direction.column_start` (inverse). It does so in any order, and usually as it computes them.
3. `Direction.start` and `Direction.finish` move what was written, here by `Alltoallv`.
4. The receiving side unpacks: it reads at the indices of the other table.

`tuned_transpose.Transpose` makes these objects, allocates the arena, and may take another `Exchange` in place of
`Alltoallv`: the faster ones for some machines and sizes are in `fast_transposes`.

The arena of a rank has three regions:

- own:     its rows x its columns, which both sides see in one place, and which is never copied;
- rows:    its rows x the columns of others, written and read by the row side;
- columns: the rows of others x its columns, written and read by the column side.

A forward exchange takes the rows regions to the columns regions, an inverse one the other way. The two regions do not
overlap, and each entry has one place per side, whatever the direction. A side may therefore read an entry and
overwrite it while entries of the other side's region arrive.

A region is ordered [batch][rank][row chunk][column group][variable of batch][row][column], so that what goes to one
rank in one call is contiguous. Batches are Q variables; chunks and groups cut the work for methods that overlap it
with messages. Where ranks share memory, one arena is enough for all of them: the part of each rank holds its rows x
all columns, and both sides use the one place of an entry.

Source: Yeung et al. (GESTS), Sec. 2.1.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.parallel.partition import split
from ridgeline.runtime.aligned import CACHE_LINE
from ridgeline.runtime.errors import DecompositionError

if TYPE_CHECKING:
    from mpi4py import MPI

INT_MAX = 2**31 - 1
Message = list[Any]  # [buffer, counts, places, datatype] as mpi4py takes it


@dataclass(frozen=True)
class TransposePlan:
    """The layout of one rank's arena. No communication.

    Parameters
    ----------
    rank : this rank, of len(row_counts) ranks
    row_counts, column_counts : rows and columns of every rank
    n_variables : the most variables that an exchange in either direction moves
    batch : variables per MPI call
    itemsize : bytes of a number
    n_chunks, n_groups : parts into which the rows and the columns of each rank are cut
    tile : groups are multiples of this many columns, except the last one
    padded : every message takes the space of the largest one (MPI_Alltoall)
    begins : where each rank's part begins in an arena that all ranks share; empty if every rank has its own. A shared
        arena has one batch, one chunk and one group
    """

    rank: int
    row_counts: tuple[int, ...]
    column_counts: tuple[int, ...]
    n_variables: int
    batch: int
    itemsize: int
    n_chunks: int = 1
    n_groups: int = 1
    tile: int = 1
    padded: bool = False
    begins: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.row_counts)

    @property
    def n_batches(self) -> int:
        """Number of MPI calls that move all variables."""
        return -(-self.n_variables // self.batch)

    def batch_width(self, batch: int, n_variables: int | None = None) -> int:
        """Return how many of the first n_variables (default all) are in a batch."""
        most = self.n_variables if n_variables is None else n_variables
        return max(0, min(self.batch, most - batch * self.batch))

    def row_cuts(self, rank: int) -> NDArray[np.int64]:
        """Return the first local row of each chunk of a rank, and its number of rows. int64 [n_chunks + 1]."""
        n = self.row_counts[rank]
        return np.array([split(n, self.n_chunks, c)[0] for c in range(self.n_chunks)] + [n], np.int64)

    def column_cuts(self, rank: int) -> NDArray[np.int64]:
        """Return the first local column of each group of a rank, and its number of columns. int64 [n_groups + 1]."""
        n = self.column_counts[rank]
        tiles = -(-n // self.tile)
        cuts = [split(tiles, self.n_groups, g)[0] * self.tile for g in range(self.n_groups)]
        return np.minimum(np.array([*cuts, n], np.int64), n)

    def n_parts(self, forward: bool) -> int:
        """Return the number of parts that the sender hands over: chunks of rows forward, groups of columns back."""
        return self.n_chunks if forward else self.n_groups

    def block(self, row_rank: int, column_rank: int) -> int:
        """Return the number of entries that are in the rows of one rank and in the columns of another."""
        return self.row_counts[row_rank] * self.column_counts[column_rank]

    @cached_property
    def largest_block(self) -> int:
        """Number of entries of the largest block."""
        return max(self.row_counts) * max(self.column_counts)

    @cached_property
    def _cache_line(self) -> int:
        """Numbers in a cache line."""
        return max(1, CACHE_LINE // self.itemsize)

    @property
    def arena_size(self) -> int:
        """Numbers in the three regions."""
        return self._message_begins[1]

    @cached_property
    def _message_begins(self) -> tuple[NDArray[np.int64], int]:
        """Where the message of each (side, batch, peer) begins, and where the arena ends. Side 0 is the rows."""
        line = self._cache_line
        end = -(-self.n_variables * self.block(self.rank, self.rank) // line) * line
        begins = np.zeros((2, self.n_batches, self.size), np.int64)
        for side in range(2):
            for batch in range(self.n_batches):
                for peer in range(self.size):
                    begins[side, batch, peer] = end
                    end += self.batch_width(batch) * self._entries_with(peer, side == 0)
                    if not self.padded:
                        end = -(-end // line) * line
                end = -(-end // line) * line
        return begins, end

    def _entries_with(self, peer: int, row_side: bool) -> int:
        """Return the number of entries that a message between this rank and `peer` has space for."""
        if self.padded:
            return self.largest_block
        if peer == self.rank:
            return 0
        return self.block(self.rank, peer) if row_side else self.block(peer, self.rank)

    def place(self, batch: int, peer: int, row_side: bool) -> int:
        """Return the arena index at which the message of a batch from or to `peer` begins."""
        if self.begins:
            row_rank, column_rank = (self.rank, peer) if row_side else (peer, self.rank)
            return self._shared_place(row_rank, column_rank)
        begins, _ = self._message_begins
        return int(begins[0 if row_side else 1, batch, peer])

    @property
    def shared_size(self) -> int:
        """Numbers in this rank's part of an arena that all ranks share."""
        return sum(self._shared_block(self.rank, peer) for peer in range(self.size))

    def _shared_block(self, row_rank: int, column_rank: int) -> int:
        """Return the numbers of a block in a shared arena: whole cache lines, because two ranks write beside it."""
        line = self._cache_line
        return -(-self.n_variables * self.block(row_rank, column_rank) // line) * line

    def _shared_place(self, row_rank: int, column_rank: int) -> int:
        """Return where a block begins in a shared arena."""
        return self.begins[row_rank] + sum(self._shared_block(row_rank, c) for c in range(column_rank))

    def cell(self, row_rank: int, column_rank: int, batch: int, chunk: int, group: int) -> int:
        """Return where the cell (chunk, group) begins within the message of a batch between two ranks."""
        rows, columns = self.row_cuts(row_rank), self.column_cuts(column_rank)
        height = rows[chunk + 1] - rows[chunk]
        return int(self.batch_width(batch) * (rows[chunk] * columns[-1] + height * columns[group]))

    def parts(
        self, row_rank: int, column_rank: int, batch: int, forward: bool, chunk: int, n_variables: int
    ) -> list[tuple[int, int]]:
        """Return (begin within the message, numbers) of each contiguous part that a chunk hands over.

        The message is between row owner row_rank and column owner column_rank. The number of parts is the same for
        any two ranks.
        """
        rows, columns = self.row_cuts(row_rank), self.column_cuts(column_rank)
        width = self.batch_width(batch, n_variables)
        if forward:
            cells = [(chunk, g) for g in range(self.n_groups)]
        else:
            cells = [(c, chunk) for c in range(self.n_chunks)]
        parts = []
        for c, g in cells:
            entries = (rows[c + 1] - rows[c]) * (columns[g + 1] - columns[g])
            parts.append((self.cell(row_rank, column_rank, batch, c, g), int(width * entries)))
        if forward and width == self.batch_width(batch):  # the groups of a chunk lie side by side
            return [(parts[0][0], sum(count for _, count in parts))]
        return parts

    @cached_property
    def row_start(self) -> NDArray[np.int64]:
        """int64 [n_variables, my rows, n_segments]: where row i's piece in segment s begins for each variable."""
        pieces = [self._pieces(self.rank, peer, peer, True) for peer in range(self.size)]
        return np.ascontiguousarray(np.concatenate(pieces, axis=2))

    @cached_property
    def segment_columns(self) -> NDArray[np.int64]:
        """int64 [n_segments + 1]: first column of each segment, numbered over all ranks."""
        first = np.concatenate([[0], np.cumsum(self.column_counts)])
        cuts = [first[rank] + self.column_cuts(rank)[:-1] for rank in range(self.size)]
        return np.concatenate([*cuts, first[-1:]]).astype(np.int64)

    @cached_property
    def column_start(self) -> NDArray[np.int64]:
        """int64 [n_variables, all rows, n_groups]: where row i's piece of my group g begins for each variable."""
        pieces = [self._pieces(peer, self.rank, peer, False) for peer in range(self.size)]
        return np.ascontiguousarray(np.concatenate(pieces, axis=1))

    def _pieces(self, row_rank: int, column_rank: int, peer: int, row_side: bool) -> NDArray[np.int64]:
        """Return where every piece of the block of two ranks begins. int64 [n_variables, rows, n_groups]."""
        rows, columns = self.row_cuts(row_rank), self.column_cuts(column_rank)
        n_rows, n_columns = int(rows[-1]), int(columns[-1])
        i = np.arange(n_rows)
        variable = np.arange(self.n_variables)[:, np.newaxis, np.newaxis]
        if peer == self.rank or self.begins:
            begin = self._shared_place(row_rank, column_rank) if self.begins else 0
            own: NDArray[np.int64] = (variable * n_rows + i[:, np.newaxis]) * n_columns + columns[:-1] + begin
            return own
        chunk = np.searchsorted(rows, i, side="right") - 1
        first, height = rows[chunk][:, np.newaxis], np.diff(rows)[chunk][:, np.newaxis]
        batch = [v // self.batch for v in range(self.n_variables)]
        width = np.array([self.batch_width(b) for b in batch])[:, np.newaxis, np.newaxis]
        base = np.array([self.place(b, peer, row_side) for b in batch])[:, np.newaxis, np.newaxis]
        cell = width * (first * n_columns + height * columns[:-1])
        inside = (variable % self.batch) * height + (i[:, np.newaxis] - first)
        starts: NDArray[np.int64] = base + cell + inside * np.diff(columns)
        return starts


class Exchange(ABC):
    """Moves chunks between the two sides of a transpose; the base of all methods.

    In all methods, forward says whether numbers go from the rows regions to the columns regions or back, and n is the
    number of variables that are exchanged. By default every rank receives into an arena of its own and nothing is
    under way after `start`, so that there is nothing to wait for.
    """

    def open(self, forward: bool) -> None:
        """Wait until what is handed over next may be written."""
        return

    @abstractmethod
    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Send a chunk to all ranks, or begin to. Collective."""

    def progress(self) -> None:
        """Let MPI move on what was started."""
        return

    def finish(self) -> None:
        """Wait for all that was started, here and by others. Collective."""
        return

    @abstractmethod
    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        """Return (bytes, messages) that this rank sends to others in one exchange."""

    def free(self) -> None:
        """Free datatypes, communicators and shared memory. Collective."""
        return


class Alltoallv(Exchange):
    """MPI_Alltoallv with exact counts, blocking (the plain path), or with `overlap` nonblocking chunk by chunk.

    A chunk takes one call per batch; in the inverse direction, and for part of a batch, one call per cell. Counts and
    places are computed for all variables when they are first needed, and kept. A rank's own block is not sent.
    """

    def __init__(self, comm: MPI.Comm, plan: TransposePlan, arena: NDArray[Any], overlap: bool) -> None:
        from mpi4py.util.dtlib import (
            from_numpy_dtype,
        )  # late: estimates use the plan of this file without MPI

        self._comm = comm
        self._plan = plan
        self._arena = arena
        self._overlap = overlap
        self._type = from_numpy_dtype(arena.dtype)
        self._requests: list[MPI.Request] = []
        self._calls: dict[tuple[bool, int, int], list[tuple[Message, Message]]] = {}

    def start(self, forward: bool, chunk: int, n: int) -> None:
        if self._plan.size == 1:
            return
        for send, receive in self.calls(forward, chunk, n):
            if self._overlap:
                self._requests.append(self._comm.Ialltoallv(send, receive))
            else:
                self._comm.Alltoallv(send, receive)

    def progress(self) -> None:
        if self._requests:
            self._requests[0].Testall(self._requests)

    def finish(self) -> None:
        if self._requests:
            self._requests[0].Waitall(self._requests)
        self._requests.clear()

    def calls(self, forward: bool, chunk: int, n: int) -> list[tuple[Message, Message]]:
        """Return what to send and to receive in each call for a chunk."""
        key = forward, chunk, n
        if key not in self._calls:
            self._calls[key] = [
                call
                for batch in range(-(-n // self._plan.batch))
                for call in zip(
                    self._side(forward, forward, chunk, batch, n),
                    self._side(not forward, forward, chunk, batch, n),
                    strict=True,
                )
            ]
        return self._calls[key]

    def _side(self, row_side: bool, forward: bool, chunk: int, batch: int, n: int) -> list[Message]:
        """Return one side of the calls: this rank as the owner of rows, or of columns.

        The buffer begins at the first number that moves, so that the two sides begin at different addresses. At equal
        ones Open MPI's non-blocking collectives would send what is to be received, as with MPI_IN_PLACE.
        """
        plan, me = self._plan, self._plan.rank
        parts = []
        for peer in range(plan.size):
            pair = (me, peer) if row_side else (peer, me)
            place = plan.place(batch, peer, row_side)
            cells = plan.parts(*pair, batch, forward, chunk, n)
            parts.append([(place + begin, 0 if peer == me else count) for begin, count in cells])
        table = np.array(parts, np.int64)  # [peer, call, (place, count)]
        messages: list[Message] = []
        for call in table.swapaxes(0, 1):
            places, counts = call.T
            moved = counts > 0
            begin = int(places[moved].min()) if moved.any() else 0
            numbers = self._arena[begin:] if moved.any() else np.empty(1, self._arena.dtype)
            messages.append([numbers, counts.copy(), np.where(moved, places - begin, 0), self._type])
        return messages

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        chunks = range(self._plan.n_parts(forward))
        counts = np.concatenate([send[1] for c in chunks for send, _ in self.calls(forward, c, n)])
        return int(counts.sum()) * self._plan.itemsize, int((counts > 0).sum())


class Direction:
    """One direction of a transpose: the tables that its two sides pack and unpack by, and the calls that move it.

    Attributes
    ----------
    row_start : int64 [n_variables, my rows, n_segments], arena index of the first number of row i's piece in segment
        s. The numbers of a piece lie side by side
    segment_columns : int64 [n_segments + 1], first column of each segment; columns are numbered over all ranks
    column_start : int64 [n_variables, all rows, n_groups], the same for my columns of group g
    group_columns : int64 [n_groups + 1], first of my columns of each group
    chunks : int64 [n_chunks + 1], parts in which the sender hands over: forward its rows chunks[c] ...
        chunks[c + 1] - 1, inverse its columns
    under_way : seconds of wall time between the first `start` and the end of `finish`, over all exchanges so far.
        What is computed between them counts: no message was moved in less
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

        Only the method "shared" ever waits: after an exchange in the same direction, whose receivers may still read.
        """
        self._exchange.open(self._forward)

    def start(self, chunk: int, n_variables: int | None = None) -> None:
        """Hand over chunk `chunk`, written before; the first n_variables of it (default all). Collective.

        Chunks are started in order, by all ranks with the same n_variables. Until `finish`, what was handed over must
        not be changed. What receivers have of further variables is undefined then.

        Raises RuntimeError for a chunk out of order or an exchange that was not opened, ValueError for more variables
        than planned.
        """
        n = self.n_variables if n_variables is None else n_variables
        if chunk != self._next or (chunk and n != self._moving):
            raise RuntimeError(
                f"chunk {chunk} with {n} variables cannot start now, because the next is {self._next}. Start chunks "
                f"in order and with the same number of variables."
            )
        if not 1 <= n <= self.n_variables:
            raise ValueError(
                f"{n} variables cannot be exchanged, because the transpose was planned for {self.n_variables}"
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
            raise RuntimeError(
                f"the exchange has {len(self.chunks) - 1} chunks, but only {self._next} were started"
            )
        self._exchange.finish()
        self._next = 0
        self.under_way += time.perf_counter() - self._begin

    def exchange(self, n_variables: int | None = None) -> None:
        """Start all chunks and finish. The exchange must be open. Collective."""
        for chunk in range(len(self.chunks) - 1):
            self.start(chunk, n_variables)
        self.finish()

    def regions(self, chunk: int) -> list[tuple[int, int]]:
        """Return (begin, end) in the arena of all that others receive of a chunk."""
        plan = self._plan
        regions = []
        for batch in range(-(-self.n_variables // plan.batch)):
            for peer in range(plan.size):
                if peer != plan.rank:
                    pair = (plan.rank, peer) if self._forward else (peer, plan.rank)
                    place = plan.place(batch, peer, self._forward)
                    parts = plan.parts(*pair, batch, self._forward, chunk, self.n_variables)
                    regions += [(place + begin, place + begin + count) for begin, count in parts]
        return regions

    def bytes_sent(self, n_variables: int | None = None) -> int:
        """Return the bytes that this rank sends to others in one exchange, of all or the first n_variables.

        They are counted as MPI gets them: with the padding of "alltoall" and both phases of "node". With "shared"
        they are what others read.
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


def check_limits(n_numbers: int, mpi_version: int) -> None:
    """Raise DecompositionError if an arena passes what MPI before version 4 can address, 2^31 - 1 numbers."""
    if mpi_version < 4 and n_numbers > INT_MAX:
        raise DecompositionError(
            f"a transpose of {n_numbers} numbers per rank exceeds the {INT_MAX} that MPI {mpi_version} can address. "
            f"Use more ranks or an MPI library of version 4."
        )


def check_layout(row_counts: Sequence[int], column_counts: Sequence[int], size: int) -> None:
    """Raise ValueError unless there are counts for all ranks of a communicator of `size`, none negative."""
    if not len(row_counts) == len(column_counts) == size:
        raise ValueError(
            f"a transpose over {size} ranks must have {size} counts of rows and of columns, "
            f"not {len(row_counts)} and {len(column_counts)}"
        )
    if min(*row_counts, *column_counts) < 0:
        raise ValueError(
            f"counts of rows {list(row_counts)} and columns {list(column_counts)} must not be negative"
        )
