"""Fabrics from files: TOML, Slurm's topology.conf and the output of ibnetdiscover."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.config.check import did_you_mean
from ridgeline.config.load import parse_toml, read_text
from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.fabric.fabric import Fabric, check_routing, number_fabric
from ridgeline.validate.measure.hosts import expand, slurm_lines

CORE = "core"  # what joins switches for which the file names nothing that does
_KEYS = ("routing", "nonminimal", "dimensions", "switches", "groups", "link")
_SWITCH = re.compile(r'Switch\s+\d+\s+"(S-[0-9a-f]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(r'\[(\d+)\]\S*\s+"([SH])-([0-9a-f]+)"\[(\d+)\]\S*\s*#\s*"([^"]*)"')


def read_fabric(path: str | Path, nodes: Sequence[str]) -> Fabric:
    """Return the fabric that joins these hosts.

    Parameters
    ----------
    path
        A file `*.toml` as docs/validation.md describes it, Slurm's topology.conf with switches or blocks, or the
        output of `ibnetdiscover`. What is in the file decides.
    nodes
        The hosts of the job.

    Raises
    ------
    OutputError
        The file cannot be read.
    ConfigError
        The file is none of these, or a host is attached to no switch in it.
    """
    path = Path(path)
    if path.suffix == ".toml":
        return _of_toml(path, nodes)
    text = read_text(path)
    if _SWITCH.search(text):
        return _of_ibnetdiscover(text, nodes, str(path))
    if re.search(r"(?im)^\s*(switchname|blockname)\s*=", text):
        return _of_slurm(path, nodes)
    raise ConfigError(
        f"{path}: the file is no topology. Name a file *.toml, Slurm's topology.conf, or the output of ibnetdiscover."
    )


def _of_slurm(path: Path, nodes: Sequence[str]) -> Fabric:
    """Return the tree of the lines SwitchName, or blocks that a core joins."""
    switch_of: dict[str, str] = {}
    links: list[tuple[str, str]] = []
    parents: dict[str, list[str]] = {}
    for fields in slurm_lines(path):
        switch = fields.get("switchname") or fields.get("blockname")
        if not switch:
            continue
        parents.setdefault(switch, [])
        for host in expand(fields.get("nodes", "")):
            switch_of.setdefault(host, switch)
        for child in expand(fields.get("switches", "")):
            links.append((child, switch))
            parents.setdefault(child, []).append(switch)
    roots = [switch for switch, above in parents.items() if not above]
    tops = {switch for _, switch in links}
    # Several roots above the same switches are the spines of one tree; others are joined by what the file leaves out.
    if len(roots) > 1 and not (set(roots) <= tops and _joined(links, roots)):
        links += [(root, CORE) for root in roots]
    return number_fabric(nodes, switch_of, links, {}, str(path))


def _joined(links: Sequence[tuple[str, str]], roots: Sequence[str]) -> bool:
    """Say whether links join all of these switches."""
    near: dict[str, set[str]] = {}
    for a, b in links:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    reached, front = {roots[0]}, [roots[0]]
    while front:
        new = near.get(front.pop(), set()) - reached
        reached |= new
        front += new
    return set(roots) <= reached


def _of_ibnetdiscover(text: str, nodes: Sequence[str], source: str) -> Fabric:
    """Return the switches and links of a subnet. A host is the first word of its adapter's description."""
    names: dict[str, str] = {}
    switch_of: dict[str, str] = {}
    cables: dict[tuple[tuple[str, str], tuple[str, str]], None] = {}
    here = ""
    for line in text.splitlines():
        head = _SWITCH.match(line.strip())
        if head:
            here = head[1][2:]
            names[here] = head[2]
            continue
        if re.match(r"\s*(Ca|Rt)\s+\d", line):
            here = ""
        port = _PORT.match(line.strip()) if here else None
        if port is None:
            continue
        number, kind, peer, peer_number, description = port.groups()
        if kind == "H":
            switch_of.setdefault(description.split()[0] if description.split() else peer, here)
        else:
            here_end, there = (here, number), (peer, peer_number)
            if (there, here_end) not in cables:  # each end lists the cable
                cables[here_end, there] = None
    # Descriptions of the same model are alike; the GUID then tells switches apart.
    counts = [list(names.values()).count(name) for name in names.values()]
    shown = {guid: name if count == 1 else guid for (guid, name), count in zip(names.items(), counts)}
    links = [(shown.get(a, a), shown.get(b, b)) for (a, _), (b, _) in cables]
    hosts = {host: shown[guid] for host, guid in switch_of.items()}
    return number_fabric(nodes, hosts, links, {}, source)


def _of_toml(path: Path, nodes: Sequence[str]) -> Fabric:
    """Return the fabric of a file with the tables [switches] and [groups] and the tables [[link]]."""
    document = parse_toml(path, read_text(path))
    unknown = [key for key in document if key not in _KEYS]
    if unknown:
        raise ConfigError(
            f"{path}: unknown key {unknown[0]!r}{did_you_mean(unknown[0], list(_KEYS))} Known keys: "
            f"{', '.join(_KEYS)}."
        )
    switches = _table(document, "switches", path)
    if not switches:
        raise ConfigError(
            f'{path}: the table [switches] is missing. It has a line such as s1 = "n[01-16]" a switch.'
        )
    switch_of: dict[str, str] = {}
    for switch, hosts in switches.items():
        for host in expand(hosts):
            if switch_of.setdefault(host, switch) != switch:
                raise ConfigError(
                    f"{path}: host {host} is attached to {switch_of[host]} and to {switch}. Leave it at one of them."
                )
    of_group = _table(document, "groups", path)
    group_of = {switch: group for group, members in of_group.items() for switch in expand(members)}
    missing = [switch for switch in group_of if switch not in switches]
    if missing:
        raise ConfigError(
            f"{path}: groups.{group_of[missing[0]]} names {missing[0]!r}, which is not in [switches]."
        )
    routing = check_routing(str(document.get("routing", "minimal")), str(path))
    nonminimal = document.get("nonminimal", 0.0)
    if isinstance(nonminimal, bool) or not isinstance(nonminimal, int | float) or not 0 <= nonminimal < 1:
        raise ConfigError(f"{path}: nonminimal is {nonminimal!r}, but it must be a number from 0 to below 1.")
    if routing == "dragonfly" and set(group_of) != set(switches):
        raise ConfigError(f'{path}: routing = "dragonfly" requires that each switch is in one of [groups].')
    links: list[tuple[str, str]] = []
    shape: dict[str, Any] = {}
    if routing == "dimension-order":
        links, shape = _torus(document, list(switches), path)
    for entry in document.get("link", []):
        links += _links(entry, switches, path)
    fabric = number_fabric(
        nodes, switch_of, links, group_of, str(path), routing=routing, nonminimal=float(nonminimal)
    )
    if shape:
        order = {name: number for number, name in enumerate(switches)}
        places = np.stack(np.unravel_index(np.arange(len(order)), shape["dimensions"], "F"), axis=1)
        fabric.coordinates = places[[order[name] for name in fabric.switches]]
        fabric.dimensions = shape["dimensions"]
    return fabric


def _table(document: Mapping[str, Any], key: str, path: Path) -> dict[str, str]:
    """Return a table of lists of names."""
    table = document.get(key, {})
    if not isinstance(table, Mapping) or not all(isinstance(value, str) for value in table.values()):
        raise ConfigError(f'{path}: [{key}] must be a table of texts, such as name = "a[1-4],b7".')
    return dict(table)


def _links(entry: Any, switches: Mapping[str, str], path: Path) -> list[tuple[str, str]]:
    """Return the links of a table [[link]]: of each switch of `from` with each one of `to`."""
    if not isinstance(entry, Mapping) or not {"from", "to"} <= set(entry) <= {"from", "to", "count"}:
        raise ConfigError(f"{path}: a table [[link]] needs the keys from and to, and may have count.")
    begin, end, count = expand(str(entry["from"])), expand(str(entry["to"])), entry.get("count", 1)
    wrong = [name for name in (*begin, *end) if name not in switches]
    if wrong:
        raise ConfigError(
            f"{path}: a link names {wrong[0]!r}, which is not in [switches].{did_you_mean(wrong[0], list(switches))}"
        )
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1000:
        raise ConfigError(
            f"{path}: count of a link is {count!r}, but it must be a whole number from 1 to 1000."
        )
    pairs = combinations(begin, 2) if begin == end else product(begin, end)
    return [pair for pair in pairs if pair[0] != pair[1] for _ in range(count)]


def _torus(
    document: Mapping[str, Any], switches: Sequence[str], path: Path
) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return the links of a torus whose switches are listed with x fastest, and its shape."""
    dimensions = document.get("dimensions")
    if (
        not isinstance(dimensions, list)
        or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in dimensions)
        or int(np.prod(dimensions)) != len(switches)
    ):
        raise ConfigError(
            f'{path}: routing = "dimension-order" requires dimensions, a list of whole numbers whose product is the '
            f"number of switches, {len(switches)}. The switches are listed with x fastest."
        )
    shape = tuple(dimensions)
    numbers = np.arange(len(switches)).reshape(shape, order="F")
    links = []
    for axis, length in enumerate(shape):
        if length > 1:
            ahead = np.roll(numbers, -1, axis)
            pairs = zip(numbers.ravel("F").tolist(), ahead.ravel("F").tolist())
            links += [(switches[a], switches[b]) for a, b in pairs if length > 2 or a < b]
    return links, {"dimensions": shape}
