"""Nekbone as a benchmark of its own: a run for each number of points per direction, STREAM beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.bench.elements.elements_options import NekboneOptions
from ridgeline.bench.elements.nekbone import NekboneFigures, run_nekbone
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.elements.one_pass import WORDS
from ridgeline.limits.stream import StreamLimits, measure_stream
from ridgeline.runtime.progress import Phases, silent

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.parallel.payload import Memory

_MFLOPS = 1e6
COLUMNS = (
    Column("nx1", "nx1"),
    Column("elements_per_rank", "nelt"),
    Column("ranks", "np"),
    Column("brick", "brick"),
    Column("rate", "Tot MFlops", _MFLOPS, ".4e"),
    Column("rate_per_rank", "MFlops", _MFLOPS, ".4e"),
    Column("seconds", "Solve Time", form=".4e"),
    Column("unknowns_rate", "MDOF it/s", 1e6, ".1f"),
    Column("bandwidth", "GB/s", 1e9, ".1f"),
    Column("fraction_of_stream", "of STREAM"),
    Column("first_residual", "cg: first", form=".4e"),
    Column("last_residual", "last", form=".4e"),
)
GPU_COLUMNS = tuple(
    Column("fraction_of_copy", "of device copy") if column.key == "fraction_of_stream" else column
    for column in COLUMNS
)


@dataclass(frozen=True)
class DeviceCopies:
    """Bandwidth at which the GPU of each rank copies its own memory, in B/s; all at the same time."""

    by_rank: list[float]

    def share(self, bandwidth: float) -> float:
        """Return the share of the sum over ranks that a bandwidth in B/s is."""
        return bandwidth / sum(self.by_rank)


def measure_nekbone(
    comm: MPI.Comm, options: NekboneOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Run Nekbone for each number of points per direction. Collective over comm, the same on all ranks.

    memory: "host" for the cores of each rank; else for its GPU, and how messages leave it.
    extra["residuals"]: of every iteration, by nx1. Raises ConfigError for too little memory, DecompositionError for
    too few elements, DeviceError for too little memory of the GPU or no kernel.
    """
    progress = progress or silent()
    figures = [
        run_nekbone(comm, n, options.elements, options.iterations, memory, progress) for n in options.points
    ]
    limits: StreamLimits | DeviceCopies | None = None
    if options.stream:
        progress.begin("bandwidth of memory")
        limits = measure_stream(comm, 1) if memory == "host" else _measure_copies(comm)
    return to_result(figures, limits, memory)


def _measure_copies(comm: MPI.Comm) -> DeviceCopies:
    from ridgeline.limits.device.copy_cuda import measure_device_copy  # numba-cuda is only needed here

    comm.Barrier()
    return DeviceCopies(comm.allgather(measure_device_copy()))


def to_result(
    figures: Sequence[NekboneFigures], limits: StreamLimits | DeviceCopies | None, memory: Memory = "host"
) -> Result:
    """Return what Nekbone prints for each nx1, and the counted bytes beside STREAM or the copies of GPUs."""
    first = figures[0]
    average = sum(figure.rate for figure in figures) / len(figures)
    notes = [f"Avg MFlops = {average / _MFLOPS:.4e}"]
    if isinstance(limits, StreamLimits):
        notes[0] += f"; STREAM {limits.best / 1e9:.1f} GB/s ({limits.best_name})"
    elif limits is not None:
        notes[0] += f"; the GPUs copy {sum(limits.by_rank) / 1e9:.1f} GB/s, a GPU once for every rank on it"
    bytes_counted = f"{8 * WORDS} likewise"
    if memory != "host":
        bytes_counted += ", 20 per copy of a point that elements share"
        way = "GPU-aware MPI" if memory == "cuda" else "pinned host memory"
        notes.append(f"on {first.device}" + f", messages through {way}" * (first.ranks > 1))
    return Result(
        benchmark="nekbone",
        pattern="conjugate gradients on a brick of spectral elements, a gather-scatter and an Allreduce per "
        "iteration",
        formula=f"operations: 12 nx1 + 34 per point and iteration; bytes: {bytes_counted}; over t",
        statistic=f"slowest rank, one run of {first.iterations} iterations after one to warm up",
        ranks=first.ranks,
        columns=COLUMNS if memory == "host" else GPU_COLUMNS,
        rows=[_row(figure, limits) for figure in figures],
        settings={"iterations": first.iterations, "elements": first.elements, "memory": memory},
        extra={
            "average_rate": average,
            "stream": limits.to_dict() if isinstance(limits, StreamLimits) else None,
            "device_copies": limits.by_rank if isinstance(limits, DeviceCopies) else None,
            "residuals": {str(figure.nx1): figure.residuals for figure in figures},
        },
        notes=notes,
        plot=Plot("nx1", ("rate",), x_label="nx1", y_label="GFLOP/s of all ranks", y_scale=1e9, log_x=False),
    )


def _row(figure: NekboneFigures, limits: StreamLimits | DeviceCopies | None) -> dict[str, Any]:
    share = None if limits is None else limits.share(figure.bandwidth)
    return {
        "nx1": figure.nx1,
        "elements": figure.elements,
        "elements_per_rank": figure.elements // figure.ranks,
        "ranks": figure.ranks,
        "brick": " x ".join(map(str, figure.brick)),
        "device": figure.device,
        "points": figure.points,
        "unique_points": figure.unique,
        "flops": figure.flops,
        "bytes": figure.bytes,
        "rate": figure.rate,
        "rate_per_rank": figure.rate / figure.ranks,
        "seconds": figure.seconds,
        "unknowns_rate": figure.unknowns_rate,
        "bandwidth": figure.bandwidth,
        "fraction_of_stream": None if isinstance(limits, DeviceCopies) else share,
        "fraction_of_copy": share if isinstance(limits, DeviceCopies) else None,
        "first_residual": figure.residuals[0],
        "last_residual": figure.residuals[-1],
    }
