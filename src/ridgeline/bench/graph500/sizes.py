"""What a scale needs before it starts: bytes of a rank, and the largest scale that fits.

Vertices that a rank holds are those of its process row and of its process column; see `graph.py` for the grid.
"""

from __future__ import annotations

from mpi4py import MPI

from ridgeline.bench.graph500.construct import memory_needed
from ridgeline.bench.graph500.graph500_options import LARGEST_SCALE, Graph500Options
from ridgeline.bench.graph500.grid import choose_columns
from ridgeline.bench.node_memory import memory_per_rank, require_memory

_VIEWED = 8  # bytes of an edge as the validation keeps it


def search_bytes(rows: int, columns: int, stride: int, owned: int) -> int:
    """Return the bytes of a rank's arrays of vertices in breadth-first searches, neighbours and messages left out.

    rows, columns: of the grid; stride: largest number of vertices with neighbours of a rank, rounded up to words;
    owned: vertices of a rank. No communication.
    """
    graph = (
        (8 + 4 + 4) * columns * stride + 4 * rows * stride + 4 * owned
    )  # offsets, heads, vertices; row_of_vertex
    graph += 4 * stride if columns == 1 else 8 * stride  # names of rows; own_offsets
    column = (4 + 3 / 8 + 1 / 8) * rows * stride  # parents, three bitmaps, ids
    row = (4 + 4 + 2 / 8 + 1 / 8) * columns * stride + 2 * stride / 8 if columns > 1 else 0  # the same, turns
    own = (4 + 4 + 2 / 8) * stride + (8 + 4) * owned  # listed rows, numbers, two bitmaps; numbers, places
    return graph + int(column + row + own)


def path_bytes(rows: int, columns: int, stride: int, owned: int) -> int:
    """Return the bytes of a rank's arrays of vertices in shortest paths, edges and messages left out.

    rows, columns, stride, owned: as of `search_bytes`. No communication.
    """
    state = (4 + 4 + 1) * (rows + (columns if columns > 1 else 0)) * stride  # distance, parent, mark
    outbox = 4 * max(rows, columns) * stride if rows * columns > 1 else 0
    own = (4 + 4 + 8 + 8 + 4) * stride + (
        4 + 8 + 4
    ) * owned  # two lists, words, results of rows; places, results
    return state + outbox + own


def path_message_bytes(rows: int, columns: int, stride: int) -> int:
    """Return the most bytes that a rank sends and receives in a pull, of which two parts are never there at once.

    These are the distances of its process column or row, and the candidates of its process row. No communication.
    """
    told = 8 * max(rows, columns) if rows * columns > 1 else 0
    return max(told, 2 * 12 * (columns - 1)) * stride


def bytes_per_rank(scale: int, ranks: int, edge_factor: int, weights: bool) -> int:
    """Return the most bytes that a rank has in use at one time. No communication.

    That is while kernel 1 runs beside what the validation keeps, or in a search or its validation.
    """
    edges = -(-(edge_factor << scale) // ranks)
    owned = -(-(1 << scale) // ranks)
    view = min(1 << scale, owned + 2 * edges)
    columns = choose_columns(ranks)
    grid = ranks // columns, columns
    vertex_arrays = search_bytes(*grid, owned, owned)
    if weights:
        vertex_arrays += path_bytes(*grid, owned, owned) + path_message_bytes(*grid, owned)
    searching = (8 + (24 if weights else 0) + _VIEWED + 4) * edges + 40 * view + vertex_arrays
    construction = memory_needed(scale, ranks, edge_factor, weights, columns) + _VIEWED * (edges + view)
    return max(construction, searching) * 17 // 16  # runs were seen to take up to 6 % more


def require_scale(comm: MPI.Comm, options: Graph500Options) -> None:
    """Raise ConfigError on all ranks if the graph does not fit, with its bytes and what would fit. Collective."""
    scale, factor = options.scale, options.edge_factor
    free = memory_per_rank(comm)
    fitting = [
        s for s in range(1, LARGEST_SCALE + 1) if bytes_per_rank(s, comm.size, factor, options.sssp) <= free
    ]
    advice = f"scale {fitting[-1]} fits" if fitting else "no scale fits"
    each = bytes_per_rank(scale, comm.size, factor, options.sssp)
    require_memory(
        comm,
        each,
        f"scale {scale} has {factor << scale} edges on {comm.size} rank{'s' * (comm.size != 1)}, takes "
        f"{each / 2**30:.1f} GiB a rank and needs",
        f"{advice}, or use more nodes",
    )
