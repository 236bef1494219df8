"""Commands about one run and what it wrote: `run`, `check`, `compile`, `report`, `plot` and `export`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ridgeline.analysis.picture_options import PictureOptions
from ridgeline.cli.command_line_options import (
    CasePath,
    Debug,
    Device,
    NoPython,
    Oversubscribe,
    Ranks,
    Settings,
    Threads,
    load,
    with_options,
)
from ridgeline.io.export.export_options import ExportOptions
from ridgeline.runtime.declared_options import options_of
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.signals import hold_stop_signals
from ridgeline.simulation.run_options import RunOptions


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
    """Run a simulation. It reads a settings file, and writes a data set, checkpoints and a report."""
    started = time.monotonic()
    hold_stop_signals()
    from ridgeline.models.memory_check import refuse_before_ranks
    from ridgeline.parallel.job import start_ranks
    from ridgeline.simulation.run_on_ranks import run_on_this_rank

    loaded = load(case, settings, threads, device, warn=False)
    refuse_before_ranks(loaded.case, ranks)
    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    report = run_on_this_rank(loaded, options, debug, started)
    if options.stopped_exit_code is not None and not report["run"]["complete"]:
        raise typer.Exit(options.stopped_exit_code)


def check(
    case: Annotated[
        str,
        typer.Argument(
            metavar="CASE|DATA",
            help="Settings file (TOML, or the JSON of GrayScott.jl), or the data set of a run.",
        ),
    ],
    ranks: Annotated[
        int, typer.Option("-n", "--ranks", min=1, metavar="N", help="Number of MPI ranks to plan for.")
    ] = 1,
    threads: Threads = None,
    device: Device = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME|FILE",
            help="Machine to predict the time of a step for; by default this one, if it has a machine file.",
        ),
    ] = None,
    settings: Settings = None,
    no_python: NoPython = False,
) -> None:
    """Check a settings file, and print the decomposition, memory, size of the output and predicted time of a run.

    A data set is compared, metadata and every value, with the checksums that its run wrote. Exit code 6: it differs.
    """
    if Path(case).is_dir() or case.endswith((".bp", ".zarr")):
        if threads is not None or device is not None or machine is not None or settings:
            raise ConfigError(
                f"--threads, --device, --machine and --set cannot be used with {case}, which is a data set."
            )
        from ridgeline.io.data_set_check import check_data_set

        verdict = check_data_set(Path(case))
        for line in verdict.lines():
            typer.echo(f"{case}: {line}")
        verdict.raise_if_damaged()
        return
    from ridgeline.runtime.console import plain_console
    from ridgeline.simulation.check import predict, raise_if_refused

    loaded = load(case, settings, threads, device, warn=False)
    planned = predict(
        loaded.case, loaded.warnings, ranks
    )  # sets the threads, which must come before Numba is imported
    from ridgeline.study.prediction import line_for_check

    predicted = line_for_check(loaded.case, ranks, machine)
    planned.print_on(plain_console())
    if predicted is not None:
        typer.echo(predicted)
    raise_if_refused(loaded.case, planned)


def compile_kernels(
    case: CasePath,
    ranks: Ranks = None,
    threads: Threads = None,
    device: Device = None,
    settings: Settings = None,
    no_python: NoPython = False,
) -> None:
    """Compile every kernel of a case and keep it in the cache, so that a run begins at once.

    Several ranks of a node share the kernels, and are done sooner.
    """
    from ridgeline.parallel.job import start_ranks
    from ridgeline.simulation.run_on_ranks import compile_case

    loaded = load(case, settings, threads, device)
    code = start_ranks(ranks)
    if code is not None:
        raise typer.Exit(code)
    compile_case(loaded)


def report(
    file: Annotated[
        str,
        typer.Argument(
            metavar="REPORT", help="NAME.bp.run.json beside a data set, or a file that --json wrote."
        ),
    ],
    other: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="Report of a second run, to compare with the first."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print all times, counted work and speeds.")
    ] = False,
) -> None:
    """Print the stored report of a run or of a benchmark, as the command that wrote it did.

    With the reports of two runs, print the settings that differ, the times side by side, and the final states.
    """
    if other is not None:
        from ridgeline.simulation.compare_reports import compare_reports

        if verbose:
            raise ConfigError("--verbose cannot be used with two reports.")
        compare_reports(file, other)
        return
    from rich.errors import ConsoleError

    from ridgeline.bench.result import Result, make_table
    from ridgeline.io.report_file import damage_errors, is_run_report, read_report
    from ridgeline.runtime.console import plain_console
    from ridgeline.simulation.print_report import print_report

    content = read_report(file)
    console = plain_console(soft_wrap=True)
    with damage_errors(file, ConsoleError):
        if is_run_report(content):
            print_report(content, console, verbose)
        else:
            console.print(make_table(Result.from_dict(content)), soft_wrap=False)


@with_options(options_of(PictureOptions), PictureOptions)
def plot(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Data set, Nek5000 field file, time series (CSV), or report of a run or benchmark (JSON).",
        ),
    ],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="PNG", help="Name of the picture.")
    ] = None,
    *,
    options: PictureOptions,
) -> None:
    """Draw anything that a run has written.

    That is planes and views of fields, layers of atoms, densities, movies, spectra, g(r), time series and reports.
    """
    from ridgeline.analysis.plot_command import draw_file

    for path in draw_file(data, options, output):
        typer.echo(f"wrote {path}", err=True)


@with_options(options_of(ExportOptions), ExportOptions)
def export(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Data set, Nek5000 field files, or time series (CSV)."),
    ],
    out: Annotated[
        str,
        typer.Argument(
            metavar="OUT",
            help="New file: .nc, .zarr, .vtkhdf, .pvd, .vti, .vtu, .vtp, .lammpstrj, .dump, .extxyz, .xyz, "
            ".nek5000 or 0.f00001.",
        ),
    ],
    *,
    options: ExportOptions,
) -> None:
    """Write a data set, or a part of it, in a format that other programs open.

    The suffix of OUT chooses the format: NetCDF or Zarr for anything, VTK's formats for fields and particles, LAMMPS
    dumps or extended XYZ for particles, and Nek5000 field files for flows on spectral elements.
    """
    from ridgeline.io.export.export import export as export_data

    for path in export_data(data, out, options):
        typer.echo(f"wrote {path}", err=True)
