"""The timed laps of the ring."""

from time import perf_counter

import numpy as np
from mpi4py import MPI
from ridgeline.bench.ring.ring_options import RingOptions

from ridgeline.api import MICROSECONDS, SIZE, ConfigError, Phases, Plot, Result, check, content


def measure_ring(comm: MPI.Comm, options: RingOptions, progress: Phases) -> Result:
    """Time the hops of a message. Collective over comm, the same on all ranks.

    Raises ConfigError for one rank, VerificationError if the message comes back changed.
    """
    if comm.size < 2:
        raise ConfigError("ring requires at least 2 ranks. Start them with -n 2.")
    rows = []
    for size in options.sizes:
        progress.begin(f"{size} B")
        rows.append({"size": size, "seconds": time_of_hop(comm, size, options.laps)})
    return Result(
        benchmark="ring",
        pattern="one message around all ranks, from each to the next",
        formula="us = t / (laps x ranks)",
        statistic=f"the mean of {options.laps} laps",
        ranks=comm.size,
        columns=(SIZE, MICROSECONDS),
        rows=rows,
        settings={"laps": options.laps},
        plot=Plot("size", ("seconds",), x_label="B", y_label="us per hop", y_scale=1e-6),
    )


def time_of_hop(comm: MPI.Comm, size: int, laps: int) -> float:
    """Return the seconds that a message of `size` bytes takes from one rank to the next. Collective over comm."""
    message = content(size, 0, 0) if comm.rank == 0 else np.zeros(size, np.uint8)
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    comm.Barrier()
    start = perf_counter()
    for _ in range(laps):
        if comm.rank == 0:
            comm.Send(message, after)
            comm.Recv(message, before)
        else:
            comm.Recv(message, before)
            comm.Send(message, after)
    seconds = perf_counter() - start
    check(message, 0, 0)
    return float(comm.bcast(seconds)) / (laps * comm.size)
