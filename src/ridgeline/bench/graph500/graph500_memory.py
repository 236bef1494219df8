"""The memory that a scale of Graph500 needs, checked before a run starts, and the largest scale that fits.

A rank stores the vertices of its process row and of its process column; `graph.py` describes the grid.
"""

from __future__ import annotations

from mpi4py import MPI

from ridgeline.bench.graph500.construct import memory_needed
from ridgeline.bench.graph500.graph import choose_columns
from ridgeline.bench.graph500.graph500_options import LARGEST_SCALE, Graph500Options
from ridgeline.bench.node_memory import memory_per_rank, require_memory

_VIEWED = 8  # bytes of an edge in the arrays of the validation


def search_bytes(rows: int, columns: int, stride: int, owned: int) -> int:
    """Return the bytes of a rank's arrays of vertices in breadth-first searches, neighbours and messages left out.

    rows, columns: of the grid; stride: the largest number of vertices with neighbours of any rank, rounded up to
    words; owned: the vertices of a rank. No communication.
    """
    # offsets, heads, vertices; row_of_vertex
    graph = (8 + 4 + 4) * columns * stride + 4 * rows * stride + 4 * owned
    # names of rows; own_offsets
    graph += 4 * stride if columns == 1 else 8 * stride
    # parents, three bitmaps, ids of the process column; the same of the process row, and the bitmaps of its turns
    column = (4 + 3 / 8 + 1 / 8) * rows * stride
    row = (4 + 4 + 2 / 8 + 1 / 8) * columns * stride + 2 * stride / 8 if columns > 1 else 0
    # listed rows, numbers, two bitmaps; numbers, places
    own = (4 + 4 + 2 / 8) * stride + (8 + 4) * owned
    return graph + int(column + row + own)


def path_bytes(rows: int, columns: int, stride: int, owned: int) -> int:
    """Return the bytes of a rank's arrays of vertices in shortest paths, edges and messages left out.

    rows, columns, stride, owned: as for `search_bytes`. No communication.
    """
    # distance, parent, mark
    state = (4 + 4 + 1) * (rows + (columns if columns > 1 else 0)) * stride
    outbox = 4 * max(rows, columns) * stride if rows * columns > 1 else 0
    # two lists, words, results of rows; places, results
    own = (4 + 4 + 8 + 8 + 4) * stride + (4 + 8 + 4) * owned
    return state + outbox + own


def path_message_bytes(rows: int, columns: int, stride: int) -> int:
    """Return the most bytes of messages that a rank stores at one time in a pull. No communication.

    They are the distances of its process column or row, or the candidates of its process row, never both at once.
    """
    distances = 8 * max(rows, columns) if rows * columns > 1 else 0
    return max(distances, 2 * 12 * (columns - 1)) * stride


def bytes_per_rank(scale: int, ranks: int, edge_factor: int, weights: bool) -> int:
    """Return the most bytes that a rank has in use at one time. No communication.

    The largest use is that of kernel 1 together with the arrays of the validation, or that of a search or its
    validation.
    """
    edges = -(-(edge_factor << scale) // ranks)
    owned = -(-(1 << scale) // ranks)
    view = min(1 << scale, owned + 2 * edges)
    columns = choose_columns(ranks)
    rows = ranks // columns
    vertex_arrays = search_bytes(rows, columns, owned, owned)
    if weights:
        vertex_arrays += path_bytes(rows, columns, owned, owned) + path_message_bytes(rows, columns, owned)
    searching = (8 + (24 if weights else 0) + _VIEWED + 4) * edges + 40 * view + vertex_arrays
    construction = memory_needed(scale, ranks, edge_factor, weights, columns) + _VIEWED * (edges + view)
    return max(construction, searching) * 17 // 16  # measured runs took up to 6 % more


def require_scale(comm: MPI.Comm, options: Graph500Options) -> None:
    """Raise ConfigError on all ranks if the graph does not fit, with its bytes and a scale that fits. Collective."""
    scale, factor = options.scale, options.edge_factor
    free = memory_per_rank(comm)
    fitting = [
        s for s in range(1, LARGEST_SCALE + 1) if bytes_per_rank(s, comm.size, factor, options.sssp) <= free
    ]
    advice = f"Use --scale {fitting[-1]}, which fits" if fitting else "No scale fits"
    each = bytes_per_rank(scale, comm.size, factor, options.sssp)
    require_memory(
        comm,
        each,
        f"scale {scale} has {factor << scale} edges on {comm.size} rank{'s' * (comm.size != 1)}, uses "
        f"{each / 2**30:.1f} GiB per rank and requires",
        f"{advice}, or use more nodes" if fitting else f"{advice}. Use more nodes",
    )
