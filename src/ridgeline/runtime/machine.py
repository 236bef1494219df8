"""What this machine is: CPU, cores, caches, memory, as the operating system reports them."""

import os
import platform
import re
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from ridgeline.runtime.memory import memory_bytes
from ridgeline.runtime.threads import cores_available


@dataclass(frozen=True)
class Machine:
    """Facts about one node. Sizes in bytes; 0 where the system does not say."""

    host: str
    cpu: str
    cores: int  # that this process may use
    memory: int
    last_level_cache: int  # of one cache, as one core sees it
    system: str

    def to_dict(self) -> dict[str, str | int]:
        """Return the fields by name."""
        return asdict(self)


def cpu_name() -> str:
    """Return the CPU's model name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.machine()


def cache_sizes() -> dict[int, int]:
    """Return the sizes in bytes of the data caches of CPU 0 by level."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            text = (index / "size").read_text().strip()
            level = int((index / "level").read_text())
        except (OSError, ValueError):
            continue
        unit = {"K": 1024, "M": 1024**2}.get(text[-1:], 1)
        sizes[level] = int(text.rstrip("KM")) * unit
    return sizes


def own_cpus() -> set[int]:
    """Return the numbers of the CPUs that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def caches_by_level(cpus: set[int]) -> dict[int, dict[str, int]]:
    """Return the distinct data caches of these CPUs by level: {the CPUs that share it: bytes}; {} if unknown."""
    caches: dict[int, dict[str, int]] = {}
    for cpu in cpus:
        for index in Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
            try:
                kind, level, size, shared = (
                    (index / name).read_text().strip()
                    for name in ("type", "level", "size", "shared_cpu_list")
                )
                if kind != "Instruction":
                    caches.setdefault(int(level), {})[shared] = int(size.rstrip("K")) * 1024
            except (OSError, ValueError):
                continue
    return caches


def describe_machine() -> Machine:
    """Return the facts of this node."""
    caches = cache_sizes()
    return Machine(
        host=socket.gethostname(),
        cpu=cpu_name(),
        cores=cores_available(),
        memory=memory_bytes(),
        last_level_cache=caches[max(caches)] if caches else 0,
        system=f"{platform.system()} {platform.release()}",
    )
