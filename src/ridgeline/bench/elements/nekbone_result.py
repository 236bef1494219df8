"""Nekbone as a benchmark of its own: a run for each number of points per direction, STREAM beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.bench.elements.declaration import NekboneOptions
from ridgeline.bench.elements.nekbone import WORDS, NekboneFigures, run_nekbone
from ridgeline.bench.memory.stream import StreamLimits, measure_stream
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.runtime.progress import Phases, silent

if TYPE_CHECKING:
    from mpi4py import MPI

_MFLOPS = 1e6
COLUMNS = (
    Column("nx1", "nx1"),
    Column("elements_per_rank", "nelt"),
    Column("ranks", "np"),
    Column("brick", "brick"),
    Column("rate", "Tot MFlops", _MFLOPS, ".4e"),
    Column("rate_per_rank", "MFlops", _MFLOPS, ".4e"),
    Column("seconds", "Solve Time", form=".4e"),
    Column("bandwidth", "GB/s", 1e9, ".1f"),
    Column("fraction_of_stream", "of STREAM"),
    Column("first_residual", "cg: first", form=".4e"),
    Column("last_residual", "last", form=".4e"),
)


def measure_nekbone(comm: MPI.Comm, options: NekboneOptions, progress: Phases | None = None) -> Result:
    """Run Nekbone for each number of points per direction. Collective over comm, the same on all ranks.

    extra["residuals"]: of every iteration, by nx1. Raises ConfigError for too little memory, DecompositionError for
    too few elements.
    """
    progress = progress or silent()
    figures = [run_nekbone(comm, n, options.elements, options.iterations, progress) for n in options.points]
    limits = None
    if options.stream:
        progress.begin("bandwidth of memory")
        limits = measure_stream(comm, 1)
    return to_result(figures, limits)


def to_result(figures: Sequence[NekboneFigures], limits: StreamLimits | None) -> Result:
    """Return what Nekbone prints for each nx1, and the counted bytes beside STREAM."""
    first = figures[0]
    average = sum(figure.rate for figure in figures) / len(figures)
    notes = [f"Avg MFlops = {average / _MFLOPS:.4e}"]
    if limits is not None:
        notes[0] += f"; STREAM {limits.best / 1e9:.1f} GB/s ({limits.best_name})"
    return Result(
        benchmark="nekbone",
        pattern="conjugate gradients on a brick of spectral elements, a gather-scatter and an Allreduce per "
        "iteration",
        formula=f"operations: 12 nx1 + 34 per point and iteration; bytes: {8 * WORDS} likewise; over t",
        statistic=f"slowest rank, one run of {first.iterations} iterations after one to warm up",
        ranks=first.ranks,
        columns=COLUMNS,
        rows=[_row(figure, limits) for figure in figures],
        settings={"iterations": first.iterations, "elements": first.elements},
        extra={
            "average_rate": average,
            "stream": None if limits is None else limits.to_dict(),
            "residuals": {str(figure.nx1): figure.residuals for figure in figures},
        },
        notes=notes,
        plot=Plot("nx1", ("rate",), x_label="nx1", y_label="GFLOP/s of all ranks", y_scale=1e9, log_x=False),
    )


def _row(figure: NekboneFigures, limits: StreamLimits | None) -> dict[str, Any]:
    return {
        "nx1": figure.nx1,
        "elements": figure.elements,
        "elements_per_rank": figure.elements // figure.ranks,
        "ranks": figure.ranks,
        "brick": " x ".join(map(str, figure.brick)),
        "points": figure.points,
        "flops": figure.flops,
        "bytes": figure.bytes,
        "rate": figure.rate,
        "rate_per_rank": figure.rate / figure.ranks,
        "seconds": figure.seconds,
        "bandwidth": figure.bandwidth,
        "fraction_of_stream": None if limits is None else limits.share(figure.bandwidth),
        "first_residual": figure.residuals[0],
        "last_residual": figure.residuals[-1],
    }
