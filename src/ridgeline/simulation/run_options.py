"""The options of a run that are not settings: resume, overwrite, and where the report and the trace go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec


@dataclass(frozen=True)
class RunOptions(DeclaredOptions):
    """Options of `ridgeline run`. `resume` is None for what the settings say."""

    resume: Annotated[
        str | None,
        OptionSpec(
            "Continue from the newest usable checkpoint (auto) or from the given one, or start from step 0 (never, "
            "the default).",
            metavar="auto|never|PATH",
        ),
    ] = None
    overwrite: Annotated[
        bool, OptionSpec("Delete outputs of earlier runs at the same paths instead of moving them aside.")
    ] = False
    json: Annotated[
        str | None,
        OptionSpec("Write the run report to this file too, or to standard output (-).", metavar="FILE"),
    ] = None
    trace: Annotated[
        str | None,
        OptionSpec(
            "Write a timeline of 20 steps (or sweeps) on each rank and its GPU's streams, which ui.perfetto.dev "
            "shows.",
            metavar="FILE",
        ),
    ] = None
    # Lower numbers are those of errors, and of signals as launchers give them back.
    stopped_exit_code: Annotated[
        int | None,
        OptionSpec(
            "Exit code of a run that a signal or run.walltime ended before its last step, after a checkpoint.",
            minimum=16,
            maximum=125,
            metavar="N",
            otherwise="0",
        ),
    ] = None
    verbose: Annotated[bool, OptionSpec("Print the notes of every rank and the whole report.")] = False
