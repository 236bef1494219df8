"""`ridgeline bench pingpong` and `bsp`: what a high-level language costs where ranks communicate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ridgeline.cli.bench_options import Debug, Json, Plot, RanksPerNode, Sizes, start_benchmark
from ridgeline.cli.options import Ranks

Languages = Annotated[
    list[str] | None,
    typer.Option("--language", help="C, mpi4py or numba-mpi (default: all three); may be repeated."),
]


def pingpong(
    ranks: Ranks = None,
    sizes: Sizes = None,
    trials: Annotated[int, typer.Option(help="Timed trials of a size.")] = 100,
    warm_up: Annotated[int, typer.Option("--warm-up", help="Trials before the timed ones.")] = 10,
    batch: Annotated[int, typer.Option(help="Round trips of a trial.")] = 10,
    languages: Languages = None,
    ranks_per_node: RanksPerNode = None,
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Time a message there and back in C, through mpi4py, and through numba-mpi in compiled code.

    Rank 0 and the first rank of another node (rank 1 if there is one node) send by MPI_Send and receive by MPI_Recv,
    in one process with one MPI library; the languages take turns in every trial. Latency = round trip / 2, mean over
    trials without outliers (Tukey's rule, 1.5 interquartile ranges); throughput = harmonic mean of size / latency.
    Sizes from 1 B to 1 MiB unless told. As Fig. 9 of Rizvi and Hale. C is compiled on the spot; numba-mpi (GPL-3.0)
    is used where it is installed. A language that is missing has a row that says why. Messages lie in host memory
    only: what a GPU adds is in the MPI library, alike for all three; `bench latency --device cuda` measures it.
    """
    options = {
        "sizes": sizes,
        "trials": trials,
        "warm_up": warm_up,
        "batch": batch,
        "ranks_per_node": ranks_per_node,
    }
    _start(ranks, "language.pingpong.measure_pingpong", options, languages, json, plot, debug)


def bsp(
    ranks: Ranks = None,
    iterations: Annotated[int, typer.Option(help="Timed iterations.")] = 100,
    reads: Annotated[int, typer.Option("-r", "--reads", help="8-byte loads per iteration.")] = 100_000,
    writes: Annotated[int, typer.Option("-w", "--writes", help="8-byte stores per iteration.")] = 100_000,
    flops: Annotated[
        int, typer.Option("-f", "--flops", help="Floating-point operations per iteration.")
    ] = 100_000,
    communications: Annotated[
        list[int] | None,
        typer.Option(
            "-c", "--communications", help="Messages per iteration (default: 10 and 100); may be repeated."
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Bytes of a message.")] = 8,
    words: Annotated[
        int, typer.Option(help="8-byte words of the array read and written, a power of two.")
    ] = 65_536,
    sweep: Annotated[
        list[int] | None,
        typer.Option(help="Only so many ranks, the first ones (default: all); may be repeated."),
    ] = None,
    languages: Languages = None,
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Time a ring of ranks that compute and communicate in turn, in C, with mpi4py, and with numba-mpi.

    Per iteration every rank loads R words of an array, stores W, does F floating-point operations in a chain
    (x = x / 2 + 1), and C times sends a message forward on the ring and receives one from behind (MPI_Isend,
    MPI_Recv, MPI_Wait). The work of a rank does not depend on their number: weak scaling, with --sweep. Time of an
    iteration = reads + writes + flops + communications, each a mean over ranks, then over iterations without outliers
    (Tukey's rule). mpi4py computes in compiled kernels and communicates from Python; numba-mpi does all in one
    compiled loop. As Figs. 6-8 of Rizvi and Hale. A language that is missing has a row that says why. Arrays and
    messages lie in host memory only.
    """
    options = {
        "iterations": iterations,
        "reads": reads,
        "writes": writes,
        "flops": flops,
        "communications": communications or [10, 100],
        "size": size,
        "words": words,
        "sweep": sweep,
    }
    _start(ranks, "language.bsp.measure_bsp", options, languages, json, plot, debug)


def _start(
    ranks: int | None,
    function: str,
    options: Mapping[str, Any],
    languages: list[str] | None,
    json: str | None,
    plot: str | None,
    debug: bool,
) -> None:
    chosen = {"languages": languages} if languages else {}
    start_benchmark(ranks, function, {**options, **chosen}, json, plot, debug)


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("pingpong")(pingpong)
    group.command("bsp")(bsp)
