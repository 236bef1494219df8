"""The input edges as the validation sees them: the edges of this rank, and a view of the vertices that they touch.

The view is made once from the edge list, and not from what the searches use. An edge stays on the rank that generated
it. Its ends are numbered in the rank's view: first the vertices that the rank owns, then those of others. The values
of the others, which a search gives, come by one exchange in pieces of bounded size; flags that edges set go back the
same way.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from mpi4py import MPI
from numba import int32, int64, prange, uint8, uint64
from numpy.typing import NDArray

from ridgeline.bench.graph500.generator import EdgeList
from ridgeline.bench.graph500.graph import VertexBlocks
from ridgeline.bench.graph500.search_kernels import lowest_bit, set_bits
from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.parallel.counted_exchange import exchange_counted

Numbers = NDArray[np.int64]
Value = TypeVar("Value", bound=np.generic)
PIECE = 1 << 20  # values that a rank sends to another rank in one turn
_ONE = uint64(1)
_FLAGS = {"parallel": True, "nogil": True}


class InputEdges:
    """This rank's share of the edge list over its view of the vertices.

    start, end: int32 [m_local], places in the view; weight: float32 [m_local], empty without weights; numbers: int64
    [view], the vertices; owned vertices come first, in order.
    """

    def __init__(self, comm: MPI.Comm, edges: EdgeList) -> None:
        """Number the ends. Collective over comm: 8 bytes for each vertex of another rank."""
        self.comm, self.total = comm, edges.total
        self.blocks = VertexBlocks(edges.vertices, comm.size)
        first, self.n_owned = self.blocks.first(comm.rank), self.blocks.count(comm.rank)
        owned = np.arange(first, first + self.n_owned, dtype=np.int64)
        words = np.zeros(-(-edges.vertices // 64), np.uint64)
        for ends in (edges.start, edges.end):
            mark_others(ends, first, self.n_owned, words)
        others = np.empty(int(np.bitwise_count(words).sum()), np.int64)
        before = np.empty(words.size, np.int32)
        list_others(words, before, others)
        self.start, self.end = (np.empty(edges.start.size, np.int32) for _ in range(2))
        for ends, places in ((edges.start, self.start), (edges.end, self.end)):
            number_ends(ends, first, self.n_owned, words, before, places)
        self.weight = np.empty(0, np.float32) if edges.weight is None else edges.weight
        self._received = np.bincount(self.blocks.owner(others), minlength=comm.size)
        requested, self._sent = exchange_counted(comm, others, self._received)
        self._send_index = requested - first
        most = max(self._sent.max(initial=0), self._received.max(initial=0))
        self._pieces = -(-comm.allreduce(int(most), MPI.MAX) // PIECE)
        self.numbers = self.view(owned)

    def view(self, owned: NDArray[Value]) -> NDArray[Value]:
        """Return values of all vertices of the view from those of the owned ones. Collective over comm."""
        if self.comm.size == 1:
            return owned
        values = np.empty(self.n_owned + int(self._received.sum()), owned.dtype)
        values[: self.n_owned] = owned
        self._exchange(owned[self._send_index], self._sent, values[self.n_owned :], self._received)
        return values

    def gather_flags(self, flags: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the flags of the owned vertices that any rank has set in its view. Collective over comm."""
        if self.comm.size == 1:
            return flags
        owned = flags[: self.n_owned].copy()
        received = np.empty(self._send_index.size, np.uint8)
        self._exchange(flags[self.n_owned :], self._received, received, self._sent)
        owned[self._send_index[received > 0]] = 1
        return owned

    def joined(self) -> NDArray[np.bool_]:
        """Return which owned vertices an edge joins to another vertex. Collective over comm."""
        flags = np.zeros(self.numbers.size, np.uint8)
        flag_joined(self.start, self.end, flags)
        return self.gather_flags(flags) > 0

    def _exchange(
        self, outgoing: NDArray[Value], sent: Numbers, incoming: NDArray[Value], received: Numbers
    ) -> None:
        """Send sent[r] values to each rank r, in pieces. Collective over comm."""
        out_starts, in_starts = (np.cumsum(counts) - counts for counts in (sent, received))
        for piece in range(self._pieces):
            done = piece * PIECE
            out_counts, in_counts = (np.clip(counts - done, 0, PIECE) for counts in (sent, received))
            self.comm.Alltoallv(
                [outgoing, (out_counts, out_starts + np.minimum(done, sent))],
                [incoming, (in_counts, in_starts + np.minimum(done, received))],
            )


def look_up(comm: MPI.Comm, blocks: VertexBlocks, tables: list[Numbers], wanted: Numbers) -> list[Numbers]:
    """Return the entries of each table for the wanted vertices, whichever ranks own them. Collective over comm.

    tables: int64 [owned vertices] each; wanted: int64 [n], with any n on each rank. Messages are pieces of bounded
    size.
    """
    if comm.size == 1:
        return [table[wanted] for table in tables]
    entries = [np.empty(wanted.size, np.int64) for _ in tables]
    for piece in range(-(-comm.allreduce(wanted.size, MPI.MAX) // PIECE)):
        here = slice(piece * PIECE, (piece + 1) * PIECE)
        owner = blocks.owner(wanted[here])
        order = np.argsort(owner, kind="stable")
        sent = np.bincount(owner, minlength=comm.size)
        requested, counts = exchange_counted(comm, wanted[here][order], sent)
        local = blocks.local(requested)
        for table, values in zip(tables, entries):
            answers = np.empty(order.size, np.int64)
            comm.Alltoallv([table[local], counts], [answers, sent])
            values[here][order] = answers
    return entries


# The kernels number the view. Vertices of other ranks are bits of words of 64. Their places follow those of the owned
# vertices, in the order of their numbers: the place of a vertex is the number of bits that are set before its own.
# Bits and counts take 3/16 of a byte for each vertex of all ranks, and stay in caches where a table of numbers would
# not.


@kernel(lambda: (int64[::1], int64, int64, uint64[::1]), nogil=True)
def mark_others(vertices, first, owned, words):
    """Set the bits of all vertices except the `owned` ones from `first` on."""
    for i in range(vertices.shape[0]):
        v = vertices[i]
        if v < first or v >= first + owned:
            words[v >> 6] |= _ONE << uint64(v & 63)


@kernel(lambda: (uint64[::1], int32[::1], int64[::1]), nogil=True)
def list_others(words, before, numbers):
    """Write the vertices whose bits are set, ascending, and the number of bits that are set before each word."""
    place = 0
    for word in range(words.shape[0]):
        before[word] = place
        bits = words[word]
        while bits != uint64(0):
            numbers[place] = 64 * word + lowest_bit(bits)
            bits &= bits - _ONE
            place += 1


@kernel(lambda: (int64[::1], int64, int64, uint64[::1], int32[::1], int32[::1]), **_FLAGS)
def number_ends(vertices, first, owned, words, before, places):
    """Set places[i] to the place of vertices[i] in the view."""
    for i in prange(vertices.shape[0]):
        v = vertices[i]
        if first <= v < first + owned:
            places[i] = v - first
        else:
            lower = words[v >> 6] & ((_ONE << uint64(v & 63)) - _ONE)
            places[i] = owned + before[v >> 6] + set_bits(lower)


@kernel(lambda: (int32[::1], int32[::1], uint8[::1]), **_FLAGS)
def flag_joined(start, end, flags):
    """Set the flags of both ends of every edge except self-loops. Threads may write the same value."""
    for e in prange(start.shape[0]):
        if start[e] != end[e]:
            flags[start[e]] = 1
            flags[end[e]] = 1


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([mark_others, list_others, number_ends, flag_joined])
