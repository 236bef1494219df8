"""Which rank is on which node, and which share of the nodes other processes use."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.parallel.allreduce import broadcast_first
from ridgeline.parallel.communicator import library_version, node_communicator
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.machine import describe_machine, oversubscription, usable_cores
from ridgeline.runtime.node_load import Reading, others_shares, read_load


class Place(NamedTuple):
    """Where a rank is on its node: its number there, how many ranks the node has, and the first of them."""

    local_rank: int
    ranks: int
    first: int


def place_on_node(comm: MPI.Comm) -> Place:
    """Return the place of this rank on its node, where ranks that share memory are on one node. Collective."""
    with node_communicator(comm) as node:
        return Place(node.rank, node.size, node.bcast(comm.rank))


def node_cores(comm: MPI.Comm) -> int:
    """Return how many cores all ranks of a node may use, however a launcher has bound them. Collective."""
    with node_communicator(comm) as node:
        return len(set().union(*node.allgather(usable_cores())))


def oversubscription_warning(comm: MPI.Comm, threads: int) -> str | None:
    """Return a warning if the ranks of any node have more threads than cores, the same on all ranks. Collective.

    threads: of each rank.
    """
    warning = oversubscription(place_on_node(comm).ranks, threads, node_cores(comm))
    return broadcast_first(comm, warning)


@dataclass(frozen=True)
class Layout:
    """The nodes of a job.

    node_of_rank, local_rank: of every rank. hosts: the name of every node, in the order of their first ranks.
    """

    node_of_rank: tuple[int, ...]
    local_rank: tuple[int, ...]
    hosts: tuple[str, ...]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.hosts)

    @cached_property
    def _ranks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All ranks, node after node, and where each node begins among them."""
        nodes = np.array(self.node_of_rank, np.int64)
        return np.argsort(nodes, kind="stable"), np.searchsorted(np.sort(nodes), np.arange(self.n_nodes + 1))

    def ranks_on(self, node: int) -> list[int]:
        """Return the ranks on a node."""
        ranks, begins = self._ranks
        found: list[int] = ranks[begins[node] : begins[node + 1]].tolist()
        return found

    @property
    def leaders(self) -> list[int]:
        """The first rank of every node."""
        ranks, begins = self._ranks
        first: list[int] = ranks[begins[:-1]].tolist()
        return first

    def part(self, ranks: Sequence[int]) -> Layout:
        """Return the layout of some ranks, which get new numbers in this order, and of their nodes."""
        nodes = [self.node_of_rank[rank] for rank in ranks]
        number = {node: new for new, node in enumerate(dict.fromkeys(nodes))}
        local, seen = [], Counter[int]()
        for node in nodes:
            local.append(seen[node])
            seen[node] += 1
        return Layout(
            tuple(number[node] for node in nodes), tuple(local), tuple(self.hosts[node] for node in number)
        )

    def ranks_per_node(self) -> str:
        """Return the number of ranks on a node as text: one number, or the range of them."""
        counts = set(Counter(self.node_of_rank).values())
        return f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def hides_nodes(environ: Mapping[str, str]) -> bool:
    """Say whether MPICH is told to treat every rank as if it were alone on its node.

    MPICH reads each of its variables with three prefixes, and this one with two spellings.
    """
    names = [
        prefix + name
        for prefix in ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_")
        for name in ("NOLOCAL", "NO_LOCAL")
    ]
    return any(environ.get(name, "").lower() in ("1", "yes", "true", "on") for name in names)


def _excludes(transports: Collection[str]) -> bool:
    """Say whether a list of transports names those that must not be used: its first name then begins with ^."""
    return any(name.startswith("^") for name in transports)


def avoids_shared_memory(environ: Mapping[str, str], library: str | None = None) -> bool:
    """Say whether messages between ranks of one node go through their network interfaces, and not through memory.

    library: what `MPI_Get_library_version` returns, by default that of this process. UCX has a choice of its own,
    below that of MPICH or Open MPI.
    """
    library = library_version() if library is None else library
    chosen = {name for name in environ.get("UCX_TLS", "").lower().split(",") if name}
    memory = {"all", "shm", "sm", "mm", "posix", "sysv", "cma", "knem", "xpmem"}
    ucx = bool(chosen) and not chosen & memory and not _excludes(chosen)
    if library.startswith("Intel"):
        return environ.get("I_MPI_FABRICS", "") == "ofi"
    if library.startswith("Open MPI"):
        layer, transports = environ.get("OMPI_MCA_pml", ""), environ.get("OMPI_MCA_btl", "").split(",")
        ob1 = not {"", "sm", "vader"}.intersection(transports) and not _excludes(transports)
        return (layer == "ucx" and ucx) or (layer == "ob1" and ob1)
    on_ucx = "ucx" in environ.get("MPIR_CVAR_CH4_NETMOD", library).lower()
    return hides_nodes(environ) and (ucx or not on_ucx)


def find_layout(comm: MPI.Comm, ranks_per_node: int | None = None) -> Layout:
    """Return the nodes of the job: ranks that share memory are on one node. Collective.

    ranks_per_node: let every so many consecutive ranks count as a node, to try patterns of nodes on one machine.
    Where MPICH hides which ranks share memory (`hides_nodes`), ranks with the same host name are on one node.
    A node has the name that Slurm knows it by, otherwise its host name. Nodes with the same host name get different
    names (host, host#2). Raises ConfigError if ranks_per_node is below 1.
    """
    if ranks_per_node is not None:
        if ranks_per_node < 1:
            raise ConfigError(f"the number of ranks per node is {ranks_per_node}, but it must be at least 1.")
        first = comm.rank - comm.rank % ranks_per_node
    else:
        first = place_on_node(comm).first
    hidden = comm.allreduce(hides_nodes(os.environ) and ranks_per_node is None, MPI.LOR)
    # The first rank of a node says its names. Strings of every rank would fill the memory of a large job.
    speaks = hidden or first == comm.rank
    mine = (describe_machine().host, os.environ.get("SLURMD_NODENAME", "")) if speaks else None
    names_of = comm.allgather(mine)
    first_of_rank = np.empty(comm.size, np.int64)
    comm.Allgather(np.array([first], np.int64), first_of_rank)
    if hidden:
        by_host: dict[str, int] = {}
        first_of_rank[:] = [by_host.setdefault(one[0], rank) for rank, one in enumerate(names_of)]
    order, node_of_rank = np.unique(first_of_rank, return_inverse=True)
    hosts, slurm = ([names_of[rank][part] for rank in order] for part in range(2))
    # Some launchers pass the variables of the first node to all nodes.
    if all(slurm) and len(set(slurm)) == len(slurm):
        hosts = slurm
    names, copies = [], Counter[str]()
    for name in hosts:
        copies[name] += 1
        names.append(name if copies[name] == 1 else f"{name}#{copies[name]}")
    by_node = np.argsort(node_of_rank, kind="stable")
    begins = np.searchsorted(node_of_rank[by_node], np.arange(len(order)))
    local = np.empty(comm.size, np.int64)
    local[by_node] = np.arange(comm.size) - begins[node_of_rank[by_node]]
    number = list(range(len(order)))  # ranks of one node share one object
    return Layout(tuple(number[node] for node in node_of_rank), tuple(local.tolist()), tuple(names))


def busiest_share(comm: MPI.Comm, before: Reading | None) -> float:
    """Return the share of its processors that other processes used on the busiest node since `before`. Collective."""
    readings = comm.gather((before, read_load()))
    share = 0.0
    if readings is not None:
        first, last = zip(*readings)
        # The first rank of every system that reports its load.
        rank_of = {look.system: rank for rank, look in reversed(list(enumerate(first))) if look is not None}
        share = max(others_shares(first, last, rank_of.values()), default=0.0)
    shared: float = comm.bcast(share)
    return shared
