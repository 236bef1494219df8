"""`ridgeline run`: the main job."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ridgeline.cli.options import CasePath, Device, NoPython, Ranks, Settings, Threads


def run(
    case: CasePath,
    ranks: Ranks = None,
    threads: Threads = None,
    device: Device = None,
    settings: Settings = None,
    no_python: NoPython = False,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="auto|never|PATH",
            help="Continue from the newest usable checkpoint (auto), start anew (never, the default), "
            "or from the one given.",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Delete outputs of earlier runs at the same paths; else they are set aside."
        ),
    ] = False,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the run report here too; - for stdout.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Notes of every rank, and the whole report.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Run a simulation: settings in, data set, checkpoints and a report out."""
    started = time.monotonic()
    from ridgeline.cli.options import load
    from ridgeline.parallel.job import start_ranks
    from ridgeline.simulation.start import run_on_this_rank

    loaded = load(case, settings, threads, device, no_python)
    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)

    run_on_this_rank(
        loaded,
        resume=resume,
        json_path=json,
        verbose=verbose,
        debug=debug,
        overwrite=overwrite,
        started=started,
    )
