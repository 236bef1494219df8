"""Checks before allocating: whether what the ranks of a job need fits into the memory of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ridgeline.parallel.communicator import node_communicator
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.errors import ConfigError, sentence
from ridgeline.runtime.machine import memory_available

if TYPE_CHECKING:
    from mpi4py import MPI


def require_memory(comm: MPI.Comm, n_bytes: int, what: str, advice: str) -> None:
    """Raise ConfigError on all ranks if the ranks of a node together need more memory than is free. Collective.

    `n_bytes` is what this rank needs. The message is "WHAT ... GiB on a node, which is more than is free. ADVICE.",
    so `what` ends with its verb, as in "the buffers require".
    """
    with node_communicator(comm) as node:
        needed = node.allreduce(n_bytes)
    most = max(comm.allgather(needed if needed > memory_available() else 0))
    if most:
        raise ConfigError(
            f"{what} {most / 2**30:.1f} GiB on a node, which is more than is free. {sentence(advice)}"
        )


def memory_per_rank(comm: MPI.Comm) -> float:
    """Return the free bytes that each rank can use, on the node where that is least. Collective."""
    return float(min(comm.allgather(memory_available() / place_on_node(comm).ranks)))
