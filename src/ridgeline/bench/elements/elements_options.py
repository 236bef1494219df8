"""Benchmarks of spectral elements: Nekbone, and the health check before a large run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions, Scaling, ScalingFigures
from ridgeline.bench.shared_options import ComputeDevice, MachineOption
from ridgeline.config.size_law import CountPerRank
from ridgeline.runtime.declared_options import OptionSpec

LEAST_POINTS, MOST_POINTS = 2, 32


@dataclass(frozen=True)
class NekboneOptions(BenchmarkOptions):
    """Options of nekbone."""

    points: Annotated[
        tuple[int, ...],
        OptionSpec(
            "Points of an element in each direction.",
            minimum=LEAST_POINTS,
            maximum=MOST_POINTS,
            flags=("--nx1",),
        ),
    ] = (8, 10, 12, 16)
    elements: Annotated[int, OptionSpec("Elements of each rank; all form a brick.", minimum=1)] = 1000
    iterations: Annotated[int, OptionSpec("Iterations of conjugate gradients.", minimum=1)] = 100
    stream: Annotated[bool, OptionSpec("Measure STREAM, or the copy bandwidth of GPUs, in the same run.")] = (
        True
    )
    device: ComputeDevice = "cpu"


@dataclass(frozen=True)
class AcceptanceOptions(BenchmarkOptions):
    """Options of acceptance."""

    points: Annotated[
        int,
        OptionSpec(
            "Points of an element in each direction.",
            minimum=LEAST_POINTS,
            maximum=MOST_POINTS,
            flags=("--nx1",),
        ),
    ] = 16
    elements: Annotated[int, OptionSpec("Elements of each rank in the gather-scatter.", minimum=1)] = 64
    hpl: Annotated[
        int, OptionSpec("Unknowns of HPL, which each node solves alone; 0 leaves that row out.", minimum=0)
    ] = 4000
    least: Annotated[
        float,
        OptionSpec(
            "Leave out nodes with a rank below this fraction of the median, or of what the machine file says.",
            minimum=0.0,
            maximum=1.0,
        ),
    ] = 0.9
    machine: MachineOption = None
    leave_out: Annotated[
        str | None,
        OptionSpec(
            "Write the names of the nodes to leave out to this file, one on each line.",
            metavar="FILE",
            otherwise="no file",
        ),
    ] = None


def scaling_figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the figures that a study takes from a report of nekbone, one for each number of points per direction."""
    return [
        ScalingFigures(
            seconds=row["seconds"] / content["settings"]["iterations"],
            points=row["points"],
            labels={"nx1": row["nx1"]},
            flops=row["rate"],
            bytes=row["bandwidth"],
            fraction=row["fraction_of_stream"],
        )
        for row in content["rows"]
    ]


NEKBONE = Benchmark(
    name="nekbone",
    short="Time CG on spectral elements (Nekbone).",
    summary="Time conjugate gradients on spectral elements, with the problem, operations and metrics of Nekbone.",
    pattern="all ranks solve (A + 0.1) u = f on one brick of elements. Each iteration has a gather-scatter with "
    "neighbours and one allreduce of four numbers.",
    formula="MFlops = (12 nx1 + 34) operations x points x iterations / t; GB/s = 112 B x points x iterations / t, on "
    "GPUs with 20 B more for each copy of a point that elements share; MDOF it/s = points x iterations / t, the "
    "metric of CEED's BP5, in which shared points count once.",
    details="The counts are Nekbone's. t is the time of the slowest rank in one run, after a run to warm up. GPU "
    "kernels exist for nx1 = 2 to 16.",
    options=NekboneOptions,
    function="nekbone.measure_nekbone",
    scaling=Scaling(CountPerRank("elements"), "elements_options.scaling_figures"),
)
ACCEPTANCE = Benchmark(
    name="acceptance",
    short="Check each rank's health before a large run.",
    summary="Check the health of every rank before a large run: kernels, memory, allreduce and gather-scatter.",
    pattern="all ranks at the same time run tensor kernels in and out of cache, STREAM triad, allreduces of one "
    "number, and gather-scatters of one field; then each node solves a system with HPL.",
    formula="GFLOP/s = 6 nx1 operations x points / t; GB/s = 32 B x points / t, or 24 B x elements / t for STREAM; "
    "us = t of one call.",
    details="The figures are those of Hadri et al., Tables 2 to 4. A node is named, and written to --leave-out, if "
    "the rate of one of its ranks is below --least times the median of all ranks, or what the machine file says "
    "of STREAM. Allreduce and gather-scatter take as long as their slowest rank, so they are compared with that "
    "file but blame no node; `ridgeline validate` does.",
    options=AcceptanceOptions,
    function="acceptance.measure_acceptance",
    finish="acceptance.write_leave_out",
)
BENCHMARKS = (NEKBONE, ACCEPTANCE)
