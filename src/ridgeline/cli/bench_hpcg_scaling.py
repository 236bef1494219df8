"""`ridgeline bench hpcg-scaling`: an iteration of HPCG over ranks, for several local boxes."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ridgeline.cli.bench_options import Csv, Debug, Json, Plot, only_given, start_benchmark
from ridgeline.cli.options import Ranks
from ridgeline.runtime.errors import ConfigError


def hpcg_scaling(
    ranks: Ranks = None,
    local: Annotated[
        list[int] | None,
        typer.Option(help="Edge of a rank's cube of points (default: 16, 32, 64); may be repeated."),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(metavar="R,R,...", help="Numbers of ranks (default: powers of two, and all)."),
    ] = None,
    mode: Annotated[
        Literal["weak", "strong"], typer.Option(help="Keep the box of a rank, or the global box.")
    ] = "weak",
    paths: Annotated[
        list[str] | None,
        typer.Option("--path", help="reference or optimised (default: both); may be repeated."),
    ] = None,
    iterations: Annotated[int, typer.Option(help="Iterations of a solve.")] = 50,
    repeats: Annotated[int, typer.Option(help="Timed solves of each path.")] = 3,
    json: Json = None,
    csv: Csv = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Time an iteration of HPCG on 1, 2, 4, ... ranks of one job, with local boxes of 16^3, 32^3 and 64^3.

    The reference path (plain CSR in natural order) and the optimised one take turns, on the first ranks of the job
    while the others sleep; seconds are those of the slowest rank, the best of the solves. Weak scaling keeps the box
    of a rank; strong scaling keeps the global box, which is that of the most ranks, and divides it. The paths'
    residuals must agree to rounding (exit code 9). As Fig. 10 of Rizvi and Hale.

    \b
    Here:
    ridgeline bench hpcg-scaling -n 16 --sweep 1,2,4,8,16 --csv hpcg.csv --plot hpcg.svg

    \b
    On a cluster, a core a rank, under Slurm or PBS (docs/hpcg.md has the scripts):
    srun -N 8 --ntasks-per-node 16 ridgeline bench hpcg-scaling --csv hpcg.csv
    mpiexec -n 128 --ppn 16 ridgeline bench hpcg-scaling --csv hpcg.csv
    """
    options = {
        "local": local,
        "sweep": None if sweep is None else _numbers(sweep),
        "mode": mode,
        "paths": paths,
        "iterations": iterations,
        "repeats": repeats,
    }
    start_benchmark(ranks, "hpcg.study.measure_scaling", only_given(options), json, plot, debug, csv=csv)


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"--sweep {text} is no list of numbers of ranks; write it as 1,2,4,8") from None


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("hpcg-scaling")(hpcg_scaling)
