"""The edge list of Graph500 and the roots of its searches: all that follows from two seeds.

The edges are Kronecker edges with weights, equal to those of the specification's reference generator. Edge i depends
on i alone, so that every rank makes its contiguous share and all ranks together always make the same list. The random
numbers come from a multiple recursive generator modulo m = 2^31 - 1 with five words of state,
z' = 107374182 z_1 + 104480 z_5. Edge i begins where the seeded generator is after 2^64 i steps. An edge takes SCALE
numbers for its places in the initiator, and the next number gives its weight in [0, 1].

Roots are distinct vertices with a neighbour. They are those of the reference implementation's main program: numbers
of the generator after 2 2^128 steps, four of them for each candidate. They depend on seeds and scale alone, so that
any number of ranks chooses the same.

Sources: Graph500 specification, Sec. 3 (A = 0.57, B = C = 0.19); P. L'Ecuyer, F. Blouin and R. Couture, A search for
good multiple recursive random number generators, ACM TOMACS 3 (1993), Table 3. The following equal what the
`generator` folder of the reference implementation makes: seeds, places of the numbers, scrambling of vertices, and
weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
from mpi4py import MPI
from numba import float32, float64, int64, prange, uint64
from numpy.typing import NDArray

from ridgeline.bench.graph500.graph import VertexBlocks
from ridgeline.bench.graph500.graph500_options import EDGE_FACTOR, SEEDS
from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.parallel.partition import split

MODULUS = 2**31 - 1
X, Y = 107374182, 104480  # factors of the first and the last of the five words
# 1 / (2^31 - 1) and its square, with the digits of the reference implementation.
TO_UNIT = 0.000000000465661287524579692
_TO_UNIT_SQUARED = 0.0000000000000000002168404346990492787
_JUMP_BITS = 64  # an edge begins 2^64 numbers after the edge before it
_INDEX_BITS = 52  # bits of the number of an edge
_CHUNK = 4096  # edges that a thread makes in turn, from one jump to the first of them
_INITIATOR = 10000  # denominator of the probabilities
_BC, _A = 1900, 5700
_UNBIASED = MODULUS % _INITIATOR  # numbers below it are drawn again
_STEPS_TO_ROOTS = 2 << 128  # steps of the generator to the first candidate for a root
_BATCH = 64  # candidates that all ranks check in one turn


@dataclass(frozen=True)
class EdgeList:
    """This rank's share of the undirected edges.

    Attributes
    ----------
    total, first : the edges of all ranks, and the number of this rank's first edge
    start, end : int64 [edges of this rank], vertices in 0 ... 2^scale - 1, with self-loops and duplicates
    weight : float32 [edges of this rank] in [0, 1], or None
    """

    scale: int
    total: int
    first: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    weight: NDArray[np.float32] | None = None

    @property
    def vertices(self) -> int:
        """The number of vertices of the graph, isolated ones included."""
        return 1 << self.scale


def generate(
    comm: MPI.Comm,
    scale: int,
    edge_factor: int = EDGE_FACTOR,
    weights: bool = True,
    seeds: tuple[int, int] = SEEDS,
) -> EdgeList:
    """Return this rank's share of the edge list of 2^scale vertices. No communication.

    weights: whether to make weights, which shortest paths need; seeds: two numbers of 64 bits.
    """
    total = edge_factor << scale
    first, count = split(total, comm.size, comm.rank)
    start, end = np.empty(count, np.int64), np.empty(count, np.int64)
    weight = np.empty(count if weights else 0, np.float32)
    state = seed_state(*seeds)
    # Two numbers scramble the vertices. The factor is that of the reference implementation; 2^32 would be a shift.
    words = list(islice(random_numbers(seeds, 50 << 128 | 7 << 64), 4))
    factor = 2**32 - 1
    scramble = np.array([words[0] * factor + words[1], words[2] * factor + words[3]], np.uint64)
    kronecker_edges(state, _jumps(), scramble, scale, first, start, end, weight)
    return EdgeList(scale, total, first, start, end, weight if weights else None)


def seed_state(seed1: int, seed2: int) -> NDArray[np.int64]:
    """Return the five words of the generator for two seeds of 64 bits, none of them zero: int64 [5]."""
    low = 2**30 - 1
    words = (
        seed1 & low,
        (seed1 >> 30) & low,
        seed2 & low,
        (seed2 >> 30) & low,
        ((seed2 >> 60) << 4) + (seed1 >> 60),
    )
    return np.array([word + 1 for word in words], np.int64)


@cache
def _jumps() -> NDArray[np.int64]:
    """Return the matrices of 2^64 2^k steps for the bits k of an edge's number: int64 [52, 5, 5]."""
    power = _one_step()
    for _ in range(_JUMP_BITS):
        power = power @ power % MODULUS
    jumps = []
    for _ in range(_INDEX_BITS):
        jumps.append(power)
        power = power @ power % MODULUS
    return np.array(jumps).astype(np.int64)


def _one_step() -> NDArray[np.object_]:
    """Return the matrix of one step of the generator in Python's integers, which do not overflow."""
    step = np.eye(5, k=-1, dtype=np.int64).astype(object)
    step[0, 0], step[0, 4] = X, Y
    return step


def random_numbers(seeds: tuple[int, int], steps: int) -> Iterator[int]:
    """Yield the numbers that the seeded generator draws after a number of steps, each in 0 ... 2^31 - 2."""
    power, z = _one_step(), seed_state(*seeds).astype(object)
    for bit in range(steps.bit_length()):
        if steps >> bit & 1:
            z = power @ z % MODULUS
        power = power @ power % MODULUS
    while True:
        z = _one_step() @ z % MODULUS
        yield int(z[0])


def candidates(seeds: tuple[int, int], total: int) -> Iterator[int]:
    """Yield `total` vertices of 0 ... total - 1 in the order in which they are tried as roots."""
    drawn = random_numbers(seeds, _STEPS_TO_ROOTS)
    for _ in range(total):
        high, low, high_2, low_2 = islice(drawn, 4)
        first = high * TO_UNIT + low * _TO_UNIT_SQUARED
        second = high_2 * TO_UNIT + low_2 * _TO_UNIT_SQUARED
        yield int((first + second) * total) % total


def choose_roots(
    comm: MPI.Comm, blocks: VertexBlocks, joined: NDArray[np.bool_], count: int, seeds: tuple[int, int]
) -> list[int]:
    """Return `count` distinct vertices with a neighbour, or fewer if there are not as many among the candidates.

    joined: bool [owned vertices], whether an edge joins a vertex to another one, which a self-loop does not.
    Collective: one allreduce of 64 bytes for each 64 candidates.
    """
    roots: dict[int, None] = {}
    tried = candidates(seeds, blocks.total)
    while len(roots) < count and (batch := np.array(list(islice(tried, _BATCH)), np.int64)).size:
        mine = blocks.owner(batch) == comm.rank
        good = np.zeros(batch.size, np.int8)
        good[mine] = joined[blocks.local(batch[mine])]
        comm.Allreduce(MPI.IN_PLACE, good, MPI.MAX)
        roots |= dict.fromkeys(batch[good > 0].tolist())
    return list(roots)[:count]


# The kernels.


@subroutine
def _folded(number):
    """Return a number congruent to `number` modulo 2^31 - 1, below 2^33 for numbers below 2^63."""
    return (number & MODULUS) + (number >> 31)


@subroutine(inline="always")
def _jumped(matrix, z1, z2, z3, z4, z5, row):
    """Return one word of matrix @ z modulo 2^31 - 1."""
    total = _folded(matrix[row, 0] * z1) + _folded(matrix[row, 1] * z2) + _folded(matrix[row, 2] * z3)
    return (total + _folded(matrix[row, 3] * z4) + _folded(matrix[row, 4] * z5)) % MODULUS


@subroutine(inline="always")
def _jump(matrix, z):
    """Return the state z, five words, after the steps of a matrix."""
    z1, z2, z3, z4, z5 = z
    return (
        _jumped(matrix, z1, z2, z3, z4, z5, 0),
        _jumped(matrix, z1, z2, z3, z4, z5, 1),
        _jumped(matrix, z1, z2, z3, z4, z5, 2),
        _jumped(matrix, z1, z2, z3, z4, z5, 3),
        _jumped(matrix, z1, z2, z3, z4, z5, 4),
    )


@subroutine
def _step(z):
    """Return the state after one step; its first word is the number drawn, 0 ... 2^31 - 2."""
    drawn = _folded(X * z[0] + Y * z[4])
    if drawn >= MODULUS:
        drawn -= MODULUS
    return (drawn, z[0], z[1], z[2], z[3])


@subroutine
def _bits_reversed(word):
    """Return 64 bits in the opposite order."""
    word = (word >> uint64(32)) | (word << uint64(32))
    word = ((word >> uint64(16)) & uint64(0x0000FFFF0000FFFF)) | (
        (word & uint64(0x0000FFFF0000FFFF)) << uint64(16)
    )
    word = ((word >> uint64(8)) & uint64(0x00FF00FF00FF00FF)) | (
        (word & uint64(0x00FF00FF00FF00FF)) << uint64(8)
    )
    word = ((word >> uint64(4)) & uint64(0x0F0F0F0F0F0F0F0F)) | (
        (word & uint64(0x0F0F0F0F0F0F0F0F)) << uint64(4)
    )
    word = ((word >> uint64(2)) & uint64(0x3333333333333333)) | (
        (word & uint64(0x3333333333333333)) << uint64(2)
    )
    return ((word >> uint64(1)) & uint64(0x5555555555555555)) | (
        (word & uint64(0x5555555555555555)) << uint64(1)
    )


@subroutine(inline="always")
def _scrambled(vertex, values, scale):
    """Return the number that a vertex gets: a permutation of 0 ... 2^scale - 1."""
    unused = uint64(64 - scale)
    word = uint64(vertex) + values[0] + values[1]
    word = _bits_reversed(word * (values[0] | uint64(0x4519840211493211))) >> unused
    return int64(_bits_reversed(word * (values[1] | uint64(0x3050852102C843A5))) >> unused)


@subroutine
def _edge(z, scale):
    """Return the state after an edge, and its two vertices before scrambling, start <= end.

    Each bit is a draw of a quarter of the initiator: B for the lowest numbers, then C, A, D. Its row and column come
    from comparisons, because a processor cannot predict branches on random numbers.
    """
    start, end = 0, 0
    for _ in range(scale):
        z = _step(z)
        while z[0] < _UNBIASED:
            z = _step(z)
        drawn = z[0] % _INITIATOR
        in_d = int64(drawn >= 2 * _BC + _A)
        row = in_d | (int64(drawn >= _BC) & int64(drawn < 2 * _BC))
        column = in_d | int64(drawn < _BC)
        flip = int64(start == end) & int64(row > column)  # the lower triangle is flipped into the upper one
        start, end = 2 * start + row - flip, 2 * end + column + flip
    return z, start, end


@kernel(
    lambda: (int64[::1], int64[:, :, ::1], uint64[::1], int64, int64, int64[::1], int64[::1], float32[::1]),
    parallel=True,
    nogil=True,
)
def kronecker_edges(state, jumps, values, scale, first, start, end, weight):
    """Write edges first, first + 1, ... into start and end, and weight unless it is empty.

    state [5]: the seeded generator; jumps [52, 5, 5]; values [2]: the numbers that scramble the vertices.
    """
    count, to_next = start.shape[0], jumps[0]
    for chunk in prange((count + _CHUNK - 1) // _CHUNK):
        begin = chunk * _CHUNK
        z = (state[0], state[1], state[2], state[3], state[4])
        for bit in range(jumps.shape[0]):
            if ((first + begin) >> bit) & 1:
                z = _jump(jumps[bit], z)
        for i in range(begin, min(begin + _CHUNK, count)):
            drawn, low, high = _edge(z, scale)
            start[i] = _scrambled(low, values, scale)
            end[i] = _scrambled(high, values, scale)
            if weight.shape[0]:
                weight[i] = float32(float64(float32(_step(drawn)[0])) * TO_UNIT)
            z = _jump(to_next, z)


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([kronecker_edges])
