"""The five rules of Graph500, checked in parallel on the result of one search: sentences that name a vertex, or none.

1. The parents are a tree without cycles, whose root is its own parent.
2. Each edge of the tree joins levels that differ by one; for shortest paths, distances that differ by its weight.
3. Every input edge joins levels that differ by at most one; for shortest paths, distances, by at most its weight.
4. The tree spans the whole component: no input edge joins a vertex inside to one outside.
5. A vertex and its parent are joined by an input edge.

Levels are counted from the parents here, whatever the search says. Sources: Graph500 specification, "Validation", and
`validate.c` of the reference implementation for shortest paths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from mpi4py import MPI
from numba import float32, int32, int64, prange, uint8
from numpy.typing import NDArray

from ridgeline.bench.graph500 import input_edges
from ridgeline.bench.graph500.input_edges import InputEdges, look_up
from ridgeline.jit.kernel import Specialisation, kernel, specialise

CHUNK = 1 << 16  # edges
# Rows of out_found: an edge whose ends are too far apart, one that leaves the tree.
APART, CUT = 0, 1
_ULP = 2.0**-23  # of float32: distances are sums that were rounded once for each edge
_ENDS = (int32[::1], int32[::1])  # start, end
_MARKS = (int64[::1], uint8[::1], int64[:, ::1])  # parent, out_flags, out_found

Numbers = NDArray[np.int64]
Distances = NDArray[np.float32]


@dataclass(frozen=True)
class Validity:
    """The verdict on one search, the same on all ranks.

    edges: input edges inside the root's component, duplicates and self-loops included, which is what TEPS count;
    failures: a sentence for each rule that is broken on a rank.
    """

    edges: int
    failures: tuple[str, ...]


def validate_bfs(inputs: InputEdges, root: int, parents: Numbers) -> Validity:
    """Check the tree of a breadth-first search. Collective over the communicator of `inputs`.

    parents: int64 [owned vertices], -1 where not reached.
    """
    failures, levels = tree_levels(inputs, root, parents)
    if failures:
        return Validity(0, failures)
    level = inputs.view(levels.astype(np.int32))

    def run(parent: Numbers, flags: NDArray[np.uint8], found: Numbers) -> int:
        return int(check_levels(inputs.start, inputs.end, inputs.numbers, level, parent, flags, found))

    def apart(edge: int, u: int, v: int) -> str:
        at_u, at_v = level[inputs.start[edge]], level[inputs.end[edge]]
        return (
            f"an input edge joins vertex {u} on level {at_u} and vertex {v} on level {at_v}, but levels must differ "
            "by at most one."
        )

    def invented(place: int) -> str:
        return "but no input edge joins them."

    return _check_edges(inputs, root, parents, level >= 0, run, apart, invented)


def validate_sssp(inputs: InputEdges, root: int, parents: Numbers, distances: Distances) -> Validity:
    """Check shortest paths, to the rounding of one sum of float32. Collective over the communicator of `inputs`.

    parents: int64 [owned vertices], -1 where not reached; distances: float32, infinite where not reached.
    """
    failures, _ = tree_levels(inputs, root, parents)
    if not failures:
        # Vertices of this rank with a parent and no distance, or with a distance and no parent.
        blocks, rank = inputs.blocks, inputs.comm.rank
        mine = []
        if blocks.owner(root) == rank and distances[blocks.local(root)] != 0:
            mine.append(f"the root {root} is at distance {distances[blocks.local(root)]}, not 0.")
        finite = (distances >= 0) & (distances < np.inf)
        for i in np.flatnonzero(np.where(parents >= 0, ~finite, distances != np.inf))[:1]:
            has = f"the parent {parents[i]}" if parents[i] >= 0 else "no parent"
            mine.append(f"vertex {blocks.first(rank) + i} has {has} and the distance {distances[i]}.")
        failures = _gather(inputs.comm, mine)
    if failures:
        return Validity(0, failures)
    distance = inputs.view(distances)

    def run(parent: Numbers, flags: NDArray[np.uint8], found: Numbers) -> int:
        return int(
            check_distances(
                inputs.start, inputs.end, inputs.weight, inputs.numbers, distance, parent, flags, found
            )
        )

    def apart(edge: int, u: int, v: int) -> str:
        at_u, at_v = distance[inputs.start[edge]], distance[inputs.end[edge]]
        return (
            f"an input edge of weight {inputs.weight[edge]} joins vertex {u} at distance {at_u} and vertex {v} at "
            f"distance {at_v}, but distances must differ by at most the weight."
        )

    def invented(place: int) -> str:
        return f"but no input edge between them has the weight that gives its distance {distances[place]}."

    return _check_edges(inputs, root, parents, np.isfinite(distance), run, apart, invented)


def tree_levels(inputs: InputEdges, root: int, parents: Numbers) -> tuple[tuple[str, ...], Numbers]:
    """Return sentences on what is not a tree, and the level of every owned vertex, -1 outside. Collective.

    The levels are counted by pointer doubling: each vertex knows an ancestor and the distance to it, and asks that
    ancestor for its own ancestor. Communication: 24 bytes for each vertex below the first level, log2 of the tree's
    height times.
    """
    comm, blocks = inputs.comm, inputs.blocks
    first = blocks.first(comm.rank)
    wrong = np.flatnonzero((parents < -1) | (parents >= blocks.total))
    mine = (
        [f"vertex {first + wrong[0]} has the parent {parents[wrong[0]]}, which is not a vertex."]
        if wrong.size
        else []
    )
    owns_root = blocks.owner(root) == comm.rank
    if owns_root and parents[blocks.local(root)] != root:
        mine.append(f"the root {root} has the parent {parents[blocks.local(root)]}, not itself.")
    levels = np.where(parents >= 0, 1, -1)
    if failures := _gather(comm, mine):
        return failures, levels
    ancestors = parents.copy()
    if owns_root:
        levels[blocks.local(root)] = 0
    below = np.flatnonzero((parents >= 0) & (parents != root))
    for _ in range(blocks.total.bit_length() + 1):
        if not comm.allreduce(below.size):
            return (), levels
        further, more = look_up(comm, blocks, [ancestors, levels], ancestors[below])
        hanging = np.flatnonzero(further < 0)
        mine = [
            f"vertex {first + below[i]} has an ancestor, vertex {ancestors[below[i]]}, which was not reached."
            for i in hanging[:1]
        ]
        if failures := _gather(comm, mine):
            return failures, levels
        ancestors[below], levels[below] = further, levels[below] + more
        below = below[further != root]
    # After as many steps as there are vertices, the ancestors of what is left lie on a cycle.
    mine = [
        f"the parents of vertex {first + i} lead into a cycle through vertex {ancestors[i]}, not to the root {root}."
        for i in below[:1]
    ]
    return _gather(comm, mine), levels


def _check_edges(
    inputs: InputEdges,
    root: int,
    parents: Numbers,
    inside: NDArray[np.bool_],
    run: Callable[[Numbers, NDArray[np.uint8], Numbers], int],
    apart: Callable[[int, int, int], str],
    invented: Callable[[int], str],
) -> Validity:
    """Pass over the input edges and return the verdict. Collective.

    inside: bool [view], whether the search reached a vertex; run: the pass; apart, invented: return the words on an
    edge whose ends are too far apart, and on an owned vertex that no edge joins to its parent.
    """
    first = inputs.blocks.first(inputs.comm.rank)
    flags = np.zeros(inputs.numbers.size, np.uint8)
    found = np.full((2, -(-inputs.start.size // CHUNK)), -1, np.int64)
    edges = inputs.comm.allreduce(run(inputs.view(parents), flags, found))
    mine = []
    for kind, edge in ((kind, found[kind].max(initial=-1)) for kind in (APART, CUT)):
        if edge < 0:
            continue
        u, v = inputs.numbers[inputs.start[edge]], inputs.numbers[inputs.end[edge]]
        if kind == APART:
            mine.append(apart(edge, u, v))
        else:
            reached, left = (u, v) if inside[inputs.start[edge]] else (v, u)
            mine.append(
                f"vertex {left} was not reached, although an input edge joins it to vertex {reached}."
            )
    joined = inputs.gather_flags(flags) > 0
    if inputs.blocks.owner(root) == inputs.comm.rank:
        joined[inputs.blocks.local(root)] = True
    for i in np.flatnonzero((parents >= 0) & ~joined)[:1]:
        mine.append(f"vertex {first + i} has the parent {parents[i]}, {invented(i)}")
    return Validity(edges, _gather(inputs.comm, mine))


def _gather(comm: MPI.Comm, mine: list[str]) -> tuple[str, ...]:
    """Return the sentences of all ranks. Collective."""
    return tuple(chain.from_iterable(comm.allgather(mine)))


# The kernels pass over this rank's input edges, for levels and for distances. Both write the first edge of each chunk
# that breaks a rule, and set the flag of a vertex whose parent an edge joins to it. Threads share the chunks; two
# that set one flag write the same value.


@kernel(lambda: (*_ENDS, int64[::1], int32[::1], *_MARKS), parallel=True, nogil=True)
def check_levels(start, end, numbers, level, parent, out_flags, out_found):
    """Return the number of edges that have both ends in the tree.

    start, end [edges]: places in the view; numbers, level (-1 outside), parent, out_flags [view];
    out_found [2, chunks]: edges by APART and CUT, -1 for none.
    """
    inside = 0
    for chunk in prange(out_found.shape[1]):
        for e in range(chunk * CHUNK, min((chunk + 1) * CHUNK, start.shape[0])):
            u, v = start[e], end[e]
            difference = level[u] - level[v]
            if level[u] < 0 or level[v] < 0:
                if difference != 0 and out_found[CUT, chunk] < 0:
                    out_found[CUT, chunk] = e
                continue
            inside += 1
            if difference == 1 and parent[u] == numbers[v]:
                out_flags[u] = 1
            elif difference == -1 and parent[v] == numbers[u]:
                out_flags[v] = 1
            elif (difference > 1 or difference < -1) and out_found[APART, chunk] < 0:
                out_found[APART, chunk] = e
    return inside


@kernel(lambda: (*_ENDS, float32[::1], int64[::1], float32[::1], *_MARKS), parallel=True, nogil=True)
def check_distances(start, end, weight, numbers, distance, parent, out_flags, out_found):
    """Return the number of edges that have both ends in the tree.

    The arguments are those of `check_levels`, with weight [edges] and distance [view], infinite outside.
    """
    inside = 0
    for chunk in prange(out_found.shape[1]):
        for e in range(chunk * CHUNK, min((chunk + 1) * CHUNK, start.shape[0])):
            u, v = start[e], end[e]
            at_u, at_v = np.float64(distance[u]), np.float64(distance[v])
            if at_u == np.inf or at_v == np.inf:
                if at_u != at_v and out_found[CUT, chunk] < 0:
                    out_found[CUT, chunk] = e
                continue
            inside += 1
            to_v, to_u = at_u + weight[e] - at_v, at_v + weight[e] - at_u
            rounding_v, rounding_u = _ULP * (at_u + weight[e]), _ULP * (at_v + weight[e])
            if (to_v < -rounding_v or to_u < -rounding_u) and out_found[APART, chunk] < 0:
                out_found[APART, chunk] = e
            if parent[v] == numbers[u] and abs(to_v) <= rounding_v:
                out_flags[v] = 1
            if parent[u] == numbers[v] and abs(to_u) <= rounding_u:
                out_flags[u] = 1
    return inside


def kernels() -> list[Specialisation]:
    """Return the kernels of the validation, those of the input edges included."""
    return [*input_edges.kernels(), *specialise([check_levels, check_distances])]
