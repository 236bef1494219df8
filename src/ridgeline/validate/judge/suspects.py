"""Collects the suspect nodes, links and groups, with the reasons and the advice for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ridgeline.runtime.units import number
from ridgeline.validate.judge.busy_nodes import Busy
from ridgeline.validate.judge.verdict import Suspect

Kind = Literal["node", "interface", "GPU", "link", "fabric link", "route", "switch", "group", "system"]

OF_NODES = ("node", "switch", "group")  # suspects whose nodes are suspects as a whole
LEFT_OUT = (*OF_NODES, "interface", "GPU")  # suspects whose nodes are left out

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
FABRIC_LINK = (
    "Check the cable and both ports: lanes, speed, error counters and restarts of the link. Put it into maintenance "
    "in the fabric manager, so that routes avoid it, and validate again. The nodes can be used meanwhile."
)
SHARED = (
    "The slow pairs of nodes share a part of the fabric. Give a topology (--topology, or --groups) and validate "
    "again to learn which. The nodes can be used meanwhile."
)
ROUTE = (
    "Too few measured pairs of nodes share parts of this route to say which part is slow. Validate again with more "
    "--rounds, and check the error counters of the links on the route. The nodes can be used meanwhile."
)
SWITCH = (
    "Check the switch: its error counters, temperature and firmware, and the links to its neighbours. Leave its "
    "nodes out until it is repaired."
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

    nodes: host names; groups, switches: name -> numbers of nodes; busy: nodes whose slowness other jobs explain;
    by_part: the suspects by kind, numbers of nodes and name.
    """

    nodes: list[str]
    groups: Mapping[str, list[int]] = field(default_factory=dict)
    switches: Mapping[str, list[int]] = field(default_factory=dict)
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
        alternatives: Sequence[str] = (),
    ) -> None:
        """Add a reason to suspect a part, unless other jobs kept it busy.

        name: of a group, a switch or a fabric link; other parts are named after their nodes. alternatives: what it
        cannot be told from. quantity: the one in which the part is slow. Wrong
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
        key = _key(kind, numbers, name)
        suspect = self.by_part.setdefault(key, Suspect(kind, name, list(numbers)))
        suspect.nodes = sorted({*suspect.nodes, *numbers})
        suspect.alternatives += [other for other in alternatives if other not in suspect.alternatives]
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
        known = self.by_part.setdefault(
            _key(kind, tuple(suspect.nodes), name), Suspect(kind, name, list(suspect.nodes))
        )
        known.nodes = sorted({*known.nodes, *suspect.nodes})
        known.alternatives += [other for other in suspect.alternatives if other not in known.alternatives]
        known.reasons += [reason] * (reason not in known.reasons)
        known.advice += [advice] * (advice not in known.advice)
        known.quantities += [q for q in suspect.quantities if q not in known.quantities]
        if suspect.slowdown is not None:
            known.slowdown = max(suspect.slowdown, known.slowdown or 0.0)

    def suspect_nodes(self) -> set[int]:
        """Return the nodes that are suspects, alone or with their group."""
        return {node for s in self.by_part.values() if s.kind in OF_NODES for node in s.nodes}

    def drop_explained_links(self) -> None:
        """Drop links and routes with an end that is a suspect, and routes across a suspect: these explain them."""
        suspected = self.suspect_nodes()
        interfaces = {s.name for s in self.by_part.values() if s.kind == "interface"}
        parts = {f"{s.kind} {s.name}" for s in self.by_part.values()}
        for key, suspect in list(self.by_part.items()):
            if suspect.kind not in ("link", "route"):
                continue
            ends = suspected.intersection(suspect.nodes) or interfaces.intersection(suspect.name.split(" - "))
            if ends or (suspect.kind == "route" and parts.intersection(suspect.alternatives)):
                del self.by_part[key]

    def merge_groups(self, share: float) -> None:
        """Suspect a group instead of its nodes for a quantity that at least this share of its nodes is slow in.

        The same then of the switches.
        """
        self._merge("group", self.groups, GROUP, share)
        self._merge("switch", self.switches, SWITCH, share)

    def _merge(self, kind: Kind, parts: Mapping[str, list[int]], advice: str, share: float) -> None:
        by_node = {s.nodes[0]: s for s in self.by_part.values() if s.kind == "node"}
        for name, members in parts.items():
            inside = [by_node[node] for node in members if node in by_node]
            for quantity in {q: None for s in inside for q in s.quantities}:
                slow_nodes = [s for s in inside if quantity in s.quantities]
                if len(members) < 2 or len(slow_nodes) < max(2, share * len(members)):
                    continue
                if len(members) == len(self.nodes):
                    continue
                worst = max((s.slowdown or 0.0 for s in slow_nodes), default=0.0)
                reason = f"{quantity}: {len(slow_nodes)} of {len(members)} nodes are slow, by up to {percent(worst)}"
                self.add(kind, members, reason, advice, quantity=quantity, slowdown=worst, name=name)
                for suspect in slow_nodes:
                    suspect.quantities.remove(quantity)
            for suspect in inside:
                if not suspect.quantities and suspect.slowdown is not None:
                    self.by_part.pop(("node", tuple(suspect.nodes), suspect.name), None)

    def result(self) -> list[Suspect]:
        """Return the suspects: the largest parts first, and of each kind the worst first."""
        kinds = "system", "group", "switch", "fabric link", "node", "interface", "GPU", "link", "route"
        order = {kind: place for place, kind in enumerate(kinds)}
        return sorted(
            self.by_part.values(),
            key=lambda s: (order[s.kind], s.slowdown is not None, -(s.slowdown or 0.0), s.nodes),
        )


def _key(kind: str, numbers: tuple[int, ...], name: str) -> tuple[str, tuple[int, ...], str]:
    """Return the key of a suspect. What joins many nodes is known by its name, whichever nodes suffer."""
    return kind, numbers if kind in ("node", "link", "route") else (), name


def allowed_in_words(limit: float, unit: str, higher_is_better: bool) -> str:
    """Return what a limit allows: "at least 4 GB/s is required" or "at most 2 us is allowed"."""
    if higher_is_better:
        return f"at least {number(limit, unit)} is required"
    return f"at most {number(limit, unit)} is allowed"


def percent(slowdown: float) -> str:
    """Write extra time: 0.123 as 12.3 %."""
    return f"{100 * slowdown:.3g} %" if slowdown < 10 else f"{1 + slowdown:.3g} times"
