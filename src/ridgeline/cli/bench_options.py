"""Options that the benchmarks of the machine share, and how one is started."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the figures here too; - for stdout alone.")
]
Plot = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw the figures: a PNG, SVG or PDF file.")
]
Csv = Annotated[
    str | None,
    typer.Option("--csv", metavar="FILE", help="Write the rows as comma-separated values, SI units."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]
Device = Annotated[
    Literal["cpu", "cuda"], typer.Option("--device", help="Where messages lie: host memory or the GPU's.")
]
Sizes = Annotated[
    tuple[int, int] | None,
    typer.Option("--sizes", metavar="FIRST LAST", help="Message sizes in B, powers of two in between."),
]
Iterations = Annotated[
    int | None, typer.Option("--iterations", help="Timed repetitions of a size (default: as OSU's).")
]
WarmUp = Annotated[
    int | None, typer.Option("--warm-up", help="Repetitions before the timed ones (default: as OSU's).")
]
RanksPerNode = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-node", help="Count every so many ranks as a node (default: ranks that share memory)."
    ),
]


def only_given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that have a value; the others keep the defaults of the benchmark."""
    return {key: value for key, value in options.items() if value is not None}


def start_benchmark(
    ranks: int | None,
    function: str,
    options: dict[str, Any],
    json: str | None,
    plot: str | None,
    debug: bool,
    device: str | None = None,
    threads: int = 1,
    csv: str | None = None,
) -> None:
    """Start the ranks, or run the benchmark on this one (bench.benchmark.run_benchmark)."""
    from ridgeline.bench.benchmark import run_benchmark
    from ridgeline.parallel.job import start_ranks

    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    run_benchmark(function, options, device, threads, json, plot, debug, csv)
