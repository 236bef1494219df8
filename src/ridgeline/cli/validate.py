"""`ridgeline validate`: which parts of this machine are not fit for a run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ridgeline.cli.options import Debug, Ranks, RanksPerNode


def validate(
    ranks: Ranks = None,
    level: Annotated[
        Literal["node", "group", "system"], typer.Option(help="The highest level; those below it come first.")
    ] = "system",
    only: Annotated[bool, typer.Option("--only", help="Leave out the levels below.")] = False,
    stages: Annotated[
        list[str] | None,
        typer.Option(
            "--stage",
            help="Only this stage: memory, compute, peak, stream, on-node, group-pairs, pairs, alltoall, "
            "multi-bandwidth, multi-latency, congestion; may be repeated.",
        ),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write report.html, report.json and the hostfile nodes.good here."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="FILE", help="Compare with what --save-baseline stored.")
    ] = None,
    save_baseline: Annotated[
        str | None, typer.Option(metavar="FILE", help="Store the measurements for later runs.")
    ] = None,
    hostlist: Annotated[
        str | None, typer.Option(metavar="FILE", help="Hostfile: the job must run on just these hosts.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|pbs:RESOURCE",
            help="Switches or racks: lines `name: n[01-16]` or Slurm's topology.conf; or a resource of PBS nodes. "
            "Without it Slurm's own topology is taken where it has one.",
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Group hosts by this part of their names, as x\\d+c\\d+."),
    ] = None,
    thresholds: Annotated[
        str | None, typer.Option(metavar="FILE", help="TOML file with the table [thresholds].")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="Of each stage; then it hangs.")
    ] = 300.0,
    serial: Annotated[
        bool, typer.Option("--serial", help="One node, one pair at a time: for hosts that share cores.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few repeats, small sizes, seconds a stage.")
    ] = False,
    confirm: Annotated[bool, typer.Option(help="Measure suspects again before they are judged.")] = True,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Rounds of pairs of nodes (default: all pairs of up to 64 nodes, 24 rounds of more)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of random rounds.")] = 0,
    prolog: Annotated[
        bool,
        typer.Option(
            "--prolog",
            help="Before a job: this node alone, all its stages in less than 30 s; its counters are kept.",
        ),
    ] = False,
    epilog: Annotated[
        bool,
        typer.Option(
            "--epilog",
            help="After a job: memory and arithmetic of this node; its counters against those of the prolog.",
        ),
    ] = False,
    job: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Of a prolog or epilog (default: $SLURM_JOB_ID, $PBS_JOBID)."),
    ] = None,
    readings: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where a prolog keeps its counters for the epilog, on the node, its own and closed to others "
            "(default: /var/lib/ridgeline/prolog for root, /var/tmp/ridgeline-UID/prolog).",
        ),
    ] = None,
    job_output: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Of an epilog: the job's output, with Cray MPICH's network summary."
        ),
    ] = None,
    ranks_per_node: RanksPerNode = None,
    debug: Debug = False,
) -> None:
    """Measure each node alone, then groups of nodes, then the whole system, and blame slow nodes and slow links.

    Nodes: memory patterns, exact arithmetic and the share of the processor that ranks get, multiply-adds, STREAM
    triad, messages on the node. Pairs of nodes, in rounds of disjoint ones: 8 B latency t / (2 iterations), bandwidth
    bytes x window / t of the slower direction. System: all-to-all, multi-pair bandwidth and latency, congestion.
    Every figure is compared with the other parts' (median and MAD), limits and a baseline; a link is blamed only when
    the other links of both ends are healthy. Suspects are measured again.

    Exit code: 0 healthy, 1 suspects, 2 could not measure (a stage hung or failed, a node was busy with
    something else).
    """
    from ridgeline.runtime.errors import ConfigError
    from ridgeline.validate.command import Inputs, phase_plan, start_validation

    if prolog and epilog:
        raise ConfigError("--prolog and --epilog are two events; choose one")
    given = {"--job": job, "--readings": readings, "--job-output": job_output}
    wrong = [name for name, value in given.items() if value is not None and not (prolog or epilog)]
    if wrong:
        raise ConfigError(f"{wrong[0]} is of a job's --prolog or --epilog; add one of the two")
    plan = {
        "level": level,
        "only": only,
        "serial": serial,
        "quick": quick,
        "time_limit": time_limit,
        "stages": tuple(stages or ()),
        "rounds": rounds,
        "seed": seed,
        "confirm": confirm,
        "ranks_per_node": ranks_per_node,
    }
    phase = "prolog" * prolog + "epilog" * epilog
    inputs = Inputs(
        phase_plan(phase, plan) if phase else plan,
        phase,
        report,
        baseline,
        save_baseline,
        hostlist,
        groups,
        group_by,
        thresholds,
        job,
        readings,
        job_output,
    )
    code = start_validation(ranks, inputs, debug)
    if code:
        raise typer.Exit(code)
