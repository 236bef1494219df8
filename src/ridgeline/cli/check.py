"""`ridgeline check`: what would run, without running it."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeline.cli.options import CasePath, Device, NoPython, Settings, Threads


def check(
    case: CasePath,
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=1, help="MPI ranks to plan for.")] = 1,
    threads: Threads = None,
    device: Device = None,
    settings: Settings = None,
    no_python: NoPython = False,
) -> None:
    """Check a settings file and print the decomposition, memory, output size and predicted time."""
    from rich.console import Console

    from ridgeline.cli.options import load
    from ridgeline.driver.check import predict, print_prediction

    loaded = load(case, settings, threads, device, no_python)
    print_prediction(predict(loaded, ranks), Console())
