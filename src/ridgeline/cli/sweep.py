"""`ridgeline sweep`: one case over settings. `ridgeline run-list`: what it starts."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeline.cli.options import CasePath, NoPython, Oversubscribe, Ranks, with_options
from ridgeline.runtime.declared_options import options_of
from ridgeline.runtime.signals import hold_stop_signals
from ridgeline.study.study_options import SweepOptions


@with_options(options_of(SweepOptions), SweepOptions)
def sweep(
    case: CasePath,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder of the sweep. [default: by its name]"),
    ] = None,
    no_python: NoPython = False,
    oversubscribe: Oversubscribe = False,
    *,
    options: SweepOptions,
) -> None:
    """Run a case over values of its settings, and write a table of final figures and a contact sheet.

    Cases share processes, so that kernels are loaded once. Each has its folder in DIR/points, with what it writes. A
    sweep that was interrupted goes on when it is run again. Exit code 1: some cases failed; they are named.
    """
    from ridgeline.study.sweep import run_sweep

    code = run_sweep(case, options, output, typer.echo)
    if code:
        raise typer.Exit(code)


def run_list(path: str, ranks: Ranks = None) -> None:
    """Run the cases of a list that a sweep has written."""
    hold_stop_signals()
    from ridgeline.parallel.job import start_ranks
    from ridgeline.simulation.start import run_list

    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    run_list(path)
