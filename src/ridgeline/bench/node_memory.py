"""Whether what the ranks of a job allocate fits into the memory of their nodes: asked before, not after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ridgeline.parallel.communicator import node_communicator
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.machine import memory_available

if TYPE_CHECKING:
    from mpi4py import MPI


def require_memory(comm: MPI.Comm, n_bytes: int, what: str, advice: str) -> None:
    """Raise ConfigError on all ranks if what the ranks of a node need together is more than is free. Collective.

    n_bytes: of this rank. The message is "WHAT need(s) ... GiB on a node, more than is free; ADVICE", where `what`
    brings its verb.
    """
    with node_communicator(comm) as node:
        needed = node.allreduce(n_bytes)
    short = max(comm.allgather(needed if needed > memory_available() else 0))
    if short:
        raise ConfigError(f"{what} {short / 2**30:.1f} GiB on a node, more than is free; {advice}")


def memory_per_rank(comm: MPI.Comm) -> float:
    """Return the free bytes that every rank can have: a node's share of a rank, where it is least. Collective."""
    return float(min(comm.allgather(memory_available() / place_on_node(comm).ranks)))
