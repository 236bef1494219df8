"""Which rank is on which node, and which share of the nodes other processes use."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ridgeline.parallel.communicator import library_version, node_communicator
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.machine import describe_machine, oversubscription, usable_cores
from ridgeline.runtime.node_load import Reading, others_share, read_load

if TYPE_CHECKING:
    from mpi4py import MPI


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
    return next(filter(None, comm.allgather(warning)), None)


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

    def ranks_on(self, node: int) -> list[int]:
        """Return the ranks on a node."""
        return [rank for rank, at in enumerate(self.node_of_rank) if at == node]

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
    host, hidden = describe_machine().host, hides_nodes(os.environ) and ranks_per_node is None
    every = comm.allgather((first, host, os.environ.get("SLURMD_NODENAME", ""), hidden))
    if any(one[3] for one in every):
        firsts: dict[str, int] = {}
        every = [(firsts.setdefault(one[1], rank), *one[1:]) for rank, one in enumerate(every)]
    order = sorted({one[0] for one in every})
    hosts = [every[rank][1] for rank in order]
    slurm = [every[rank][2] for rank in order]
    # Some launchers pass the variables of the first node to all nodes.
    if all(slurm) and len(set(slurm)) == len(slurm):
        hosts = slurm
    names, copies = [], Counter[str]()
    for name in hosts:
        copies[name] += 1
        names.append(name if copies[name] == 1 else f"{name}#{copies[name]}")
    number = {rank: node for node, rank in enumerate(order)}
    nodes = [number[one[0]] for one in every]
    local, seen = [], Counter[int]()
    for node in nodes:
        local.append(seen[node])
        seen[node] += 1
    return Layout(tuple(nodes), tuple(local), tuple(names))


def busiest_share(comm: MPI.Comm, before: Reading | None) -> float:
    """Return the share of its processors that other processes used on the busiest node since `before`. Collective."""
    readings = comm.gather((before, read_load()))
    share = 0.0
    if readings is not None:
        first, last = zip(*readings)
        # The first rank of every system that reports its load.
        rank_of = {look.system: rank for rank, look in reversed(list(enumerate(first))) if look is not None}
        share = max((others_share(first, last, rank) for rank in rank_of.values()), default=0.0)
    shared: float = comm.bcast(share)
    return shared
