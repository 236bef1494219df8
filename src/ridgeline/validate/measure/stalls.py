"""Parts that are slow only now and then: retries of a lossy link, a daemon that wakes up."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from ridgeline.validate.judge.links import node_scores
from ridgeline.validate.judge.statistics import FEW, centre, costs
from ridgeline.validate.measure.measurements import PairQuantity

Integers = NDArray[np.int64]

TWICE = math.log(2.0)  # a repeat that costs this more than is usual was stalled
CHANCE = 1e-3  # that stalls as everywhere make a healthy part suspect, in all of one quantity
USUAL_SHARE = 0.01  # stalls happen anywhere, if only one in a hundred


@dataclass
class Stalls:
    """Parts that stall more often than chance allows, with the share of their repeats that did."""

    nodes: dict[int, float]
    links: dict[tuple[int, int], float]


def find_stalls(
    quantity: PairQuantity,
    worse: NDArray[np.float64] | None,
    n_nodes: int,
    known: Collection[int],
    least: float,
) -> Stalls:
    """Return nodes and links of whose repeats at least the share `least` takes twice the usual time or more.

    Chance must be ruled out too. If the part were like the rest, as many stalls would occur in less than one of 1000
    screenings (binomial distribution). A node is a suspect if more than half of its links stall, and more than by
    chance even without the worst of them. The worst node comes first, and its links no longer count. known: nodes
    that are suspects already. worse: repeats of further measurements (`Measurements.worse`). A fault that comes and
    goes is quiet in one of them by chance, so all count; but a part whose stalls are all of one measurement was
    disturbed then.
    """
    n_repeats = quantity.values.shape[1]
    values = quantity.values if worse is None else np.hstack([quantity.values, worse])
    cost = costs(values, quantity.higher_is_better)
    finite = np.isfinite(cost)
    nothing = Stalls({}, {})
    if n_repeats < 2 or not finite.any():
        return nothing
    ends = np.sort(np.stack([quantity.first, quantity.second]), axis=0)
    few = np.unique(ends).size < FEW
    best = np.min(np.where(finite, cost, np.inf), axis=1)
    reference, _ = centre(best[np.isfinite(best)], few)
    unique, inverse = np.unique(ends, axis=1, return_inverse=True)
    late = (cost > reference + TWICE) & finite
    # Of each link, by measurement: [n_links, measurements].
    stalled, repeats = (
        np.stack([
            np.bincount(inverse.ravel(), some[:, at : at + n_repeats].sum(axis=1), unique.shape[1])
            for at in range(0, some.shape[1], n_repeats)
        ], axis=1).astype(np.float64)
        for some in (late, finite)
    )  # fmt: skip
    links = _persist(stalled, repeats)
    nodes = _persist(*(_of_nodes(table, unique, n_nodes) for table in (stalled, repeats)))
    stalled, repeats = stalled.sum(axis=1), repeats.sum(axis=1)
    alive = (repeats > 0) & (unique[0] != unique[1]) & ~np.isin(unique, list(known)).any(axis=0)
    return _peel(n_nodes, unique, stalled, repeats, nodes, links, alive, least)


def _persist(stalled: NDArray[np.float64], repeats: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which parts stalled in more than one measurement, or were measured once: of [n_parts, measurements].

    A measurement of a few links of a node is none of the node.
    """
    measured = repeats > 0.5 * repeats.max(axis=1, keepdims=True)
    return np.asarray(((stalled > 0).sum(axis=1) > 1) | (measured.sum(axis=1) < 2))


def _of_nodes(table: NDArray[np.float64], ends: Integers, n_nodes: int) -> NDArray[np.float64]:
    """Return the sums over each node's links of a table [n_links, measurements]."""
    return np.stack([sum(np.bincount(end, part, n_nodes) for end in ends) for part in table.T], axis=1)


def _peel(
    n_nodes: int, ends: Integers, stalled: NDArray[np.float64], repeats: NDArray[np.float64],
    nodes: NDArray[np.bool_], links: NDArray[np.bool_], alive: NDArray[np.bool_], least: float,
) -> Stalls:  # fmt: skip
    """Take out one node after another, the worst first. nodes, links: which may be suspects: their stalls persist."""
    found = Stalls({}, {})
    while alive.any():
        rows = np.flatnonzero(alive)
        share = stalled[rows] / repeats[rows]
        scores = node_scores(n_nodes, ends[0, rows], ends[1, rows], share)
        counts = [
            sum(np.bincount(end[rows], part[rows], n_nodes) for end in ends) for part in (stalled, repeats)
        ]
        totals = counts[0] / np.maximum(counts[1], 1)
        scores[~nodes] = -np.inf
        node = int(np.argmax(np.where(scores >= least, totals, -1.0)))
        touching = alive & (ends == node).any(axis=0)
        # Were it one link alone that stalls, and chance the rest, the node would be no suspect.
        worst = np.argmax(np.where(touching, stalled / np.maximum(repeats, 1), -1.0))
        others = touching & (np.arange(len(touching)) != worst)
        if scores[node] < least or not _improbable(stalled, repeats, others, alive & ~touching, n_nodes):
            break
        found.nodes[node] = float(totals[node])
        alive = alive & ~touching
    for row in np.flatnonzero(alive & links & (stalled >= np.maximum(2, 0.5 * repeats))):
        this = np.arange(len(alive)) == row
        if _improbable(stalled, repeats, this, alive & ~this, int(alive.sum())):
            found.links[int(ends[0, row]), int(ends[1, row])] = float(stalled[row] / repeats[row])
    return found


def _improbable(
    stalled: NDArray[np.float64], repeats: NDArray[np.float64], part: NDArray[np.bool_], rest: NDArray[np.bool_],
    parts: int,
) -> bool:  # fmt: skip
    """Whether a part's stalls are too many to be those of the rest, for one of so many parts."""
    usual = max((stalled[rest].sum() + 0.5) / (repeats[rest].sum() + 1.0), USUAL_SHARE)
    hits, trials = int(stalled[part].sum()), int(repeats[part].sum())
    return bool(hits > 0 and bdtrc(hits - 1, trials, usual) < CHANCE / parts)
