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
from numpy.typing import NDArray

from ridgeline.bench.graph500.generator_kernels import MODULUS, X, Y, kronecker_edges
from ridgeline.bench.graph500.graph500_options import EDGE_FACTOR, SEEDS
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from mpi4py import MPI

_JUMP_BITS = 64  # an edge begins 2^64 numbers after the edge before it
_INDEX_BITS = 52  # of the number of an edge


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
        power = power @ power % MODULUS
    jumps = []
    for _ in range(_INDEX_BITS):
        jumps.append(power)
        power = power @ power % MODULUS
    return np.array(jumps).astype(np.int64)


def _one_step() -> NDArray[np.object_]:
    """Return the matrix of one step of the generator, of Python's integers."""
    step = np.eye(5, k=-1, dtype=np.int64).astype(object)
    step[0, 0], step[0, 4] = X, Y
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
            z = power @ z % MODULUS
        power = power @ power % MODULUS
    while True:
        z = _one_step() @ z % MODULUS
        yield int(z[0])
