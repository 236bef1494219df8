"""The options of a validation, declared once: flags, help, checks and the plan follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec
from ridgeline.runtime.errors import ConfigError

LEVELS = ("node", "switch", "group", "system")
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
_WITHIN = 30.0  # seconds of a prolog or epilog


@dataclass(frozen=True)
class ValidationOptions(DeclaredOptions):
    """What is measured, what it is compared with, and where it is reported.

    Raises ConfigError for options that exclude each other, or that require another one.
    """

    level: Annotated[
        Literal["node", "switch", "group", "system"],
        OptionSpec("Highest level to measure, after all levels below it."),
    ] = "system"
    only: Annotated[bool, OptionSpec("Leave out the levels below --level.")] = False
    stages: Annotated[
        tuple[str, ...],
        OptionSpec(
            "Measure only this stage: memory, compute, peak, stream, gpus, on-node, loopback, switch-pairs, "
            "switch-alltoall, switch-bisection, group-pairs, group-alltoall, group-bisection, pairs, alltoall, "
            "multi-bandwidth, multi-latency, allreduce or congestion.",
            flags=("--stage",),
        ),
    ] = ()
    report: Annotated[
        str | None,
        OptionSpec(
            "Write report.html, report.json and the hostfiles nodes.good and nodes.bad into this folder.",
            metavar="DIR",
        ),
    ] = None
    baseline: Annotated[
        str | None, OptionSpec("Compare with the measurements that --save-baseline stored.", metavar="FILE")
    ] = None
    save_baseline: Annotated[
        str | None,
        OptionSpec("Store the measurements as a baseline if the verdict is healthy.", metavar="FILE"),
    ] = None
    history: Annotated[
        str | None,
        OptionSpec(
            "Compare with earlier validations in this file, and add a line of JSON to it.", metavar="FILE"
        ),
    ] = None
    prometheus: Annotated[
        str | None,
        OptionSpec("Write a textfile for Prometheus's node exporter.", metavar="FILE"),
    ] = None
    syslog: Annotated[bool, OptionSpec("Send the verdict to the system's log as one line of JSON.")] = False
    hostlist: Annotated[
        str | None, OptionSpec("Require that the job runs on exactly the hosts of this file.", metavar="FILE")
    ] = None
    groups: Annotated[
        str | None,
        OptionSpec(
            "Read groups of nodes, such as racks, from a file with lines `name: n[01-16]`, from Slurm's "
            "topology.conf, or from a resource of PBS nodes.",
            metavar="FILE|pbs:RESOURCE",
            otherwise="Slurm's topology, if it has one",
        ),
    ] = None
    topology: Annotated[
        str | None,
        OptionSpec(
            "Name slow links and switches by means of the fabric in this file: TOML, Slurm's topology.conf, or the "
            "output of ibnetdiscover; xnames groups the nodes of HPE Cray EX by cabinet.",
            metavar="FILE|xnames",
        ),
    ] = None
    group_by: Annotated[
        str | None,
        OptionSpec(
            "Group nodes by the part of their names that matches, such as x\\d+c\\d+.", metavar="REGEX"
        ),
    ] = None
    thresholds: Annotated[
        str | None,
        OptionSpec(
            "Read thresholds, limits, inventory, log patterns and tools from this TOML file.", metavar="FILE"
        ),
    ] = None
    time_limit: Annotated[
        float,
        OptionSpec("Time limit of each stage, after which it counts as hung.", above=0, metavar="SECONDS"),
    ] = 300.0
    serial: Annotated[bool, OptionSpec("Measure one node or pair at a time, for hosts that share cores.")] = (
        False
    )
    quick: Annotated[bool, OptionSpec("Use few repeats and small sizes, so that a stage takes seconds.")] = (
        False
    )
    confirm: Annotated[bool, OptionSpec("Measure suspects again before the verdict.")] = True
    rounds: Annotated[
        int | None,
        OptionSpec(
            "Number of rounds of pairs of nodes.",
            minimum=1,
            otherwise="all pairs of up to 64 nodes, 24 rounds on more",
        ),
    ] = None
    seed: Annotated[int, OptionSpec("Seed for choosing the random rounds.")] = 0
    prolog: Annotated[
        bool,
        OptionSpec("Check this node before a job, and store its error counters for --epilog."),
    ] = False
    epilog: Annotated[
        bool,
        OptionSpec(
            "Check memory and arithmetic of this node after a job, and compare its error counters with those of "
            "the prolog."
        ),
    ] = False
    job: Annotated[
        str | None,
        OptionSpec(
            "Number of the job that the prolog or epilog belongs to.",
            metavar="ID",
            otherwise="$SLURM_JOB_ID, $PBS_JOBID",
        ),
    ] = None
    readings: Annotated[
        str | None,
        OptionSpec(
            "Folder on the node, closed to other users, in which a prolog stores the counters for the epilog.",
            metavar="DIR",
            otherwise="/var/lib/ridgeline/prolog for root, otherwise /var/tmp/ridgeline-UID/prolog",
        ),
    ] = None
    job_output: Annotated[
        str | None,
        OptionSpec(
            "Output file of the job, in which an epilog looks for Cray MPICH's network summary.",
            metavar="FILE",
        ),
    ] = None
    within: Annotated[
        float | None,
        OptionSpec(
            "Time after which no further stage of a prolog or epilog begins.",
            above=0,
            metavar="SECONDS",
            otherwise="30",
        ),
    ] = None
    machine: Annotated[
        str | None,
        OptionSpec(
            "Derive limits from this machine file; `here` is the one that `bench machine-file` wrote.",
            metavar="FILE|here",
        ),
    ] = None
    ranks_per_node: Annotated[
        int | None,
        OptionSpec("Number of ranks that count as one node.", otherwise="ranks that share memory"),
    ] = None

    def __post_init__(self) -> None:
        """Check each option, then their combination."""
        super().__post_init__()
        if self.prolog and self.epilog:
            raise ConfigError("--prolog cannot be used with --epilog. Choose one of the two.")
        by = {"--groups": self.groups, "--group-by": self.group_by}
        also = [name for name, value in by.items() if value is not None]
        if self.topology is not None and also:
            raise ConfigError(
                f"--topology cannot be used with {also[0]}, because the topology has the groups."
            )
        given = {
            "--job": self.job,
            "--readings": self.readings,
            "--job-output": self.job_output,
            "--within": self.within,
        }
        wrong = [name for name, value in given.items() if value is not None and not self.phase]
        if wrong:
            raise ConfigError(f"{wrong[0]} requires --prolog or --epilog.")

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that are measured."""
        return (self.level,) if self.only else LEVELS[: LEVELS.index(self.level) + 1]

    @property
    def repeats(self) -> int:
        """Measurements of every quantity."""
        return 3 if self.quick else 5

    def plan(self) -> ValidationOptions:
        """Return what is measured: by a prolog all quick stages of this node, by an epilog what a job may break."""
        if not self.phase:
            return self
        stages = ("memory", "compute") if self.epilog else ()
        within = _WITHIN if self.within is None else self.within
        return replace(self, level="node", only=False, quick=True, stages=stages, within=within)

    def measured(self) -> dict[str, Any]:
        """Return the options that say what is measured, for measurements that are stored."""
        return {name: getattr(self, name) for name in MEASURED}

    @property
    def phase(self) -> str:
        """The event of a batch job that this belongs to: "prolog", "epilog" or ""."""
        return "prolog" * self.prolog + "epilog" * self.epilog
