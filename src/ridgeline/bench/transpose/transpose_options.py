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
        tuple[int, int, int], OptionSpec("Grid points, even numbers.", minimum=1, metavar="N_Z N_Y N_X")
    ] = (128, 128, 128)
    dealias: Annotated[
        Literal["phase-shift", "two-thirds", "none"], OptionSpec("Which modes are retained.")
    ] = "phase-shift"
    lines: Annotated[
        Literal["retained", "full"], OptionSpec("Move lines with retained modes, or all as the paper.")
    ] = "retained"
    precision: Annotated[Literal["float32", "float64"], OptionSpec("Of the fields.")] = "float32"
    method: Annotated[
        Literal["auto", "alltoallv", "ialltoallv", "alltoall", "node"],
        OptionSpec("How messages travel; auto takes the fastest."),
    ] = "auto"
    batches: Annotated[
        tuple[int, ...],
        OptionSpec("Q, variables per call.", minimum=1, maximum=4, flags=("--variables", "-q")),
    ] = (1, 2, 3, 4)
    process_grid: Annotated[
        tuple[int, int] | None,
        OptionSpec("Only this process grid.", minimum=1, metavar="P_R P_C", otherwise="all"),
    ] = None
    cycles: Annotated[int, OptionSpec("Timed substeps.", minimum=1)] = 5
    device: Device = "cpu"

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range, and for a method that does not exist for GPUs."""
        super().__post_init__()
        if self.device == "cuda" and self.method not in ("auto", "alltoallv"):
            raise ConfigError(
                f"--method {self.method} moves no data of GPUs; use --method alltoallv with --device cuda, "
                f"or --device cpu"
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
    short="Time the exchanges of a turbulence step.",
    summary="Time the all-to-all exchanges of a pseudo-spectral substep alone, for slabs and pencils.",
    pattern="3 variables go from modes to points through the column and the row exchange of a process grid, 5 "
    "products come back through the row exchange, 4 combinations of them through the column exchange.",
    formula="B/W = P2P x R / t per rank, own block included (Eq. 13 of Yeung et al.); t of the slowest rank, "
    "mean of the cycles.",
    details="With --device cuda, each exchange is timed by MPI_Alltoallv in two ways. GPU MPI goes from device "
    "memory to device memory; it is left out where MPI takes none. CPU total is the copy to the host, MPI there, "
    "and the copy back. All that arrives is compared with what was sent, before the cycles.",
    options=TransposeOptions,
    function="transpose_result.measure_transposes",
    scaling=Scaling(GlobalGrid("shape", multiple=2), "transpose_options.scaling_figures"),
)
BENCHMARKS = (TRANSPOSE,)
