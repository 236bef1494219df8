"""`ridgeline run`: the main job."""

from __future__ import annotations

import time

import typer

from ridgeline.cli.options import (
    CasePath,
    Debug,
    Device,
    NoPython,
    Oversubscribe,
    Ranks,
    Settings,
    Threads,
    with_options,
)
from ridgeline.runtime.declared_options import options_of
from ridgeline.runtime.signals import hold_stop_signals
from ridgeline.simulation.options import RunOptions


@with_options(options_of(RunOptions), RunOptions)
def run(
    case: CasePath,
    ranks: Ranks = None,
    threads: Threads = None,
    device: Device = None,
    settings: Settings = None,
    no_python: NoPython = False,
    oversubscribe: Oversubscribe = False,
    *,
    options: RunOptions,
    debug: Debug = False,
) -> None:
    """Run a simulation: settings in, data set, checkpoints and a report out."""
    started = time.monotonic()
    hold_stop_signals()
    from ridgeline.cli.options import load
    from ridgeline.models.memory_check import refuse_before_ranks
    from ridgeline.parallel.job import start_ranks
    from ridgeline.simulation.start import run_on_this_rank

    loaded = load(case, settings, threads, device)
    refuse_before_ranks(loaded.case, ranks)
    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    report = run_on_this_rank(loaded, options, debug, started)
    if options.stopped_exit_code is not None and report["run"]["last_step"] < loaded.case.run.steps:
        raise typer.Exit(options.stopped_exit_code)
