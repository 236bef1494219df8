"""Each node alone: memory, arithmetic, rates, and messages between its own ranks.

All ranks of a node work at the same time, as in a run. Of rates that belong to a core the slowest rank's counts,
since it sets the pace of the others. Bandwidth of memory is shared, so that the sum over ranks counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import numpy as np

from ridgeline.runtime.memory import memory_available
from ridgeline.validate.measure.session import Session

_MEMORY = (32 * 2**20, 4 * 2**30)  # bytes a rank, quick and not, at most a quarter of what is free
_MEMORY_SECONDS = (0.5, 20.0)
_COMPUTE_SECONDS = (0.15, 1.0)  # of a repeat
_PEAK_SECONDS = (0.05, 0.2)
_STREAM = (48 * 2**20, 768 * 2**20)  # bytes of the three arrays of a rank
_STREAM_CALLS = 4  # of a repeat


def prepare(session: Session, stages: Collection[str]) -> None:
    """Compile what these stages measure, one rank of each node first. Collective."""
    from ridgeline.parallel.communicator import in_turn_per_node

    in_turn_per_node(session.comm, lambda: _compile(stages))


def _compile(stages: Collection[str]) -> None:
    if "compute" in stages:
        from ridgeline.bench.memory.compute_check import compile_checks

        compile_checks()
    if "memory" in stages:
        from ridgeline.bench.memory.memory_check import check_memory

        check_memory(4096)
    if "peak" in stages:
        from ridgeline.limits.peak import MultiplyAdds

        MultiplyAdds(np.float64, 1)
    if "stream" in stages:
        from ridgeline.limits.stream import compile_stream

        compile_stream()


def memory(session: Session) -> None:
    """Write and read back patterns; words that differ are errors of the node. Collective."""
    from ridgeline.bench.memory.memory_check import check_memory
    from ridgeline.runtime.errors import VerificationError

    quick = session.plan.quick
    n_bytes = min(_MEMORY[not quick], memory_available() // (4 * session.node_comm.size))

    def once() -> None:
        found = check_memory(max(n_bytes, 4096), _MEMORY_SECONDS[not quick])
        if found.n_errors:
            raise VerificationError(f"{found.n_errors} words of memory are wrong: {found.detail}")

    session.on_nodes(lambda: once, 1)


def compute(session: Session) -> None:
    """Compute what is known bit for bit: the rate, and the share of its core that each rank got. Collective."""
    from ridgeline.bench.memory.compute_check import check_compute
    from ridgeline.runtime.errors import VerificationError

    def once() -> tuple[float, float]:
        found = check_compute(_COMPUTE_SECONDS[not session.plan.quick])
        if not found.correct:
            raise VerificationError(f"this core computes wrongly: {found.detail}")
        return found.rate, found.cpu_share

    found = session.on_nodes(lambda: once, session.plan.repeats)
    for column, (name, unit) in enumerate((("compute", "operations/s"), ("cpu_share", "1"))):
        values = [None if rows is None else [row[column] for row in rows] for rows in found]
        session.store_by_rank(name, unit, True, values, np.min)


def peak(session: Session) -> None:
    """Measure the rate of fused multiply-adds of every rank. Collective."""
    from ridgeline.limits.peak import measure_peak_here

    seconds = _PEAK_SECONDS[not session.plan.quick]
    found = session.on_nodes(lambda: lambda: measure_peak_here(seconds), session.plan.repeats)
    session.store_by_rank("peak", "FLOP/s", True, found, np.min)


def stream(session: Session) -> None:
    """Measure STREAM triad of all ranks of a node together. Collective."""
    from ridgeline.limits.stream import StreamArrays

    n_bytes = min(_STREAM[not session.plan.quick], memory_available() // (4 * session.node_comm.size))

    def setup() -> Callable[[], float]:
        arrays = StreamArrays(n_bytes, 1)
        arrays.run("triad")

        def triad() -> float:
            start = time.perf_counter()
            for _ in range(_STREAM_CALLS):
                arrays.run("triad")
            return _STREAM_CALLS * arrays.bytes_moved("triad") / (time.perf_counter() - start)

        return triad

    found = session.on_nodes(setup, session.plan.repeats)
    session.store_by_rank("stream", "B/s", True, found, np.sum)
