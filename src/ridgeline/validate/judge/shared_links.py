"""Slow pairs of nodes that one shared link explains, where nothing is known of the fabric.

A link between two parts of a fabric slows down the pairs with one end on each side. If the slow pairs join two sets
of nodes, and nearly all measured pairs between these sets are slow, one part that they share explains them better
than a fault of each pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ridgeline.validate.judge.statistics import Integers

LEAST = 6  # slow pairs, and at least as many as nodes: chance joins pairs to trees, which have one pair less
SLOW_SHARE = 0.75  # of the measured pairs between the two sets


@dataclass
class SharedLink:
    """Two sets of nodes whose pairs are slow. rows: of the slow pairs; pairs: measured between the two sets."""

    sides: tuple[list[int], list[int]]
    rows: list[int]
    pairs: int


def find_shared(n_nodes: int, first: Integers, second: Integers, slow: list[int]) -> list[SharedLink]:
    """Return the links that explain several slow pairs. slow: rows of the pairs first, second: int64 [n_pairs]."""
    rows = np.array(slow, np.int64)
    if len(rows) < LEAST:
        return []
    graph = sparse.csr_array((np.ones(len(rows)), (first[rows], second[rows])), (n_nodes, n_nodes))
    graph = graph + graph.T
    part = connected_components(graph, directed=False)[1]
    found = []
    for number in np.unique(part[first[rows]]):
        mine = rows[part[first[rows]] == number]
        colour = _colours(graph, int(first[mine[0]]), n_nodes)
        sides = [np.flatnonzero(colour == side) for side in (1, 2)]
        nodes = sum(map(len, sides))
        one_side = (colour[first[mine]] == colour[second[mine]]).any()
        if len(mine) < max(LEAST, nodes) or min(map(len, sides)) < 2 or one_side:
            continue
        across = colour[first] * colour[second] == 2
        if len(mine) >= SLOW_SHARE * across.sum():
            found.append(SharedLink((sides[0].tolist(), sides[1].tolist()), mine.tolist(), int(across.sum())))
    return found


def _colours(graph: sparse.csr_array, start: int, n_nodes: int) -> Integers:
    """Return 1 and 2 for the nodes at even and odd distances from `start`, 0 for those not joined to it."""
    order, before = breadth_first_order(graph, start, directed=False)
    colour = np.zeros(n_nodes, np.int64)
    colour[start] = 1
    for node in order[1:].tolist():
        colour[node] = 3 - colour[before[node]]
    return colour
