"""Pairs of nodes that were measured over each of their network interfaces: which node, and which of its interfaces.

A rail is what the interfaces of equal number on all nodes form. Each rail is judged alone, against itself, since
interfaces of one node may differ by their place on the board. What is slow on most rails is the node's, the link's or
the group's fault as a whole. What is slow on fewer is the fault of these interfaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ridgeline.validate.fabric.fabric import Fabric
from ridgeline.validate.judge.pair_screening import screen_pairs
from ridgeline.validate.judge.statistics import Floats
from ridgeline.validate.judge.suspects import INTERFACE, Kind, Suspects
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import Suspect, Verdict
from ridgeline.validate.measure.measurements import PairQuantity

Interfaces = Mapping[int, Sequence[str]]  # node -> names by rail


def by_rail(quantity: PairQuantity) -> dict[int, PairQuantity]:
    """Return the pairs of each rail that was measured."""
    return {int(rail): quantity.rows(quantity.rail == rail) for rail in np.unique(quantity.rail)}


def interface_name(interfaces: Interfaces, node: int, rail: int) -> str:
    """Return what reports call the interface of a node on a rail."""
    names = interfaces.get(node, ())
    return names[rail] if rail < len(names) and names[rail] else f"interface {rail}"


def rail_name(interfaces: Interfaces, rail: int) -> str:
    """Return the name that the interfaces of a rail have in common, or its number."""
    names = {names[rail] for names in interfaces.values() if rail < len(names)} - {""}
    return names.pop() if len(names) == 1 else f"interface {rail}"


def screen_rails(
    quantity: PairQuantity,
    worse: Floats | None,
    fabric: Fabric | None,
    interfaces: Interfaces,
    thresholds: Thresholds,
    suspects: Suspects,
    verdict: Verdict,
) -> None:
    """Suspect nodes, links, groups and single interfaces whose figures are worse than those of their like.

    worse, fabric: see `pair_screening.screen_pairs`. With one rail, that function alone judges.
    """
    rails = by_rail(quantity)
    if len(rails) < 2:
        screen_pairs(quantity, worse, fabric, thresholds, suspects, verdict)
        return
    found: dict[tuple[str, tuple[int, ...], str], dict[int, Suspect]] = {}
    for rail, part in rails.items():
        alone = replace(suspects, by_part={})
        before = len(verdict.summaries)
        rows = None if worse is None else worse[quantity.rail == rail]
        screen_pairs(part, rows, fabric, thresholds, alone, verdict)
        for summary in verdict.summaries[before:]:
            summary.name += f" {rail_name(interfaces, rail)}"
        for key, suspect in alone.by_part.items():
            found.setdefault(key, {})[rail] = suspect
    for (kind, _, _), on_rails in found.items():
        nodes = next(iter(on_rails.values())).nodes
        measured = [rail for rail, part in rails.items() if _has(part, nodes)]
        if 2 * len(on_rails) > len(measured):
            _add_whole(suspects, on_rails, len(measured))
        else:
            for rail, suspect in on_rails.items():
                _add_interface(suspects, kind, suspect, rail, interfaces)


def _has(part: PairQuantity, nodes: Sequence[int]) -> bool:
    """Say whether these nodes were measured on a rail: both ends of a link together, one node or some of a group."""
    if len(nodes) == 2:
        pairs = np.sort(np.stack([part.first, part.second]), axis=0)
        if (pairs == np.sort(nodes)[:, None]).all(axis=0).any():
            return True
    return bool(not nodes or np.isin(list(nodes), np.concatenate([part.first, part.second])).any())


def _add_whole(suspects: Suspects, on_rails: Mapping[int, Suspect], measured: int) -> None:
    """Add a part that is slow on most rails, with the reasons of the worst of them."""
    worst = max(on_rails.values(), key=lambda suspect: suspect.slowdown or 0.0)
    count = f", on {len(on_rails)} of {measured} interfaces"
    for reason in worst.reasons:
        for advice in worst.advice:
            suspects.take(worst, worst.name, reason + count, advice)


def _add_interface(
    suspects: Suspects, kind: str, suspect: Suspect, rail: int, interfaces: Interfaces
) -> None:
    """Add a part that is slow on this rail, while it is well on most others."""
    names = [f"{suspects.nodes[node]} {interface_name(interfaces, node, rail)}" for node in suspect.nodes]
    new: dict[str, tuple[Kind, str]] = {
        "node": ("interface", names[0] if names else ""),
        "link": ("link", " - ".join(names)),
        "route": ("route", " - ".join(names)),
    }
    whole = f"{suspect.name} {rail_name(interfaces, rail)}".lstrip()
    as_kind, name = new.get(kind, (suspect.kind, whole))
    for reason in suspect.reasons:
        for advice in [INTERFACE] if kind == "node" else suspect.advice:
            suspects.take(suspect, name, reason, advice, kind=as_kind)
