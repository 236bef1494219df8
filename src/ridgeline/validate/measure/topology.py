"""Which nodes share a switch, a rack or a cabinet: from a file, the batch system, or the host names themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.measure.hosts import number_groups, read_groups


def groups_of_addresses(addresses: Sequence[str], patterns: Sequence[str]) -> dict[str, list[int]]:
    """Return switch -> node numbers from what Slurm gives each task of a job on a system with switches.

    addresses: SLURM_TOPOLOGY_ADDR by node, such as "s0.s4.n17"; patterns: SLURM_TOPOLOGY_ADDR_PATTERN, such as
    "switch.switch.node". The switch next to the node counts; {} if Slurm says nothing of switches.
    """
    groups: dict[str, list[int]] = {}
    for number, (address, pattern) in enumerate(zip(addresses, patterns)):
        parts, kinds = address.split("."), pattern.split(".")
        if len(parts) != len(kinds) or len(parts) < 2 or kinds[-1] != "node":
            return {}
        groups.setdefault(parts[-2], []).append(number)
    return groups


def groups_of_pbs(vnodes: Mapping[str, Any], key: str) -> dict[str, list[str]]:
    """Return group -> hosts from `pbsnodes -av -F json` by a resource such as "switch" or "rack".

    Raises ConfigError, naming the resources that there are, if no node has that one.
    """
    groups: dict[str, list[str]] = {}
    known: set[str] = set()
    for name, facts in vnodes.get("nodes", {}).items():
        resources = facts.get("resources_available", {})
        known |= set(resources)
        if key in resources:
            host = str(resources.get("host", facts.get("Mom", name)))
            for value in str(resources[key]).split(","):
                members = groups.setdefault(value, [])
                if host not in members:
                    members.append(host)
    if not groups:
        raise ConfigError(
            f"--groups pbs:{key}: no PBS node has the resource {key!r}. Known resources: "
            f"{', '.join(sorted(known)) or 'none'}."
        )
    return groups


def groups_of_names(nodes: Sequence[str], pattern: str) -> dict[str, list[int]]:
    """Return group -> node numbers by the part of the host name that a regular expression finds.

    The first group in parentheses counts, or the whole match if there is none: "x\\d+c\\d+" finds cabinet and chassis
    of the xnames of HPE Cray EX. Raises ConfigError if it is not a regular expression, or a node has no such part.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--group-by {pattern!r} is not a regular expression: {error}.") from None
    groups: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        match = compiled.search(node)
        if match is None:
            raise ConfigError(
                f"--group-by {pattern!r} matches nothing in the host name {node}. It must match every host name."
            )
        groups.setdefault(match.group(1) if compiled.groups else match.group(), []).append(number)
    return groups


def groups_of_xnames(nodes: Sequence[str]) -> dict[str, list[int]]:
    """Return cabinet -> node numbers from names of HPE Cray EX such as x1000c0s0b0n0; by chassis if cabinets are few.

    A name says in which cabinet (x), chassis (c), slot (s) and board (b) a node is. It does not say which switches it
    is attached to, nor what joins them. Raises ConfigError if a host has another name.
    """
    wrong = [node for node in nodes if not re.fullmatch(r"x\d+c\d+s\d+b\d+n\d+", node.partition(".")[0])]
    if wrong:
        raise ConfigError(
            f"--topology xnames: the host {wrong[0]} has no name of HPE Cray EX, such as x1000c0s0b0n0. Name a file "
            "instead, or use --group-by with a part of the host names."
        )
    cabinets = groups_of_names(nodes, r"x\d+")
    return cabinets if len(cabinets) > 2 else groups_of_names(nodes, r"x\d+c\d+")


def find_groups(
    nodes: Sequence[str],
    path: str | None,
    pattern: str | None,
    addresses: Sequence[tuple[str, str]],
    run: Callable[[Sequence[str]], str | None],
) -> dict[str, list[int]]:
    """Return group -> node numbers: from a file, or host names, or the batch system, the first that is known, or {}.

    path: file for `hosts.read_groups`, or "pbs:RESOURCE" to ask PBS; pattern: for `groups_of_names`; addresses:
    (SLURM_TOPOLOGY_ADDR, its pattern) by node, "" if not set; run: runs a command and returns its output, None if it
    is not there. Raises ConfigError or OutputError as those do.
    """
    if path is not None and path.startswith("pbs:"):
        text = run(("pbsnodes", "-av", "-F", "json"))
        if text is None:
            raise ConfigError(
                f"--groups {path}: the command `pbsnodes -av -F json` fails here. Name a file of groups instead."
            )
        return number_groups(groups_of_pbs(json.loads(text), path[4:]), nodes, path)
    if path is not None:
        return number_groups(read_groups(path), nodes, path)
    if pattern is not None:
        return groups_of_names(nodes, pattern)
    return groups_of_addresses([a for a, _ in addresses], [p for _, p in addresses])
