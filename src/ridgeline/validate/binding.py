"""Which CPUs and which network interface each rank of a node gets, in the words of each launcher.

A rank that runs far from its network interface crosses the link between sockets with every message. Ranks are
therefore spread over NUMA domains and, inside each, over its interfaces in turn. If there are no more ranks than
interfaces, every rank gets a separate one. Source: Ibeid et al. (MPI on Aurora), Sec. 3.8.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rich.table import Table

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.node_topology import Nic, NodeTopology, NumaDomain, format_cpu_list

LAUNCHERS = ("mpiexec", "pals", "srun", "pbs")


@dataclass(frozen=True)
class Binding:
    """What one rank of the node gets. rank: on the node; cpus: hardware threads; nic: None if the node has none."""

    rank: int
    domain: int
    cpus: tuple[int, ...]
    nic: str | None


def bind_ranks(
    topology: NodeTopology, ranks_per_node: int | None = None, reserve: int = 0, smt: bool = True
) -> list[Binding]:
    """Return the binding of each rank of a node, in order.

    ranks_per_node: by default one for each interface, or for each NUMA domain if there are no interfaces. reserve:
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
    n_ranks = ranks_per_node if ranks_per_node is not None else len(topology.nics) or len(domains)
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
    for domain, count in zip(domains, _deal(n_ranks, domains, topology.nics)):
        nics = nearest_nics(domain, topology)
        for i in range(count):
            first, last = (k * len(domain.cores) // count for k in (i, i + 1))
            cpus = tuple(sorted(chain.from_iterable(domain.cores[first:last])))
            # If there are more ranks than interfaces, neighbours share one, because they communicate most.
            nic = nics[i * len(nics) // count if count >= len(nics) else i].name if nics else None
            bindings.append(Binding(len(bindings), domain.number, cpus, nic))
    return bindings


def nearest_nics(domain: NumaDomain, topology: NodeTopology) -> list[Nic]:
    """Return the interfaces of the domain, or of the nearest one that has any, or all if their places are unknown."""
    placed = [nic for nic in topology.nics if nic.domain is not None]
    if not placed:
        return list(topology.nics)

    def far(nic: Nic) -> int:
        assert nic.domain is not None
        return 0 if nic.domain == domain.number else domain.distances.get(nic.domain, 255)

    nearest = min(map(far, placed))
    return [nic for nic in placed if far(nic) == nearest]


def _deal(n_ranks: int, domains: Sequence[NumaDomain], nics: Sequence[Nic]) -> list[int]:
    """Return the number of ranks of each domain.

    They are in proportion to interfaces as long as every rank can have a separate one, and otherwise in proportion
    to cores. The highest quotient takes the next rank (d'Hondt), the lower domain if equal.
    """
    cores = [len(domain.cores) for domain in domains]
    near = [sum(nic.domain == domain.number for nic in nics) for domain in domains]
    weights = near if n_ranks <= sum(near) else cores
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


def to_dict(bindings: Sequence[Binding], nics: Sequence[Nic]) -> dict[str, Any]:
    """Return everything for JSON."""
    return {
        "ranks_per_node": len(bindings),
        "ranks": [{"rank": b.rank, "domain": b.domain, "cpus": list(b.cpus), "nic": b.nic} for b in bindings],
        "options": {launcher: launcher_options(bindings, launcher) for launcher in LAUNCHERS},
        "environment": environment(bindings, nics),
    }


def make_table(bindings: Sequence[Binding]) -> Table:
    """Return the bindings, one rank a line."""
    table = Table(box=None, pad_edge=False)
    for head in ("rank", "NUMA", "CPUs", "NIC"):
        table.add_column(head, justify="right", no_wrap=True)
    for b in bindings:
        table.add_row(str(b.rank), str(b.domain), format_cpu_list(b.cpus), b.nic or "")
    return table
