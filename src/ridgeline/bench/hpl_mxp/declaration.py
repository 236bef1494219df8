"""The benchmark hpl-mxp: a dense system in low precision, refined to 64-bit accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.bench.benchmark import Benchmark
from ridgeline.bench.hpl.scaling import SystemOrder
from ridgeline.bench.hpl.system_options import SystemOptions
from ridgeline.bench.scaling import Scaling
from ridgeline.bench.shared_options import ComputeDevice
from ridgeline.runtime.options import OptionSpec


@dataclass(frozen=True)
class HplMxpOptions(SystemOptions):
    """Options of hpl-mxp."""

    storage: Annotated[
        Literal["float32", "float16", "bfloat16"],
        OptionSpec("To what the factors are rounded; on CPUs the shorter ones are emulated, not faster."),
    ] = "float32"
    testing: Annotated[
        bool, OptionSpec("Take a strictly diagonally dominant matrix, which the rules allow for tests alone.")
    ] = False
    device: ComputeDevice = "cpu"


BENCHMARKS = (
    Benchmark(
        name="hpl-mxp",
        summary="Solve a dense system by LU in low precision and refine it to 64-bit accuracy: HPL-MxP.",
        pattern="a P x Q grid of ranks has the matrix in blocks: panels are broadcast along rows and columns, "
        "without pivoting; GMRES in float64, preconditioned by the factors, refines the solution.",
        formula="rate = (2/3 N^3 + 3/2 N^2) / (time of factorisation + first solve + refinement).",
        details="The rules are those since June 2025. The exit code is 0 only if the scaled backward error is at "
        "most 16 after at most 50 iterations. With --device cuda the matrix lies on GPUs, which multiply by cuBLAS; "
        "hosts factor the diagonal blocks. More in docs/hpl.md.",
        options=HplMxpOptions,
        function="measure.measure_hpl_mxp",
        scaling=Scaling(SystemOrder(), "scaling.figures"),
    ),
)
