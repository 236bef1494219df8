"""NUMA domains, cores, network interfaces and GPUs of a node, from sysfs or from hwloc's XML."""

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
# PCI classes of GPUs that compute: display and 3D controllers, accelerators. Those of a management processor have no
# link of 8 lanes.
_GPU_CLASS = re.compile(r"(?:0x)?(?:030[02]|0380|1200)")
_FEWEST_LANES = 8
_GPU_VENDORS = ("10de", "1002", "8086")  # NVIDIA, AMD, Intel: hwloc's XML does not have the lanes
_HWLOC_NETWORK = {"2", "3", "Network", "OpenFabrics"}  # osdev_type of hwloc 2, subtype names of hwloc 3


@dataclass(frozen=True)
class Nic:
    """A network interface. domain: the NUMA domain to which its slot belongs, None if unknown; path: of PCI addresses
    from the root of the bus to it; port: the number of its port, where it has ports.
    """

    name: str
    domain: int | None
    path: tuple[str, ...] = ()
    port: str = ""


@dataclass(frozen=True)
class Gpu:
    """A GPU. number: in the order of PCI addresses; vendor: of PCI, such as "10de"; domain, path: as of `Nic`."""

    number: int
    address: str
    vendor: str
    domain: int | None
    path: tuple[str, ...] = ()


@dataclass
class NumaDomain:
    """A NUMA domain. cores: hardware threads of each core, in order. distances: to other domains by number."""

    number: int
    cores: list[tuple[int, ...]]
    distances: dict[int, int] = field(default_factory=dict)


@dataclass
class NodeTopology:
    """A node as a launcher sees it: its NUMA domains with cores, its network interfaces and its GPUs."""

    domains: list[NumaDomain]
    nics: list[Nic]
    gpus: list[Gpu] = field(default_factory=list)

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
        return NodeTopology([domain for domain in domains if domain.cores], self.nics, self.gpus)


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


def deal_nics(domain: NumaDomain, topology: NodeTopology, count: int, number: int) -> Nic | None:
    """Return the interface of one of `count` ranks of a domain, None if the node has none.

    If there are more ranks than interfaces, neighbours share one, because they communicate most.
    """
    nics = nearest_nics(domain, topology)
    if not nics:
        return None
    return nics[number * len(nics) // count if count >= len(nics) else number]


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
    return NodeTopology(domains, _sysfs_nics(root / "class"), _sysfs_gpus(root / "bus" / "pci" / "devices"))


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
            device = path / "device"
            port = next((port.name for port in sorted(path.glob("ports/*"))), "")
            nics.append(Nic(path.name, _domain(device), _pci_path(device), port))
        if nics:
            return nics
    return []


def _domain(device: Path) -> int | None:
    """Return the NUMA domain of a device, None if the system does not know it."""
    text = _read(device / "numa_node")
    domain = int(text) if text and text.lstrip("-").isdigit() else -1
    return domain if domain >= 0 else None


def _pci_path(device: Path) -> tuple[str, ...]:
    """Return the bus, bridges and switches above a device and the device itself, from its place in sysfs."""
    parts = device.resolve().parts
    return tuple(part for part in parts if re.match(r"pci[0-9a-f]{4}:|[0-9a-f]{4}:[0-9a-f]{2}:", part))


def _sysfs_gpus(devices: Path) -> list[Gpu]:
    gpus: list[Gpu] = []
    for device in sorted(devices.glob("*")):
        lanes = _read(device / "max_link_width") or "0"
        wide = lanes.isdigit() and int(lanes) >= _FEWEST_LANES
        if _GPU_CLASS.match(_read(device / "class") or "") and wide:
            vendor = (_read(device / "vendor") or "").removeprefix("0x")
            gpus.append(Gpu(len(gpus), device.name, vendor, _domain(device), _pci_path(device)))
    return gpus


def read_hwloc(path: str | Path) -> NodeTopology:
    """Return the topology of a file that `lstopo --of xml` wrote (hwloc 2 or newer).

    Raises OutputError if it cannot be read, ConfigError if it is not such a file.
    """
    try:
        with output_errors(f"read {path}"):
            tree = ElementTree.parse(path)
    except ElementTree.ParseError as error:
        raise ConfigError(f"{path} is not XML ({error}). Write it with lstopo --of xml FILE.") from None
    found = _HwlocObjects()
    found.walk(tree.getroot(), set(), ())
    if not found.domains or not found.cores:
        raise ConfigError(f"{path} has no NUMA domain with cores. Write it with lstopo --of xml FILE.")
    for domain in found.domains:  # so far, domain.cores holds the CPUs of the domain as one tuple
        inside = set(domain.cores[0])
        domain.cores = sorted(core for core in found.cores if core and core[0] in inside)
    domains = sorted((domain for domain in found.domains if domain.cores), key=lambda domain: domain.number)

    def near(cpus: set[int]) -> int | None:
        numbers = [domain.number for domain in domains if cpus & {core[0] for core in domain.cores}]
        return numbers[0] if len(numbers) == 1 else None

    # A device may appear as an OpenFabrics and a network device: keep the kind that comes first in _NIC_CLASSES.
    for kind in ("cxi", "3", "2"):
        chosen = [
            nic for nic in found.nics if (nic[0].startswith("cxi") if kind == "cxi" else nic[3] == kind)
        ]
        if chosen:
            break
    interfaces = [
        # hwloc names no ports; interfaces with one are the rule
        Nic(name, near(cpus), path, "1" if kind == "3" else "")
        for name, cpus, path, _ in sorted(chosen, key=lambda nic: _natural(nic[0]))
    ]
    gpus = [
        Gpu(number, path[-1], vendor, near(cpus), path)
        for number, (path, cpus, vendor) in enumerate(sorted(found.gpus, key=lambda gpu: gpu[0][-1]))
    ]
    return NodeTopology(domains, interfaces, gpus)


@dataclass
class _HwlocObjects:
    """What hwloc's XML holds: domains (their CPUs as one tuple) and cores, and devices with the CPUs beside them."""

    domains: list[NumaDomain] = field(default_factory=list)
    cores: list[tuple[int, ...]] = field(default_factory=list)
    nics: list[tuple[str, set[int], tuple[str, ...], str]] = field(default_factory=list)
    gpus: list[tuple[tuple[str, ...], set[int], str]] = field(default_factory=list)

    def walk(self, element: ElementTree.Element, cpus: set[int], path: tuple[str, ...]) -> None:
        """Collect the objects below an element."""
        text = element.get("cpuset")
        cpus = _cpu_set(text) if text else cpus
        kind, index = element.get("type"), int(element.get("os_index", "0"))
        if kind in ("Bridge", "PCIDev"):
            path = (*path, element.get("pci_busid") or element.get("gp_index") or "")
        if kind == "NUMANode" and cpus:
            self.domains.append(NumaDomain(index, [tuple(sorted(cpus))]))
        elif kind == "Core":
            self.cores.append(tuple(sorted(cpus)))
        elif kind == "PCIDev":
            # "0302 [10de:2330] [10de:16c1] a1": class, vendor and device, those of the board, revision
            match = re.match(r"(\w+) \[(\w+):", element.get("pci_type", ""))
            if match and _GPU_CLASS.match(match[1]) and match[2] in _GPU_VENDORS:
                self.gpus.append((path, cpus, match[2]))
        elif kind == "OSDev" and element.get("osdev_type") in _HWLOC_NETWORK:
            number = {"Network": "2", "OpenFabrics": "3"}.get(
                element.get("osdev_type", ""), element.get("osdev_type", "")
            )
            self.nics.append((element.get("name", "?"), cpus, path, number))
        for child in element:
            self.walk(child, cpus, path)


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
