"""Kernel 1: from the edge list to the distributed graph, timed by the rules from the list in memory to the graph.

1. Each rank writes both directions of its edges into buckets: consecutive vertices on one rank of the grid.
2. The buckets are sent to their ranks, in one exchange.
3. Process rows add up degrees. Owners order their vertices by them; their process row and column gather the places, 4
   bytes a vertex.
4. Each bucket's edges go into their rows, as the neighbour's place with its weight; rows are sorted and made unique.

Buckets, parts of the list and rows are independent, so that threads share them, and the graph does not depend on the
number of threads. With one process column every rank has the places of all vertices. Ids of 32 bits limit the scale
to 31.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.graph500.construct_kernels import (
    PARTS,
    count_buckets,
    count_degrees,
    fill_buckets,
    fill_rows,
    order_by_degree,
    sort_buckets,
)
from ridgeline.bench.graph500.generator import EdgeList
from ridgeline.bench.graph500.graph import WORD, EdgeGrid, Graph, VertexBlocks, make_grid
from ridgeline.bench.graph500.graph500_options import EDGE_FACTOR, LARGEST_SCALE
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

Integers = NDArray[np.int64]
_BUCKETS = 64  # over all ranks: more, and fewer, took longer at scale 20
_PART = (
    1 << 16
)  # edges of a part of a bucket, about: two copies of it are in a core's cache while it is sorted
_DIGIT_BITS = 12  # at most, of a digit of the sort


def memory_needed(
    scale: int, ranks: int, edge_factor: int = EDGE_FACTOR, weights: bool = True, columns: int = 1
) -> int:
    """Return the most bytes that a rank uses while kernel 1 runs, the edge list included. No communication.

    The searches need less, because the pairs and keys are freed by then.
    """
    edges = -(-(edge_factor << scale) // ranks)
    vertices = 1 << scale
    weight = 4 if weights else 0
    listed = edges * (16 + weight)
    pairs = 2 * edges * (8 + weight)
    sorting = 2 * pairs + (8 + weight) * _PART
    unpacked = pairs + 2 * edges * (4 + weight)
    tables = 3 * 8 * PARTS * max(_BUCKETS, ranks)  # of the buckets' counts and places
    owned = -(-vertices // ranks)
    of_grid = 28 * columns * owned + 8 * (ranks // columns) * owned  # of process row and process column
    return listed + max(sorting, unpacked) + of_grid + 12 * owned + tables


def construct(comm: MPI.Comm, edges: EdgeList, columns: int = 1) -> Graph:
    """Return the graph of an edge list on a grid with a number of process columns. Collective over comm.

    The list is not changed. Arrays of a step are freed when it ends, as `memory_needed` counts them. Raises
    ConfigError for a scale above 31.
    """
    if edges.scale > LARGEST_SCALE:
        raise ConfigError(
            f"scale = {edges.scale}: the scale may be at most {LARGEST_SCALE}, because vertices are numbered with 32 "
            "bits. Use a smaller scale."
        )
    vertices = VertexBlocks(edges.vertices, comm.size)
    grid = make_grid(comm, columns)
    begins, counts, pairs, pair_weights = _distribute_edges(comm, grid, edges, vertices)
    here = np.zeros(columns * vertices.length, np.int32)
    count_degrees(begins, counts, pairs, here)
    degree = _sum_over_row(grid, here)[: vertices.count(comm.rank)]
    row_of_vertex = np.empty(degree.size, np.int32)
    order_by_degree(degree, np.empty(int(degree.max(initial=0)) + 1, np.int64), row_of_vertex)
    owned = np.flatnonzero(degree)
    local_of_row = np.empty(owned.size, np.int64)
    local_of_row[row_of_vertex[owned]] = owned

    stride = WORD * (max(comm.allgather(owned.size)) // WORD + 1)
    row_of_place = _allgather(grid.row_comm, row_of_vertex + np.int64(grid.column * stride), vertices.length)
    order = _allgather(grid.column_comm, row_of_vertex * np.int64(grid.rows) + grid.row, vertices.length)
    _, shift = _buckets(comm, grid, vertices)
    firsts = _offsets(counts.sum(axis=0))[:-1]
    keys, key_weights = np.empty(pairs.size, np.uint64), np.empty(pair_weights.size, np.float32)
    kept, lengths = np.empty(firsts.size, np.int64), np.zeros(columns * stride + 1, np.int64)
    part_shift = min(shift, (columns * vertices.length * _PART // max(pairs.size, 1)).bit_length() - 1)
    digits = _digits(grid.rows * stride, part_shift)
    plan = (row_of_place, order, shift, part_shift, digits)
    sort_buckets(begins, counts, pairs, pair_weights, *plan, firsts, keys, key_weights, kept, lengths)
    del pairs, pair_weights, order, here
    offsets = np.cumsum(lengths)

    neighbours = np.empty(offsets[-1], np.uint32)
    weights = None if edges.weight is None else np.empty(offsets[-1], np.float32)
    to = (offsets, neighbours, _or_empty(weights))
    fill_rows(grid.rows, stride, shift, firsts, kept, keys, key_weights, row_of_place, *to)
    del keys, key_weights, row_of_place
    heads = np.full(columns * stride, stride - 1, np.uint32)
    filled = np.flatnonzero(lengths[1:])
    heads[filled] = neighbours[offsets[filled]]
    mine = local_of_row + vertices.first(comm.rank)
    column_vertices = _allgather(grid.column_comm, mine, stride)
    return Graph(
        comm=comm,
        grid=grid,
        vertices=vertices,
        stride=stride,
        offsets=offsets,
        neighbours=neighbours,
        heads=heads,
        weights=weights,
        rows=owned.size,
        row_of_vertex=row_of_vertex,
        own_offsets=offsets if columns == 1 else _offsets(_sum_over_row(grid, lengths[1:])),
        row_vertices=_allgather(grid.row_comm, mine, stride),
        column_vertices=column_vertices,
    )


def _distribute_edges(
    comm: MPI.Comm, grid: EdgeGrid, edges: EdgeList, vertices: VertexBlocks
) -> tuple[Integers, Integers, NDArray[np.uint64], NDArray[np.float32]]:
    """Return this rank's directed edges by source rank and bucket: begins, counts, pairs, weights. Collective."""
    buckets, shift = _buckets(comm, grid, vertices)
    plan = (vertices.length, shift, buckets, grid.rows, grid.columns)
    weight = _or_empty(edges.weight)
    sent = np.zeros((PARTS, comm.size * buckets), np.int64)
    count_buckets(edges.start, edges.end, plan, sent)
    places = np.ascontiguousarray(_offsets(sent.T.ravel())[:-1].reshape(-1, PARTS).T)
    total = int(sent.sum())
    pairs, pair_weights = np.empty(total, np.uint64), np.empty(total if weight.size else 0, np.float32)
    fill_buckets(edges.start, edges.end, weight, plan, places, pairs, pair_weights)

    sent_counts = np.ascontiguousarray(sent.sum(axis=0).reshape(comm.size, buckets))
    received_counts = np.empty_like(sent_counts)
    comm.Alltoall(sent_counts, received_counts)
    begins = _offsets(received_counts.ravel())[:-1].reshape(received_counts.shape)
    if comm.size > 1:
        pairs = _exchange(comm, pairs, sent_counts, received_counts)
        if edges.weight is not None:
            pair_weights = _exchange(comm, pair_weights, sent_counts, received_counts)
    return begins, received_counts, pairs, pair_weights


def _exchange(
    comm: MPI.Comm, values: NDArray[Any], sent_counts: Integers, received_counts: Integers
) -> NDArray[Any]:
    """Return the values that the other ranks sent. sent_counts, received_counts: [ranks, buckets]. Collective."""
    received = np.empty(int(received_counts.sum()), values.dtype)
    comm.Alltoallv([values, sent_counts.sum(axis=1)], [received, received_counts.sum(axis=1)])
    return received


def _allgather(comm: MPI.Comm, values: Integers, length: int) -> NDArray[np.uint32]:
    """Return the values of all ranks, each padded with zeros to a length: uint32 [ranks * length]. Collective."""
    mine, everyone = np.zeros(length, np.uint32), np.empty(length * comm.size, np.uint32)
    mine[: values.size] = values
    comm.Allgather(mine, everyone)
    return everyone


def _sum_over_row(grid: EdgeGrid, counts: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the sums over the process row of the counts of this rank's vertices: [size / columns]. Collective."""
    if grid.columns == 1:
        return counts
    mine = np.empty(counts.size // grid.columns, counts.dtype)
    grid.row_comm.Reduce_scatter_block(np.ascontiguousarray(counts), mine)
    return mine


def _buckets(comm: MPI.Comm, grid: EdgeGrid, vertices: VertexBlocks) -> tuple[int, int]:
    """Return the number of buckets of a rank, and the bits of a place in its bucket. No communication."""
    places = grid.columns * vertices.length
    width = -(-places // max(_BUCKETS // comm.size, numba.get_num_threads()))
    shift = (width - 1).bit_length()
    return -(-places >> shift), shift


def _digits(orders: int, place_bits: int) -> Integers:
    """Return shifts and masks of the digits of a key: its neighbour's order below a number, then its place."""
    digits = []
    for first, bits in ((0, (orders - 1).bit_length()), (32, place_bits)):
        n = -(-bits // _DIGIT_BITS)
        cuts = [bits * i // n for i in range(n + 1)] if n else []
        digits += [(first + low, (1 << high - low) - 1) for low, high in pairwise(cuts)]
    return np.array(digits, np.int64).reshape(-1, 2)


def _offsets(counts: NDArray[np.integer]) -> Integers:
    """Return the begin of each run and the end of the last one: int64 [n + 1]."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _or_empty(weights: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return the weights for a kernel, an empty array if there are none."""
    return np.empty(0, np.float32) if weights is None else weights
