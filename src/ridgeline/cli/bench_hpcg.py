"""`ridgeline bench hpcg`: the HPCG benchmark, its official rating and report."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeline.cli.bench_options import Debug, Json
from ridgeline.cli.options import Ranks

Size = Annotated[int | None, typer.Option(help="Points of each rank's box: 16 or more, a multiple of 8.")]
Division = Annotated[int, typer.Option(min=0, help="Ranks in this direction; 0: the best process grid.")]


def hpcg(
    ranks: Ranks = None,
    nx: Size = None,
    ny: Size = None,
    nz: Size = None,
    seconds: Annotated[
        float | None,
        typer.Option("--rt", help="Seconds that the timed sets take (default: 60); 0: one set, quickly."),
    ] = None,
    npx: Division = 0,
    npy: Division = 0,
    npz: Division = 0,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of each rank.")] = 1,
    dat: Annotated[
        str | None, typer.Option("--dat", metavar="FILE", help="Sizes and seconds from a file as hpcg.dat.")
    ] = None,
    stream: Annotated[bool, typer.Option(help="Measure STREAM in the same run.")] = True,
    output: Annotated[str, typer.Option("--output", metavar="DIR", help="Where the report goes.")] = ".",
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Rate the machine by conjugate gradients on a sparse system: HPCG 3.1, all its phases and tests.

    Sizes are those of each rank, 104 unless told; without any, hpcg.dat of the current folder is read. The report
    HPCG-Benchmark_3.1_DATE.txt has the keys of the official one. The exit code is 0 only if the result is VALID. An
    official run takes 1800 s and a quarter of the main memory.
    """
    from ridgeline.parallel.job import start_ranks

    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)

    from ridgeline.bench.hpcg.command import run_hpcg

    run_hpcg((nx, ny, nz), (npx, npy, npz), seconds, threads, dat, stream, output, json, debug)


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("hpcg")(hpcg)
