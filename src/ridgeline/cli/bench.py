"""`ridgeline bench`: what the machine does on the patterns of the models, without the models."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ridgeline.cli.options import Ranks

bench = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@bench.callback()
def group() -> None:
    """Measure this machine on the patterns of the models."""


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
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the figures here too; - for stdout alone.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Time the all-to-all exchanges of a turbulence substep alone, for slabs and pencils."""
    from ridgeline.driver.bench import run_transposes
    from ridgeline.driver.start import start_ranks

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
