"""NUMA domains, cores, hardware threads and network interfaces of a node, from sysfs or from hwloc's XML."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.files import output_errors

# Classes of network devices, the fastest first: ranks are bound near the first class that the node has.
_NIC_CLASSES = ("cxi", "infiniband", "net")
_HWLOC_NETWORK = {"2", "3", "Network", "OpenFabrics"}  # osdev_type of hwloc 2, subtype names of hwloc 3


@dataclass(frozen=True)
class Nic:
    """A network interface. domain: the NUMA domain to which its slot belongs, None if unknown."""

    name: str
    domain: int | None


@dataclass
class NumaDomain:
    """A NUMA domain. cores: hardware threads of each core, in order. distances: to other domains by number."""

    number: int
    cores: list[tuple[int, ...]]
    distances: dict[int, int] = field(default_factory=dict)


@dataclass
class NodeTopology:
    """A node as a launcher sees it: its NUMA domains with cores, and its network interfaces."""

    domains: list[NumaDomain]
    nics: list[Nic]

    @property
    def n_cores(self) -> int:
        """Number of cores."""
        return sum(len(domain.cores) for domain in self.domains)

    def only(self, cpus: Iterable[int]) -> NodeTopology:
        """Return the part of the node with the hardware threads in `cpus`, without domains that have none of them."""
        allowed = set(cpus)
        domains = []
        for domain in self.domains:
            cores = [tuple(cpu for cpu in core if cpu in allowed) for core in domain.cores]
            domains.append(NumaDomain(domain.number, [core for core in cores if core], domain.distances))
        return NodeTopology([domain for domain in domains if domain.cores], self.nics)


def parse_cpu_list(text: str) -> list[int]:
    """Return the numbers of a list such as 0-3,8,10-11. Raises ConfigError if the text is not such a list."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise ConfigError(f"{text.strip()!r} is not a list of CPUs. Such a list looks like 0-3,8,10-11.")
        first, last = int(match[1]), int(match[2] or match[1])
        numbers += range(first, last + 1)
    return numbers


def format_cpu_list(numbers: Iterable[int]) -> str:
    """Return numbers as a list with ranges: 0-3,8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _numbered(folder: Path, prefix: str) -> list[tuple[int, Path]]:
    """Return (number, path) of node0, node1, ... in order."""
    numbered = []
    for path in folder.glob(f"{prefix}[0-9]*"):
        number = path.name.removeprefix(prefix)
        if number.isdigit():
            numbered.append((int(number), path))
    return sorted(numbered)


def read_sysfs(root: str | Path = "/sys") -> NodeTopology:
    """Return the topology in a sysfs tree. Raises OutputError if it shows no CPU.

    If the kernel has no NUMA, all CPUs are one domain. CPUs that are offline are left out.
    """
    root = Path(root)
    system = root / "devices" / "system"
    online = _read(system / "cpu" / "online")
    cpus = parse_cpu_list(online) if online else [number for number, _ in _numbered(system / "cpu", "cpu")]
    if not cpus:
        raise OutputError(f"{root} shows no CPU (devices/system/cpu). Give the sys folder of a Linux node.")
    core_of = {}
    for cpu in cpus:
        topology = system / "cpu" / f"cpu{cpu}" / "topology"
        siblings = _read(topology / "thread_siblings_list") or _read(topology / "core_cpus_list")
        core_of[cpu] = tuple(parse_cpu_list(siblings)) if siblings else (cpu,)
    domains = []
    for number, path in _numbered(system / "node", "node"):
        members = [cpu for cpu in parse_cpu_list(_read(path / "cpulist") or "") if cpu in core_of]
        far = [int(value) for value in (_read(path / "distance") or "").split()]
        if members:  # memory without CPUs is a domain to the kernel, not to a launcher
            domains.append(NumaDomain(number, _cores(members, core_of), dict(enumerate(far))))
    if not domains:
        domains = [NumaDomain(0, _cores(cpus, core_of))]
    return NodeTopology(domains, _sysfs_nics(root / "class"))


def _cores(members: list[int], core_of: dict[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the cores of a domain, each as its hardware threads that are members."""
    inside = set(members)
    return sorted({tuple(cpu for cpu in core_of[member] if cpu in inside) for member in members})


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort cxi2 before cxi10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _sysfs_nics(classes: Path) -> list[Nic]:
    for kind in _NIC_CLASSES:
        nics = []
        for path in sorted(classes.glob(f"{kind}/*"), key=lambda path: _natural(path.name)):
            if not (path / "device").exists():
                continue  # loopback, bridges and other interfaces without a device
            text = _read(path / "device" / "numa_node")
            domain = int(text) if text and text.lstrip("-").isdigit() else -1
            nics.append(Nic(path.name, domain if domain >= 0 else None))
        if nics:
            return nics
    return []


def read_hwloc(path: str | Path) -> NodeTopology:
    """Return the topology of a file that `lstopo --of xml` wrote (hwloc 2 or newer).

    Raises OutputError if it cannot be read, ConfigError if it is not such a file.
    """
    try:
        with output_errors(f"read {path}"):
            tree = ElementTree.parse(path)
    except ElementTree.ParseError as error:
        raise ConfigError(f"{path} is not XML ({error}). Write it with lstopo --of xml FILE.") from None
    domains: list[NumaDomain] = []
    cores: list[tuple[int, ...]] = []
    nics: list[tuple[str, set[int], str]] = []
    _walk_hwloc(tree.getroot(), set(), domains, cores, nics)
    if not domains or not cores:
        raise ConfigError(f"{path} has no NUMA domain with cores. Write it with lstopo --of xml FILE.")
    for domain in domains:  # so far, domain.cores holds the CPUs of the domain as one tuple
        inside = set(domain.cores[0])
        domain.cores = sorted(core for core in cores if core and core[0] in inside)
    domains = sorted((domain for domain in domains if domain.cores), key=lambda domain: domain.number)
    # A device may appear as an OpenFabrics and a network device: keep the kind that comes first in _NIC_CLASSES.
    for kind in ("cxi", "3", "2"):
        chosen = [nic for nic in nics if (nic[0].startswith("cxi") if kind == "cxi" else nic[2] == kind)]
        if chosen:
            break
    interfaces = []
    for name, cpus, _ in sorted(chosen, key=lambda nic: _natural(nic[0])):
        near = [domain.number for domain in domains if cpus & {core[0] for core in domain.cores}]
        interfaces.append(Nic(name, near[0] if len(near) == 1 else None))
    return NodeTopology(domains, interfaces)


def _walk_hwloc(
    element: ElementTree.Element,
    cpus: set[int],
    domains: list[NumaDomain],
    cores: list[tuple[int, ...]],
    nics: list[tuple[str, set[int], str]],
) -> None:
    """Collect domains (their CPUs as one tuple), cores and network devices below an element of hwloc's XML."""
    text = element.get("cpuset")
    cpus = _cpu_set(text) if text else cpus
    kind, index = element.get("type"), int(element.get("os_index", "0"))
    if kind == "NUMANode" and cpus:
        domains.append(NumaDomain(index, [tuple(sorted(cpus))]))
    elif kind == "Core":
        cores.append(tuple(sorted(cpus)))
    elif kind == "OSDev" and element.get("osdev_type") in _HWLOC_NETWORK:
        number = {"Network": "2", "OpenFabrics": "3"}.get(
            element.get("osdev_type", ""), element.get("osdev_type", "")
        )
        nics.append((element.get("name", "?"), cpus, number))
    for child in element:
        _walk_hwloc(child, cpus, domains, cores, nics)


def _cpu_set(text: str) -> set[int]:
    """Return the CPUs of hwloc's mask: 32-bit words in hexadecimal, the highest first, with commas."""
    mask = 0
    for word in text.split(","):
        mask = (mask << 32) | int(word or "0", 16)
    return {bit for bit in range(mask.bit_length()) if mask >> bit & 1}


def this_node() -> NodeTopology:
    """Return the part of this node that this process may use."""
    topology = read_sysfs()
    return topology.only(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else topology
