"""`ridgeline bind`: where the ranks of a node belong."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Literal

import typer


def bind(
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "--ranks-per-node", min=1, help="Default: one for each network interface, or NUMA domain."
        ),
    ] = None,
    launcher: Annotated[
        Literal["mpiexec", "pals", "srun", "pbs"] | None,
        typer.Option(
            "--for",
            help="Print this launcher's options alone: MPICH's mpiexec, PALS's (Cray, Aurora), srun, qsub.",
        ),
    ] = None,
    reserve: Annotated[
        int, typer.Option(min=0, help="First cores of each NUMA domain left to the system.")
    ] = 0,
    smt: Annotated[bool, typer.Option(help="All hardware threads of a core, or the first alone.")] = True,
    sysfs: Annotated[
        str | None, typer.Option(metavar="DIR", help="A node's sys folder (default: this node's).")
    ] = None,
    hwloc: Annotated[
        str | None, typer.Option(metavar="FILE", help="A node's lstopo --of xml instead.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Print which CPUs and network interface each rank of a node should have, for its launcher.

    Ranks go beside network interfaces as long as each can have its own, then evenly over the NUMA domains.
    As in: srun $(ridgeline bind --for srun) ridgeline bench multi-bandwidth
    """
    from ridgeline.runtime.console import plain_console
    from ridgeline.runtime.errors import ConfigError
    from ridgeline.runtime.node_topology import read_hwloc, read_sysfs, this_node
    from ridgeline.validate.binding import (
        LAUNCHERS,
        bind_ranks,
        environment,
        launcher_options,
        make_table,
        to_dict,
    )

    if sysfs and hwloc:
        raise ConfigError("--sysfs and --hwloc both describe the node; give one of them")
    topology = read_hwloc(hwloc) if hwloc else read_sysfs(sysfs) if sysfs else this_node()
    bindings = bind_ranks(topology, ranks_per_node, reserve, smt)
    if json:
        typer.echo(json_module.dumps(to_dict(bindings, topology.nics), indent=2))
    elif launcher:
        typer.echo(launcher_options(bindings, launcher))
    else:
        plain_console(soft_wrap=True).print(make_table(bindings))
        for name in LAUNCHERS:
            typer.echo(f"{name}: {launcher_options(bindings, name)}")
        for key, value in environment(bindings, topology.nics).items():
            typer.echo(f"export {key}='{value}'")
