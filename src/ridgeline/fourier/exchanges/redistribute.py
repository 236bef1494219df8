"""Moving a long 1-D array between two owners' views of it: scattered runs, and one range per rank.

Numbers have *positions* in a global order. On one side each rank holds any runs of consecutive positions, one after
the other in memory; on the other side rank p holds the positions bounds[p, 0] ... bounds[p, 1] - 1. One Alltoallv
moves them; the plan is made once. What a rank sends to another is consecutive on the side of the runs, so that only
the side of the ranges packs and unpacks. Not even that is needed where every rank's runs come before those of the
next rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.jit.contiguous_runs import gather_runs, scatter_runs
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from mpi4py import MPI

Integers = NDArray[np.int64]


def equal_ranges(n: int, parts: int) -> Integers:
    """Return the bounds of `parts` consecutive ranges of n numbers, as equal as they can be: int64 [parts, 2]."""
    return np.array([(first, first + size) for first, size in (split(n, parts, p) for p in range(parts))])


class Redistribution:
    """The plan for one set of runs and ranges. Made collectively; the two moves are collective too.

    Parameters
    ----------
    comm : all ranks that have runs or ranges
    start, count : int64 [n_runs], first position and length of this rank's runs, increasing, without overlap;
        runs of different ranks do not overlap either
    bounds : int64 [ranks, 2], [first, end) of each rank's range, equal on all ranks, increasing, without overlap;
        positions outside all ranges are not moved

    Attributes
    ----------
    run, offset, length : int64 [n_pieces], the pieces of this rank's runs that are in some range, in their order:
        number of the run, place in it where the piece begins, and length
    n_values : sum of `length`, the numbers on the side of the runs
    n_range : numbers in this rank's range
    n_buffer : numbers in the buffer that the moves need, 0 if none
    """

    def __init__(self, comm: MPI.Comm, start: Integers, count: Integers, bounds: Integers) -> None:
        self._comm = comm
        filled = count > 0
        self.run, first, end, pieces = _cut(start[filled], (start + count)[filled], bounds)
        self.run = np.flatnonzero(filled)[self.run]
        self.offset, self.length = first - start[self.run], end - first
        self.n_values = int(self.length.sum())
        ends = np.concatenate([[0], np.cumsum(self.length)])
        piece_ends = np.concatenate([[0], np.cumsum(pieces)])
        self._run_counts = np.diff(ends[piece_ends])
        self._run_places = ends[piece_ends[:-1]]

        # Tell the owner of each range which positions come from here, neighbouring runs as one.
        joined_first, joined_end, joined = _join(first, end, pieces)
        n_from = np.empty_like(joined)
        comm.Alltoall(joined, n_from)
        sent = np.stack([joined_first, joined_end], axis=1)
        received = np.empty((int(n_from.sum()), 2), np.int64)
        comm.Alltoallv(
            [sent, (2 * joined, _places(2 * joined))], [received, (2 * n_from, _places(2 * n_from))]
        )

        low, high = bounds[comm.rank]
        self.n_range = int(high - low)
        self._start = np.ascontiguousarray(received[:, 0] - low)
        self._length = np.ascontiguousarray(received[:, 1] - received[:, 0])
        received_ends = np.concatenate([[0], np.cumsum(self._length)])
        piece_ends = np.concatenate([[0], np.cumsum(n_from)])
        self._range_counts = np.diff(received_ends[piece_ends])
        self._range_places = received_ends[piece_ends[:-1]]
        # Pieces that follow one another as they arrive need no unpacking, and no buffer.
        self._in_order = bool((self._start[1:] == (received[:-1, 1] - low)).all())
        if self._in_order and len(received):
            self._range_places = self._range_places + self._start[0]
        self.n_buffer = 0 if self._in_order else int(received_ends[-1])

    def to_ranges(
        self, values: NDArray[Any], out_range: NDArray[Any], buffer: NDArray[Any] | None = None
    ) -> None:
        """Send every number to the range that its position is in. Collective.

        Parameters
        ----------
        values : [n_values], this rank's pieces one after the other
        out_range : [n_range], written where some rank has the position
        buffer : [n_buffer or more], overwritten; None allocates it

        All are contiguous and of one dtype, which is the same on all ranks.
        """
        target = self._range_side(out_range, buffer)
        self._comm.Alltoallv(
            [self._check(values, self.n_values), (self._run_counts, self._run_places)],
            [target, (self._range_counts, self._range_places)],
        )
        if not self._in_order:
            scatter_runs(target, self._start, self._length, out_range)

    def to_runs(
        self, range_values: NDArray[Any], out_values: NDArray[Any], buffer: NDArray[Any] | None = None
    ) -> None:
        """Send every number to the rank that has its position in a run: the reverse of `to_ranges`. Collective.

        range_values is not changed.
        """
        source = self._range_side(range_values, buffer)
        if not self._in_order:
            gather_runs(range_values, self._start, self._length, source)
        self._comm.Alltoallv(
            [source, (self._range_counts, self._range_places)],
            [self._check(out_values, self.n_values), (self._run_counts, self._run_places)],
        )

    def _range_side(self, array: NDArray[Any], buffer: NDArray[Any] | None) -> NDArray[Any]:
        """Return the array that MPI reads or writes on the side of the ranges."""
        self._check(array, self.n_range)
        if self._in_order:
            return array
        if buffer is None:
            return np.empty(self.n_buffer, array.dtype)
        if buffer.dtype != array.dtype or not buffer.flags.c_contiguous or buffer.size < self.n_buffer:
            raise ValueError(
                f"the buffer must have at least {self.n_buffer} contiguous numbers of {array.dtype}, "
                f"not {buffer.size} of {buffer.dtype}"
            )
        return buffer

    @staticmethod
    def _check(array: NDArray[Any], size: int) -> NDArray[Any]:
        if array.shape != (size,) or not array.flags.c_contiguous:
            raise ValueError(f"the array must be contiguous and have the shape ({size},), not {array.shape}")
        return array


def _places(counts: Integers) -> Integers:
    """Return where parts of these sizes begin, one after the other."""
    return np.cumsum(counts) - counts


def _cut(start: Integers, end: Integers, bounds: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Cut runs at the bounds of ranges: (number of the run, first, end) of each piece, pieces per range."""
    lowest = np.searchsorted(end, bounds[:, 0], side="right")
    beyond = np.searchsorted(start, bounds[:, 1], side="left")
    pieces = np.where(bounds[:, 1] > bounds[:, 0], np.maximum(beyond - lowest, 0), 0)
    run = np.repeat(lowest - _places(pieces), pieces) + np.arange(int(pieces.sum()))
    first = np.maximum(start[run], np.repeat(bounds[:, 0], pieces))
    last = np.minimum(end[run], np.repeat(bounds[:, 1], pieces))
    return run, first, last, pieces


def _join(first: Integers, end: Integers, pieces: Integers) -> tuple[Integers, Integers, Integers]:
    """Join pieces of one range that follow each other: (first, end) of the joined pieces, their number per range."""
    owner = np.repeat(np.arange(len(pieces)), pieces)
    begins = np.ones(len(first), bool)
    begins[1:] = (first[1:] != end[:-1]) | (owner[1:] != owner[:-1])
    heads = np.flatnonzero(begins)
    tails = np.append(heads[1:], len(first)) - 1 if len(heads) else heads
    return first[heads], end[tails], np.bincount(owner[heads], minlength=len(pieces))
