"""STREAM as a benchmark of its own: the rates of `limits.stream` as a table, or the copy bandwidth of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.bench.memory.memory_options import StreamOptions
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.limits.stream import KERNELS, WORDS, StreamLimits, measure_stream

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.parallel.payload import Memory

_PATTERN = (
    "copy c = a, scale b = s c, add c = a + b, triad a = b + s c, dot product (reads only), all ranks at the "
    "same time"
)
_GPU_PATTERN = "copy c = a in the memory of the GPU of every rank, all ranks at the same time"
_RATE = Column("rate", "all GB/s", 1e9)
_PER_THREAD = Column("rate_per_thread", "a thread GB/s", 1e9)
_PLOT = Plot("kernel", ("rate",), ("stores",), kind="bars", y_label="GB/s", y_scale=1e9)


def measure_rates(comm: MPI.Comm, options: StreamOptions, memory: Memory = "host") -> Result:
    """Measure the memory bandwidth of all ranks together. Collective over comm, the same result everywhere.

    memory: on a GPU the copy bandwidth of device_copy.py, for which the other options do not count. Raises
    ConfigError for an option out of range, RuntimeError if the arrays end wrong.
    """
    if memory != "host":
        return _of_gpus(comm)
    limits = measure_stream(comm, options.threads, np.dtype(options.dtype), options.n_bytes, options.repeats)
    return to_result(limits)


def to_result(limits: StreamLimits) -> Result:
    """Return the rates of STREAM as a table: one line a kernel and kind of store."""
    rows: list[dict[str, Any]] = []
    for stores in ("ordinary", "streaming"):
        for kernel in KERNELS:
            rows.append(
                {"kernel": kernel, "stores": stores, "rate": getattr(getattr(limits, stores), kernel)}
            )
    rows.append({"kernel": "dot", "stores": None, "rate": limits.read})
    workers = limits.ranks * limits.threads
    words = WORDS | {"dot": WORDS["read"]}
    for row in rows:
        row |= {"words": words[row["kernel"]], "rate_per_thread": row["rate"] / workers}
    settings = limits.to_dict()
    for figures in ("ordinary", "streaming", "read"):
        del settings[figures]
    notes = [
        f"{limits.ranks} x {limits.threads} threads, {limits.dtype}; an array has "
        f"{limits.bytes_per_array / 2**20:.1f} MiB a rank, {limits.times_caches:.1f} times the last-level caches of "
        f"a node with {limits.ranks_per_node} ranks"
    ]
    if limits.times_caches < 4:
        notes.append(
            "STREAM wants arrays of 4 times the caches or more: part of this is the bandwidth of caches"
        )
    return Result(
        benchmark="stream",
        pattern=_PATTERN,
        formula="words x bytes of a number x elements of all ranks / t of the slowest rank; 2 words for copy, scale "
        "and dot, 3 for add and triad; what an ordinary store reads first is not counted",
        statistic=f"best of {limits.repeats} repeats",
        ranks=limits.ranks,
        columns=(
            Column("kernel", "kernel"),
            Column("stores", "stores"),
            Column("words", "words"),
            _RATE,
            _PER_THREAD,
        ),
        rows=rows,
        settings=settings,
        notes=notes,
        plot=_PLOT,
    )


def _of_gpus(comm: MPI.Comm) -> Result:
    """Measure the copy bandwidth of the GPU of every rank. Collective."""
    from ridgeline.limits.limits_cuda import measure_device_copy  # numba-cuda is only needed here

    comm.Barrier()
    rates = comm.allgather(measure_device_copy())
    row = {
        "kernel": "copy",
        "least": min(rates),
        "mean": sum(rates) / comm.size,
        "most": max(rates),
        "rate": sum(rates),
        "slowest_rank": rates.index(min(rates)),
    }
    return Result(
        benchmark="stream",
        pattern=_GPU_PATTERN,
        formula="2 words x 8 B x elements / t",
        statistic="better of the driver's copy and our kernel's, best of their rounds; min, mean and max over ranks",
        ranks=comm.size,
        columns=(
            Column("kernel", "kernel"),
            Column("least", "min GB/s", 1e9),
            Column("mean", "mean GB/s", 1e9),
            Column("most", "max GB/s", 1e9),
            _RATE,
            Column("slowest_rank", "slowest rank"),
        ),
        rows=[row],
        verified=False,
        settings={"dtype": "float64"},
        extra={"by_rank": rates},
        notes=["the sum counts a GPU once for every rank on it"],
        plot=_PLOT,
    )
