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
