"""Slow GPUs, by comparison with the node's other GPUs and with the same GPU of other nodes, or by a limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ridgeline.runtime.units import number
from ridgeline.validate.judge.inventory_screening import FEWEST_PEERS
from ridgeline.validate.judge.links import find_suspects
from ridgeline.validate.judge.statistics import (
    FEW,
    Booleans,
    Floats,
    centre,
    costs,
    figure,
    screen_costs,
    steady,
    summarise,
)
from ridgeline.validate.judge.suspects import GPU_SLOW, GPU_WRONG, Suspects, allowed_in_words, percent
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, PartQuantity

Names = Mapping[int, Sequence[str]]  # node -> names of its GPUs


def screen_parts(
    measurements: Measurements, thresholds: Thresholds, suspects: Suspects, verdict: Verdict
) -> None:
    """Suspect GPUs that were wrong, or whose figures are worse than those of their like or than a limit.

    A GPU is compared with the GPUs of equal number if three nodes or more have one, and otherwise with all GPUs. GPUs
    of one node differ in how they are connected, so a pair of GPUs is compared only with pairs of equal numbers.
    """
    for node, parts in measurements.part_errors.items():
        for name, texts in parts.items():
            for text in texts:
                suspects.add("GPU", [node], text, GPU_WRONG, name=f"{measurements.nodes[node]} {name}")
    for quantity in measurements.part_quantities:
        _screen(quantity, measurements.gpus, thresholds, suspects, verdict)


def part_name(node: str, names: Sequence[str], row: tuple[int, int]) -> str:
    """Return the name of a GPU, or of a pair of them, with its node."""
    ends = [names[end] if end < len(names) else f"GPU {end}" for end in row if end >= 0]
    return f"{node} {' - '.join(ends)}"


def parts_as_nodes(measurements: Measurements) -> Iterator[tuple[NodeQuantity, tuple[int, int]]]:
    """Yield each figure of the GPUs of equal number as one of nodes, such as "GPU triad, GPU 2", with the number.

    That is how baselines and the history compare GPUs: the number of the other GPU of a pair is -1 for none.
    """
    for quantity in measurements.part_quantities:
        for place in sorted(set(zip(quantity.number.tolist(), quantity.peer.tolist()))):
            rows = (quantity.number == place[0]) & (quantity.peer == place[1])
            table = np.full((len(measurements.nodes), quantity.values.shape[1]), np.nan)
            table[quantity.node[rows]] = quantity.values[rows]
            name = f"{quantity.name}, GPU {' - '.join(str(end) for end in place if end >= 0)}"
            yield NodeQuantity(name, quantity.unit, quantity.higher_is_better, table), place


def _screen(
    quantity: PartQuantity, gpus: Names, thresholds: Thresholds, suspects: Suspects, verdict: Verdict
) -> None:
    cost = costs(quantity.values, quantity.higher_is_better)
    estimate, noise, holds = steady(cost)
    there = np.isfinite(estimate)
    distance, cut, usual = (np.full(len(estimate), fill) for fill in (-np.inf, np.inf, np.nan))
    own, alike = _references(quantity, estimate, there)
    for rows in (alike, there & ~alike & (quantity.peer < 0)):
        if not rows.any():
            continue
        few = rows.sum() < FEW
        far, reference, sigma, least = screen_costs(estimate[rows] - own[rows], noise, few, thresholds)
        distance[rows], cut[rows], usual[rows] = far, least, reference + own[rows]
        if not few:
            distance[rows & ~holds] = -np.inf
        values = np.array([figure(c, quantity.higher_is_better) for c in estimate[rows]])
        summary = summarise(
            quantity.name, quantity.unit, quantity.higher_is_better, "GPUs", values, sigma, least
        )
        verdict.summaries.append(summary)
    for row, slow in _at_fault(quantity, distance, cut):
        slowdown = math.expm1(float(distance[row]))
        value = number(figure(float(estimate[row]), quantity.higher_is_better), quantity.unit)
        like = number(figure(float(usual[row]), quantity.higher_is_better), quantity.unit)
        reason = f"{quantity.name}: {value} where {like} is usual, {percent(slowdown)} more time"
        _add(quantity, int(quantity.node[row]), slow, reason, slowdown, gpus, suspects)
    _screen_limit(quantity, estimate, there, gpus, thresholds, suspects)


def _references(quantity: PartQuantity, estimate: Floats, there: Booleans) -> tuple[Floats, Booleans]:
    """Return what is usual for a GPU of each number where enough nodes have one, 0 elsewhere, and those rows.

    All that remains of the costs is then noise, and judged together: GPUs of a few nodes are many.
    """
    own, alike = np.zeros(len(estimate)), np.zeros(len(estimate), bool)
    for place in sorted(set(zip(quantity.number[there].tolist(), quantity.peer[there].tolist()))):
        rows = there & (quantity.number == place[0]) & (quantity.peer == place[1])
        if rows.sum() >= FEWEST_PEERS:
            own[rows] = centre(estimate[rows], few=rows.sum() < FEW)[0]
            alike |= rows
    return own, alike


def _at_fault(quantity: PartQuantity, distance: Floats, cut: Floats) -> list[tuple[int, tuple[int, int]]]:
    """Return rows that are slow, with the GPU or the pair of GPUs that each is the fault of."""
    slow = distance >= cut
    pairs = quantity.peer >= 0
    found = [(int(row), (int(quantity.number[row]), -1)) for row in np.flatnonzero(slow & ~pairs)]
    for node in np.unique(quantity.node[slow & pairs]):
        rows = np.flatnonzero((quantity.node == node) & pairs)
        ends = quantity.number[rows], quantity.peer[rows]
        at_fault = find_suspects(
            int(max(ends[1])) + 1, *ends, distance[rows], float(cut[rows].max()), cut[rows]
        )
        for gpu in at_fault.nodes:
            touching = rows[(ends[0] == gpu) | (ends[1] == gpu)]
            found.append((int(touching[np.argmax(distance[touching])]), (gpu, -1)))
        found += [(int(rows[n]), (int(ends[0][n]), int(ends[1][n]))) for n in at_fault.links]
    return found


def _screen_limit(
    quantity: PartQuantity,
    estimate: Floats,
    there: Booleans,
    gpus: Names,
    thresholds: Thresholds,
    suspects: Suspects,
) -> None:
    """Suspect GPUs beyond an absolute limit."""
    limit = thresholds.limit(quantity.name)
    if limit is None:
        return
    allowed = allowed_in_words(limit, quantity.unit, quantity.higher_is_better)
    beyond = estimate - float(costs(np.array(limit), quantity.higher_is_better))
    for row in np.flatnonzero(there & (beyond > 1e-9)):
        value = number(figure(float(estimate[row]), quantity.higher_is_better), quantity.unit)
        reason = f"{quantity.name}: {value}, but {allowed}"
        ends = int(quantity.number[row]), int(quantity.peer[row])
        slowdown = math.expm1(float(beyond[row]))
        _add(quantity, int(quantity.node[row]), ends, reason, slowdown, gpus, suspects)


def _add(
    quantity: PartQuantity,
    node: int,
    ends: tuple[int, int],
    reason: str,
    slowdown: float,
    gpus: Names,
    suspects: Suspects,
) -> None:
    name = part_name(suspects.nodes[node], gpus.get(node, ()), ends)
    suspects.add("GPU", [node], reason, GPU_SLOW, name=name, quantity=quantity.name, slowdown=slowdown)
