"""`ridgeline bench stream`, `ridgeline bench peak`: the memory and the arithmetic of the nodes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from ridgeline.cli.bench_options import Debug, Json, Plot, start_benchmark
from ridgeline.cli.options import Ranks

Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads of a rank.")]
ComputeDevice = Annotated[
    Literal["cpu", "cuda"],
    typer.Option("--device", help="What is measured: the cores or the GPU of every rank."),
]
Number = Literal["float64", "float32"]


def stream(
    ranks: Ranks = None,
    threads: Threads = 1,
    dtype: Annotated[Number, typer.Option("--dtype", help="Of the arrays.")] = "float64",
    n_bytes: Annotated[
        int | None,
        typer.Option(
            "--bytes", help="Of a rank's three arrays together (default: each 4 times a node's caches)."
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", help="Timed rounds (default: about a second).")
    ] = None,
    device: ComputeDevice = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure memory bandwidth: copy, scale, add and triad with ordinary and with streaming stores, and dot.

    Pattern: all ranks and threads run a kernel on arrays of their own at the same time: copy c = a, scale b = s c,
    add c = a + b, triad a = b + s c, dot (reads only). Streaming stores spare the read of the lines that are
    overwritten. Formula: words x bytes of a number x elements of all ranks / seconds of the slowest rank, 2 words
    for copy, scale and dot, 3 for add and triad; best of the repeats. On a GPU: its copy bandwidth, 2 words.
    """
    options = {"threads": threads, "dtype": dtype, "bytes_per_rank": n_bytes, "repeats": repeats}
    start_benchmark(ranks, "memory.stream_result.measure_rates", options, json, plot, debug, device, threads)


def peak(
    ranks: Ranks = None,
    threads: Threads = 1,
    dtype: Annotated[
        Literal["both", "float64", "float32"], typer.Option("--dtype", help="Of the numbers.")
    ] = "both",
    seconds: Annotated[float, typer.Option("--seconds", help="Of a repeat.")] = 0.1,
    repeats: Annotated[int, typer.Option("--repeats", help="Repeats, all ranks at the same time.")] = 5,
    device: ComputeDevice = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure the rate of fused multiply-adds in float64 and float32, memory left aside.

    Pattern: every thread of every rank runs independent chains of multiply-adds in vector registers (a GPU's
    threads in theirs), all at the same time. Formula: 2 x chains x lanes x steps x threads / seconds; best repeat
    of a rank, min, mean and max over ranks; all: the sum over ranks in the best repeat. Results are compared with
    their closed form, bit for bit.
    """
    options: dict[str, Any] = {"threads": threads, "seconds": seconds, "repeats": repeats}
    if dtype != "both":
        options["dtypes"] = [dtype]
    start_benchmark(ranks, "memory.peak.measure_peak", options, json, plot, debug, device, threads)


def register(group: typer.Typer) -> None:
    """Add the commands to `ridgeline bench`."""
    for command in (stream, peak):
        group.command()(command)
