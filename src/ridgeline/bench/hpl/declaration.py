"""The benchmark hpl: LU with partial pivoting of a dense random system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark
from ridgeline.bench.hpl.scaling import SystemOrder
from ridgeline.bench.hpl.system_options import AUTO, SystemOptions
from ridgeline.bench.scaling import Scaling
from ridgeline.bench.shared_options import ComputeDevice
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.options import OptionSpec


@dataclass(frozen=True)
class HplOptions(SystemOptions):
    """Options of hpl."""

    numbering: Annotated[
        Literal["row", "column"], OptionSpec("How ranks are numbered in the process grid.")
    ] = "row"
    broadcast: Annotated[
        Literal["fastest", "1ring", "1ringM", "2ring", "2ringM", "long", "longM"],
        OptionSpec("How panels travel along rows of processes; fastest: as a trial says."),
    ] = "fastest"
    nbmin: Annotated[int, OptionSpec("Columns at which the recursion within a panel ends.", minimum=1)] = 8
    ndiv: Annotated[int, OptionSpec("Parts into which the recursion divides a panel.", minimum=2)] = 2
    threshold: Annotated[float, OptionSpec("Of the official test.", above=0)] = 16.0
    seed: Annotated[int, OptionSpec("Of the matrix; HPL's is 100.", minimum=0)] = 100
    device: ComputeDevice = "cpu"
    dgemm: Annotated[bool, OptionSpec("Measure DGEMM in the same run.")] = True
    dat: Annotated[
        str | None,
        OptionSpec("Take all tests of a file as HPL.dat, in place of N, NB, P and Q.", metavar="FILE"),
    ] = None

    def __post_init__(self) -> None:
        """Check the range of every value, and that a file is not contradicted."""
        super().__post_init__()
        given = {"--order": self.n != "8000", "--nb": self.nb != AUTO, "--p": self.p != 0, "--q": self.q != 0}
        if self.dat is not None and any(given.values()):
            flag = next(name for name, there in given.items() if there)
            raise ConfigError(
                f"{flag} goes not with --dat, which names sizes and grids; leave one of them out"
            )


BENCHMARKS = (
    Benchmark(
        name="hpl",
        summary="Solve a dense random system by LU with partial pivoting, by the rules of HPL 2.3.",
        pattern="a P x Q grid of ranks has the matrix in blocks: panels are factored by columns of ranks, broadcast "
        "along rows, and rows change places within columns.",
        formula="rate = (2/3 N^3 + 3/2 N^2) / (time of factorisation and substitution).",
        details="The exit code is 0 only if the official test passes: the scaled residual is below the threshold. "
        "The table is the performance over progress, and the lines of HPL 2.3 follow it. With --device cuda the "
        "matrix lies on GPUs, which multiply by cuBLAS; hosts factor the panels, on --threads. More in docs/hpl.md.",
        options=HplOptions,
        function="measure.measure_hpl",
        finish="result_lines.write_lines",
        scaling=Scaling(SystemOrder(), "scaling.figures"),
    ),
)
