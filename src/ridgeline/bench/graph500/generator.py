"""The edge list of Graph500: Kronecker edges with weights, equal to those of the specification's reference generator.

Edge i depends on i alone, so every rank makes its contiguous share and all ranks together always make the same list.
The random numbers come from a multiple recursive generator modulo m = 2^31 - 1 with five words of state,
z' = 107374182 z_1 + 104480 z_5. Edge i begins where the seeded generator is after 2^64 i steps.
An edge takes SCALE numbers for its places in the initiator, and the next number gives its weight in [0, 1].

Sources: Graph500 specification, Sec. 3 (A = 0.57, B = C = 0.19); P. L'Ecuyer, F. Blouin and R. Couture, A search for
good multiple recursive random number generators, ACM TOMACS 3 (1993), Table 3. What is equal to what the reference
implementation's `generator` folder makes: seeds, places of the numbers, scrambling of vertices, and weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numba import float32, float64, int64, prange, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from mpi4py import MPI

EDGE_FACTOR = 16
SEEDS = (2, 3)  # the two numbers of the reference implementation's main program

_MODULUS = 2**31 - 1
_X, _Y = 107374182, 104480
_JUMP_BITS = 64  # an edge begins 2^64 numbers after the edge before it
_INDEX_BITS = 52  # of the number of an edge
_CHUNK = 4096  # edges that one thread makes in turn, from one jump to their first

_INITIATOR = 10000  # denominator of the probabilities
_BC, _A = 1900, 5700
_UNBIASED = _MODULUS % _INITIATOR  # numbers below it are drawn again
TO_UNIT = 0.000000000465661287524579692  # 1 / (2^31 - 1), with the digits of the reference implementation


@dataclass(frozen=True)
class EdgeList:
    """This rank's share of the undirected edges: m_local of them, from edge number `first` on.

    start, end: int64 [m_local], vertices in 0 ... 2^scale - 1, with self-loops and duplicates; weight: float32
    [m_local] in [0, 1], or None; total: edges of all ranks.
    """

    scale: int
    total: int
    first: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    weight: NDArray[np.float32] | None = None

    @property
    def vertices(self) -> int:
        """Return the vertices of the graph, isolated ones among them."""
        return 1 << self.scale


def generate(
    comm: MPI.Comm,
    scale: int,
    edge_factor: int = EDGE_FACTOR,
    weights: bool = True,
    seeds: tuple[int, int] = SEEDS,
) -> EdgeList:
    """Return this rank's share of the edge list of 2^scale vertices. No communication.

    weights: make the weights too, which shortest paths need; seeds: two numbers of 64 bits.
    """
    total = edge_factor << scale
    first, count = split(total, comm.size, comm.rank)
    start, end = np.empty(count, np.int64), np.empty(count, np.int64)
    weight = np.empty(count if weights else 0, np.float32)
    state = seed_state(*seeds)
    kronecker_edges(state, _jumps(), _scramble_values(seeds), scale, first, start, end, weight)
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
        power = power @ power % _MODULUS
    jumps = []
    for _ in range(_INDEX_BITS):
        jumps.append(power)
        power = power @ power % _MODULUS
    return np.array(jumps).astype(np.int64)


def _one_step() -> NDArray[np.object_]:
    """Return the matrix of one step of the generator, of Python's integers."""
    step = np.eye(5, k=-1, dtype=np.int64).astype(object)
    step[0, 0], step[0, 4] = _X, _Y
    return step


def _scramble_values(seeds: tuple[int, int]) -> NDArray[np.uint64]:
    """Return the two numbers by which vertices are scrambled: uint64 [2], drawn after 50 2^128 + 7 2^64 steps."""
    first, second, third, fourth = islice(drawn_after(seeds, 50 << 128 | 7 << 64), 4)
    high = 2**32 - 1  # the factor of the reference implementation; 2^32 would be a shift
    return np.array([first * high + second, third * high + fourth], np.uint64)


def drawn_after(seeds: tuple[int, int], steps: int) -> Iterator[int]:
    """Yield the numbers that the seeded generator draws after so many steps, each in 0 ... 2^31 - 2."""
    power, z = _one_step(), seed_state(*seeds).astype(object)
    for bit in range(steps.bit_length()):
        if steps >> bit & 1:
            z = power @ z % _MODULUS
        power = power @ power % _MODULUS
    while True:
        z = _one_step() @ z % _MODULUS
        yield int(z[0])


@subroutine
def _folded(number):
    """Return a number congruent to `number` modulo 2^31 - 1, below 2^33 for numbers below 2^63."""
    return (number & _MODULUS) + (number >> 31)


@subroutine(inline="always")
def _jumped(matrix, z1, z2, z3, z4, z5, row):
    """Return one word of matrix @ z modulo 2^31 - 1."""
    total = _folded(matrix[row, 0] * z1) + _folded(matrix[row, 1] * z2) + _folded(matrix[row, 2] * z3)
    return (total + _folded(matrix[row, 3] * z4) + _folded(matrix[row, 4] * z5)) % _MODULUS


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
    drawn = _folded(_X * z[0] + _Y * z[4])
    if drawn >= _MODULUS:
        drawn -= _MODULUS
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
def _place(z):
    """Return the state after an unbiased draw, and which quarter of the initiator it is: 0 A, 1 B, 2 C, 3 D."""
    z = _step(z)
    while z[0] < _UNBIASED:
        z = _step(z)
    drawn = z[0] % _INITIATOR
    if drawn < _BC:
        return z, 1
    if drawn < 2 * _BC:
        return z, 2
    return z, 0 if drawn < 2 * _BC + _A else 3


@subroutine
def _edge(z, scale):
    """Return the state after an edge, and its two vertices before scrambling, start <= end."""
    start, end = 0, 0
    for _ in range(scale):
        z, place = _place(z)
        row, column = place >> 1, place & 1
        if start == end and row > column:  # the lower triangle is flipped into the upper one
            row, column = column, row
        start, end = 2 * start + row, 2 * end + column
    return z, start, end


@kernel(
    lambda: (int64[::1], int64[:, :, ::1], uint64[::1], int64, int64, int64[::1], int64[::1], float32[::1]),
    parallel=True,
    nogil=True,
)
def kronecker_edges(state, jumps, values, scale, first, start, end, weight):
    """Write edges first, first + 1, ... into start and end, and weight unless it is empty.

    state [5]: the seeded generator; jumps [52, 5, 5]; values [2]: of the scrambling.
    """
    count = start.shape[0]
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
            z = _jump(jumps[0], z)


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([kronecker_edges])
