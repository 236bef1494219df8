"""Slow GPUs, by comparison with the node's other GPUs and with the same GPU of other nodes, or by a limit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ridgeline.runtime.units import number
from ridgeline.validate.judge.inventory_screening import FEWEST_PEERS
from ridgeline.validate.judge.links import find_suspects
from ridgeline.validate.judge.statistics import (
    FEW,
    Booleans,
    Floats,
    costs,
    figure,
    screen_costs,
    steady,
    summarise,
)
from ridgeline.validate.judge.suspects import GPU_SLOW, GPU_WRONG, Suspects, allowed_in_words, percent
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.measurements import Measurements, PartQuantity

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


def _screen(
    quantity: PartQuantity, gpus: Names, thresholds: Thresholds, suspects: Suspects, verdict: Verdict
) -> None:
    cost = costs(quantity.values, quantity.higher_is_better)
    estimate, noise, holds = steady(cost)
    there = np.isfinite(estimate)
    distance, cut, usual = (np.full(len(estimate), fill) for fill in (-np.inf, np.inf, np.nan))
    for rows in _populations(quantity, there):
        few = rows.sum() < FEW
        far, reference, sigma, least = screen_costs(estimate[rows], noise, few, thresholds)
        distance[rows], cut[rows], usual[rows] = far, least, reference
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


def _populations(quantity: PartQuantity, there: Booleans) -> list[Booleans]:
    """Return the rows that are compared with each other."""
    rest = there.copy()
    found = []
    for place in sorted(set(zip(quantity.number[there].tolist(), quantity.peer[there].tolist()))):
        rows = there & (quantity.number == place[0]) & (quantity.peer == place[1])
        if rows.sum() >= FEWEST_PEERS:
            found.append(rows)
            rest &= ~rows
    alone = rest & (quantity.peer < 0)
    return found + [alone] * bool(alone.any())


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
