"""What is measured beside the steps of a run: energy, memory traffic, and the trace of `ridgeline run --trace`.

Energy and traffic are counted from the first step to the last, outputs and checkpoints included. A node has one set
of counters, so one rank of each node reads them. Sources: Hadri et al. (NekBox), Sec. 4.6, for energy; Godoy et al.,
SC-W 2023, Eq. 5b, for memory traffic as the hardware counts it.

The trace says when the parts of some steps were at work, on every rank's host and GPU streams. It begins with the
second call of the model's `step`, because the first one touches pages and warms caches. The file has the format of
Chrome's trace events, for ui.perfetto.dev: a process is a rank; its threads are the host and the streams of a GPU.
The host's spans are the phases of a step, outputs and checkpoints. Times are counted from a barrier before the first
traced call, by each rank's own clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ridgeline.io.output_files import to_json, write_text
from ridgeline.parallel.allreduce import errors_on_all_ranks, gather_and_broadcast
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.energy import EnergyMeter, EnergyUsed
from ridgeline.runtime.files import LastWrites
from ridgeline.runtime.hardware_counters import HardwareCounters, open_controllers, open_misses
from ridgeline.runtime.machine import describe_machine
from ridgeline.runtime.regions import Span, Timeline, trace_events

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.runtime.context import Context


log = logging.getLogger(__name__)

CALLS = 20  # of `step` that are traced


class Meters:
    """The energy and traffic meters of this rank; enter the block before the first step."""

    def __init__(self, comm: MPI.Comm) -> None:
        """Choose the rank of each node that reads its counters. Collective."""
        self._comm = comm
        self._reads_node = place_on_node(comm).local_rank == 0
        self._energy = EnergyMeter() if self._reads_node else None
        self._counters: HardwareCounters | None = None
        self._why: list[str] = []

    def __enter__(self) -> Meters:
        """Begin to count. Collective: all nodes count the same kind of event, or none counts."""
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
        first_failure = gather_and_broadcast(self._comm, why, lambda whys: list(filter(None, whys))[:1])
        self._why += first_failure
        self._kind = "" if first_failure else kind
        if first_failure and self._counters is not None:
            self._counters.close()
            self._counters = None

    def sample(self) -> None:
        """Read the energy counters if they may soon wrap around. Cheap and local; call it at every step."""
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
        """Return the parts "energy" and "traffic" of the report, the same on all ranks. Collective.

        least_bytes: what a step of all ranks must move to and from memory at least.
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
    """Return the energy of a run: joules of all nodes together, and of each node with its host's name.

    The figures of all are None if a node has none, or if the counters of the nodes cover different parts of a node.
    exact_below is the power in W up to which no wrap-around of a counter was missed, None if no counter wraps around.
    """
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
        "nodes": [{"host": host, **asdict(used)} for host, used in nodes],
    }


def sum_traffic(counts: Sequence[dict[str, float] | None], seconds: float, least: float) -> dict[str, float]:
    """Return what all ranks counted: bytes at the memory controllers, or cache misses; {} if a rank failed.

    counts: of each rank, None for a rank whose counters could not be read. over_least: the measured bytes over the
    least bytes of the steps, which is Eq. 5b over Eq. 5a.
    """
    readable = [count for count in counts if count is not None]
    names = list(dict.fromkeys(name for count in readable for name in count))
    sums = {name: sum(count.get(name, 0.0) for count in readable) for name in names}
    if not sums or len(readable) < len(counts):
        return {}
    if "misses" in sums:
        return sums | {"misses_per_second": sums["misses"] / seconds}
    moved = sum(sums.values())
    over_least = {"over_least": moved / least} if least else {}
    return sums | {"bytes": moved, "bytes_per_second": moved / seconds} | over_least


class StepTrace:
    """The trace of a run's first steps, which rank 0 writes to `path`. All methods are collective."""

    def __init__(self, path: str, context: Context, writes: LastWrites) -> None:
        """Prepare to trace from the second call of `step` on; `writes` notes a trace that cannot be written."""
        self.path, self._context, self._writes = path, context, writes
        self._calls = 0
        self._written = False

    def sample(self) -> None:
        """Note that a call of `step` is over."""
        self._calls += 1
        if self._calls == 1:
            self._context.comm.Barrier()
            self._origin = time.perf_counter()
            self._context.regions.timeline = Timeline()
        elif self._calls == 1 + CALLS:
            self.finish()

    def finish(self) -> None:
        """Write the trace unless that has been done."""
        if self._written:
            return
        self._written = True
        timeline, self._context.regions.timeline = self._context.regions.timeline, None
        spans = [] if timeline is None else timeline.spans()
        if self._calls < 2 and self._context.comm.rank == 0:
            log.warning(
                "the trace %s has no steps, because the run ended with its first call of step.", self.path
            )
        with self._writes.trying():
            write_trace(self.path, self._context.comm, spans, self._origin if spans else 0.0)


def write_trace(path: str, comm: MPI.Comm, spans: Sequence[Span], origin: float) -> None:
    """Write the spans of all ranks, in seconds since each rank's `origin`. Collective; rank 0 writes.

    Raises OutputError on all ranks.
    """
    gathered = comm.gather(trace_events(spans, comm.rank, origin))
    with errors_on_all_ranks(comm):
        if gathered is not None:
            events = [event for events_of_rank in gathered for event in events_of_rank]
            write_text(path, to_json({"traceEvents": events, "displayTimeUnit": "ms"}, None), "--trace")
