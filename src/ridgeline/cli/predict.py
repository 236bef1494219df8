"""`ridgeline predict`: what a run will cost on a machine, from its machine file."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeline.cli.options import NoPython, Settings
from ridgeline.runtime.errors import ConfigError

Machine = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="NAME|FILE",
        help='A machine that Ridgeline knows, a machine file (.toml), or "here": what `bench machine-file` wrote.',
    ),
]


def predict(
    case: Annotated[
        str,
        typer.Argument(
            metavar="CASE|hpcg", help="Settings file; or hpcg, with --set nx=104 for the box of a rank."
        ),
    ],
    machine: Machine = "here",
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes of the job.")] = 1,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "--ranks-per-node", help="Ranks of a node; without it, one a device or as the file says."
        ),
    ] = None,
    sweep: Annotated[
        str | None, typer.Option("--sweep", metavar="N,N,...", help="Several numbers of nodes, in one table.")
    ] = None,
    iterations: Annotated[
        list[str] | None,
        typer.Option(
            "--iterations",
            metavar="SOLVE=N",
            help="Iterations of each of the model's linear solves in a step, as pressure=20; may be repeated.",
        ),
    ] = None,
    settings: Settings = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the prediction as JSON; - is stdout.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw it; the ending says the format.")
    ] = None,
    no_python: NoPython = False,
) -> None:
    """Predict the time of a step, its parts, memory, output and node hours on a machine. Runs nothing."""
    from ridgeline.study.prediction_tables import answer, of_benchmark, of_case

    if case == "hpcg":
        if iterations:
            raise ConfigError("--iterations is for cases whose model solves linear systems, and this is hpcg")
        question = of_benchmark(case, settings or [])
    else:
        from ridgeline.cli.options import load

        question = of_case(load(case, settings).case, iterations or [])
    answer(question, machine, nodes, ranks_per_node, sweep, json, plot)
