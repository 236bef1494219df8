"""Collects the suspect nodes, links and groups, with the reasons and the advice for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ridgeline.runtime.units import number
from ridgeline.validate.judge.busy_nodes import Busy
from ridgeline.validate.judge.verdict import Suspect

Kind = Literal["node", "interface", "GPU", "link", "group", "system"]

NODE_SLOW = (
    "Compare its clock, power limit and temperature with those of a healthy node. Look for other processes on it and "
    "for missing or failing memory modules. Leave the node out until it is repaired and validated again."
)
NODE_NETWORK = (
    "Check the state, speed and error counters of its network interfaces, their cables and switch ports. Leave the "
    "node out until it is repaired and validated again."
)
INTERFACE = (
    "Check the state, speed and error counters of this network interface, its cable and its switch port. Most "
    "other interfaces of the node are well. Leave the node out until it is repaired and validated again."
)
GPU_SLOW = (
    "Compare its clock, power limit, temperature and the width of its PCI Express link with those of a healthy GPU "
    "(nvidia-smi -q). Reseat or replace it, and validate again."
)
GPU_WRONG = (
    "Do not use this GPU, because its results cannot be trusted. Look for Xid errors in the kernel's log, run dcgmi "
    "diag, and replace the GPU."
)
NODE_WRONG = (
    "Leave the node out at once, because its results cannot be trusted. Run the vendor's memory and processor "
    "diagnostics, and look for corrected and uncorrected errors in its system log."
)
NODE_SILENT = (
    "Check whether the node is up and reachable (ping, system log, console). Leave it out until it answers."
)
NODE_TOOL = "Read the tool's output in report.json, and follow its vendor's instructions."
LINK = (
    "Check the cable and the switch ports between the two nodes, and their error counters. Reseat the cable or "
    "reroute the traffic, and validate again."
)
GROUP = (
    "Check what its nodes share: the switch, uplinks, rack power and cooling. Leave the whole group out until it is "
    "repaired."
)
SYSTEM = (
    "The whole system is at fault, or the limit is wrong. Compare settings, libraries and clocks before you blame "
    "single parts."
)
WHOLE = (
    "Look for causes that no pair of nodes shows: routing, switches and links that all nodes share, settings of the "
    "MPI library, other jobs. If all of these are correct, correct the limit."
)


@dataclass
class Suspects:
    """The suspects found so far.

    nodes: host names; groups: name -> numbers of nodes; busy: nodes whose slowness other jobs explain; by_part: the
    suspects by kind, numbers of nodes and name.
    """

    nodes: list[str]
    groups: Mapping[str, list[int]] = field(default_factory=dict)
    busy: Busy = field(default_factory=Busy)
    by_part: dict[tuple[str, tuple[int, ...], str], Suspect] = field(default_factory=dict)

    def add(
        self,
        kind: Kind,
        nodes: Iterable[int],
        reason: str,
        advice: str,
        *,
        quantity: str = "",
        slowdown: float | None = None,
        name: str = "",
    ) -> None:
        """Add a reason to suspect a part, unless other jobs kept it busy.

        name: of a group; other parts are named after their nodes. quantity: the one in which the part is slow. Wrong
        data and counted errors have no quantity, and a busy node does not explain them.
        """
        numbers = tuple(sorted(nodes)) if kind != "system" else ()
        name = name or " - ".join(self.nodes[node] for node in numbers)
        text = (
            reason
            if kind == "node"
            else f"{kind} {name}: {reason}".replace("system : ", "the whole system: ")
        )
        if quantity and self.busy.excuses(kind, numbers, len(self.nodes), quantity, text):
            return
        suspect = self.by_part.setdefault((kind, numbers, name), Suspect(kind, name, list(numbers)))
        if reason not in suspect.reasons:
            suspect.reasons.append(reason)
        if advice not in suspect.advice:
            suspect.advice.append(advice)
        if quantity and quantity not in suspect.quantities:
            suspect.quantities.append(quantity)
        if slowdown is not None:
            suspect.slowdown = max(slowdown, suspect.slowdown or 0.0)

    def take(
        self, suspect: Suspect, name: str, reason: str, advice: str, *, kind: Kind | None = None
    ) -> None:
        """Add a reason to suspect a part that was judged by itself before, under another name or as another kind."""
        kind = suspect.kind if kind is None else kind
        key = (kind, tuple(suspect.nodes), name)
        known = self.by_part.setdefault(key, Suspect(kind, name, list(suspect.nodes)))
        known.reasons += [reason] * (reason not in known.reasons)
        known.advice += [advice] * (advice not in known.advice)
        known.quantities += [q for q in suspect.quantities if q not in known.quantities]
        if suspect.slowdown is not None:
            known.slowdown = max(suspect.slowdown, known.slowdown or 0.0)

    def suspect_nodes(self) -> set[int]:
        """Return the nodes that are suspects, alone or with their group."""
        return {node for s in self.by_part.values() if s.kind in ("node", "group") for node in s.nodes}

    def drop_explained_links(self) -> None:
        """Drop links with an end that is a suspect: the node, or its interface, explains them."""
        suspected = self.suspect_nodes()
        interfaces = {s.name for s in self.by_part.values() if s.kind == "interface"}
        for key, suspect in list(self.by_part.items()):
            ends = interfaces.intersection(suspect.name.split(" - "))
            if suspect.kind == "link" and (ends or suspected.intersection(suspect.nodes)):
                del self.by_part[key]

    def merge_groups(self, share: float) -> None:
        """Suspect a group instead of its nodes for a quantity that at least this share of its nodes is slow in."""
        by_node = {s.nodes[0]: s for s in self.by_part.values() if s.kind == "node"}
        for name, members in self.groups.items():
            inside = [by_node[node] for node in members if node in by_node]
            for quantity in {q: None for s in inside for q in s.quantities}:
                slow_nodes = [s for s in inside if quantity in s.quantities]
                if len(members) < 2 or len(slow_nodes) < max(2, share * len(members)):
                    continue
                if len(members) == len(self.nodes):
                    continue
                worst = max((s.slowdown or 0.0 for s in slow_nodes), default=0.0)
                reason = f"{quantity}: {len(slow_nodes)} of {len(members)} nodes are slow, by up to {percent(worst)}"
                self.add("group", members, reason, GROUP, quantity=quantity, slowdown=worst, name=name)
                for suspect in slow_nodes:
                    suspect.quantities.remove(quantity)
            for suspect in inside:
                if not suspect.quantities and suspect.slowdown is not None:
                    self.by_part.pop(("node", tuple(suspect.nodes), suspect.name), None)

    def result(self) -> list[Suspect]:
        """Return the suspects: the system, groups, nodes, parts of nodes, links, each the worst first."""
        order = {"system": 0, "group": 1, "node": 2, "interface": 3, "GPU": 3, "link": 4}
        return sorted(
            self.by_part.values(),
            key=lambda s: (order[s.kind], s.slowdown is not None, -(s.slowdown or 0.0), s.nodes),
        )


def allowed_in_words(limit: float, unit: str, higher_is_better: bool) -> str:
    """Return what a limit allows: "at least 4 GB/s is required" or "at most 2 us is allowed"."""
    if higher_is_better:
        return f"at least {number(limit, unit)} is required"
    return f"at most {number(limit, unit)} is allowed"


def percent(slowdown: float) -> str:
    """Write extra time: 0.123 as 12.3 %."""
    return f"{100 * slowdown:.3g} %" if slowdown < 10 else f"{1 + slowdown:.3g} times"
