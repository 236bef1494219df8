"""Describe the machine and the software that a figure was measured with."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.c_library import compiler_version

PACKAGES = ("ridgeline", "numpy", "numba", "llvmlite", "mpi4py", "mpich", "pyfftw", "numba-cuda")


def _first(path: str, key: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "unknown")


def caches() -> str:
    """Return the data caches of CPU 0, e.g. 'L1 32K, L2 1024K, L3 32768K'."""
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "type").read_text().strip() != "Instruction":
            found.append(f"L{(index / 'level').read_text().strip()} {(index / 'size').read_text().strip()}")
    return ", ".join(found) or "unknown"


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def describe() -> dict[str, str]:
    """Return what a reader needs to judge a figure: processor, cores, caches, memory, system, versions."""
    return {
        "cpu": _first("/proc/cpuinfo", "model name"),
        "cpu_family_model": f"{_first('/proc/cpuinfo', 'cpu family')}/"
        f"{_first('/proc/cpuinfo', 'model' + chr(9))}",
        "cores": f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}",
        "caches": caches(),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "gcc": compiler_version(),
        **{name: _package(name) for name in PACKAGES},
    }
