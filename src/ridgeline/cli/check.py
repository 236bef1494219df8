"""`ridgeline check`: what would run, without running it; or whether a data set is as it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeline.cli.options import Device, NoPython, Settings, Threads
from ridgeline.runtime.errors import ConfigError


def check(
    case: Annotated[
        str,
        typer.Argument(
            metavar="CASE|DATA",
            help="Settings file: TOML, or JSON of GrayScott.jl. Or a BP5 data set of a run.",
        ),
    ],
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=1, help="MPI ranks to plan for.")] = 1,
    threads: Threads = None,
    device: Device = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME|FILE",
            help="Also predict the time of a step there; by default on this machine, if it has a machine file.",
        ),
    ] = None,
    settings: Settings = None,
    no_python: NoPython = False,
) -> None:
    """Check a settings file and print the decomposition, memory, output size and predicted time.

    Or compare a data set, metadata and every value, with the checksums that its run wrote; exit code 6 if it differs.
    """
    if Path(case).is_dir() or case.endswith(".bp"):
        if threads is not None or device is not None or machine is not None or settings:
            raise ConfigError(
                f"--threads, --device, --machine and --set are for a settings file, and {case} is a data set"
            )
        from ridgeline.io.bp_check import check_data_set

        verdict = check_data_set(Path(case))
        for line in verdict.lines():
            typer.echo(f"{case}: {line}")
        verdict.raise_if_damaged()
        return
    from ridgeline.cli.options import load
    from ridgeline.simulation.check import predict, print_prediction, refuse

    loaded = load(case, settings, threads, device, warn=False)
    planned = predict(loaded, ranks)  # sets the threads, which must come before Numba is imported
    from ridgeline.study.prediction import line_for_check

    predicted = line_for_check(loaded.case, ranks, machine)
    print_prediction(planned)
    if predicted is not None:
        typer.echo(predicted)
    refuse(loaded.case, planned)
