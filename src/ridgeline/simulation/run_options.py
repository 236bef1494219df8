"""The options of a run that are not settings: resume, overwrite, what is printed, and where the report goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec
from ridgeline.runtime.errors import ConfigError


@dataclass(frozen=True)
class RunOptions(DeclaredOptions):
    """Options of `ridgeline run`. `resume` is None for what the settings say."""

    resume: Annotated[
        str | None,
        OptionSpec(
            "Continue from the newest usable checkpoint (auto) or from the one given, or start from step 0 (never, "
            "the default).",
            metavar="auto|never|PATH",
        ),
    ] = None
    overwrite: Annotated[
        bool, OptionSpec("Delete outputs of earlier runs at the same paths. Otherwise they are set aside.")
    ] = False
    json: Annotated[
        str | None, OptionSpec("Write the run report to this file too; - is standard output.", metavar="FILE")
    ] = None
    trace: Annotated[
        str | None,
        OptionSpec(
            "Write a timeline of 20 steps (or sweeps) on each rank and on its GPU's streams. Open it at "
            "ui.perfetto.dev.",
            metavar="FILE",
        ),
    ] = None
    # Lower numbers are those of errors, and of signals as launchers give them back.
    stopped_exit_code: Annotated[
        int | None,
        OptionSpec(
            "Exit code of a run that a signal or run.walltime ended before its last step (it has written a "
            "checkpoint).",
            minimum=16,
            maximum=125,
            metavar="N",
            otherwise="0",
        ),
    ] = None
    verbose: Annotated[bool, OptionSpec("Print the notes of every rank, and the whole report.")] = False
    quiet: Annotated[bool, OptionSpec("Print only warnings and errors.")] = False
    log: Annotated[
        str | None,
        OptionSpec(
            "Append what the run prints, notes and progress included, to this file, with the time of each line.",
            metavar="FILE",
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quiet and self.verbose:
            raise ConfigError("--quiet cannot be used with --verbose.")
