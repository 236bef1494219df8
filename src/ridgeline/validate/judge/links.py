"""Whose fault a slow link is: the node's whose links are mostly slow, or the link's own."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
