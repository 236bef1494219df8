"""Kernel 1: from the edge list to the distributed graph, timed by the rules from the list in memory to the graph.

1. Each rank writes both directions of its edges into buckets: consecutive vertices on one rank of the grid.
2. Buckets go to their ranks, in one exchange.
3. Process rows add up degrees. Owners order their vertices by them, and tell their process row and column the places:
   4 bytes a vertex, gathered.
4. Each bucket's edges go into their rows, as the neighbour's place with its weight; rows are sorted and made unique.

Buckets, parts of the list and rows are independent, so that threads share them; the graph does not depend on threads.
With one process column every rank has the places of all vertices. Ids of 32 bits limit the scale to 31.
"""

from __future__ import annotations

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
    sort_rows,
    unpack_rows,
)
from ridgeline.bench.graph500.generator import EdgeList
from ridgeline.bench.graph500.graph import WORD, Graph
from ridgeline.bench.graph500.graph500_options import EDGE_FACTOR, LARGEST_SCALE
from ridgeline.bench.graph500.grid import EdgeGrid, make_grid
from ridgeline.bench.graph500.vertices import VertexBlocks
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

Integers = NDArray[np.int64]
_BUCKETS = 256  # of all ranks: more were slower to fill at scale 20, fewer slower to sort into rows


def memory_needed(
    scale: int, ranks: int, edge_factor: int = EDGE_FACTOR, weights: bool = True, columns: int = 1
) -> int:
    """Return the bytes that a rank has in use at most while kernel 1 runs, the edge list included. No communication.

    The searches need less: the pairs and keys are gone by then.
    """
    edges = -(-(edge_factor << scale) // ranks)
    vertices = 1 << scale
    weight = 4 if weights else 0
    listed = edges * (16 + weight)
    pairs = 2 * edges * (8 + weight)
    exchange = pairs + (pairs if ranks > 1 else 0)
    rows = pairs + 2 * edges * 8
    unpacked = 2 * edges * (8 + 4 + weight)
    tables = 3 * 8 * PARTS * max(_BUCKETS, ranks)  # of the buckets' counts and places
    owned = -(-vertices // ranks)
    of_grid = 28 * columns * owned + 8 * (ranks // columns) * owned  # of process row and process column
    return listed + max(exchange, rows, unpacked) + of_grid + 12 * owned + tables


def construct(comm: MPI.Comm, edges: EdgeList, columns: int = 1) -> Graph:
    """Return the graph of an edge list on a grid of so many process columns. Collective over comm.

    The list stays as it is. What the steps before need is freed as they end; `memory_needed` counts it.
    Raises ConfigError for a scale above 31.
    """
    if edges.scale > LARGEST_SCALE:
        raise ConfigError(
            f"scale = {edges.scale}: vertices are numbered with 32 bits, so the scale is at most {LARGEST_SCALE}; "
            f"take a smaller scale"
        )
    vertices = VertexBlocks(edges.vertices, comm.size)
    grid = make_grid(comm, columns)
    begins, counts, pairs, pair_weights = _to_grid(comm, grid, edges, vertices)
    here = np.zeros(columns * vertices.length, np.int32)
    count_degrees(begins, counts, pairs, here)
    degree = _summed(grid, here)[: vertices.count(comm.rank)]
    row_of_vertex = np.empty(degree.size, np.int32)
    order_by_degree(degree, np.empty(int(degree.max(initial=0)) + 1, np.int64), row_of_vertex)
    owned = np.flatnonzero(degree)
    local_of_row = np.empty(owned.size, np.int64)
    local_of_row[row_of_vertex[owned]] = owned

    stride = WORD * (max(comm.allgather(owned.size)) // WORD + 1)
    row_of_place = _gathered(grid.row_comm, row_of_vertex + np.int64(grid.column * stride), vertices.length)
    loose = _offsets(_spread(here, row_of_place, columns * stride))
    keys = np.empty(loose[-1], np.uint64)
    order = _gathered(grid.column_comm, row_of_vertex * np.int64(grid.rows) + grid.row, vertices.length)
    fill_rows(begins, counts, pairs, pair_weights, row_of_place, order, loose[:-1].copy(), keys)
    del pairs, pair_weights, order, row_of_place, here
    lengths = np.zeros(columns * stride + 1, np.int64)
    sort_rows(loose, keys, lengths)
    offsets = np.cumsum(lengths)

    neighbours = np.empty(offsets[-1], np.uint32)
    weights = None if edges.weight is None else np.empty(offsets[-1], np.float32)
    unpack_rows(grid.rows, stride, loose, offsets, keys, neighbours, _or_empty(weights))
    del loose, keys
    heads = np.full(columns * stride, stride - 1, np.uint32)
    filled = np.flatnonzero(lengths[1:])
    heads[filled] = neighbours[offsets[filled]]
    mine = local_of_row + vertices.first(comm.rank)
    column_vertices = _gathered(grid.column_comm, mine, stride)
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
        own_offsets=offsets if columns == 1 else _offsets(_summed(grid, lengths[1:])),
        row_vertices=_gathered(grid.row_comm, mine, stride),
        column_vertices=column_vertices,
    )


def _to_grid(
    comm: MPI.Comm, grid: EdgeGrid, edges: EdgeList, vertices: VertexBlocks
) -> tuple[Integers, Integers, NDArray[np.uint64], NDArray[np.float32]]:
    """Return the directed edges of this rank by source rank and bucket: begins and counts, pairs, weights.

    Collective.
    """
    buckets = max(_BUCKETS // comm.size, numba.get_num_threads())
    width = -(-grid.columns * vertices.length // buckets)
    plan = (vertices.length, width, buckets, grid.rows, grid.columns)
    weight = _or_empty(edges.weight)
    sent = np.zeros((PARTS, comm.size * buckets), np.int64)
    count_buckets(edges.start, edges.end, plan, sent)
    places = np.ascontiguousarray(_offsets(sent.T.ravel())[:-1].reshape(-1, PARTS).T)
    total = int(sent.sum())
    pairs, pair_weights = np.empty(total, np.uint64), np.empty(total if weight.size else 0, np.float32)
    fill_buckets(edges.start, edges.end, weight, plan, places, pairs, pair_weights)

    going = np.ascontiguousarray(sent.sum(axis=0).reshape(comm.size, buckets))
    coming = np.empty_like(going)
    comm.Alltoall(going, coming)
    begins = _offsets(coming.ravel())[:-1].reshape(coming.shape)
    if comm.size > 1:
        pairs = _exchanged(comm, pairs, going, coming)
        if edges.weight is not None:
            pair_weights = _exchanged(comm, pair_weights, going, coming)
    return begins, coming, pairs, pair_weights


def _exchanged(comm: MPI.Comm, values: NDArray[Any], going: Integers, coming: Integers) -> NDArray[Any]:
    """Return what the other ranks sent: going, coming [ranks, buckets]. Collective."""
    received = np.empty(int(coming.sum()), values.dtype)
    comm.Alltoallv([values, going.sum(axis=1)], [received, coming.sum(axis=1)])
    return received


def _gathered(comm: MPI.Comm, values: Integers, length: int) -> NDArray[np.uint32]:
    """Return the values of all ranks, each padded with zeros to a length: uint32 [ranks * length]. Collective."""
    mine, everyone = np.zeros(length, np.uint32), np.empty(length * comm.size, np.uint32)
    mine[: values.size] = values
    comm.Allgather(mine, everyone)
    return everyone


def _summed(grid: EdgeGrid, counts: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the sums over the process row of what belongs to this rank's vertices: [size / columns]. Collective."""
    if grid.columns == 1:
        return counts
    mine = np.empty(counts.size // grid.columns, counts.dtype)
    grid.row_comm.Reduce_scatter_block(np.ascontiguousarray(counts), mine)
    return mine


def _spread(counts: NDArray[np.int32], places: NDArray[np.uint32], size: int) -> NDArray[np.int32]:
    """Return an array of a size, of zeros but for the counts, which lie at their places. No communication."""
    result = np.zeros(size, np.int32)
    filled = np.flatnonzero(counts)
    result[places[filled]] = counts[filled]
    return result


def _offsets(counts: NDArray[np.integer]) -> Integers:
    """Return where each of several runs begins, and where the last one ends: int64 [n + 1]."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _or_empty(weights: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return weights for a kernel: an empty array says that there are none."""
    return np.empty(0, np.float32) if weights is None else weights
