"""`ridgeline bench tasking`: what tasks cost in Python, compiled Python and C."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeline.cli.bench_options import Debug, Json, Plot, start_benchmark
from ridgeline.cli.options import Ranks


def tasking(
    ranks: Ranks = None,
    items: Annotated[
        list[str] | None,
        typer.Option(
            "--item",
            metavar="creation|switch|futures|notification|channel|initialise",
            help="What to measure (default: all); may be repeated.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each operation.")] = 100,
    warm_up: Annotated[int, typer.Option(min=0, help="Trials thrown away before them.")] = 10,
    workers: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            help="Workers of futures and of the parallel initialisation (default: 1, 2, 4, ... to the cores "
            "here, at most 16); may be repeated.",
        ),
    ] = None,
    fibonacci: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=93,
            help="A task of futures computes so many Fibonacci numbers (default: 10 90); may be repeated.",
        ),
    ] = None,
    n_bytes: Annotated[int, typer.Option("--bytes", min=8, help="Array to initialise, in B.")] = 50_000_000,
    spawn: Annotated[
        bool, typer.Option("--spawn", help="mpi4py.futures also with workers that MPI_Comm_spawn starts.")
    ] = False,
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Time the language's own tasks against threads of C: Figs. 1 to 5 of the Julia paper.

    creation: calls that make tasks ready to run: generators, asyncio, threads, pthread_create through ctypes with a
    compiled start routine, and in C. switch: two tasks hand over to each other, kernel threads bound to one core.

    futures: one task, null or n Fibonacci numbers, to a pool of 1, 2, ... idle workers: until the future is there
    (spawn), until its result is back (spawn + fetch): threads, processes, mpi4py.futures with the job's other
    ranks (W workers from -n W+1), C.

    notification: from just before the signal until the waiting task runs. channel: put, peek, take of numbers in
    one task. initialise: an array of 50 MB cut among workers: C with OpenMP and pthreads, Numba, processes with
    shared memory, MPI ranks.

    Time of an operation = seconds of a trial / operations in it. All data are compared. 100 trials after 10;
    outliers beyond 1.5 interquartile ranges from the quartiles (Tukey) are left out of mean and median. C is
    compiled on the spot; without a compiler its rows say so.
    """
    from ridgeline.runtime.threads import cores_available

    options = {
        "trials": trials,
        "warm_up": warm_up,
        "workers": workers,
        "n_bytes": n_bytes,
        "spawn": spawn,
        **({"items": items} if items else {}),
        **({"fibonacci": fibonacci} if fibonacci else {}),
    }
    threads = max(workers) if workers else cores_available()
    start_benchmark(ranks, "tasking.measure.measure_tasking", options, json, plot, debug, threads=threads)


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("tasking")(tasking)
