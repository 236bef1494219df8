"""The halo of a distributed sparse matrix: which rows of x other ranks need, found from the matrix alone.

Owners of external columns are found by a rendezvous. The global numbers are cut into one block a rank. Each rank
tells the ranks of the blocks which runs of numbers it owns. Then it asks them who owns its external columns.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.exchange import exchange_counted
from ridgeline.sparse import number_table
from ridgeline.sparse.rows import gather

Indices = NDArray[np.int32]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class SparseHaloPlan:
    """Lists of one rank. Local columns: owned 0 ... n_owned - 1, external n_owned ... n_owned + n_external - 1.

    neighbours: other ranks, ascending; send_starts [k + 1]: where each neighbour's part of send_index begins;
    send_index: int32, owned local numbers, what each neighbour wants in the order it wants it;
    receive_starts [k + 1]: where each neighbour's external columns begin. They stand by neighbour, by ascending
    global number within each.
    """

    n_owned: int
    n_external: int
    neighbours: list[int]
    send_starts: Numbers
    send_index: Indices
    receive_starts: Numbers

    def renumbered(self, new_number: Indices) -> SparseHaloPlan:
        """Return the plan after owned row i has become new_number[i]; external columns stay."""
        return replace(self, send_index=new_number[self.send_index].astype(np.int32))


class HaloPlanner:
    """Finds the local number of every column, part by part, and then the plan. Collective over comm.

    For a matrix whose global column numbers are never in memory all at once; `plan_sparse_halo` is for others.
    rows_global: int64 [n], the number of each owned row, in any order. Raises ValueError on all ranks if one is there
    twice.
    """

    def __init__(self, comm: MPI.Comm, rows_global: Numbers) -> None:
        self._comm, self._rows = comm, rows_global
        self._located = 0  # columns so far
        self._places: list[Numbers] = []  # of the external ones among these
        self._numbers: list[Numbers] = []
        with errors_on_all_ranks(comm):
            if rows_global.size > np.iinfo(np.int32).max // 2:
                raise ValueError(
                    f"{rows_global.size} rows on one rank are more than 32-bit lists hold; use more ranks"
                )
            self._table = number_table.empty_table(rows_global.size)
            twice = number_table.fill_table(rows_global, self._table)
            if twice >= 0:
                raise ValueError(
                    f"row {rows_global[twice]} is there twice on rank {comm.rank}; number rows once"
                )

    def locate(self, indptr: Numbers, columns_global: Numbers, columns: Indices) -> None:
        """Set columns, int32, to the local numbers of the next rows' columns, -1 where external. No communication.

        indptr: int64 [rows of the part + 1], its first number may be any; columns_global: int64, as many as columns.
        """
        if number_table.look_up_rows(indptr, columns_global, self._rows, self._table, columns):
            external = np.flatnonzero(columns < 0)
            self._places.append(self._located + external)
            self._numbers.append(columns_global[external])
        self._located += columns.size

    def plan(self, columns: Indices) -> SparseHaloPlan:
        """Return the plan, and number the external ones in columns, int32: those of all parts, in order. Collective.

        Raises ValueError on all ranks if a row has two owners, a column none, or a number is negative.
        Communication: 16 bytes per stretch of consecutive row numbers, 24 bytes per external column.
        """
        comm, n = self._comm, self._rows.size
        numbers = np.concatenate([np.zeros(0, np.int64), *self._numbers])
        found, which = np.empty(numbers.size, np.int64), np.empty(numbers.size, np.int32)
        count = number_table.find_distinct(numbers, number_table.empty_table(numbers.size), found, which)
        external = found[:count]
        owner = _owners(comm, self._rows, external)
        order = np.lexsort((external, owner))
        local = np.empty(count, np.int32)
        local[order] = n + np.arange(count, dtype=np.int32)
        if count:
            columns[np.concatenate(self._places)] = local[which]
        wanted = np.bincount(owner, minlength=comm.size)
        asked, given = exchange_counted(comm, external[order], wanted)
        send_index = np.empty(asked.size, np.int32)
        number_table.look_up(asked, self._rows, self._table, send_index)
        neighbours = np.flatnonzero(wanted + given)
        return SparseHaloPlan(
            n, count, neighbours.tolist(), _starts(given[neighbours]), send_index, _starts(wanted[neighbours])
        )


def plan_sparse_halo(
    comm: MPI.Comm, rows_global: Numbers, indptr: Numbers, columns_global: Numbers
) -> tuple[SparseHaloPlan, Indices]:
    """Return the plan and the local number of every column, int32 [non-zeros]. Collective over comm.

    indptr [n + 1], columns_global [non-zeros]: the owned rows. The rest is as `HaloPlanner` says.
    """
    planner = HaloPlanner(comm, rows_global)
    columns = np.empty(columns_global.size, np.int32)
    planner.locate(indptr, columns_global, columns)
    return planner.plan(columns), columns


def _starts(counts: NDArray[np.integer]) -> Numbers:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _owners(comm: MPI.Comm, rows_global: Numbers, external: Numbers) -> Numbers:
    """Return the rank that owns each number of `external` (distinct). Collective."""
    numbers = np.concatenate([rows_global, external])
    most = np.array([numbers.max(initial=0), -numbers.min(initial=0)])
    comm.Allreduce(MPI.IN_PLACE, most, MPI.MAX)
    if most[1] > 0:
        raise ValueError(f"a row or column has the number {-most[1]}; numbers are >= 0")
    block = int(most[0]) // comm.size + 1
    first, count = _stretches(rows_global, block)
    home = first // block
    by_home = np.argsort(home, kind="stable")
    stretches = np.stack([first, first + count], axis=1)[by_home].reshape(-1)
    known, come = exchange_counted(comm, stretches, 2 * np.bincount(home, minlength=comm.size))
    order = np.argsort(known[::2], kind="stable")
    starts, ends = known[::2][order], known[1::2][order]
    ranks = np.repeat(np.arange(comm.size), come // 2)[order]
    by_number = np.argsort(external, kind="stable")
    sent = np.bincount(external // block, minlength=comm.size)
    queries, asked = exchange_counted(comm, external[by_number], sent)
    place = np.searchsorted(starts, queries, side="right") - 1
    inside = place >= 0
    inside[inside] = queries[inside] < ends[place[inside]]
    with errors_on_all_ranks(comm):
        overlap = np.flatnonzero(starts[1:] < ends[:-1])
        if overlap.size:
            number = starts[1:][overlap[0]]
            raise ValueError(f"row {number} has two owners; each row must be on one rank")
        if not inside.all():
            raise ValueError(
                f"column {queries[~inside][0]} has no owner; every column must be a row of a rank"
            )
    answers = np.empty(external.size, np.int64)
    comm.Alltoallv([ranks[place], asked], [answers, sent])
    owner = np.empty(external.size, np.int64)
    owner[by_number] = answers
    return owner


def _stretches(rows_global: Numbers, block: int) -> tuple[Numbers, Numbers]:
    """Return (first, count) of stretches of consecutive numbers, cut at the multiples of block."""
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
    """A distributed vector with room for the neighbours' rows that a matrix needs.

    values: float64 or float32 [n_owned + n_external], zeros at first; owned: view of the first part. Messages are
    received straight into the second part. All vectors share one tag: all ranks start them in one order.
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
        """Send what the neighbours need; until `finish`, do not touch the external part.

        The owned part may be changed at once: messages are packed. Communication: neighbours; does not wait.
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
        """Wait for the neighbours' rows of a started exchange."""
        if self._all:
            MPI.Request.Waitall(self._all)

    def exchange(self) -> None:
        """Fill the external part: `start` and `finish`."""
        self.start()
        self.finish()

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sends per exchange."""
        return self._message.nbytes

    def free(self) -> None:
        """Free the requests, as the end of the vector does. Values stay; another exchange makes requests anew."""
        if self._release is not None:
            self._release()
        self._sends, self._receives, self._all = [], [], None


def kernels(dtype: DTypeLike = np.float64) -> list[Specialisation]:
    """Return the kernels that plan a halo and send vectors of float64, or of another dtype."""
    return [*number_table.kernels(), *specialise([gather], dtype, np.int32)]
