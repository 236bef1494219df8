"""Which points a rank's elements share with each other and with other ranks: the lists of a gather-scatter.

Ranks find their neighbours by a rendezvous. Each rank sends the number of a point to the rank that a hash of the
number selects, and that rank answers with the other ranks that have the point. No rank receives more than its share
of the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.counted_exchange import exchange_counted

Indices = NDArray[np.int32]
Numbers = NDArray[np.int64]
_SIZES = (2, 4, 8)  # numbers of copies that have a loop of their own in the kernels
_HASH = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads consecutive numbers


@dataclass(frozen=True)
class LocalGroups:
    """Points with several copies, all on this rank, as the kernels of `gather_scatter` need them.

    pairs, fours, eights: int32 [groups, 2 | 4 | 8] places; starts [groups + 1], others: any other number of copies;
    bounds: int64 [4, elements + 1], groups of each class complete before the i-th element in the order of processing.
    """

    pairs: Indices
    fours: Indices
    eights: Indices
    starts: Indices
    others: Indices
    bounds: Numbers

    @property
    def arrays(self) -> tuple[Indices, Indices, Indices, Indices, Indices, Numbers]:
        """The arguments of the kernel `local` before first, end and u."""
        return self.pairs, self.fours, self.eights, self.starts, self.others, self.bounds


@dataclass(frozen=True)
class SharedPoints:
    """Points that other ranks have as well.

    starts [points + 1], places: this rank's copies of each point. ranks: the neighbours, ascending. offsets
    [neighbours + 1]: their slots in a message buffer. send_index [slots]: the point of each slot, by ascending number
    within a neighbour, so that both sides agree. source_starts [points + 1], sources: what is added up at a point, in
    the order of ranks: a slot of the message, or -1 for this rank's part.
    """

    starts: Indices
    places: Indices
    ranks: list[int]
    offsets: Numbers
    send_index: Indices
    source_starts: Indices
    sources: Indices


@dataclass(frozen=True)
class GatherScatterPlan:
    """All lists of one rank. boundary, interior: elements that share points with other ranks, and those that do not.

    Elements are processed in the order boundary, interior. n_unique: points of this rank, copies counted once.
    """

    local: LocalGroups
    shared: SharedPoints
    boundary: Numbers
    interior: Numbers
    n_unique: int


@dataclass(frozen=True)
class _Groups:
    """Copies by number: numbers ascending, starts [n + 1] into places (flat, ascending within a number)."""

    numbers: Numbers
    starts: Numbers
    places: Numbers

    @property
    def copies(self) -> Numbers:
        return np.diff(self.starts)

    def chosen(self, which: NDArray[np.intp]) -> tuple[Numbers, Numbers]:
        """Return (starts, places) of some groups, in the order of `which`."""
        copies = self.copies[which]
        starts = np.concatenate([[0], np.cumsum(copies)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], copies)
        return starts, self.places[np.repeat(self.starts[which], copies) + within]


def _groups(ids: Numbers) -> _Groups:
    flat = ids.reshape(-1)
    if flat.size > np.iinfo(np.int32).max:
        raise ValueError(
            f"{flat.size} points on one rank are more than 32-bit lists can hold. Use more ranks."
        )
    if flat.size and flat.min() < -1:
        raise ValueError(
            f"a point has the number {flat.min()}. Numbers must be >= 0, or -1 for points left out."
        )
    taken = np.flatnonzero(flat >= 0)
    places = taken[np.argsort(flat[taken], kind="stable")]
    in_order = flat[places]
    first = np.concatenate([[True], in_order[1:] != in_order[:-1]]) if in_order.size else np.zeros(0, bool)
    starts = np.append(np.flatnonzero(first), in_order.size)
    return _Groups(in_order[first], starts, places)


def _sharers(comm: MPI.Comm, numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return (index into numbers, other rank) of every point that another rank has too. Collective."""
    if comm.size == 1:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    home = ((numbers.astype(np.uint64) * _HASH) >> np.uint64(33)).astype(np.int64) % comm.size
    by_home = np.argsort(home, kind="stable")
    received, counts = exchange_counted(comm, numbers[by_home], np.bincount(home, minlength=comm.size))
    owner = np.repeat(np.arange(comm.size), counts)
    order = np.lexsort((owner, received))
    same = received[order]
    bounds = (
        np.flatnonzero(np.concatenate([[True], same[1:] != same[:-1]])) if same.size else np.zeros(0, int)
    )
    size = np.diff(np.append(bounds, same.size))
    # Every ordered pair (rank, other) of the ranks that have a number.
    pairs = size * size
    group = np.repeat(np.arange(size.size), pairs)
    within = np.arange(pairs.sum()) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    rank = owner[order][bounds[group] + within // size[group]]
    other = owner[order][bounds[group] + within % size[group]]
    keep = np.flatnonzero(rank != other)
    keep = keep[np.lexsort((other[keep], rank[keep]))]
    answers = np.bincount(rank[keep], minlength=comm.size)
    shared, _ = exchange_counted(comm, same[bounds[group[keep]]], answers)
    ranks, _ = exchange_counted(comm, other[keep], answers)
    return np.searchsorted(numbers, shared), ranks


def make_plan(comm: MPI.Comm, ids: Numbers) -> GatherScatterPlan:
    """Return this rank's lists for the numbers of its points. Collective.

    ids: int64, first axis elements; equal numbers are copies of one point, -1 is left out. A rank may have none.
    Raises ValueError on all ranks for other negative numbers, or more than 2**31 - 1 points on a rank.
    Communication: 8 bytes per distinct point once, 16 bytes per shared point and sharing rank.
    """
    with errors_on_all_ranks(comm):
        groups = _groups(ids)
    index, rank = _sharers(comm, groups.numbers)
    n_elements = ids.shape[0]
    per_element = ids.size // n_elements if n_elements else 1
    shared = np.zeros(groups.numbers.size, bool)
    shared[index] = True
    of_boundary = np.zeros(n_elements, bool)
    _, places = groups.chosen(np.flatnonzero(shared))
    of_boundary[places // per_element] = True
    boundary, interior = np.flatnonzero(of_boundary), np.flatnonzero(~of_boundary)
    position = np.empty(n_elements, np.int64)
    position[np.concatenate([boundary, interior])] = np.arange(n_elements)
    inside = np.flatnonzero(~shared & (groups.copies > 1))
    return GatherScatterPlan(
        _local(groups, inside, position, per_element),
        _shared(comm, groups, shared, index, rank),
        boundary,
        interior,
        groups.numbers.size,
    )


def _local(groups: _Groups, which: NDArray[np.intp], position: Numbers, per_element: int) -> LocalGroups:
    """Sort groups of copies on this rank into classes, each by the element that completes them, then by place."""
    starts, places = groups.chosen(which)
    copies = groups.copies[which]
    complete = np.zeros(0, np.int64)
    if which.size:
        complete = np.maximum.reduceat(position[places // per_element], starts[:-1])
    order = np.lexsort((places[starts[:-1]], complete))
    which, copies, complete = which[order], copies[order], complete[order]
    tables, bounds = [], []
    steps = np.arange(position.size + 1)
    for size in _SIZES:
        mine = np.flatnonzero(copies == size)
        tables.append(groups.chosen(which[mine])[1].astype(np.int32).reshape(-1, size))
        bounds.append(np.searchsorted(complete[mine], steps))
    mine = np.flatnonzero(~np.isin(copies, _SIZES))
    rest = groups.chosen(which[mine])
    bounds.append(np.searchsorted(complete[mine], steps))
    pairs, fours, eights = tables
    starts32, others = (array.astype(np.int32) for array in rest)
    return LocalGroups(pairs, fours, eights, starts32, others, np.array(bounds, dtype=np.int64))


def _shared(
    comm: MPI.Comm, groups: _Groups, shared: NDArray[np.bool_], index: Numbers, rank: Numbers
) -> SharedPoints:
    which = np.flatnonzero(shared)
    # In the order of memory.
    which = which[np.argsort(groups.places[groups.starts[which]])]
    point = np.empty(groups.numbers.size, np.int64)
    point[which] = np.arange(which.size)
    starts, places = groups.chosen(which)
    by_neighbour = np.lexsort((index, rank))
    ranks, counts = np.unique(rank, return_counts=True)
    send_index = point[index[by_neighbour]]
    # This rank's own part comes among the slots of its point where its rank does in the order of ranks.
    source_rank = np.concatenate([rank[by_neighbour], np.full(which.size, comm.rank)])
    slot = np.concatenate([np.arange(send_index.size), np.full(which.size, -1)])
    of_point = np.concatenate([send_index, np.arange(which.size)])
    order = np.lexsort((source_rank, of_point))
    source_starts = np.searchsorted(of_point[order], np.arange(which.size + 1))
    return SharedPoints(
        starts.astype(np.int32),
        places.astype(np.int32),
        ranks.tolist(),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        send_index.astype(np.int32),
        source_starts.astype(np.int32),
        slot[order].astype(np.int32),
    )
