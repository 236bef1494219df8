"""`ridgeline bench one-sided`: get, put and accumulate of two ranks, or of all ranks at irregular places."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import typer

from ridgeline.cli.bench_options import (
    Debug,
    Device,
    Iterations,
    Json,
    Plot,
    Sizes,
    WarmUp,
    start_benchmark,
)
from ridgeline.cli.options import Ranks


class Operation(StrEnum):
    """What is done; an option that may be repeated takes no Literal."""

    GET = "get"
    PUT = "put"
    ACCUMULATE = "accumulate"


class Test(StrEnum):
    """What is measured of two ranks."""

    LATENCY = "latency"
    BANDWIDTH = "bandwidth"


# Options that one of the patterns alone knows, by their names in its function.
_OF_PAIR = {
    "tests": "--test",
    "sizes": "--sizes",
    "window": "--window",
    "iterations": "--iterations",
    "warm_up": "--warm-up",
    "pair": "--pair",
}
_OF_FMM = {
    "every": "--every",
    "communicators": "--communicators",
    "messages": "--messages",
    "pieces": "--pieces",
    "distribution": "--distribution",
    "repeats": "--repeats",
    "seed": "--seed",
}


def one_sided(
    ranks: Ranks = None,
    pattern: Annotated[
        Literal["pair", "fmm"], typer.Option(help="Two ranks, or all ranks at irregular places.")
    ] = "pair",
    operation: Annotated[
        list[Operation] | None,
        typer.Option("--op", help="May be repeated (default: get and put; fmm: get)."),
    ] = None,
    sync: Annotated[
        Literal["flush", "flush_local", "lock", "unlock", "fence", "pscw"],
        typer.Option(help="What completes operations; lock and pscw: pair, unlock: fmm."),
    ] = "flush",
    test: Annotated[
        list[Test] | None,
        typer.Option("--test", help="Pair: may be repeated (default: both)."),
    ] = None,
    sizes: Sizes = None,
    window: Annotated[
        int | None, typer.Option("--window", help="Pair: operations before a completion (default: 64).")
    ] = None,
    pair: Annotated[
        tuple[int, int] | None,
        typer.Option("--pair", metavar="ORIGIN TARGET", help="Pair: who (default: 0 1)."),
    ] = None,
    iterations: Iterations = None,
    warm_up: WarmUp = None,
    every: Annotated[
        int | None, typer.Option("--every", help="Fmm: operations before a completion (default: 2000).")
    ] = None,
    messages: Annotated[
        int | None, typer.Option("--messages", help="Fmm: pieces that a rank accesses (default: 20000).")
    ] = None,
    pieces: Annotated[
        tuple[int, int] | None,
        typer.Option("--pieces", metavar="LEAST MOST", help="Fmm: their bytes (default: 8 4096)."),
    ] = None,
    distribution: Annotated[
        Literal["log-uniform", "uniform"] | None,
        typer.Option("--distribution", help="Fmm: of their bytes (default: log-uniform)."),
    ] = None,
    communicators: Annotated[
        list[int] | None,
        typer.Option(
            "--communicators", help="Fmm: split the ranks, a window each (default: 1); may be repeated."
        ),
    ] = None,
    repeats: Annotated[int | None, typer.Option("--repeats", help="Fmm: timed repeats (default: 3).")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Fmm: of lengths and places.")] = None,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
    debug: Debug = False,
) -> None:
    """Measure one-sided communication: one rank reads or writes the memory of another, which takes no part.

    --pattern pair, as OSU's get and put: latency, n times one operation and its completion, t / n (fence and pscw:
    both sides in turn, t / (2 n)); bandwidth, n times a window of operations at different places and one
    completion, size x window x n / t.

    --pattern fmm, as the fast multipole method on Aurora: every rank accesses very many small pieces at irregular
    places of all other ranks' windows, with a completion every so many; messages/s = messages of all ranks / t, t
    until the slowest rank is done. All data are compared with what was sent.
    """
    options: dict[str, Any] = {
        "tests": [one.value for one in test or ()],
        "sizes": sizes,
        "window": window,
        "iterations": iterations,
        "warm_up": warm_up,
        "pair": pair,
        "every": every,
        "communicators": communicators,
        "messages": messages,
        "pieces": pieces,
        "distribution": distribution,
        "repeats": repeats,
        "seed": seed,
        "operations": [one.value for one in operation or ()],
    }
    given = {key: value for key, value in options.items() if value not in (None, [])}
    foreign = _OF_FMM if pattern == "pair" else _OF_PAIR
    for key, name in foreign.items():
        if key in given:
            raise typer.BadParameter(f"not with --pattern {pattern}", param_hint=name)
    if sync in (("unlock",) if pattern == "pair" else ("lock", "pscw")):
        raise typer.BadParameter(f"{sync} is not of --pattern {pattern}", param_hint="--sync")
    function = (
        "one_sided.measure.measure_one_sided"
        if pattern == "pair"
        else "one_sided.irregular.measure_irregular"
    )
    start_benchmark(ranks, function, given | {"sync": sync}, json, plot, debug, device)


def register(group: typer.Typer) -> None:
    """Add the command to a group."""
    group.command("one-sided")(one_sided)
