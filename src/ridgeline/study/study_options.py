"""Options of `ridgeline study` and `ridgeline sweep`, declared once; those of a study are keys of its study file too.

Imports nothing heavy: `ridgeline --help` reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec
from ridgeline.runtime.errors import ConfigError

System = Literal["none", "slurm", "pbs"]


@dataclass(frozen=True)
class StudyOptions(DeclaredOptions):
    """The jobs of a study. The same names are keys of [study] in a study file."""

    bench: Annotated[
        str | None,
        OptionSpec("Study this benchmark instead of a case.", metavar="NAME", completes="benchmark"),
    ] = None
    weak: Annotated[
        bool, OptionSpec("Keep the number of points per rank, so that the grid grows with the ranks.")
    ] = False
    strong: Annotated[bool, OptionSpec("Keep the total number of points on any number of ranks.")] = False
    ranks: Annotated[
        tuple[int, ...],
        OptionSpec(
            "Numbers of ranks, the fewest of which get the size of the case or benchmark.",
            unit="ranks",
            minimum=1,
            metavar="R,R,...",
            commas=True,
        ),
    ] = (1,)
    threads: Annotated[
        tuple[int, ...],
        OptionSpec(
            "Numbers of threads per rank.",
            unit="threads",
            minimum=1,
            metavar="T,T,...",
            otherwise="as the case says",
            commas=True,
        ),
    ] = ()
    process_grids: Annotated[
        Literal["auto", "all"], OptionSpec("Use the process grid that a run would choose, or each that fits.")
    ] = "auto"
    vary: Annotated[
        tuple[str, ...],
        OptionSpec(
            "Axis: a setting or option with its values, or several that change together, as 'A=1,2 & B=3,4'.",
            metavar="KEY=V,V,...",
        ),
    ] = ()
    settings: Annotated[
        tuple[str, ...],
        OptionSpec(
            "A setting or option that all points have.",
            flags=("--set",),
            metavar="KEY=VALUE",
            completes="setting",
        ),
    ] = ()
    repeat: Annotated[int, OptionSpec("Number of jobs of each point.", minimum=1)] = 3
    seed: Annotated[int, OptionSpec("Seed for the random order of the jobs.", minimum=0)] = 1
    outputs: Annotated[
        bool,
        OptionSpec("Let runs write the outputs and checkpoints of the case, which they otherwise do not."),
    ] = False

    checkpoint: Annotated[
        str | None,
        OptionSpec(
            "Continue in every job from this checkpoint, or from the newest of a folder; run.steps then counts the "
            "steps after it.",
            metavar="PATH",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check the ranges, and that it is clear how sizes change."""
        super().__post_init__()
        if self.weak and self.strong:
            raise ConfigError("--weak cannot be used with --strong. Leave one of them out.")
        if not self.ranks:
            raise ConfigError("--ranks must have at least one number of ranks, such as --ranks 1,2,4.")
        if len(self.ranks) > 1 and not (self.weak or self.strong):
            numbers = ",".join(map(str, self.ranks))
            raise ConfigError(
                f"--ranks {numbers} requires --weak or --strong, because the sizes depend on it."
            )

    @property
    def scaling(self) -> Literal["weak", "strong"]:
        """What is kept. With one number of ranks both are the same."""
        return "weak" if self.weak else "strong"


@dataclass(frozen=True)
class SubmitOptions(DeclaredOptions):
    """How the jobs of a study are given to a batch system."""

    submit: Annotated[
        System, OptionSpec("Write scripts for this batch system instead of running the jobs here.")
    ] = "none"
    now: Annotated[bool, OptionSpec("Submit the scripts too, with sbatch or qsub.")] = False
    ranks_per_node: Annotated[
        int | None,
        OptionSpec(
            "Largest number of ranks on a node.",
            minimum=1,
            otherwise="as many as fill the cores of this node",
        ),
    ] = None
    time: Annotated[str, OptionSpec("Time limit of each job of the batch system.", metavar="HH:MM:SS")] = (
        "00:30:00"
    )
    directive: Annotated[
        tuple[str, ...],
        OptionSpec("Additional line for #SBATCH or #PBS, as --directive=--account=abc.", metavar="TEXT"),
    ] = ()
    launcher_option: Annotated[
        tuple[str, ...],
        OptionSpec("Additional option for srun or mpiexec, as --launcher-option=--mpi=pmi2.", metavar="TEXT"),
    ] = ()

    def __post_init__(self) -> None:
        """Check the ranges, and that no option of scripts is given without --submit."""
        super().__post_init__()
        if self.submit == "none":
            given = [name for name, value in vars(self).items() if value != getattr(type(self), name)]
            if given:
                flag = given[0].replace("_", "-")
                raise ConfigError(f"--{flag} requires --submit slurm or --submit pbs.")
        if not re.fullmatch(r"\d+:[0-5]\d:[0-5]\d", self.time):
            raise ConfigError(f"--time {self.time}: write the time as HH:MM:SS, such as 00:30:00.")
        for name, lines, example in (
            ("--directive", self.directive, "--account=abc"),
            ("--launcher-option", self.launcher_option, "--mpi=pmi2"),
        ):
            for line in lines:
                if not line.strip() or "\n" in line:
                    raise ConfigError(f"{name} {line!r}: it must be one line of text, such as {example}.")


@dataclass(frozen=True)
class SweepOptions(DeclaredOptions):
    """The cases of a sweep, and how they share the cores."""

    over: Annotated[
        tuple[str, ...],
        OptionSpec(
            "Axis: a setting with first value, last value and number of values, or with a list of values, or several "
            "settings that change together, as 'A=1,2 & B=3,4'.",
            metavar="KEY=FIRST:LAST:COUNT|V,V,...",
        ),
    ] = ()
    settings: Annotated[
        tuple[str, ...],
        OptionSpec(
            "A setting that all cases have.", flags=("--set",), metavar="KEY=VALUE", completes="setting"
        ),
    ] = ()
    ranks: Annotated[
        int, OptionSpec("Number of MPI ranks of each case.", flags=("--ranks", "-n"), minimum=1)
    ] = 1
    at_once: Annotated[
        int | None,
        OptionSpec(
            "Number of cases that run at the same time.",
            minimum=1,
            otherwise="as many as the cores of this machine hold",
        ),
    ] = None
    picture: Annotated[
        str | None,
        OptionSpec(
            "Field that the contact sheet shows.", metavar="NAME", otherwise="the first field of each case"
        ),
    ] = None
    plane: Annotated[
        str, OptionSpec("Plane that the contact sheet shows, as for `ridgeline plot`.", metavar="AXIS=PLACE")
    ] = "z=mid"
    colour_map: Annotated[
        str | None,
        OptionSpec(
            "Colour map of matplotlib for the contact sheet.",
            flags=("--colour-map", "--cmap"),
            metavar="NAME",
            otherwise="by the field",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check the ranges, and that there is an axis."""
        super().__post_init__()
        if not self.over:
            raise ConfigError("a sweep requires an axis, such as --over model.F=0.02:0.06:5.")
