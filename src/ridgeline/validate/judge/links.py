"""Which node or link is at fault where pairs of nodes are slow, always or now and then.

`find_suspects` blames a node most of whose links are slow, and otherwise the link itself. `find_stalls` finds parts
that are slow only in some repeats: retries of a lossy link, a daemon that wakes up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from ridgeline.validate.judge.statistics import FEW, Floats, Integers, centre, costs
from ridgeline.validate.measure.measurements import PairQuantity


@dataclass
class LinkSuspects:
    """nodes: number -> distance of its links from the reference; links: rows of pairs that are slow themselves."""

    nodes: dict[int, float]
    links: list[int]


class _Links:
    """The links of every node that are not explained by another node."""

    def __init__(self, n_nodes: int, first: Integers, second: Integers, distance: Floats) -> None:
        self.distance = distance
        self.ends = np.stack([first, second])
        row = np.tile(np.arange(len(first)), 2)
        order = np.argsort(np.concatenate([first, second]), kind="stable")
        self.rows = row[order]
        self.start = np.searchsorted(np.concatenate([first, second])[order], np.arange(n_nodes + 1))
        self.alive = np.ones(len(first), bool)

    def of(self, node: int) -> Integers:
        rows: Integers = self.rows[self.start[node] : self.start[node + 1]]
        return rows[self.alive[rows]]

    def score(self, node: int, least: int = 2) -> float:
        """Return the distance that more than half of a node's links have or exceed; -inf with too few links."""
        distances = self.distance[self.of(node)]
        if distances.size < least:
            return -np.inf
        return float(np.partition(distances, (distances.size - 1) // 2)[(distances.size - 1) // 2])

    def drop(self, node: int) -> Integers:
        """Explain a node's links by the node; return their other ends."""
        rows = self.of(node)
        self.alive[rows] = False
        ends = self.ends[:, rows]
        others: Integers = np.unique(np.where(ends[0] == node, ends[1], ends[0]))
        return others


def node_scores(n_nodes: int, first: Integers, second: Integers, distance: Floats, least: int = 2) -> Floats:
    """Return the distance that more than half of each node's links have or exceed; -inf with less than `least`."""
    links = _Links(n_nodes, first, second, distance)
    return np.array([links.score(node, least) for node in range(n_nodes)])


def find_suspects(
    n_nodes: int,
    first: Integers,
    second: Integers,
    distance: Floats,
    node_cut: float,
    link_cut: Floats | float,
) -> LinkSuspects:
    """Return the nodes and links at fault, from the distances (costs above the reference) of all links.

    link_cut: for all links, or of each.

    A node whose links are mostly slow (more than half at or above node_cut) is a suspect, the worst first. It
    explains its links, which no longer count for their other ends; these are judged again. A link that is still slow
    after that is a suspect itself. The other links of both its ends are mostly healthy, or there are none.
    """
    links = _Links(n_nodes, first, second, distance)
    scores = {node: links.score(node) for node in np.unique(links.ends)}
    heap = [(-score, int(node)) for node, score in scores.items() if score >= node_cut]
    heapq.heapify(heap)
    nodes: dict[int, float] = {}
    while heap:
        score, node = heapq.heappop(heap)
        if node in nodes or -score != scores[node]:
            continue
        nodes[node] = -score
        for other in map(int, links.drop(node)):
            scores[other] = links.score(other)
            if scores[other] >= node_cut and other not in nodes:
                heapq.heappush(heap, (-scores[other], other))
    slow = links.alive & (distance >= link_cut)
    return LinkSuspects(nodes, [int(row) for row in np.flatnonzero(slow)])


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
    explained: Collection[tuple[int, int]] = (),
) -> Stalls:
    """Return nodes and links of whose repeats at least the share `least` takes twice the usual time or more.

    Chance must be ruled out too. If the part were like the rest, as many stalls would occur in less than one of 1000
    screenings (binomial distribution). A node is a suspect if more than half of its links stall, and more than by
    chance even without the worst of them. The worst node comes first, and its links no longer count. known: nodes
    that are suspects already; explained: pairs of nodes, the smaller first, that are always slow for another reason.
    worse: repeats of further measurements (`Measurements.worse`). A fault that comes and
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
        np.stack(
            [
                np.bincount(inverse.ravel(), some[:, at : at + n_repeats].sum(axis=1), unique.shape[1])
                for at in range(0, some.shape[1], n_repeats)
            ],
            axis=1,
        ).astype(np.float64)
        for some in (late, finite)
    )
    links = _persist(stalled, repeats)
    nodes = _persist(*(_of_nodes(table, unique, n_nodes) for table in (stalled, repeats)))
    stalled, repeats = stalled.sum(axis=1), repeats.sum(axis=1)
    alive = (repeats > 0) & (unique[0] != unique[1]) & ~np.isin(unique, list(known)).any(axis=0)
    if explained:
        always = set(explained)
        alive &= np.array([pair not in always for pair in zip(*unique.tolist())])
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
    n_nodes: int,
    ends: Integers,
    stalled: NDArray[np.float64],
    repeats: NDArray[np.float64],
    nodes: NDArray[np.bool_],
    links: NDArray[np.bool_],
    alive: NDArray[np.bool_],
    least: float,
) -> Stalls:
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
    stalled: NDArray[np.float64],
    repeats: NDArray[np.float64],
    part: NDArray[np.bool_],
    rest: NDArray[np.bool_],
    parts: int,
) -> bool:
    """Whether a part's stalls are too many to be those of the rest, for one of so many parts."""
    usual = max((stalled[rest].sum() + 0.5) / (repeats[rest].sum() + 1.0), USUAL_SHARE)
    hits, trials = int(stalled[part].sum()), int(repeats[part].sum())
    return bool(hits > 0 and bdtrc(hits - 1, trials, usual) < CHANCE / parts)
