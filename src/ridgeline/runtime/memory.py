"""How much memory there is and how much is free: of the machine, the batch job, the control groups, the process."""

import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

UNLIMITED = 2**63 - 1
# Control groups of version 2 and of version 1: files of the limit, of the use, and the cache in it that can go.
_GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def _number(text: str, name: str, unit: int = 1) -> int | None:
    """Return the number after a name in a file of lines "name: 12 kB" or "name 12"."""
    match = re.search(rf"^{name}:?\s+(\d+)", text, re.MULTILINE)
    return int(match.group(1)) * unit if match else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _control_groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield (limit, bytes that can still be had) of every control group that this process is in."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, files = root / "sys/fs/cgroup", _GROUP_FILES[0]
        elif "memory" in controllers.split(","):
            base, files = root / "sys/fs/cgroup/memory", _GROUP_FILES[1]
        else:
            continue
        here = base / path.strip("/")
        for folder in (here, *here.parents):
            if not folder.is_relative_to(base):
                break
            limit, used = (_read(folder / name).strip() for name in files[:2])
            if limit.isdigit() and int(limit) < UNLIMITED // 2:  # version 1 says nearly 2^63 for none
                cache = _number(_read(folder / "memory.stat"), files[2]) or 0
                held = max(int(used) - cache, 0) if used.isdigit() else 0
                yield int(limit), max(int(limit) - held, 0)


def _job_limit() -> int:
    """Return the bytes of a node that Slurm gives this job (--mem, --mem-per-cpu, --mem-per-gpu), UNLIMITED if all.

    Where Slurm keeps jobs within them by counting, and not by control groups, this is the only place that tells.
    """

    def value(name: str) -> int:
        text = os.environ.get(name, "")
        return int(text) if text.isdigit() else 0

    limits = (
        value("SLURM_MEM_PER_NODE"),
        value("SLURM_MEM_PER_CPU") * value("SLURM_CPUS_ON_NODE"),
        value("SLURM_MEM_PER_GPU") * value("SLURM_GPUS_ON_NODE"),
    )
    return 2**20 * min(filter(None, limits), default=0) or UNLIMITED


def memory_bytes(root: Path = Path("/")) -> int:
    """Return the machine's memory, or the limit of this process's job or control groups if that is smaller."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, _job_limit(), *(limit for limit, _ in _control_groups(root))])


def node_memory_available(root: Path = Path("/")) -> int:
    """Return the bytes that the processes of this job can have together on this node without swapping."""
    free = _number(_read(root / "proc/meminfo"), "MemAvailable", 1024)
    groups = [left for _, left in _control_groups(root)]
    return min([memory_bytes(root) if free is None else free, _job_limit(), *groups])


def process_memory_available() -> int:
    """Return the bytes that this process may still take within its own limits (`ulimit -v`, `ulimit -d`)."""
    status = _read(Path("/proc/self/status"))
    left = UNLIMITED
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            left = min(left, max(limit - (_number(status, name, 1024) or 0), 0))
    return left


def memory_available() -> int:
    """Return the bytes of memory that this process can have without swapping, if it alone takes some now."""
    return min(node_memory_available(), process_memory_available())


def peak_memory() -> int:
    """Return this process's peak resident memory in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
