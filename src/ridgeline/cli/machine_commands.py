"""Commands about the machine: `bench` with a command for each benchmark, `validate`, `bind` and `doctor`."""

from __future__ import annotations

import json as json_module
from collections.abc import MutableMapping
from typing import Annotated, Any, Literal

import typer

from ridgeline.cli.command_line_options import Debug, Oversubscribe, PanelGroup, Ranks, with_options
from ridgeline.runtime.declared_options import options_of
from ridgeline.validate.validation_options import ValidationOptions


class BenchmarkGroup(PanelGroup):
    """The group `bench`, whose commands are declared once one of them, or their list, is needed."""

    @property
    def commands(self) -> MutableMapping[str, Any]:
        from ridgeline.cli.bench_commands import benchmarks

        made: MutableMapping[str, Any] = typer.main.get_group(benchmarks).commands
        return made

    @commands.setter
    def commands(self, commands: MutableMapping[str, Any]) -> None:
        """Ignore the commands that Typer has collected: there are none."""


bench = typer.Typer(cls=BenchmarkGroup, no_args_is_help=True, rich_markup_mode=None)


@bench.callback()
def group() -> None:
    """Measure this machine: its parts alone, and the communication patterns of the models."""
    from ridgeline.bench.benchmark import failures

    for sentence in failures():
        typer.echo(f"warning: {sentence}", err=True)


@with_options(options_of(ValidationOptions), ValidationOptions)
def validate(
    ranks: Ranks = None,
    oversubscribe: Oversubscribe = False,
    *,
    options: ValidationOptions,
    debug: Debug = False,
) -> None:
    """Measure nodes, then switches and groups of nodes, then the whole system, and name slow or wrong parts.

    Each node: memory patterns, exact arithmetic, the share of the processor that ranks get, multiply-adds, STREAM
    triad, GPUs, and messages between its ranks. Switches and groups: pairs of nodes, all-to-all and bisection.
    System: pairs of nodes, all-to-all, bandwidth and latency of many pairs, allreduce and congestion.

    Pairs of nodes are measured in rounds of disjoint pairs: latency = t / (2 iterations) of 8 B; bandwidth = bytes x
    window / t of the slower direction.

    Every measurement is compared with those of similar parts (median and median absolute deviation), with limits,
    and with a baseline. A link is a suspect only if other links of both its ends are healthy. Suspects are measured
    again.

    Exit code: 0 healthy, 1 suspects, 2 could not measure (a stage hung or failed, or a node was busy with
    something else).
    """
    from ridgeline.validate.command import start_validation

    code = start_validation(ranks, options, debug)
    if code:
        raise typer.Exit(code)


def bind(
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "--ranks-per-node",
            min=1,
            metavar="N",
            help="Number of ranks on a node; by default one for each network interface or GPU, whichever are more, "
            "or one for each NUMA domain if there are neither.",
        ),
    ] = None,
    launcher: Annotated[
        Literal["mpiexec", "pals", "srun", "pbs"] | None,
        typer.Option(
            "--for",
            help="Print only the options for this launcher: MPICH's mpiexec, Cray's PALS, srun, or qsub (pbs).",
        ),
    ] = None,
    reserve: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Number of cores of each NUMA domain to leave to the system."),
    ] = 0,
    smt: Annotated[bool, typer.Option(help="Use all hardware threads of a core, or only the first.")] = True,
    sysfs: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Read the node from this copy of a /sys folder. [default: this node]"
        ),
    ] = None,
    hwloc: Annotated[
        str | None, typer.Option(metavar="FILE", help="Read the node from the output of `lstopo --of xml`.")
    ] = None,
    script: Annotated[
        bool,
        typer.Option(
            "--script", help="Print a shell script that gives each rank its network interface and GPU."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Print which CPUs, network interface and GPU each rank of a node should use, and the launcher's options for it.

    Ranks are placed beside network interfaces as long as each can have its own, otherwise beside GPUs, otherwise
    evenly over the NUMA domains.

    Example: ridgeline bind --script > bind.sh; srun $(ridgeline bind --for srun) sh bind.sh ridgeline validate
    """
    from ridgeline.runtime.console import plain_console
    from ridgeline.runtime.errors import ConfigError
    from ridgeline.runtime.node_topology import read_hwloc, read_sysfs, this_node
    from ridgeline.validate.binding import (
        LAUNCHERS,
        bind_ranks,
        bind_script,
        environment,
        launcher_options,
        make_table,
        to_dict,
    )

    if sum((script, json, launcher is not None)) > 1:
        raise ConfigError("--for, --script and --json print different things. Give one of them.")
    if sysfs and hwloc:
        raise ConfigError(
            "--sysfs cannot be used with --hwloc, because both describe the node. Give one of them."
        )
    topology = read_hwloc(hwloc) if hwloc else read_sysfs(sysfs) if sysfs else this_node()
    bindings = bind_ranks(topology, ranks_per_node, reserve, smt)
    if json:
        typer.echo(json_module.dumps(to_dict(bindings, topology), indent=2))
    elif script:
        typer.echo(bind_script(bindings, topology), nl=False)
    elif launcher:
        typer.echo(launcher_options(bindings, launcher))
    else:
        plain_console(soft_wrap=True).print(make_table(bindings))
        for name in LAUNCHERS:
            typer.echo(f"{name}: {launcher_options(bindings, name)}")
        for key, value in environment(bindings, topology.nics).items():
            typer.echo(f"export {key}='{value}'")


def doctor(
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, as for a bug report.")
    ] = False,
) -> None:
    """Look for MPI, ADIOS2, FFTW, BLAS, GPUs and cores, and say what is missing and how to fix it.

    Exit code 1 if something is missing that Ridgeline cannot do without.
    """
    from ridgeline.runtime.launcher import may_print
    from ridgeline.validate.doctor import examine, findings_to_dict, print_findings

    findings = examine()
    if json and may_print():
        typer.echo(json_module.dumps(findings_to_dict(findings), indent=2))
    elif may_print():
        print_findings(findings)
    if any(finding.status == "missing" for finding in findings):
        raise typer.Exit(1)
