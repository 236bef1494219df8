"""Which nodes were busy with something else while they were measured: their slowness says nothing about health."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from ridgeline.validate.judge.thresholds import CPU_SHARE, Thresholds
from ridgeline.validate.judge.verdict import BusyNode
from ridgeline.validate.measure.measurements import Measurements

ADVICE = (
    "Find out what else runs there (look at top, at other jobs, and at ranks bound to the same cores), end it or "
    "change the binding, and validate again. A busy node is not a faulty node."
)
_LISTED = 3  # figures in the sentence of a node


@dataclass
class Busy:
    """Nodes that were busy, and what was therefore not judged.

    shared: node -> the share of their processors that its ranks got, where that is too little for any verdict;
    others: quantity, or benchmark of the whole system -> node -> share of the node's processors that others used;
    unmeasured: node -> what it had not enough memory for. excused: node -> quantity -> what would make it a suspect.
    """

    shared: Mapping[int, float] = field(default_factory=dict)
    others: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    unmeasured: Mapping[int, list[str]] = field(default_factory=dict)
    excused: dict[int, dict[str, list[str]]] = field(default_factory=dict)

    def during(self, quantity: str) -> set[int]:
        """Return the nodes that were busy while a quantity, or a figure of a benchmark, was measured."""
        there = self.others.get(quantity, self.others.get(quantity.partition(" ")[0], {}))
        return {*self.shared, *there}

    def excuses(self, kind: str, nodes: Collection[int], n_nodes: int, quantity: str, text: str) -> bool:
        """Say whether a part that is slow in a quantity was busy, and keep what would make it a suspect.

        One busy node is enough for a node, for a part of it, for a link, and for a benchmark that all nodes run
        together. A group, or a system whose nodes were measured one by one, needs most of its nodes.
        """
        busy = self.during(quantity)
        together = (
            kind == "system" and quantity.partition(" ")[0] in self.others and quantity not in self.others
        )
        busy_parts = busy if kind == "system" else busy.intersection(nodes)
        parts = n_nodes if kind == "system" else len(nodes)
        of_many = kind in ("switch", "fabric link", "group", "system")
        enough = parts // 2 + 1 if of_many and not together else 1
        if len(busy_parts) < enough:
            return False
        for node in busy_parts:
            known = self.excused.setdefault(node, {}).setdefault(quantity, [])
            if text not in known:
                known.append(text)
        return True

    def nodes(self, names: list[str], thresholds: Thresholds) -> list[BusyNode]:
        """Return the nodes that get no verdict, with the reasons."""
        found = []
        for node in sorted({*self.shared, *self.unmeasured, *self.excused}):
            reasons = []
            if node in self.shared:
                share, least = 100 * self.shared[node], 100 * thresholds.cpu_share
                reasons.append(
                    f"its ranks got {share:.3g} % of their processors, but a verdict requires at least {least:.3g} %"
                )
            reasons += self.unmeasured.get(node, [])
            against = self.excused.get(node, {})
            share = max((self.others.get(q, {}).get(node, 0.0) for q in self._keys(against)), default=0.0)
            if share:
                reasons.append(
                    f"other processes used {100 * share:.3g} % of its processors during the measurement"
                )
            texts = [text for some in against.values() for text in some]
            if texts:
                more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
                reasons.append(f"not judged: {'; '.join(texts[:_LISTED])}{more}")
            quantities = [CPU_SHARE] * (node in self.shared) + list(against)
            found.append(BusyNode(node, names[node], quantities, reasons))
        return found

    def _keys(self, quantities: Collection[str]) -> list[str]:
        return [q if q in self.others else q.partition(" ")[0] for q in quantities]


def find_busy(measurements: Measurements, thresholds: Thresholds) -> Busy:
    """Return the nodes whose ranks got too little of their processors, or that others used, from measurements."""
    shared = {}
    for quantity in measurements.node_quantities:
        if quantity.name != CPU_SHARE:
            continue
        for node, repeats in enumerate(quantity.values):
            there = repeats[np.isfinite(repeats)]
            # The median, because a short task of the system spoils only one repeat.
            if there.size and float(np.median(there)) < thresholds.cpu_share:
                shared[node] = float(np.median(there))
    others = {
        name: {node: share for node, share in nodes.items() if share > thresholds.others_share}
        for name, nodes in measurements.others.items()
    }
    return Busy(shared, others, measurements.no_room)
