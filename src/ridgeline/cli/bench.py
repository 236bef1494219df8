"""`ridgeline bench`: what the machine does on the patterns of the models, without the models."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ridgeline.cli import (
    bench_collectives,
    bench_congestion,
    bench_hpcg,
    bench_hpcg_scaling,
    bench_language,
    bench_node,
    bench_one_sided,
    bench_point_to_point,
    bench_tasking,
)
from ridgeline.cli.bench_options import Debug, Json
from ridgeline.cli.options import Ranks

bench = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@bench.callback()
def group() -> None:
    """Measure this machine: its parts alone, and on the patterns of the models."""


@bench.command()
def transpose(
    ranks: Ranks = None,
    shape: Annotated[
        tuple[int, int, int], typer.Option(metavar="N_Z N_Y N_X", help="Grid points, even numbers.")
    ] = (128, 128, 128),
    dealias: Annotated[
        Literal["phase-shift", "two-thirds", "none"], typer.Option(help="Which modes are retained.")
    ] = "phase-shift",
    lines: Annotated[
        Literal["retained", "full"], typer.Option(help="Move lines with retained modes, or all as the paper.")
    ] = "retained",
    precision: Annotated[Literal["float32", "float64"], typer.Option(help="Of the fields.")] = "float32",
    method: Annotated[
        Literal["auto", "alltoallv", "ialltoallv", "alltoall", "node"],
        typer.Option(help="How messages travel; auto takes the fastest."),
    ] = "auto",
    batches: Annotated[
        list[int] | None,
        typer.Option(
            "-q",
            "--variables",
            min=1,
            max=4,
            help="Q, variables per call (default: 1 to 4); may be repeated.",
        ),
    ] = None,
    process_grid: Annotated[
        tuple[int, int] | None, typer.Option(metavar="P_R P_C", help="Only this process grid (default: all).")
    ] = None,
    cycles: Annotated[int, typer.Option(min=1, help="Timed substeps.")] = 5,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Time the all-to-all exchanges of a turbulence substep alone, for slabs and pencils."""
    from ridgeline.bench.benchmark import run_transposes
    from ridgeline.parallel.job import start_ranks

    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    pattern = {
        "shape": shape,
        "dealias": dealias,
        "lines": lines,
        "dtype": {"float32": "complex64", "float64": "complex128"}[precision],
        "method": method,
        "cycles": cycles,
    }
    run_transposes(pattern, [process_grid] if process_grid else None, batches or [1, 2, 3, 4], json, debug)


@bench.command()
def nekbone(
    ranks: Ranks = None,
    points: Annotated[
        list[int] | None,
        typer.Option(
            "--nx1", min=2, max=32, help="Points per direction (default: 8 10 12 16); may be repeated."
        ),
    ] = None,
    elements: Annotated[int, typer.Option(min=1, help="Elements per rank, in a brick.")] = 1000,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of conjugate gradients.")] = 100,
    stream: Annotated[bool, typer.Option(help="Measure STREAM in the same run.")] = True,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Time conjugate gradients on spectral elements: Nekbone's problem, operations and figures."""
    from ridgeline.bench.benchmark import run_nekbone
    from ridgeline.parallel.job import start_ranks

    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    run_nekbone(points or [8, 10, 12, 16], elements, iterations, stream, json, debug)


@bench.command()
def acceptance(
    ranks: Ranks = None,
    points: Annotated[int, typer.Option("--nx1", min=2, max=32, help="Points per direction.")] = 16,
    elements: Annotated[int, typer.Option(min=1, help="Elements per rank of the gather-scatter.")] = 64,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Check the health of every rank before a large run: kernels, memory, Allreduce, gather-scatter."""
    from ridgeline.bench.benchmark import run_acceptance
    from ridgeline.parallel.job import start_ranks

    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    run_acceptance(points, elements, json, debug)


bench_collectives.register(bench)
bench_congestion.register(bench)
bench_hpcg.register(bench)
bench_hpcg_scaling.register(bench)
bench_language.register(bench)
bench_node.register(bench)
bench_one_sided.register(bench)
bench_point_to_point.register(bench)
bench_tasking.register(bench)
