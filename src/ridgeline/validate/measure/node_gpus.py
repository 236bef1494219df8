"""The GPUs of all nodes, and which rank measures each: every GPU that any rank of its node sees, once."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ridgeline.runtime.devices import describe_devices
from ridgeline.runtime.errors import DeviceError
from ridgeline.validate.measure.nvml_readings import gpu_name

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.parallel.layout import Layout


@dataclass(frozen=True)
class NodeGpu:
    """One GPU. number: on its node, by PCI address; address: "" in the simulator; rank: that measures it; index: by
    which that rank sees it.
    """

    node: int
    number: int
    address: str
    rank: int
    index: int

    @property
    def name(self) -> str:
        """What reports call the GPU."""
        return gpu_name(self.number, self.address)


@dataclass(frozen=True)
class Gpus:
    """The GPUs of the job. missing: why there are none."""

    all: list[NodeGpu]
    missing: str = ""

    def of_rank(self, rank: int) -> list[NodeGpu]:
        """Return the GPUs that a rank measures."""
        return [gpu for gpu in self.all if gpu.rank == rank]

    def names(self) -> dict[int, list[str]]:
        """Return node -> names of its GPUs, by number."""
        found: dict[int, list[str]] = {}
        for gpu in sorted(self.all, key=lambda gpu: (gpu.node, gpu.number)):
            found.setdefault(gpu.node, []).append(gpu.name)
        return found


def find_gpus(comm: MPI.Comm, layout: Layout) -> Gpus:
    """Return the GPUs that ranks see, the same on all ranks, without creating contexts. Collective: one allgather."""
    seen: list[tuple[str, str, int]] = []
    missing = ""
    try:
        seen = [(device.address, device.uuid, device.index) for device in describe_devices()]
    except DeviceError as error:
        missing = "numba-cuda is not installed"
        if find_spec("numba_cuda") is not None:
            missing = str(error).partition(". ")[0]  # without the advice, which is on runs
    every = comm.allgather((seen, missing))
    return deal_gpus(layout, [devices for devices, _ in every], next((text for _, text in every if text), ""))


def deal_gpus(layout: Layout, seen: list[list[tuple[str, str, int]]], missing: str = "") -> Gpus:
    """Return each GPU of each node once, with a rank that sees it, so that all ranks have equally many.

    seen: (address, uuid, index) of the GPUs that each rank sees.
    """
    found: list[NodeGpu] = []
    ranks_on: list[list[int]] = [[] for _ in range(layout.n_nodes)]
    for rank, node in enumerate(layout.node_of_rank):
        ranks_on[node].append(rank)
    for node, ranks in enumerate(ranks_on):
        viewers: dict[tuple[str, str], dict[int, int]] = {}
        for rank in ranks:
            for address, uuid, index in seen[rank]:
                viewers.setdefault((address, uuid), {})[rank] = index
        load = dict.fromkeys(ranks, 0)
        for number, (address, uuid) in enumerate(sorted(viewers)):
            rank = min(viewers[address, uuid], key=lambda rank: (load[rank], rank))
            load[rank] += 1
            found.append(NodeGpu(node, number, address, rank, viewers[address, uuid][rank]))
    return Gpus(found, "" if found else missing)
