"""The benchmark hpl: LU with partial pivoting of a dense random system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.runtime.options import OptionSpec


@dataclass(frozen=True)
class HplOptions(BenchmarkOptions):
    """Options of hpl."""

    n: Annotated[int, OptionSpec("Unknowns.", minimum=1)] = 8000
    nb: Annotated[int, OptionSpec("Columns of a block.", minimum=1)] = 256
    p: Annotated[
        int, OptionSpec("Rows of the process grid; 0: as near to a square as can be.", minimum=0)
    ] = 0
    q: Annotated[int, OptionSpec("Columns of the process grid; 0: ranks / rows.", minimum=0)] = 0
    threads: Annotated[int, OptionSpec("Threads of each rank.", minimum=1)] = 1
    order: Annotated[Literal["row", "column"], OptionSpec("How ranks are numbered in the process grid.")] = (
        "row"
    )
    broadcast: Annotated[
        Literal["fastest", "1ring", "1ringM", "2ring", "2ringM"],
        OptionSpec("How panels travel along rows of processes; fastest: as a trial says."),
    ] = "fastest"
    nbmin: Annotated[int, OptionSpec("Columns at which the recursion within a panel ends.", minimum=1)] = 8
    ndiv: Annotated[int, OptionSpec("Parts into which the recursion divides a panel.", minimum=2)] = 2
    threshold: Annotated[float, OptionSpec("Of the official test.", above=0)] = 16.0
    seed: Annotated[int, OptionSpec("Of the matrix; HPL's is 100.", minimum=0)] = 100
    dgemm: Annotated[bool, OptionSpec("Measure DGEMM in the same run.")] = True


BENCHMARKS = (
    Benchmark(
        name="hpl",
        summary="Solve a dense random system by LU with partial pivoting, by the rules of HPL 2.3.",
        pattern="a P x Q grid of ranks has the matrix in blocks: panels are factored by columns of ranks, broadcast "
        "along rows, and rows change places within columns.",
        formula="rate = (2/3 N^3 + 3/2 N^2) / (time of factorisation and substitution).",
        details="The exit code is 0 only if the official test passes: the scaled residual is below the threshold. "
        "The table is the performance over progress, some hundred lines at most.",
        options=HplOptions,
        function="measure.measure_hpl",
    ),
)
