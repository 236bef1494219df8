"""The benchmark of the all-to-all exchanges of a pseudo-spectral substep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions, Scaling, ScalingFigures
from ridgeline.bench.shared_options import Device
from ridgeline.config.size_law import GlobalGrid
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.errors import ConfigError


@dataclass(frozen=True)
class TransposeOptions(BenchmarkOptions):
    """Options of transpose. shape: (N_z, N_y, N_x)."""

    shape: Annotated[
        tuple[int, int, int],
        OptionSpec(
            "Number of grid points in each direction; each must be even.", minimum=1, metavar="N_Z N_Y N_X"
        ),
    ] = (128, 128, 128)
    dealias: Annotated[
        Literal["phase-shift", "two-thirds", "none"],
        OptionSpec("Dealiasing, which decides the modes that are retained."),
    ] = "phase-shift"
    lines: Annotated[
        Literal["retained", "full"],
        OptionSpec("Exchange only the lines with retained modes, or all lines as the paper does (full)."),
    ] = "retained"
    precision: Annotated[Literal["float32", "float64"], OptionSpec("Precision of the fields.")] = "float32"
    method: Annotated[
        Literal["auto", "alltoallv", "ialltoallv", "alltoall", "node"],
        OptionSpec("MPI call that exchanges the data; auto takes the fastest."),
    ] = "auto"
    batches: Annotated[
        tuple[int, ...],
        OptionSpec(
            "Number of variables in each MPI call (Q).", minimum=1, maximum=4, flags=("--variables", "-q")
        ),
    ] = (1, 2, 3, 4)
    process_grid: Annotated[
        tuple[int, int] | None,
        OptionSpec("Measure only this process grid.", minimum=1, metavar="P_R P_C", otherwise="all"),
    ] = None
    cycles: Annotated[int, OptionSpec("Number of timed substeps.", minimum=1)] = 5
    device: Device = "cpu"

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range, and for a method that does not exist for GPUs."""
        super().__post_init__()
        if self.device == "cuda" and self.method not in ("auto", "alltoallv"):
            raise ConfigError(
                f"--method {self.method} cannot be used with --device cuda. Use --method alltoallv, or --device cpu."
            )

    @property
    def dtype(self) -> str:
        """The type of the numbers that are exchanged."""
        return {"float32": "complex64", "float64": "complex128"}[self.precision]


DIRECTIONS = ("row", "column")


def scaling_figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the figures that a study takes, one for each process grid and Q; phases are the two exchanges."""
    return [
        ScalingFigures(
            seconds=row["seconds"],
            points=math.prod(content["settings"]["shape"]),
            labels={"process_grid": row["process_grid"].replace(" ", ""), "Q": row["batch"]},
            phases={name: row[f"{name}_seconds"] for name in DIRECTIONS if f"{name}_seconds" in row},
        )
        for row in content["rows"]
    ]


TRANSPOSE = Benchmark(
    name="transpose",
    short="Time the exchanges of a spectral step.",
    summary="Time only the all-to-all exchanges of a pseudo-spectral substep, for slabs and pencils.",
    pattern="3 variables are sent from modes to points through the column and the row exchange of a process grid. 5 "
    "products return through the row exchange, and 4 combinations of them through the column exchange.",
    formula="B/W = P2P x R / t for each rank, including the block that stays on it (Eq. 13 of Yeung et al.), with t "
    "of the slowest rank, the mean over the cycles.",
    details="With --device cuda, each exchange is timed with MPI_Alltoallv in two ways. GPU MPI sends from device "
    "memory to device memory, and is left out if the MPI library does not accept device memory. CPU total is the "
    "copy to the host, the exchange there, and the copy back. Before the cycles, all data that arrive are compared "
    "with the data that were sent.",
    options=TransposeOptions,
    function="transpose_result.measure_transposes",
    scaling=Scaling(GlobalGrid("shape", multiple=2), "transpose_options.scaling_figures"),
)
BENCHMARKS = (TRANSPOSE,)
