"""STREAM and the peak rate as benchmarks: the limits that ridgeline.limits measures, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.bench.memory.memory_options import PeakOptions, StreamOptions
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.limits.peak import DTYPES, Rates, best_total, chains, measure_peak_rates
from ridgeline.limits.stream import KERNELS, WORDS, StreamLimits, measure_stream

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.parallel.payload import Memory


_STREAM_PATTERN = (
    "copy c = a, scale b = s c, add c = a + b, triad a = b + s c and dot product (reads only) on all ranks at the "
    "same time"
)
_COPY_PATTERN = "copy c = a in the memory of each rank's GPU, on all ranks at the same time"
_RATE = Column("rate", "all GB/s", 1e9)
_PER_THREAD = Column("rate_per_thread", "GB/s per thread", 1e9)
_PLOT = Plot("kernel", ("rate",), ("stores",), kind="bars", y_label="GB/s", y_scale=1e9)
_PEAK_COLUMNS = (
    Column("dtype", "numbers"),
    Column("threads", "threads"),
    Column("least", "min GFLOP/s", 1e9),
    Column("mean", "mean GFLOP/s", 1e9),
    Column("most", "max GFLOP/s", 1e9),
    Column("total", "all GFLOP/s", 1e9),
    Column("slowest_rank", "slowest rank"),
)


def measure_rates(comm: MPI.Comm, options: StreamOptions, memory: Memory = "host") -> Result:
    """Measure the memory bandwidth of all ranks together, the same on all ranks. Collective over comm.

    With GPU memory this is the copy bandwidth of the GPUs (limits/limits_cuda.py), which has no options. Raises
    ConfigError for an option out of range, and RuntimeError if the arrays end with wrong values.
    """
    if memory != "host":
        return _measure_copies(comm)
    limits = measure_stream(comm, options.threads, np.dtype(options.dtype), options.n_bytes, options.repeats)
    return to_result(limits)


def to_result(limits: StreamLimits) -> Result:
    """Return the rates of STREAM as a table, with one row for each kernel and kind of store."""
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
        f"{limits.ranks} x {limits.threads} threads, {limits.dtype}. An array has "
        f"{limits.bytes_per_array / 2**20:.1f} MiB per rank, which is {limits.times_caches:.1f} times the last-level "
        f"caches of a node with {limits.ranks_per_node} ranks."
    ]
    if limits.times_caches < 4:
        notes.append(
            "Part of this is the bandwidth of the caches, because STREAM requires arrays of at least 4 times their "
            "size."
        )
    return Result(
        benchmark="stream",
        pattern=_STREAM_PATTERN,
        formula="words x bytes of a number x elements of all ranks / t of the slowest rank, with 2 words for copy, "
        "scale and dot and 3 for add and triad; the data that an ordinary store reads first are not counted",
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


def _measure_copies(comm: MPI.Comm) -> Result:
    """Measure the copy bandwidth of the GPU of every rank. Collective."""
    # Only this needs numba-cuda.
    from ridgeline.limits.limits_cuda import measure_device_copy

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
        pattern=_COPY_PATTERN,
        formula="2 words x 8 B x elements / t",
        statistic="the faster of the driver's copy and our kernel's, each the best of its rounds; min, mean and max "
        "over ranks",
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
        notes=["The sum counts a GPU once for every rank on it."],
        plot=_PLOT,
    )


def measure_peak(comm: MPI.Comm, options: PeakOptions, memory: Memory = "host") -> Result:
    """Measure the peak rate of all ranks at the same time, the same on all ranks. Collective over comm.

    With GPU memory it is that of each rank's GPU. A rank's figure is the best of its repeats; the total is the best
    sum over ranks in one repeat. Raises ConfigError for an option out of range, and VerificationError on all ranks if
    one of them computed wrongly.
    """
    threads, seconds, repeats = options.threads, options.seconds, options.repeats
    dtypes = DTYPES if options.dtype == "both" else (options.dtype,)
    device = "cpu" if memory == "host" else "cuda"
    rates = measure_peak_rates(comm, threads, seconds, repeats, dtypes, device)
    formula = "2 x chains x steps x threads of the GPU / t"
    if device == "cpu":
        formula = f"2 x {chains()} chains x lanes x steps x threads / t"
    return Result(
        benchmark="peak",
        pattern="every rank runs chains of fused multiply-adds in registers, all at the same time",
        formula=formula,
        statistic=f"best of {repeats} repeats of {seconds:g} s on each rank; all: the best sum over ranks in one "
        "repeat",
        ranks=comm.size,
        columns=_PEAK_COLUMNS,
        rows=[{"dtype": dtype, "threads": threads} | _figures(rate) for dtype, rate in rates.items()],
        settings={"threads": threads, "seconds": seconds, "repeats": repeats, "memory": memory},
        extra={
            "by_rank": {dtype: rate.max(axis=1).tolist() for dtype, rate in rates.items()},
            "by_repeat": {dtype: rate.tolist() for dtype, rate in rates.items()},
        },
        plot=Plot("dtype", ("mean",), kind="bars", y_label="GFLOP/s of a rank", y_scale=1e9),
    )


def _figures(rates: Rates) -> dict[str, Any]:
    """Return the figures of rates [rank, repeat]: of the best repeat of each rank, and of all ranks together."""
    best = rates.max(axis=1)
    return {
        "least": float(best.min()),
        "mean": float(best.mean()),
        "most": float(best.max()),
        "total": best_total(rates),
        "slowest_rank": int(best.argmin()),
    }
