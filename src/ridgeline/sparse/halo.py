"""The halo of a distributed sparse matrix: which rows of x other ranks need, derived from the matrix alone.

A rank finds the owners of its external columns by a rendezvous. The global numbers are cut into one block for each
rank, the block's home. Each rank sends the home ranks the runs of consecutive numbers that it owns, and then asks
them for the owners of its external columns.

The local number of a global one is looked up in a hash table with open addressing: int32 [2^k], -1 where a slot is
free, at most half full. A slot holds a place in an array of numbers, with which a look-up compares.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import int32, int64
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.counted_exchange import exchange_counted
from ridgeline.sparse.rows import gather

Indices = NDArray[np.int32]
Numbers = NDArray[np.int64]

# 2**64 / golden ratio: spreads groups of consecutive numbers over the table.
_HASH = np.uint64(0x9E3779B97F4A7C15)
# Numbers that differ in the last 4 bits alone share a cache line.
_BITS = 4


@dataclass(frozen=True)
class SparseHaloPlan:
    """What one rank sends and receives in an exchange of the halo.

    Local columns 0 ... n_owned - 1 are the rank's own rows; n_owned ... n_owned + n_external - 1 are external.
    External columns are sorted by the rank that owns them, and by global number within each rank.

    Attributes
    ----------
    neighbours : ranks to exchange with, ascending
    send_starts : int64 [k + 1], where each neighbour's part of send_index begins
    send_index : int32, local numbers of the owned rows that each neighbour needs, in its order
    receive_starts : int64 [k + 1], where each neighbour's external columns begin
    """

    n_owned: int
    n_external: int
    neighbours: list[int]
    send_starts: Numbers
    send_index: Indices
    receive_starts: Numbers

    def renumbered(self, new_number: Indices) -> SparseHaloPlan:
        """Return the plan for a matrix whose owned row i has become new_number[i]; external columns stay."""
        return replace(self, send_index=new_number[self.send_index].astype(np.int32))


class HaloPlanner:
    """Computes the local number of every column, part by part, and then the plan. Collective over comm.

    It serves matrices whose global column numbers are never in memory all at once; `plan_sparse_halo` is simpler.

    Parameters
    ----------
    rows_global : int64 [n], the global number of each owned row, in any order

    Raises
    ------
    ValueError
        On all ranks, if a rank has a row twice, or more rows than 32-bit lists hold.
    """

    def __init__(self, comm: MPI.Comm, rows_global: Numbers) -> None:
        self._comm, self._rows = comm, rows_global
        self._located = 0  # columns so far
        # Places of the external ones among these columns, and their global numbers.
        self._places: list[Numbers] = []
        self._numbers: list[Numbers] = []
        with errors_on_all_ranks(comm):
            if rows_global.size > np.iinfo(np.int32).max // 2:
                raise ValueError(
                    f"One rank has {rows_global.size} rows, which are too many for 32-bit indices. Use more ranks."
                )
            self._table = empty_table(rows_global.size)
            twice = fill_table(rows_global, self._table)
            if twice >= 0:
                raise ValueError(
                    f"Row {rows_global[twice]} occurs twice on rank {comm.rank}. Each row must have its number once."
                )

    def locate(self, indptr: Numbers, columns_global: Numbers, columns: Indices) -> None:
        """Set columns, int32, to the local numbers of the next rows' columns, -1 where external. No communication.

        indptr: int64 [rows of this part + 1], which need not begin at 0; columns_global: int64, as long as columns.
        """
        if look_up_rows(indptr, columns_global, self._rows, self._table, columns):
            external = np.flatnonzero(columns < 0)
            self._places.append(self._located + external)
            self._numbers.append(columns_global[external])
        self._located += columns.size

    def plan(self, columns: Indices) -> SparseHaloPlan:
        """Return the plan, and set the local numbers of external columns. Collective.

        columns: int32, what `locate` has set, the parts one after the other.

        Raises ValueError on all ranks if a row has two owners, if a column has none, or if a number is negative.
        Communication: 16 bytes for each run of consecutive row numbers, and 24 bytes for each external column.
        """
        comm, n = self._comm, self._rows.size
        numbers = np.concatenate([np.zeros(0, np.int64), *self._numbers])
        distinct, which = np.empty(numbers.size, np.int64), np.empty(numbers.size, np.int32)
        count = find_distinct(numbers, empty_table(numbers.size), distinct, which)
        external = distinct[:count]
        owner = _owners(comm, self._rows, external)
        order = np.lexsort((external, owner))
        local = np.empty(count, np.int32)
        local[order] = n + np.arange(count, dtype=np.int32)
        if count:
            columns[np.concatenate(self._places)] = local[which]
        n_received = np.bincount(owner, minlength=comm.size)
        requested, n_sent = exchange_counted(comm, external[order], n_received)
        send_index = np.empty(requested.size, np.int32)
        look_up(requested, self._rows, self._table, send_index)
        neighbours = np.flatnonzero(n_received + n_sent)
        return SparseHaloPlan(
            n_owned=n,
            n_external=count,
            neighbours=neighbours.tolist(),
            send_starts=_starts(n_sent[neighbours]),
            send_index=send_index,
            receive_starts=_starts(n_received[neighbours]),
        )


def plan_sparse_halo(
    comm: MPI.Comm, rows_global: Numbers, indptr: Numbers, columns_global: Numbers
) -> tuple[SparseHaloPlan, Indices]:
    """Return the plan of a matrix and the local number of every column, int32 [non-zeros]. Collective over comm.

    rows_global [n], indptr [n + 1] and columns_global [non-zeros] describe the owned rows, int64. Errors and
    communication are those of `HaloPlanner`.
    """
    planner = HaloPlanner(comm, rows_global)
    columns = np.empty(columns_global.size, np.int32)
    planner.locate(indptr, columns_global, columns)
    return planner.plan(columns), columns


def _starts(counts: NDArray[np.integer]) -> Numbers:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _owners(comm: MPI.Comm, rows_global: Numbers, external: Numbers) -> Numbers:
    """Return the rank that owns each number of `external`, which are distinct: the rendezvous. Collective."""
    numbers = np.concatenate([rows_global, external])
    most = np.array([numbers.max(initial=0), -numbers.min(initial=0)])
    comm.Allreduce(MPI.IN_PLACE, most, MPI.MAX)
    if most[1] > 0:
        raise ValueError(f"A row or column has the number {-most[1]}, but numbers must be >= 0.")
    block = int(most[0]) // comm.size + 1

    # Runs of owned numbers go to their home ranks.
    first, count = _runs_by_block(rows_global, block)
    home = first // block
    by_home = np.argsort(home, kind="stable")
    runs = np.stack([first, first + count], axis=1)[by_home].reshape(-1)
    registered, n_registered = exchange_counted(comm, runs, 2 * np.bincount(home, minlength=comm.size))
    order = np.argsort(registered[::2], kind="stable")
    starts, ends = registered[::2][order], registered[1::2][order]
    ranks = np.repeat(np.arange(comm.size), n_registered // 2)[order]

    # External numbers go there too; each home rank answers with the owners.
    by_number = np.argsort(external, kind="stable")
    n_asked = np.bincount(external // block, minlength=comm.size)
    queries, n_answered = exchange_counted(comm, external[by_number], n_asked)
    place = np.searchsorted(starts, queries, side="right") - 1
    inside = place >= 0
    inside[inside] = queries[inside] < ends[place[inside]]
    with errors_on_all_ranks(comm):
        overlap = np.flatnonzero(starts[1:] < ends[:-1])
        if overlap.size:
            number = starts[1:][overlap[0]]
            raise ValueError(f"Row {number} has two owners. Each row must be on one rank.")
        if not inside.all():
            raise ValueError(
                f"Column {queries[~inside][0]} has no owner. Every column must be a row of a rank."
            )
    answers = np.empty(external.size, np.int64)
    comm.Alltoallv([ranks[place], n_answered], [answers, n_asked])
    owner = np.empty(external.size, np.int64)
    owner[by_number] = answers
    return owner


def _runs_by_block(rows_global: Numbers, block: int) -> tuple[Numbers, Numbers]:
    """Return (first, count) of runs of consecutive numbers, cut at the multiples of block."""
    last = np.append(np.flatnonzero(np.diff(rows_global) != 1), rows_global.size - 1)[: rows_global.size]
    first = np.concatenate([[0], last[:-1] + 1])[: last.size]
    start, end = rows_global[first], rows_global[last] + 1
    pieces = (end - 1) // block - start // block + 1
    within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    edge = (np.repeat(start // block, pieces) + within) * block
    first_cut = np.maximum(np.repeat(start, pieces), edge)
    return first_cut, np.minimum(np.repeat(end, pieces), edge + block) - first_cut


def _free_all(requests: list[MPI.Prequest]) -> None:
    if not MPI.Is_finalized():
        for request in requests:
            request.Free()


class HaloVector:
    """A distributed vector with space for the external rows that a matrix needs.

    All vectors of a communicator use one message tag, so every rank must start their exchanges in the same order.

    Attributes
    ----------
    values : float64 or float32 [n_owned + n_external], zeros at first; messages are received into its second part
    owned : view of the first n_owned values
    """

    def __init__(self, comm: MPI.Comm, plan: SparseHaloPlan, dtype: DTypeLike = np.float64) -> None:
        self.comm, self.plan = comm, plan
        self.values: NDArray[Any] = np.zeros(plan.n_owned + plan.n_external, dtype)
        self.owned = self.values[: plan.n_owned]
        self._message = np.empty(plan.send_index.size, dtype)
        self._sends: list[MPI.Prequest] = []
        self._receives: list[MPI.Prequest] = []
        self._all: list[MPI.Prequest] | None = None
        self._release: weakref.finalize[..., HaloVector] | None = None

    def _make_requests(self) -> list[MPI.Prequest]:
        external = self.values[self.plan.n_owned :]
        starts = self.plan.send_starts.tolist(), self.plan.receive_starts.tolist()
        for i, rank in enumerate(self.plan.neighbours):
            outgoing = self._message[starts[0][i] : starts[0][i + 1]]
            incoming = external[starts[1][i] : starts[1][i + 1]]
            if outgoing.size:
                self._sends.append(self.comm.Send_init(outgoing, rank))
            if incoming.size:
                self._receives.append(self.comm.Recv_init(incoming, rank, 0))
        self._all = self._receives + self._sends
        self._release = weakref.finalize(self, _free_all, self._all)
        return self._all

    def start(self) -> None:
        """Start an exchange with the neighbours and return at once; the external part is undefined until `finish`.

        The owned part may be changed at once, because messages are packed.
        """
        requests = self._make_requests() if self._all is None else self._all
        if not requests:
            return
        # Receives first: what arrives then goes straight to its place.
        if self._receives:
            MPI.Prequest.Startall(self._receives)
        if self._sends:
            gather(self.plan.send_index, self.values, self._message)
            MPI.Prequest.Startall(self._sends)

    def finish(self) -> None:
        """Wait until the external part has arrived and all messages have left."""
        if self._all:
            MPI.Request.Waitall(self._all)

    def exchange(self) -> None:
        """Fill the external part: `start`, then `finish`."""
        self.start()
        self.finish()

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sends per exchange."""
        return self._message.nbytes

    def free(self) -> None:
        """Free the persistent MPI requests. The values stay, and another exchange makes new requests.

        The garbage collector does the same for a vector that is no longer used.
        """
        if self._release is not None:
            self._release()
        self._sends, self._receives, self._all = [], [], None


def empty_table(count: int) -> np.ndarray:
    """Return an empty hash table for `count` numbers."""
    return np.full(1 << max(_BITS, (2 * count - 1).bit_length()), -1, np.int32)


@subroutine
def _shift(table):
    """Return the right shift that turns a hash of 64 bits into the number of one of the table's groups of slots."""
    shift = 64
    while (1 << (64 - shift + _BITS)) < table.size:
        shift -= 1
    return shift


@subroutine
def _slot(number, shift, numbers, table):
    """Return the slot where a number is, or the free slot where it would be put."""
    group = 0
    if shift < 64:
        group = np.int64(((np.uint64(number) >> np.uint64(_BITS)) * _HASH) >> np.uint64(shift))
    slot = (group << _BITS) + (number & ((1 << _BITS) - 1))
    while table[slot] >= 0 and numbers[table[slot]] != number:
        slot = (slot + 1) & (table.size - 1)
    return slot


@kernel(lambda: (int64[::1], int32[::1]))
def fill_table(numbers, table):
    """Enter all numbers into an empty table; return the place of one that occurs twice, or -1."""
    shift = _shift(table)
    for place in range(numbers.size):
        slot = _slot(numbers[place], shift, numbers, table)
        if table[slot] >= 0:
            return place
        table[slot] = place
    return -1


@kernel(lambda: (int64[::1], int64[::1], int32[::1], int32[::1]))
def look_up(wanted, numbers, table, places):
    """Set places[i] to the place of wanted[i] among the numbers of a table, or to -1."""
    shift = _shift(table)
    for i in range(wanted.size):
        places[i] = table[_slot(wanted[i], shift, numbers, table)]


@kernel(lambda: (int64[::1], int64[::1], int64[::1], int32[::1], int32[::1]))
def look_up_rows(indptr, wanted, numbers, table, places):
    """Do as `look_up` for rows of numbers; return how many are missing. wanted and places begin at entry indptr[0].

    Successive rows often have numbers that are one higher, at places that are one higher. That place is tried first;
    the number there is always compared.
    """
    shift, missing = _shift(table), 0
    before, width = 0, 0
    for row in range(indptr.size - 1):
        start, end = indptr[row] - indptr[0], indptr[row + 1] - indptr[0]
        for p in range(start, end):
            place = places[before + p - start] + 1 if p - start < width else 0
            if place >= numbers.size or numbers[place] != wanted[p]:
                place = table[_slot(wanted[p], shift, numbers, table)]
                missing += place < 0
            places[p] = place
        before, width = start, end - start
    return missing


@kernel(lambda: (int64[::1], int32[::1], int64[::1], int32[::1]))
def find_distinct(numbers, table, distinct, which):
    """Set distinct[k] to the k-th distinct number, in order of appearance, and which[m] to the k of number m.

    Returns how many distinct numbers there are.
    """
    shift, count = _shift(table), 0
    for m in range(numbers.size):
        slot = _slot(numbers[m], shift, distinct, table)
        if table[slot] < 0:
            table[slot] = count
            distinct[count] = numbers[m]
            count += 1
        which[m] = table[slot]
    return count


def kernels(dtype: DTypeLike = np.float64) -> list[Specialisation]:
    """Return the kernels that plan a halo and exchange vectors of dtype."""
    of_tables = specialise([fill_table, look_up, look_up_rows, find_distinct])
    return [*of_tables, *specialise([gather], dtype, np.int32)]
