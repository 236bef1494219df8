"""The options of a validation, declared once: flags, help, checks and the plan follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec
from ridgeline.runtime.errors import ConfigError

LEVELS = ("node", "group", "system")
# Options that say what is measured, and are stored with measurements.
MEASURED = (
    "level",
    "only",
    "serial",
    "quick",
    "time_limit",
    "stages",
    "rounds",
    "seed",
    "confirm",
    "ranks_per_node",
)


@dataclass(frozen=True)
class ValidationOptions(DeclaredOptions):
    """What is measured, what it is compared with, and where it is told.

    Raises ConfigError for options that exclude each other, or that lack the one they belong to.
    """

    level: Annotated[
        Literal["node", "group", "system"], OptionSpec("The highest level; those below it come first.")
    ] = "system"
    only: Annotated[bool, OptionSpec("Leave out the levels below.")] = False
    stages: Annotated[
        tuple[str, ...],
        OptionSpec(
            "Only this stage: memory, compute, peak, stream, on-node, group-pairs, pairs, alltoall, "
            "multi-bandwidth, multi-latency, congestion.",
            flags=("--stage",),
        ),
    ] = ()
    report: Annotated[
        str | None,
        OptionSpec("Write report.html, report.json and the hostfile nodes.good here.", metavar="DIR"),
    ] = None
    baseline: Annotated[
        str | None, OptionSpec("Compare with what --save-baseline stored.", metavar="FILE")
    ] = None
    save_baseline: Annotated[
        str | None, OptionSpec("Store the measurements for later runs.", metavar="FILE")
    ] = None
    hostlist: Annotated[
        str | None, OptionSpec("Hostfile: the job must run on just these hosts.", metavar="FILE")
    ] = None
    groups: Annotated[
        str | None,
        OptionSpec(
            "Switches or racks: lines `name: n[01-16]` or Slurm's topology.conf; or a resource of PBS nodes. "
            "Without it Slurm's own topology is taken where it has one.",
            metavar="FILE|pbs:RESOURCE",
        ),
    ] = None
    group_by: Annotated[
        str | None, OptionSpec("Group hosts by this part of their names, as x\\d+c\\d+.", metavar="REGEX")
    ] = None
    thresholds: Annotated[
        str | None, OptionSpec("TOML file with the table [thresholds].", metavar="FILE")
    ] = None
    time_limit: Annotated[float, OptionSpec("Of each stage; then it hangs.", above=0, metavar="SECONDS")] = (
        300.0
    )
    serial: Annotated[bool, OptionSpec("One node, one pair at a time: for hosts that share cores.")] = False
    quick: Annotated[bool, OptionSpec("Few repeats, small sizes, seconds a stage.")] = False
    confirm: Annotated[bool, OptionSpec("Measure suspects again before they are judged.")] = True
    rounds: Annotated[
        int | None,
        OptionSpec(
            "Rounds of pairs of nodes.", minimum=1, otherwise="all pairs of up to 64 nodes, 24 rounds of more"
        ),
    ] = None
    seed: Annotated[int, OptionSpec("Of random rounds.")] = 0
    prolog: Annotated[
        bool,
        OptionSpec("Before a job: this node alone, all its stages in less than 30 s; its counters are kept."),
    ] = False
    epilog: Annotated[
        bool,
        OptionSpec(
            "After a job: memory and arithmetic of this node; its counters against those of the prolog."
        ),
    ] = False
    job: Annotated[
        str | None,
        OptionSpec("Of a prolog or epilog.", metavar="ID", otherwise="$SLURM_JOB_ID, $PBS_JOBID"),
    ] = None
    readings: Annotated[
        str | None,
        OptionSpec(
            "Where a prolog keeps its counters for the epilog, on the node, its own and closed to others.",
            metavar="DIR",
            otherwise="/var/lib/ridgeline/prolog for root, /var/tmp/ridgeline-UID/prolog",
        ),
    ] = None
    job_output: Annotated[
        str | None,
        OptionSpec("Of an epilog: the job's output, with Cray MPICH's network summary.", metavar="FILE"),
    ] = None
    ranks_per_node: Annotated[
        int | None,
        OptionSpec("Count every so many ranks as a node.", otherwise="ranks that share memory"),
    ] = None

    def __post_init__(self) -> None:
        """Check each option, then what they say together."""
        super().__post_init__()
        if self.prolog and self.epilog:
            raise ConfigError("--prolog and --epilog are two events; choose one")
        given = {"--job": self.job, "--readings": self.readings, "--job-output": self.job_output}
        wrong = [name for name, value in given.items() if value is not None and not self.phase]
        if wrong:
            raise ConfigError(f"{wrong[0]} is of a job's --prolog or --epilog; add one of the two")

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that are measured."""
        return (self.level,) if self.only else LEVELS[: LEVELS.index(self.level) + 1]

    @property
    def repeats(self) -> int:
        """Measurements of every quantity."""
        return 3 if self.quick else 5

    def plan(self) -> ValidationOptions:
        """Return what is measured: of a prolog every quick stage of this node, of an epilog what a job may hurt."""
        if not self.phase:
            return self
        stages = ("memory", "compute") if self.epilog else ()
        return replace(self, level="node", only=False, quick=True, stages=stages)

    def measured(self) -> dict[str, Any]:
        """Return the options that say what is measured, for measurements that are stored."""
        return {name: getattr(self, name) for name in MEASURED}

    @property
    def phase(self) -> str:
        """The event of a batch job that this belongs to: "prolog", "epilog" or ""."""
        return "prolog" * self.prolog + "epilog" * self.epilog
