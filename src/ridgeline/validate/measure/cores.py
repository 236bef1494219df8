"""Work on every core of a node at the same time, one pinned thread each: so that each core can be blamed.

A validation with one rank per node, as a prolog, has all cores of the node; one with more ranks has theirs. Memory
that a pinned thread touches first lies in the memory domain of its core, so that all domains are used too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ridgeline.runtime.machine import usable_cores

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")


def first_threads(cpus: set[int], root: Path = Path("/")) -> list[int]:
    """Return one hardware thread of each core among these, sorted."""
    chosen = []
    for cpu in sorted(cpus):
        try:
            path = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            siblings = _numbers(path.read_text())
        except (OSError, ValueError):
            siblings = {cpu}
        if cpu == min(siblings & cpus, default=cpu):
            chosen.append(cpu)
    return chosen


def _numbers(text: str) -> set[int]:
    """Return the numbers of a list such as "0,52" or "0-1"."""
    found: set[int] = set()
    for part in re.split(r"\s*,\s*", text.strip()):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def cores_of_rank(node_comm: MPI.Comm, root: Path = Path("/")) -> list[int]:
    """Return the cores that this rank works on: its own, or its share of those that all ranks of the node may use.

    Collective over the node.
    """
    mine = first_threads(usable_cores(), root)
    masks = node_comm.allgather(mine)
    if len(masks) == 1 or any(mask != mine for mask in masks):
        return mine
    first, last = ((node_comm.rank + step) * len(mine) // len(masks) for step in (0, 1))
    return mine[first:last] or [mine[node_comm.rank % len(mine)]]


def count_cores(node_comm: MPI.Comm, root: Path = Path("/")) -> tuple[int, int]:
    """Return how many cores the ranks of this node may use together, and how many the node has.

    Collective over the node.
    """
    usable = set().union(*node_comm.allgather(usable_cores()))
    try:
        online = _numbers((root / "sys/devices/system/cpu/online").read_text()) | usable
    except (OSError, ValueError):
        online = usable
    return len(first_threads(usable, root)), len(first_threads(online, root))


def remarks_on_cores(counts: Sequence[tuple[int, int]], hosts: Sequence[str]) -> list[str]:
    """Return a sentence for each count of cores that some nodes' ranks may not use; counts: see `count_cores`."""
    few: dict[tuple[int, int], list[str]] = {}
    for (usable, online), host in zip(counts, hosts, strict=True):
        if usable < online:
            few.setdefault((usable, online), []).append(host)
    return [
        f"{names[0] if len(names) == 1 else f'{len(names)} nodes, such as {names[0]}'}: the ranks of a node may use "
        f"{usable} of its {online} cores, and only these were measured. Give the ranks all cores, for example with "
        "--cpus-per-task of srun."
        for (usable, online), names in few.items()
    ]


def on_cores(cores: Sequence[int], action: Callable[[], T]) -> list[T]:
    """Run an action that releases the interpreter's lock on all these cores at once; return the results in order.

    One core is not pinned: its rank is bound by the launcher, or moves with the system's choice.
    """
    if len(cores) == 1:
        return [action()]

    def pinned(core: int) -> T:
        os.sched_setaffinity(0, {core})  # of this thread, which ends with the pool
        return action()

    with ThreadPoolExecutor(len(cores)) as pool:
        return list(pool.map(pinned, cores))
