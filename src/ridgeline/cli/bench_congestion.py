"""`ridgeline bench congestion`: what a busy network does to those who share it."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeline.cli.bench_options import Debug, Device, Json, Plot, RanksPerNode, start_benchmark
from ridgeline.cli.options import Ranks


def congestion(
    ranks: Ranks = None,
    fraction: Annotated[
        float, typer.Option(help="Share of the nodes that congest; the paper's run had 0.4.")
    ] = 0.8,
    seconds: Annotated[float, typer.Option(help="Time of a test; there are six.")] = 10.0,
    congestors: Annotated[
        list[str] | None,
        typer.Option(
            "--congestor",
            help="all-to-all, incast, put-incast, get-incast or broadcast; may be repeated (default: first four).",
        ),
    ] = None,
    ranks_per_node: RanksPerNode = None,
    rings: Annotated[
        int | None,
        typer.Option(help="At most so many random rings a test (default: until its time is over)."),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            help="Repetitions of a ring (default: GPCNeT's 200; 8 for bandwidth), fewer if time is over."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the shuffled nodes and the random rings.")] = 0,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure latency, bandwidth and Allreduce alone and beside traffic that congests (GPCNeT).

    Nodes are shuffled and divided: 1 - FRACTION of them take the tests, the others congest, evenly in sets of
    all-to-all pairs, sends to one rank (incast), puts to one rank, gets from one rank; or one rank's sends to all
    (broadcast); 4096 B a message. With fewer than 3 nodes every rank counts as a node; 3 are needed at least.

    Tests, among ranks of equal number on every tester node: random rings with 8 B to and from both neighbours
    (latency = time / 2); random rings with 8 messages of 131072 B to and from both neighbours and a barrier
    (bandwidth = 2 x 8 x 131072 B / time); allreduce of 8 B. Each prints the mean over rings and ranks, and the 99th
    percentile of all repetitions. Congestion impact factor: congested / isolated, for
    bandwidths isolated / congested.
    """
    options = {
        "fraction": fraction,
        "seconds": seconds,
        "kinds": congestors,
        "ranks_per_node": ranks_per_node,
        "rings": rings,
        "iterations": iterations,
        "seed": seed,
    }
    start_benchmark(ranks, "congestion.measure.measure_congestion", options, json, plot, debug, device)


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("congestion")(congestion)
