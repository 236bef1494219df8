"""What is metered while a run steps: the energy of its nodes, and its memory traffic as the hardware counts it.

One rank of each node reads the node's counters: a node has them once. Counts are from the first step to the last,
with outputs and checkpoints. Sources: Hadri et al. (NekBox), Sec. 4.6, for energy; Godoy et al., SC-W 2023, Eq. 5b,
for traffic that is measured and not counted in closed form.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ridgeline.parallel.allreduce import gather_and_broadcast
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.energy import EnergyMeter, EnergyUsed
from ridgeline.runtime.hardware_counters import HardwareCounters, open_controllers, open_misses
from ridgeline.runtime.machine import describe_machine

if TYPE_CHECKING:
    from mpi4py import MPI


class Meters:
    """The meters of this rank: a context manager, entered before the first step. Collective where it says so."""

    def __init__(self, comm: MPI.Comm) -> None:
        """Find out which rank of a node reads. Collective."""
        self._comm = comm
        self._reads_node = place_on_node(comm).local_rank == 0
        self._energy = EnergyMeter() if self._reads_node else None
        self._counters: HardwareCounters | None = None
        self._why: list[str] = []

    def __enter__(self) -> Meters:
        """Begin to count. Collective: all nodes count the same, or none does."""
        self._open("memory controllers")
        if self._counters is None:
            self._open("cache misses")
        if self._energy is not None:
            self._energy.start()
        self._started = time.perf_counter()
        return self

    def __exit__(self, *problem: object) -> None:
        if self._counters is not None:
            self._counters.close()

    def _open(self, kind: str) -> None:
        """Open the counters of a kind on all ranks that have them, or on none. Collective."""
        why = ""
        try:
            if kind == "cache misses":
                self._counters = open_misses()
            elif self._reads_node:
                self._counters = open_controllers()
        except OSError as problem:
            why = str(problem)
        told = gather_and_broadcast(self._comm, why, lambda whys: list(filter(None, whys))[:1])
        self._why += told
        self._kind = "" if told else kind
        if told and self._counters is not None:
            self._counters.close()
            self._counters = None

    def sample(self) -> None:
        """Read the energy counters if they may start again soon; to be called at every step. Cheap; this rank's."""
        if self._energy is not None:
            self._energy.sample()

    def stop(self) -> None:
        """Read all counters for the last time."""
        self._seconds = time.perf_counter() - self._started
        self._used = None if self._energy is None else self._energy.stop()
        self._counted: dict[str, float] | None = {}
        try:
            if self._counters is not None:
                self._counted = self._counters.read()
        except OSError as problem:
            self._counted = None
            self._why.append(str(problem))

    def report(self, points: int, steps: int, least_bytes: float) -> dict[str, Any]:
        """Return the parts of the report called "energy" and "traffic". Collective, the same on all ranks.

        points: of the grid; steps: of the run; least_bytes: to and from memory, of a step of all ranks.
        """
        host = describe_machine().host

        def combine(ranks: list[tuple[Any, ...]]) -> dict[str, Any]:
            nodes = [(name, used) for name, used, _, _ in ranks if used is not None]
            counts = [counted for _, _, counted, _ in ranks]
            traffic = sum_traffic(counts, self._seconds, least_bytes * steps)
            reasons = list(dict.fromkeys(why for *_, whys in ranks for why in whys))
            return {
                "energy": sum_energy(nodes, points, steps, len(ranks)),
                "traffic": {"kind": self._kind if traffic else "", **traffic, "unreadable": reasons},
            }

        return gather_and_broadcast(self._comm, (host, self._used, self._counted, self._why), combine)


def sum_energy(
    nodes: Sequence[tuple[str, EnergyUsed]], points: int, steps: int, ranks: int
) -> dict[str, Any]:
    """Return the energy of a run from that of its nodes: joules of all, and of each node with its host's name.

    Figures of all are None if a node has none, or covers another part of itself than the others do: its share would
    be missing. exact_below: the power of a counter in W up to which no turn of it was missed, None if none turns.
    """
    parts = [{"host": host, **asdict(used)} for host, used in nodes]
    whole = all(used.joules is not None for _, used in nodes) and len({used.covers for _, used in nodes}) == 1
    joules = sum(used.joules or 0.0 for _, used in nodes) if whole else None
    seconds = max((used.seconds for _, used in nodes), default=0.0)
    bounds = [used.exact_below for _, used in nodes if used.exact_below is not None]
    per_step = joules / steps if joules is not None and steps else None
    return {
        "joules": joules,
        "covers": nodes[0][1].covers if whole else "",
        "seconds": seconds,
        "watts": joules / seconds if joules is not None and seconds else None,
        "joules_per_step": per_step,
        "joules_per_point_and_step": per_step / points if per_step is not None and points else None,
        "joules_per_rank": joules / ranks if joules is not None else None,
        "exact_below": min(bounds, default=None),
        "nodes": parts,
    }


def sum_traffic(counts: Sequence[dict[str, float] | None], seconds: float, least: float) -> dict[str, float]:
    """Return what all ranks counted: bytes of memory controllers, or misses; {} if nothing, or if a rank failed.

    counts: of each rank, None of one whose counters could not be read. over_least: measured bytes over the least of
    the steps, which Eq. 5b over Eq. 5a is.
    """
    known = [one for one in counts if one is not None]
    names = list(dict.fromkeys(name for one in known for name in one))
    found = {name: sum(one.get(name, 0.0) for one in known) for name in names}
    if not found or len(known) < len(counts):
        return {}
    if "misses" in found:
        return found | {"misses_per_second": found["misses"] / seconds}
    moved = sum(found.values())
    more = {"over_least": moved / least} if least else {}
    return found | {"bytes": moved, "bytes_per_second": moved / seconds} | more
