"""The fabric between the nodes of a job: switches, the links between them, and groups of switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError

Integers = NDArray[np.int64]
Routing = Literal["minimal", "dragonfly", "dimension-order"]
ROUTINGS: tuple[Routing, ...] = ("minimal", "dragonfly", "dimension-order")


@dataclass
class Fabric:
    """Switches, links and groups, and how messages are routed.

    Attributes
    ----------
    switches
        Names of the switches.
    switch_of
        The switch of each node of the job, int64 [n_nodes].
    links
        The two switches of each link, int64 [n_links, 2]; parallel links are rows of their own.
    groups
        Names of the groups of switches.
    group_of
        The group of each switch, -1 for none, int64 [n_switches].
    routing
        "minimal": all shortest routes are equally likely. "dragonfly": local links to a switch with a global link to
        the other group, that link, local links; all global links between two groups are equally likely.
        "dimension-order": the torus of `dimensions`, x first.
    nonminimal
        Share of the messages between groups of a dragonfly that take a way through a third group (Valiant).
    coordinates, dimensions
        Of each switch in a torus, int64 [n_switches, n], and the length of each dimension.
    inferred
        Whether switches stand for something that is not known as a switch, such as a chassis or a whole group: they
        are then not named as suspects, and a link stands for all links between two of them.
    known
        Routing matrices that were computed before.
    """

    switches: list[str]
    switch_of: Integers
    links: Integers
    groups: list[str] = field(default_factory=list)
    group_of: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    routing: Routing = "minimal"
    nonminimal: float = 0.0
    coordinates: Integers | None = None
    dimensions: tuple[int, ...] = ()
    inferred: bool = False
    known: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Fill in that no switch has a group, if no groups were given."""
        self.links = np.asarray(self.links, np.int64).reshape(-1, 2)
        if not len(self.group_of):
            self.group_of = np.full(len(self.switches), -1)

    def link_name(self, link: int) -> str:
        """Return the names of a link's switches, with a number if it is not the first of several."""
        ends = np.sort(self.links[link])
        same = np.flatnonzero((np.sort(self.links, axis=1) == ends).all(axis=1))
        name = " - ".join(self.switches[int(switch)] for switch in self.links[link])
        return name if len(same) == 1 else f"{name}, {int(np.searchsorted(same, link)) + 1} of {len(same)}"

    def nodes_by_switch(self) -> dict[str, list[int]]:
        """Return switch -> numbers of its nodes, for switches with nodes of the job."""
        found: dict[str, list[int]] = {}
        for node, switch in enumerate(self.switch_of.tolist()):
            found.setdefault(self.switches[switch], []).append(node)
        return found

    def nodes_by_group(self) -> dict[str, list[int]]:
        """Return group -> numbers of its nodes, for groups with nodes of the job."""
        found: dict[str, list[int]] = {}
        for node, group in enumerate(self.group_of[self.switch_of].tolist()):
            if group >= 0:
                found.setdefault(self.groups[group], []).append(node)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "switches": self.switches,
            "switch_of": self.switch_of.tolist(),
            "links": self.links.tolist(),
            "groups": self.groups,
            "group_of": self.group_of.tolist(),
            "routing": self.routing,
            "nonminimal": self.nonminimal,
            "coordinates": None if self.coordinates is None else self.coordinates.tolist(),
            "dimensions": list(self.dimensions),
            "inferred": self.inferred,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Fabric:
        """Return what `to_dict` stored."""
        values = dict(content)
        for key in ("switch_of", "group_of", "coordinates"):
            values[key] = None if values[key] is None else np.array(values[key], np.int64)
        values["dimensions"] = tuple(values["dimensions"])
        return cls(**values)


def number_fabric(
    nodes: Sequence[str],
    switch_of_host: Mapping[str, str],
    links: Sequence[tuple[str, str]],
    group_of_switch: Mapping[str, str],
    source: str,
    **rest: Any,
) -> Fabric:
    """Return the fabric of these nodes from names. source: of the names, for errors; rest: fields of `Fabric`.

    Raises ConfigError if a node is not attached to a switch.
    """
    from ridgeline.validate.measure.hosts import number_groups

    by_switch: dict[str, list[str]] = {}
    for host, switch in switch_of_host.items():
        by_switch.setdefault(switch, []).append(host)
    names = list(dict.fromkeys([*by_switch, *(end for link in links for end in link), *group_of_switch]))
    number = {name: index for index, name in enumerate(names)}
    switch_of = np.full(len(nodes), -1)
    for switch, members in number_groups(by_switch, nodes, source).items():
        switch_of[members] = number[switch]
    groups = list(dict.fromkeys(group_of_switch.values()))
    group_number = {name: index for index, name in enumerate(groups)}
    return Fabric(
        names,
        switch_of,
        np.array([[number[a], number[b]] for a, b in links], np.int64),
        groups,
        np.array([group_number[group_of_switch[n]] if n in group_of_switch else -1 for n in names]),
        **rest,
    )


def fabric_of_groups(n_nodes: int, groups: Mapping[str, Sequence[int]]) -> Fabric | None:
    """Return what is known of a fabric if only groups are: all links between two groups count as one.

    None if fewer than three groups have nodes, or a node has none: then nothing can be inferred.
    """
    filled = {name: members for name, members in groups.items() if len(members)}
    switch_of = np.full(n_nodes, -1)
    for number, members in enumerate(filled.values()):
        switch_of[list(members)] = number
    if len(filled) < 3 or (switch_of < 0).any():
        return None
    names = list(filled)
    pairs = np.stack(np.triu_indices(len(names), 1), axis=1)
    return Fabric(names, switch_of, pairs, names, np.arange(len(names)), "minimal", inferred=True)


def check_routing(routing: str, place: str) -> Routing:
    """Return the routing. Raises ConfigError for a name that is not one of ROUTINGS."""
    for known in ROUTINGS:
        if routing == known:
            return known
    raise ConfigError(f"{place}: routing is {routing!r}, but it must be one of {', '.join(ROUTINGS)}.")
