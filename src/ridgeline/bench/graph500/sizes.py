"""What a scale needs before it starts: bytes of a rank, and the largest scale that fits."""

from __future__ import annotations

from mpi4py import MPI

from ridgeline.bench.graph500.construct import memory_needed
from ridgeline.bench.graph500.declaration import LARGEST_SCALE, Graph500Options
from ridgeline.bench.node_memory import memory_per_rank, require_memory

_EDGE = 16 + 4  # bytes of an edge in the list: two vertices and a weight
_VIEWED = 8  # bytes of an edge as the validation keeps it


def bytes_per_rank(scale: int, ranks: int, edge_factor: int, weights: bool) -> int:
    """Return the most bytes that a rank has in use at one time. No communication.

    That is while the validation numbers the ends of edges, or while kernel 1 runs beside what the validation keeps.
    """
    edges = -(-(edge_factor << scale) // ranks)
    owned = -(-(1 << scale) // ranks)
    view = min(1 << scale, owned + 2 * edges)
    # Ends as one list and as places; of ends on other ranks also: places, numbers and which number.
    numbering = (_EDGE + 16 + 8 + (32 if ranks > 1 else 0)) * edges + 24 * view
    searching = (16 + (16 if weights else 0) + _VIEWED + 4) * edges + 40 * view
    construction = memory_needed(scale, ranks, edge_factor, weights) + _VIEWED * (edges + view)
    return max(numbering, construction, searching) * 17 // 16  # runs were seen to take up to 6 % more


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
