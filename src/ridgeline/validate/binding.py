"""Which CPUs, which network interface and which GPU each rank of a node gets, in the words of each launcher.

A rank that runs far from its network interface crosses the link between sockets with every message. Ranks are
therefore spread over NUMA domains and, inside each, over its interfaces in turn. If there are no more ranks than
interfaces, every rank gets a separate one. GPUs are dealt evenly, each to the rank whose interface or cores are
nearest on PCI Express. Source: Ibeid et al. (MPI on Aurora), Secs. 3.8.4 and 5.1.

A launcher binds CPUs. Interface and GPU reach a rank by environment variables that differ from rank to rank, which
the script of `bind_script` sets. Sources of the variables: libfabric, fi_cxi(7) and fi_verbs(7); UCX's documentation
(UCX_NET_DEVICES); HPE's documentation of dgnettest (MPICH_OFI_NIC_MAPPING); CUDA, ROCm and Level Zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from rich.table import Table

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.node_topology import Gpu, Nic, NodeTopology, NumaDomain, deal_nics, format_cpu_list
from ridgeline.runtime.units import counted

LAUNCHERS = ("mpiexec", "pals", "srun", "pbs")
# Variables in which launchers give a rank its number on the node: Hydra (MPICH), PALS, Open MPI, Slurm. That of Slurm
# is the last, because a batch script has it too, and what the script starts inherits it.
LOCAL_RANKS = ("MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
# Vendor of PCI -> the variable that shows a process some GPUs, and what makes its numbers those of PCI addresses.
_VISIBLE_GPUS = {
    "10de": ("CUDA_VISIBLE_DEVICES", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
    "1002": ("ROCR_VISIBLE_DEVICES", {}),
    "8086": ("ZE_AFFINITY_MASK", {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}),
}


@dataclass(frozen=True)
class Binding:
    """What one rank of the node gets. rank: on the node; cpus: hardware threads; nic: None if the node has none;
    gpu: its number, None if the node has none.
    """

    rank: int
    domain: int
    cpus: tuple[int, ...]
    nic: str | None
    gpu: int | None = None


def bind_ranks(
    topology: NodeTopology, ranks_per_node: int | None = None, reserve: int = 0, smt: bool = True
) -> list[Binding]:
    """Return the binding of each rank of a node, in order.

    ranks_per_node: by default one for each interface or each GPU, whichever are more, or for each NUMA domain of a
    node without either. reserve:
    number of cores, the first of each domain, that are left to the system; smt: give all hardware threads of a core,
    not only the first.
    Raises ConfigError if there are more ranks than cores, or nothing is left.
    """
    if reserve < 0:
        raise ConfigError(f"--reserve {reserve}: the number of cores must be 0 or more.")
    domains = [
        NumaDomain(
            domain.number, [core if smt else core[:1] for core in domain.cores[reserve:]], domain.distances
        )
        for domain in topology.domains
    ]
    n_cores = sum(len(domain.cores) for domain in domains)
    n_ranks = (
        ranks_per_node
        if ranks_per_node is not None
        else max(len(topology.nics), len(topology.gpus)) or len(domains)
    )
    if ranks_per_node is None:
        n_ranks = max(1, min(n_ranks, n_cores))
    if not 1 <= n_ranks <= n_cores:
        if not n_cores:
            raise ConfigError(f"--reserve {reserve}: no core is left for a rank. Reserve fewer cores.")
        there = f"{n_cores} core{'s' * (n_cores != 1)}"
        if reserve:
            there += f" without the {reserve} of each NUMA domain that --reserve leaves to the system"
        choice = f"from 1 to {n_cores}" if n_cores > 1 else "1"
        raise ConfigError(
            f"--ranks-per-node {n_ranks}: the node has {there}. Choose {choice}, or leave the option out to get as "
            "many ranks as fit."
        )
    bindings: list[Binding] = []
    for domain, count in zip(domains, _deal(n_ranks, domains, topology)):
        for i in range(count):
            first, last = (k * len(domain.cores) // count for k in (i, i + 1))
            cpus = tuple(sorted(chain.from_iterable(domain.cores[first:last])))
            nic = deal_nics(domain, topology, count, i)
            bindings.append(Binding(len(bindings), domain.number, cpus, nic.name if nic else None))
    return _deal_gpus(bindings, topology)


def _deal_gpus(bindings: list[Binding], topology: NodeTopology) -> list[Binding]:
    """Return the bindings with GPUs: evenly many ranks to each, the nearest pair of rank and GPU first."""
    if not topology.gpus:
        return bindings
    pairs = sorted(
        ((b, gpu) for b in bindings for gpu in topology.gpus),
        key=lambda pair: (
            _distance(pair[0], pair[1], bindings, topology),
            pair[0].rank,
            pair[1].number,
        ),
    )
    chosen: dict[int, int] = {}
    ranks_of = dict.fromkeys((gpu.number for gpu in topology.gpus), 0)
    for share in range(1, -(-len(bindings) // len(topology.gpus)) + 1):
        for b, gpu in pairs:
            if b.rank not in chosen and ranks_of[gpu.number] < share:
                chosen[b.rank] = gpu.number
                ranks_of[gpu.number] += 1
    return [replace(b, gpu=chosen[b.rank]) for b in bindings]


def _distance(
    b: Binding, gpu: Gpu, bindings: Sequence[Binding], topology: NodeTopology
) -> tuple[bool, int, float]:
    """Return how far a GPU is from a rank: in another domain or not; by the bridges that it shares with the rank's
    interface, negative; by their places among the ranks and the GPUs of the domain, so that neighbours share one.
    """
    path = next((nic.path for nic in topology.nics if nic.name == b.nic), ())
    shared = next(
        (n for n, (x, y) in enumerate(zip(path, gpu.path)) if x != y), min(len(path), len(gpu.path))
    )
    ranks = [other.rank for other in bindings if other.domain == b.domain]
    gpus = [other.number for other in topology.gpus if other.domain == gpu.domain]
    apart = (ranks.index(b.rank) + 0.5) / len(ranks) - (gpus.index(gpu.number) + 0.5) / len(gpus)
    return gpu.domain != b.domain, -shared, abs(apart)


def _deal(n_ranks: int, domains: Sequence[NumaDomain], topology: NodeTopology) -> list[int]:
    """Return the number of ranks of each domain.

    They are in proportion to interfaces as long as every rank can have a separate one, then to GPUs in the same way,
    and otherwise to cores. The highest quotient takes the next rank (d'Hondt), the lower domain if equal.
    """
    weights = cores = [len(domain.cores) for domain in domains]
    for devices in (topology.gpus, topology.nics):
        near = [sum(device.domain == domain.number for device in devices) for domain in domains]
        weights = near if n_ranks <= sum(near) else weights
    counts = [0] * len(domains)
    for _ in range(n_ranks):
        open_ = [d for d in range(len(domains)) if counts[d] < cores[d] and weights[d]]
        open_ = open_ or [d for d in range(len(domains)) if counts[d] < cores[d]]
        best = max(open_, key=lambda d: (weights[d] / (counts[d] + 1), -d))
        counts[best] += 1
    return counts


def launcher_options(bindings: Sequence[Binding], launcher: str) -> str:
    """Return what to put behind the launcher's name. launcher: one of LAUNCHERS.

    mpiexec: MPICH's Hydra; pals: Cray's and Aurora's mpiexec; srun: Slurm; pbs: the request of a job, before PALS.
    """
    n = len(bindings)
    if launcher == "mpiexec":
        return f"-ppn {n} -bind-to user:" + ",".join("+".join(map(str, b.cpus)) for b in bindings)
    if launcher == "pals":
        return f"--ppn {n} --cpu-bind list:" + ":".join(format_cpu_list(b.cpus) for b in bindings)
    if launcher == "srun":
        masks = (hex(sum(1 << cpu for cpu in b.cpus)) for b in bindings)
        return f"--ntasks-per-node={n} --cpu-bind=mask_cpu:" + ",".join(masks)
    if launcher == "pbs":
        cpus = len({cpu for binding in bindings for cpu in binding.cpus})
        return f"-l select=NODES:ncpus={cpus}:mpiprocs={n} -l place=scatter:excl"
    raise ConfigError(f"{launcher!r} is not a known launcher. Known launchers: {', '.join(LAUNCHERS)}.")


def environment(bindings: Sequence[Binding], nics: Sequence[Nic]) -> dict[str, str]:
    """Return variables by which Cray MPICH gives each rank its Cassini interface; nothing for other interfaces."""
    order = [nic.name for nic in nics]
    if not order or not all(name.startswith("cxi") for name in order):
        return {}
    ranks = {name: [b.rank for b in bindings if b.nic == name] for name in order}
    mapping = ";".join(f"{order.index(name)}:{','.join(map(str, at))}" for name, at in ranks.items() if at)
    return {"MPICH_OFI_NIC_POLICY": "USER", "MPICH_OFI_NIC_MAPPING": mapping}


def rank_environment(binding: Binding, topology: NodeTopology) -> dict[str, str]:
    """Return the variables that give one rank its interface (libfabric, UCX) and its GPU."""
    variables: dict[str, str] = {}
    nic = next((nic for nic in topology.nics if nic.name == binding.nic), None)
    if nic is not None and nic.name.startswith("cxi"):
        variables["FI_CXI_DEVICE_NAME"] = nic.name
    elif nic is not None:
        variables["UCX_NET_DEVICES"] = f"{nic.name}:{nic.port}" if nic.port else nic.name
        if nic.port:  # a device of verbs; Ethernet has no ports in sysfs
            variables["FI_VERBS_DEVICE_NAME"] = nic.name
    return variables | _gpu_environment(binding, topology)


def _gpu_environment(binding: Binding, topology: NodeTopology) -> dict[str, str]:
    gpu = next((gpu for gpu in topology.gpus if gpu.number == binding.gpu), None)
    if gpu is None or gpu.vendor not in _VISIBLE_GPUS:
        return {}
    name, order = _VISIBLE_GPUS[gpu.vendor]
    # Vendors number their own GPUs only.
    alike = [other.number for other in topology.gpus if other.vendor == gpu.vendor]
    return order | {name: str(alike.index(gpu.number))}


# Leaves a rank the one GPU that a launcher has shown it (--gpus-per-task): a comma stands between several.
_SHOW_GPU = """\
show_gpu_as() {
    eval "seen=\\${$1:-,}"
    shift
    case "$seen" in *,*) export "$@" ;; esac
}"""


def bind_script(bindings: Sequence[Binding], topology: NodeTopology) -> str:
    """Return a shell script that gives each rank its interface and GPU, then runs its arguments.

    A rank to which the launcher shows one GPU keeps that one.
    """
    local = ""
    for name in reversed(LOCAL_RANKS):
        local = f"${{{name}:-{local}}}"
    cases = []
    for b in bindings:
        of_gpu = _gpu_environment(b, topology)
        of_nic = {k: v for k, v in rank_environment(b, topology).items() if k not in of_gpu}
        words = ["export", *(f"{key}={value}" for key, value in of_nic.items())] if of_nic else [":"]
        for variable, _ in _VISIBLE_GPUS.values():
            if variable in of_gpu:
                order = [f"{key}={value}" for key, value in of_gpu.items()]
                words += ["; show_gpu_as", variable, *order]
        cases.append(f"{b.rank}) {' '.join(words).replace(' ;', ';')} ;;")
    if not any(rank_environment(b, topology) for b in bindings):
        return '#!/bin/sh\nexec "$@"\n'
    names, made_for = ", ".join(LOCAL_RANKS), counted(len(bindings), "rank")
    return "\n".join(
        [
            "#!/bin/sh",
            *[_SHOW_GPU] * bool(topology.gpus),
            f"local_rank={local}",
            'case "$local_rank" in',
            *cases,
            f'"") echo "error: the launcher sets none of {names}" >&2; exit 1 ;;',
            f'*) echo "error: local rank $local_rank: the script was made for {made_for} a node" >&2; exit 1 ;;',
            "esac",
            'exec "$@"',
            "",
        ]
    )


def to_dict(bindings: Sequence[Binding], topology: NodeTopology) -> dict[str, Any]:
    """Return everything for JSON."""
    return {
        "ranks_per_node": len(bindings),
        "ranks": [
            {
                "rank": b.rank,
                "domain": b.domain,
                "cpus": list(b.cpus),
                "nic": b.nic,
                "gpu": b.gpu,
                "environment": rank_environment(b, topology),
            }
            for b in bindings
        ],
        "options": {launcher: launcher_options(bindings, launcher) for launcher in LAUNCHERS},
        "environment": environment(bindings, topology.nics),
    }


def make_table(bindings: Sequence[Binding]) -> Table:
    """Return the bindings, one rank a line."""
    table = Table(box=None, pad_edge=False)
    for head in ("rank", "NUMA", "CPUs", "NIC", "GPU"):
        table.add_column(head, justify="right", no_wrap=True)
    for b in bindings:
        gpu = "" if b.gpu is None else str(b.gpu)
        table.add_row(str(b.rank), str(b.domain), format_cpu_list(b.cpus), b.nic or "", gpu)
    return table
