"""How much of a node others use while something is measured: processes that are not ours, and its hypervisor."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_COUNTED = ("user", "nice", "system", "steal")  # interrupts are left out: our own messages cause them
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MOST_OTHERS = 0.05  # share of the processors of a node that others may use before a measurement says so
_UNSURE = 0.02  # seconds of each rank: processes and processors are not counted with the same clock


@dataclass(frozen=True)
class Reading:
    """One look.

    system: which one booted system, shared by virtual hosts; processors: of it; used: seconds of processors that all
    its processes and the hypervisor used since it started; own: those of this process and of its children that
    ended; wall: seconds.
    """

    system: str
    processors: int
    used: float
    own: float
    wall: float


def read_load(root: Path = Path("/")) -> Reading | None:
    """Look at this node, None where the system does not tell. Less than a millisecond; no communication."""
    try:
        lines = (root / "proc/stat").read_text().splitlines()
        system = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
        ticks = dict(zip(_FIELDS, map(int, lines[0].split()[1:]), strict=False))
    except (OSError, ValueError, IndexError):
        return None
    if "user" not in ticks:
        return None
    processors = sum(line.startswith("cpu") for line in lines) - 1
    used = sum(ticks.get(name, 0) for name in _COUNTED) / os.sysconf("SC_CLK_TCK")
    times = os.times()
    own = time.process_time() + times.children_user + times.children_system
    return Reading(system, max(processors, 1), used, own, time.monotonic())


def others_share(before: Sequence[Reading | None], after: Sequence[Reading | None], rank: int) -> float:
    """Return the share of the processors of a rank's system that others used between two looks, 0 if unknown.

    before, after: of all ranks of the job, so that virtual hosts of one system are no strangers to each other.
    """
    first, last = before[rank], after[rank]
    if first is None or last is None or last.wall <= first.wall:
        return 0.0
    own, ranks = 0.0, 0
    for old, new in zip(before, after):
        if old is not None and new is not None and old.system == first.system:
            own, ranks = own + new.own - old.own, ranks + 1
    others = last.used - first.used - own - _UNSURE * ranks
    return min(max(others / ((last.wall - first.wall) * last.processors), 0.0), 1.0)
