"""Which network interface and which GPU each rank uses: as it was told by environment variables, or as is nearest.

An MPI library does not tell which interface a rank uses. What `ridgeline bind --script`, a launcher or a user has set
is known; otherwise a rank that is bound to one NUMA domain is taken to use the interface beside it, as `ridgeline
bind` deals them and as MPI libraries choose by default on such nodes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.parallel.allreduce import allgather_shared
from ridgeline.runtime.errors import RidgelineError
from ridgeline.runtime.machine import usable_cores
from ridgeline.runtime.node_topology import Nic, NodeTopology, deal_nics, read_sysfs

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.parallel.layout import Layout

# Each restricts a process to some interfaces. Those of UCX have a port behind a colon.
_DEVICE_VARIABLES = ("FI_CXI_DEVICE_NAME", "UCX_NET_DEVICES", "FI_VERBS_DEVICE_NAME")
_GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
_POLICY, _MAPPING = "MPICH_OFI_NIC_POLICY", "MPICH_OFI_NIC_MAPPING"
NEAREST = "the nearest to its cores"
ONLY = "the only one of the node"


@dataclass(frozen=True)
class RankDevices:
    """What a rank uses. interface: its name, None if unknown; source: how it is known; gpu: what the variable that
    shows the rank its GPUs says, where that is one GPU.
    """

    interface: str | None
    source: str
    gpu: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self)


def named_interface(
    environ: Mapping[str, str], local_rank: int, nics: Sequence[Nic]
) -> tuple[str | None, str]:
    """Return the one interface that variables give a rank, and the variable; (None, "") if there is not one."""
    for variable in _DEVICE_VARIABLES:
        names = [name.partition(":")[0] for name in environ.get(variable, "").split(",") if name]
        if len(names) == 1 and names[0] != "all":
            return names[0], variable
    if environ.get(_POLICY, "").upper() == "USER":
        for entry in environ.get(_MAPPING, "").replace('"', "").split(";"):
            number, _, ranks = entry.strip().partition(":")
            there = [rank.strip() for rank in ranks.split(",")]
            if number.isdigit() and int(number) < len(nics) and str(local_rank) in there:
                return nics[int(number)].name, _MAPPING
    return None, ""


def visible_gpu(environ: Mapping[str, str]) -> str | None:
    """Return the variable that shows a rank one GPU, with its value, such as "CUDA_VISIBLE_DEVICES=3"."""
    for variable in _GPU_VARIABLES:
        value = environ.get(variable, "")
        if value and "," not in value:
            return f"{variable}={value}"
    return None


def domain_of(cpus: set[int], topology: NodeTopology) -> int | None:
    """Return the NUMA domain that holds all these CPUs, None if several do."""
    domains = {d.number for d in topology.domains for core in d.cores if cpus.intersection(core)}
    return domains.pop() if len(domains) == 1 else None


def find_rank_devices(comm: MPI.Comm, layout: Layout) -> list[RankDevices]:
    """Return what each rank uses, on all ranks. Collective: an allgather of 16 bytes, and one of a few names.

    Ranks that use the same share one object, so that the list takes 8 bytes a rank.
    """
    try:
        topology = read_sysfs()
    except RidgelineError:
        topology = NodeTopology([], [])
    local = layout.local_rank[comm.rank]
    told = named_interface(os.environ, local, topology.nics)
    domain = domain_of(set(usable_cores()), topology)
    domains = np.empty(comm.size, np.int64)
    comm.Allgather(np.array([-1 if domain is None else domain], np.int64), domains)
    mates = [
        rank
        for rank in layout.ranks_on(layout.node_of_rank[comm.rank])
        if domains[rank] == domains[comm.rank]
    ]
    interface, source = told
    if interface is None and len(topology.nics) == 1:
        interface, source = topology.nics[0].name, ONLY
    elif interface is None and domain is not None and all(_is_fabric(nic) for nic in topology.nics):
        near = next(d for d in topology.domains if d.number == domain)
        nic = deal_nics(near, topology, len(mates), mates.index(comm.rank))
        interface, source = (None, "") if nic is None else (nic.name, NEAREST)
    mine = RankDevices(interface, source, visible_gpu(os.environ))
    return allgather_shared(comm, mine)


def _is_fabric(nic: Nic) -> bool:
    """Say whether MPI libraries choose such an interface by its place: those of Ethernet are chosen by address."""
    return bool(nic.port) or nic.name.startswith("cxi")


def ranks_on_interfaces(layout: Layout, devices: Sequence[RankDevices]) -> list[dict[str, list[int]]]:
    """Return, for each node, the ranks on each of its interfaces, by the interface's name.

    Ranks whose interface is unknown are left out, unless that of all ranks of a node is unknown. Its name is then "".
    """
    found: list[dict[str, list[int]]] = [{} for _ in range(layout.n_nodes)]
    for rank, node in enumerate(layout.node_of_rank):
        found[node].setdefault(devices[rank].interface or "", []).append(rank)
    return [
        {name: ranks for name, ranks in of_node.items() if name or len(of_node) == 1} for of_node in found
    ]
