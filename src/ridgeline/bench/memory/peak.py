"""Peak as a benchmark of its own: the rates of `limits.peak` as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ridgeline.bench.memory.memory_options import PeakOptions
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.limits.peak import DTYPES, Rates, best_total, chains, measure_peak_rates

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.parallel.payload import Memory

_COLUMNS = (
    Column("dtype", "numbers"),
    Column("threads", "threads"),
    Column("least", "min GFLOP/s", 1e9),
    Column("mean", "mean GFLOP/s", 1e9),
    Column("most", "max GFLOP/s", 1e9),
    Column("total", "all GFLOP/s", 1e9),
    Column("slowest_rank", "slowest rank"),
)


def measure_peak(comm: MPI.Comm, options: PeakOptions, memory: Memory = "host") -> Result:
    """Measure the rate of every rank, all at the same time. Collective over comm, the same result everywhere.

    memory: other than "host" for the GPU of every rank. A rank's figure is the best of its repeats; `total` is the
    sum over ranks in one repeat, the best of them. Raises ConfigError for an argument out of range,
    VerificationError on all ranks if one computed wrongly.
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
        statistic=f"best of {repeats} repeats of {seconds:g} s by rank; all: best sum of one repeat",
        ranks=comm.size,
        columns=_COLUMNS,
        rows=[{"dtype": dtype, "threads": threads} | _figures(found) for dtype, found in rates.items()],
        settings={"threads": threads, "seconds": seconds, "repeats": repeats, "memory": memory},
        extra={
            "by_rank": {dtype: found.max(axis=1).tolist() for dtype, found in rates.items()},
            "by_repeat": {dtype: found.tolist() for dtype, found in rates.items()},
        },
        plot=Plot("dtype", ("mean",), kind="bars", y_label="GFLOP/s of a rank", y_scale=1e9),
    )


def _figures(rates: Rates) -> dict[str, Any]:
    """Return the figures of rates [rank, repeat]: of the best of each rank, and of all together."""
    best = rates.max(axis=1)
    return {
        "least": float(best.min()),
        "mean": float(best.mean()),
        "most": float(best.max()),
        "total": best_total(rates),
        "slowest_rank": int(best.argmin()),
    }
