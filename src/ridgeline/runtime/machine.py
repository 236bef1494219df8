"""What this node is and what of it this process may use: CPU and caches, cores and threads, memory.

Everything is read from the operating system. Only the standard library is imported, because `configure_threads` must
run before NumPy and Numba are imported.
"""

import os
import platform
import re
import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

UNLIMITED = 2**63 - 1
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
# Control groups of version 2 and of version 1: the files of the limit and of the use, and the part of the use in
# `memory.stat` that is cache and can be dropped.
_GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


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


# ---- CPU and caches ----


def cpu_name() -> str:
    """Return the CPU's model name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.machine()


def cache_sizes() -> dict[int, int]:
    """Return the sizes in bytes of the data caches of CPU 0, by level."""
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


def caches_by_level(cpus: set[int]) -> dict[int, dict[str, int]]:
    """Return the distinct data caches of these CPUs by level: {the CPUs that share a cache: bytes}; {} if unknown."""
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


# ---- cores and threads ----


def usable_cores() -> set[int]:
    """Return the numbers of the cores that this process may use (its affinity mask)."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores_available() -> int:
    """Return the number of cores that this process may use."""
    return len(usable_cores())


def limit_pools() -> None:
    """Give every thread pool but Numba's one thread. Call before NumPy is imported: its BLAS starts its pool then.

    Model code uses the threads of Numba alone. Workers of a BLAS beside them would spin on the cores of other ranks.
    """
    for pool in _POOLS:
        os.environ[pool] = "1"


def configure_threads(threads: int) -> None:
    """Give Numba `threads` threads and every other pool one. Call before Numba or NumPy's BLAS starts threads."""
    limit_pools()
    os.environ["NUMBA_NUM_THREADS"] = str(threads)
    # Idle workers of Numba's own pool sleep instead of spinning, so that ranks that share cores do not compete.
    os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")
    if "numba" in sys.modules:  # by a user's Python file that the settings name
        numba = sys.modules["numba"]
        numba.config.reload_config()  # otherwise the next compilation does so, and fails
        with suppress(ValueError):  # its pool has the threads of the default, and cannot grow
            numba.set_num_threads(threads)


def oversubscription(ranks_on_node: int, threads: int, cores: int) -> str | None:
    """Return a warning if the node's ranks x threads exceed its cores, None otherwise."""
    if ranks_on_node * threads <= cores:
        return None
    fewer = []
    if ranks_on_node > 1 and threads <= cores:
        fewer.append(f"-n {cores // threads}")
    if threads > 1 and ranks_on_node <= cores:
        fewer.append(f"--threads {cores // ranks_on_node}")
    return (
        f"{ranks_on_node} rank{'s' * (ranks_on_node > 1)} x {threads} thread{'s' * (threads > 1)} share {cores} "
        f"core{'s' * (cores > 1)}, so the cores are oversubscribed and slower than with one thread each. Use "
        f"{' or '.join(fewer) or f'-n {cores} --threads 1'}."
    )


# ---- memory ----


def memory_bytes(root: Path = Path("/")) -> int:
    """Return the machine's memory, or the limit of this process's job or control groups if that is smaller."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [limit for limit, _ in _control_groups(root)]
    return min([total, _job_limit(), *limits])


def node_memory_available(root: Path = Path("/")) -> int:
    """Return the bytes that the processes of this job can allocate together on this node without swapping."""
    free = _number_after(_text_of(root / "proc/meminfo"), "MemAvailable", 1024)
    left = [available for _, available in _control_groups(root)]
    return min([memory_bytes(root) if free is None else free, _job_limit(), *left])


def process_memory_available() -> int:
    """Return the bytes that this process may still take within its own limits (`ulimit -v`, `ulimit -d`)."""
    status = _text_of(Path("/proc/self/status"))
    left = UNLIMITED
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            left = min(left, max(limit - (_number_after(status, name, 1024) or 0), 0))
    return left


def memory_available() -> int:
    """Return the bytes that this process can allocate without swapping, if no other process allocates meanwhile."""
    return min(node_memory_available(), process_memory_available())


def peak_memory() -> int:
    """Return this process's peak resident memory in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _control_groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield (limit, available bytes) of every control group that this process is in."""
    for line in _text_of(root / "proc/self/cgroup").splitlines():
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
            limit, used = (_text_of(folder / name).strip() for name in files[:2])
            if limit.isdigit() and int(limit) < UNLIMITED // 2:  # version 1 writes nearly 2^63 for "no limit"
                cache = _number_after(_text_of(folder / "memory.stat"), files[2]) or 0
                in_use = max(int(used) - cache, 0) if used.isdigit() else 0
                yield int(limit), max(int(limit) - in_use, 0)


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


def _number_after(text: str, name: str, unit: int = 1) -> int | None:
    """Return the number after a name in a text of lines "name: 12 kB" or "name 12"."""
    match = re.search(rf"^{name}:?\s+(\d+)", text, re.MULTILINE)
    return int(match.group(1)) * unit if match else None


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
