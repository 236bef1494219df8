"""Options and steps that several commands share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ridgeline.config.load import LoadedCase

CasePath = Annotated[
    str, typer.Argument(metavar="CASE", help="Settings file: TOML, or JSON of GrayScott.jl.")
]
Ranks = Annotated[int | None, typer.Option("-n", "--ranks", min=1, help="MPI ranks; starts mpiexec itself.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of each rank (run.threads).")]
Device = Annotated[str | None, typer.Option("--device", help="cpu or cuda (run.device).")]
RanksPerNode = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-node", help="Count every so many ranks as a node (default: ranks that share memory)."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override one setting; may be repeated."),
]

NoPython = Annotated[
    bool,
    typer.Option("--no-python", help="Refuse settings that run a Python file: for cases from elsewhere."),
]


def load(
    path: str,
    settings: list[str] | None,
    threads: int | None = None,
    device: str | None = None,
    no_python: bool = False,
) -> LoadedCase:
    """Load and check a case with the command line's overrides on top; print warnings once."""
    from ridgeline.config.load import NO_PYTHON, load_case
    from ridgeline.models import case_class
    from ridgeline.runtime.launcher import speaks

    if no_python:
        os.environ[NO_PYTHON] = "1"
    overrides = list(settings or [])
    if threads is not None:
        overrides.append(f"run.threads={threads}")
    if device is not None:
        overrides.append(f'run.device="{device}"')
    loaded = load_case(path, case_class, overrides)
    if speaks():
        for warning in loaded.warnings:
            typer.echo(f"warning: {warning}", err=True)
    return loaded
