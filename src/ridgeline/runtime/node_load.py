"""How much of a node other processes and the hypervisor use while something is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_COUNTED = ("user", "nice", "system", "steal")  # without interrupts, which this job's messages cause
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MOST_OTHERS = 0.05  # share of the processors of a node that others may use before a measurement says so
_UNSURE = 0.02  # seconds of each rank: the times of processes and of processors have different clocks


@dataclass(frozen=True)
class Reading:
    """The load of a node at one moment.

    system: identifies the booted system, which virtual hosts may share. processors: how many it has. used: seconds of
    processors that all its processes and the hypervisor have used since it started. own: those of this process and
    of its finished children. wall: seconds.
    """

    system: str
    processors: int
    used: float
    own: float
    wall: float


def read_load(root: Path = Path("/")) -> Reading | None:
    """Read the load of this node, None where the system does not report it. It takes less than a millisecond."""
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


def others_shares(
    before: Sequence[Reading | None], after: Sequence[Reading | None], ranks: Iterable[int]
) -> list[float]:
    """Return the share of the processors that others used between two readings, on the system of each of some ranks.

    It is 0 if unknown. before, after: of all ranks of the job, so that its ranks on virtual hosts of one system do
    not count as others. All readings are passed through once, however many ranks are asked for.
    """
    own: dict[str, float] = {}
    for old, new in zip(before, after):
        if old is not None and new is not None:
            own[old.system] = own.get(old.system, 0.0) + new.own - old.own + _UNSURE
    shares = []
    for rank in ranks:
        first, last = before[rank], after[rank]
        if first is None or last is None or last.wall <= first.wall:
            shares.append(0.0)
            continue
        others = last.used - first.used - own[first.system]
        shares.append(min(max(others / ((last.wall - first.wall) * last.processors), 0.0), 1.0))
    return shares


def busy_note(share: float) -> str | None:
    """Return the note about a measurement while others used this share of the busiest node; None for a small one."""
    if share <= MOST_OTHERS:
        return None
    return (
        f"Other processes used {share:.0%} of the busiest node during the measurement. The machine may be faster "
        "than these values."
    )
