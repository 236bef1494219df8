"""Where every number of a distributed transpose lies: one arena, tables of pieces, messages. No communication.

A matrix of `rows x columns`, each entry n variables, is held by row owners (some rows, all columns) or by column
owners (all rows, some columns). The arena of a rank has three regions:

- own:     its rows x its columns, seen from both sides in one place and never copied;
- rows:    its rows x the columns of others, written and read by the row side;
- columns: the rows of others x its columns, written and read by the column side.

An exchange forward takes the rows regions to the columns regions, an inverse one the other way. The two
regions are apart, and each entry has one place per side, whatever the direction. So a side may read an entry and
overwrite it while entries of the other side's region arrive.

Where ranks share memory, one arena is enough for all. Each part of it has the rows of its rank x all columns. Both
sides use the one place of an entry.

A region is ordered [batch][rank][row chunk][column group][variable of batch][row][column], so that what goes to one
rank in one call is contiguous. Batches are Q variables; chunks and groups cut the work for methods that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ridgeline.parallel.partition import split
from ridgeline.runtime.aligned import CACHE_LINE
from ridgeline.runtime.errors import DecompositionError

INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class TransposePlan:
    """The layout of one rank's arena.

    rank: of len(row_counts) ranks; row_counts, column_counts: rows and columns of every rank; n_variables: most in
    any direction; batch: variables per call; itemsize: bytes of a number; n_chunks, n_groups: cuts of the rows and
    of the columns of each rank; tile: groups are multiples of it, but for the last;
    padded: every message takes the place of the largest one (MPI_Alltoall); begins: of each rank's part of an arena
    that all share, in one batch, chunk and group.
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
        """Ranks."""
        return len(self.row_counts)

    @property
    def n_batches(self) -> int:
        """Calls that move all variables."""
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

    def block(self, row_rank: int, column_rank: int) -> int:
        """Return the entries that row owner row_rank and column owner column_rank share."""
        return self.row_counts[row_rank] * self.column_counts[column_rank]

    @cached_property
    def largest_block(self) -> int:
        """Entries of the largest block."""
        return max(self.row_counts) * max(self.column_counts)

    def place(self, batch: int, peer: int, row_side: bool) -> int:
        """Return the arena index where the message of a batch from or to peer begins."""
        if self.begins:
            return self._shared_place(*((self.rank, peer) if row_side else (peer, self.rank)))
        starts, _ = self._places
        return int(starts[0 if row_side else 1, batch, peer])

    @cached_property
    def _unit(self) -> int:
        """Numbers of a cache line."""
        return max(1, CACHE_LINE // self.itemsize)

    def _shared_room(self, row_rank: int, column_rank: int) -> int:
        """Return the numbers of a block in an arena that all share: whole cache lines, for two writers."""
        return -(-self.n_variables * self.block(row_rank, column_rank) // self._unit) * self._unit

    def _shared_place(self, row_rank: int, column_rank: int) -> int:
        """Return where a block begins in an arena that all share."""
        return self.begins[row_rank] + sum(self._shared_room(row_rank, c) for c in range(column_rank))

    @property
    def shared_size(self) -> int:
        """Numbers of this rank's part of an arena that all share."""
        return sum(self._shared_room(self.rank, peer) for peer in range(self.size))

    @property
    def arena_size(self) -> int:
        """Numbers in the three regions."""
        return self._places[1]

    def n_parts(self, forward: bool) -> int:
        """Return the chunks in which the sender hands over: of rows forward, else groups of columns."""
        return self.n_chunks if forward else self.n_groups

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], int]:
        unit = self._unit
        end = -(-self.n_variables * self.block(self.rank, self.rank) // unit) * unit
        starts = np.zeros((2, self.n_batches, self.size), np.int64)
        for side in range(2):
            for batch in range(self.n_batches):
                for peer in range(self.size):
                    starts[side, batch, peer] = end
                    end += self.batch_width(batch) * self._room(peer, side == 0)
                    if not self.padded:
                        end = -(-end // unit) * unit
                end = -(-end // unit) * unit
        return starts, end

    def _room(self, peer: int, row_side: bool) -> int:
        if self.padded:
            return self.largest_block
        if peer == self.rank:
            return 0
        return self.block(self.rank, peer) if row_side else self.block(peer, self.rank)

    def cell(self, row_rank: int, column_rank: int, batch: int, chunk: int, group: int) -> int:
        """Return where the cell (chunk, group) begins within the message of a batch between two ranks."""
        rows, columns = self.row_cuts(row_rank), self.column_cuts(column_rank)
        height = rows[chunk + 1] - rows[chunk]
        return int(self.batch_width(batch) * (rows[chunk] * columns[-1] + height * columns[group]))

    def parts(
        self, row_rank: int, column_rank: int, batch: int, forward: bool, chunk: int, n_variables: int
    ) -> list[tuple[int, int]]:
        """Return (begin within the message, numbers) of each contiguous part that a chunk hands over.

        Between row owner row_rank and column owner column_rank; as many parts for any two ranks.
        """
        rows, columns = self.row_cuts(row_rank), self.column_cuts(column_rank)
        width = self.batch_width(batch, n_variables)
        if forward:
            cells = [(chunk, g) for g in range(self.n_groups)]
        else:
            cells = [(c, chunk) for c in range(self.n_chunks)]
        found = []
        for c, g in cells:
            entries = (rows[c + 1] - rows[c]) * (columns[g + 1] - columns[g])
            found.append((self.cell(row_rank, column_rank, batch, c, g), int(width * entries)))
        if forward and width == self.batch_width(batch):  # the groups of a chunk lie side by side
            return [(found[0][0], sum(count for _, count in found))]
        return found

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
        """Return the begin of every piece of the block of two ranks. int64 [n_variables, rows, n_groups]."""
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


def check_limits(n_numbers: int, mpi_version: int) -> None:
    """Raise DecompositionError if an arena passes what MPI before version 4 can address, 2^31 - 1 numbers."""
    if mpi_version < 4 and n_numbers > INT_MAX:
        raise DecompositionError(
            f"a transpose of {n_numbers} numbers per rank passes the {INT_MAX} that MPI {mpi_version} can address; "
            f"use more ranks or an MPI library of version 4"
        )


def check_layout(row_counts: Sequence[int], column_counts: Sequence[int], size: int) -> None:
    """Raise ValueError unless there are counts for all ranks of a communicator of `size`, none negative."""
    if not len(row_counts) == len(column_counts) == size:
        raise ValueError(
            f"a transpose over {size} ranks needs as many counts, "
            f"not {len(row_counts)} of rows and {len(column_counts)} of columns"
        )
    if min(*row_counts, *column_counts) < 0:
        raise ValueError(
            f"counts of rows {list(row_counts)} and columns {list(column_counts)} must not be negative"
        )
