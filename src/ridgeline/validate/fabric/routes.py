"""Routes of messages through a fabric, and the routing matrix of pairs of nodes.

An element of the fabric is a node (with its interface, cable and switch port), a switch, a link between switches, or
the uplinks of a group. The routing matrix A [n_pairs, n_elements] has the share of the messages of a pair that cross
an element: 0 or 1 if there is one route, in between if routing is adaptive. It is sparse, with some tens of entries
for each pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ridgeline.validate.fabric.fabric import Fabric, Integers

FLOOR = 0.02  # smaller shares are left out: such a part slows no pair noticeably
_CHUNK = 1 << 24  # candidates of links on routes that are looked at together
ElementKind = Literal["node", "switch", "fabric link", "group"]
KINDS: tuple[ElementKind, ...] = ("node", "fabric link", "switch", "group")


@dataclass
class Entries:
    """Entries of a sparse matrix: rows and columns, int64 [n], and their values, float64 [n]."""

    row: Integers
    column: Integers
    share: NDArray[np.float64]


@dataclass
class RoutingMatrix:
    """The shares in which pairs cross elements.

    matrix: scipy.sparse.csc_array, float64 [n_pairs, n_elements]; start: number of the first element of each kind in
    the order of KINDS, and the number of all; hops: links between switches on a pair's routes, float64 [n_pairs];
    first, second: the nodes of the pairs, int64 [n_pairs]; by_pair: the matrix by rows, once it was needed.
    """

    fabric: Fabric
    matrix: Any
    start: Integers
    hops: NDArray[np.float64]
    first: Integers
    second: Integers
    by_pair: Any = None

    def kind(self, element: int) -> ElementKind:
        """Return what an element is."""
        return KINDS[int(np.searchsorted(self.start, element, "right")) - 1]

    def number(self, element: int) -> int:
        """Return the number of an element among those of its kind."""
        return element - int(self.start[KINDS.index(self.kind(element))])


def routing_matrix(fabric: Fabric, first: Integers, second: Integers) -> RoutingMatrix:
    """Return the routing matrix of pairs of nodes. first, second: int64 [n_pairs]."""
    source, target = fabric.switch_of[first], fabric.switch_of[second]
    keys, inverse = np.unique(np.stack([source, target]), axis=1, return_inverse=True)
    inverse = inverse.ravel()
    entries = _routes(fabric, keys[0], keys[1])
    shape = (keys.shape[1], len(fabric.links))
    routes = sparse.csr_array((entries.share, (entries.row, entries.column)), shape)
    routes.sum_duplicates()
    n_pairs, n_nodes, n_switches = len(first), len(fabric.switch_of), len(fabric.switches)
    # Every link on a route adds a half to both of its switches; all messages cross the switches at its ends.
    both = np.arange(keys.shape[1])
    incidence = sparse.csr_array(
        (
            np.full(2 * len(fabric.links), 0.5),
            (np.tile(np.arange(len(fabric.links)), 2), fabric.links.T.ravel()),
        ),
        (len(fabric.links), n_switches),
    )
    ends = sparse.csr_array(
        (np.ones(2 * len(both)), (np.tile(both, 2), keys.ravel())), (len(both), n_switches)
    )
    through = (routes @ incidence).maximum(ends)
    through.data = np.minimum(through.data, 1.0)
    nodes = sparse.csr_array(
        (np.ones(2 * n_pairs), (np.tile(np.arange(n_pairs), 2), np.concatenate([first, second]))),
        (n_pairs, n_nodes),
    )
    a, b = fabric.group_of[keys[0]], fabric.group_of[keys[1]]
    leaves = [(both[side], group[side]) for group in (a, b) for side in [(a != b) & (group >= 0)]]
    rows, columns = (np.concatenate(parts) for parts in zip(*leaves))
    uplinks = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (len(both), len(fabric.groups)))
    hops = np.asarray(routes.sum(axis=1)).ravel()[inverse]
    if fabric.inferred:
        through = sparse.csr_array(through.shape)  # nothing is known of these switches
    parts = [nodes, routes[inverse], through[inverse], uplinks[inverse]]
    start = np.concatenate([[0], np.cumsum([part.shape[1] for part in parts])])
    return RoutingMatrix(fabric, sparse.hstack(parts, format="csc"), start, hops, first, second)


def _routes(fabric: Fabric, source: Integers, target: Integers) -> Entries:
    """Return the shares in which messages between pairs of switches cross links: rows are pairs."""
    apart = np.flatnonzero(source != target)
    if fabric.routing == "dimension-order":
        found = _dimension_order(fabric, source[apart], target[apart])
    elif fabric.routing == "dragonfly":
        found = _dragonfly(fabric, source[apart], target[apart])
    else:
        found = _shortest(fabric.links, len(fabric.switches), source[apart], target[apart])
    kept = found.share >= FLOOR
    return Entries(apart[found.row[kept]], found.column[kept], found.share[kept])


def _shortest(links: Integers, n_switches: int, source: Integers, target: Integers) -> Entries:
    """Return the shares of all shortest routes, each as likely as the others.

    A share is n(s, u) n(v, t) / n(s, t), with n the number of shortest routes, for a link u - v on one of them.
    Switches that no route joins have no links.
    """
    ends = np.unique(np.concatenate([source, target]))
    distance, number = _count_routes(links, n_switches, ends)
    row_of = np.zeros(n_switches, np.int64)
    row_of[ends] = np.arange(len(ends))
    s, t = row_of[source], row_of[target]
    length = distance[s, target]
    parts: list[Entries] = []
    step = max(1, _CHUNK // max(len(links), 1))
    for begin in range(0, len(s), step):
        some = slice(begin, begin + step)
        for u, v in (links.T, links.T[::-1]):
            on_route = distance[s[some]][:, u] + 1 + distance[t[some]][:, v] == length[some, None]
            row, link = np.nonzero(on_route)
            row += begin
            share = number[s[row], u[link]] * number[t[row], v[link]] / number[s[row], target[row]]
            parts.append(Entries(row, link, share))
    return _joined(parts)


def _count_routes(
    links: Integers, n_switches: int, ends: Integers
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return hops and numbers of shortest routes from `ends` to all switches, [n_ends, n_switches].

    Parallel links count as different routes. Unreachable switches are at a distance that fits no route.
    """
    pairs = np.concatenate([links, links[:, ::-1]])
    adjacency = sparse.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (n_switches, n_switches))
    distance = np.full((len(ends), n_switches), 1 << 20, np.int32)
    number = np.zeros((len(ends), n_switches))
    front = np.zeros_like(number)
    front[np.arange(len(ends)), ends] = 1.0
    hops = 0
    while front.any():
        new = front > 0
        distance[new], number[new] = hops, front[new]
        front = front @ adjacency
        front[distance < 1 << 20] = 0.0
        hops += 1
    return distance, number


def _dragonfly(fabric: Fabric, source: Integers, target: Integers) -> Entries:
    """Return the shares of routes with one global link, and of those through a third group."""
    links, group_of, n_switches = fabric.links, fabric.group_of, len(fabric.switches)
    groups = group_of[links]
    local = np.flatnonzero(groups[:, 0] == groups[:, 1])
    glob = np.flatnonzero((groups[:, 0] != groups[:, 1]) & (groups >= 0).all(axis=1))
    # Global links by the ordered pair of their groups: a link leads from `out` to `into`.
    n_groups = len(fabric.groups)
    out, into = (np.concatenate(side) for side in (links[glob].T, links[glob].T[::-1]))
    key = group_of[out] * n_groups + group_of[into]
    order = np.argsort(key, kind="stable")
    gates = _Gates(key[order], np.tile(glob, 2)[order], out[order], into[order])
    a, b = group_of[source], group_of[target]
    rows = np.arange(len(source))
    direct = gates.has(a * n_groups + b) & (a != b)
    inside = (a == b) & (a >= 0)
    other = ~direct & ~inside
    # Segments inside groups: pair, from, to, share of the pair's messages.
    segments = [(rows[inside], source[inside], target[inside], np.ones(int(inside.sum())))]
    share = np.where(direct, 1.0, 0.0)
    crossed: list[Entries] = []
    thirds = n_groups - 2
    if fabric.nonminimal > 0 and thirds > 0 and fabric.nonminimal / thirds >= FLOOR:
        share *= 1.0 - fabric.nonminimal
        for third in range(n_groups):
            way = direct & (a != third) & (b != third)
            way &= gates.has(a * n_groups + third) & gates.has(third * n_groups + b)
            some = rows[way]
            part = np.full(len(some), fabric.nonminimal / thirds)
            row, gate, part = gates.expand(some, a[some] * n_groups + third, part)
            crossed.append(Entries(row, gates.link[gate], part))
            segments.append((row, source[row], gates.out[gate], part))
            again, exit_, rest = gates.expand(np.arange(len(row)), third * n_groups + b[row], part)
            crossed.append(Entries(row[again], gates.link[exit_], rest))
            segments.append((row[again], gates.into[gate[again]], gates.out[exit_], rest))
            segments.append((row[again], gates.into[exit_], target[row[again]], rest))
    row, gate, part = gates.expand(rows[direct], a[direct] * n_groups + b[direct], share[direct])
    crossed.append(Entries(row, gates.link[gate], part))
    segments.append((row, source[row], gates.out[gate], part))
    segments.append((row, gates.into[gate], target[row], part))
    row, begin, end, part = (np.concatenate(column) for column in zip(*segments))
    kept = begin != end
    crossed.append(_local_routes(links, local, n_switches, row[kept], begin[kept], end[kept], part[kept]))
    if other.any():
        found = _shortest(links, n_switches, source[other], target[other])
        crossed.append(Entries(rows[other][found.row], found.column, found.share))
    return _joined(crossed)


@dataclass
class _Gates:
    """Global links by the ordered pair of groups that they join: all int64 [2 n_global_links], sorted by key."""

    key: Integers
    link: Integers
    out: Integers
    into: Integers

    def has(self, key: Integers) -> NDArray[np.bool_]:
        """Say which pairs of groups have a link."""
        return np.asarray(np.searchsorted(self.key, key, "right") > np.searchsorted(self.key, key))

    def expand(
        self, row: Integers, key: Integers, share: NDArray[np.float64]
    ) -> tuple[Integers, Integers, NDArray[np.float64]]:
        """Return rows, numbers of gates and shares: each row goes through all links of its pair of groups."""
        begin = np.searchsorted(self.key, key)
        count = np.searchsorted(self.key, key, "right") - begin
        many = np.repeat(np.arange(len(row)), count)
        within = np.arange(len(many)) - np.repeat(np.cumsum(count) - count, count)
        return row[many], begin[many] + within, share[many] / count[many]


def _local_routes(
    links: Integers,
    local: Integers,
    n_switches: int,
    row: Integers,
    begin: Integers,
    end: Integers,
    share: NDArray[np.float64],
) -> Entries:
    """Return the entries of segments inside groups: one link where two switches are joined, else shortest routes."""
    low, high = np.sort(links[local], axis=1).T
    key, number, count = np.unique(low * n_switches + high, return_index=True, return_counts=True)
    wanted = np.minimum(begin, end) * n_switches + np.maximum(begin, end)
    place = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
    joined = (key[place] == wanted) & (count[place] == 1) if len(key) else np.zeros(len(wanted), bool)
    parts = [Entries(row[joined], local[number[place[joined]]] if len(key) else row[:0], share[joined])]
    rest = np.flatnonzero(~joined)
    if rest.size and len(local):
        keys, inverse = np.unique(np.stack([begin[rest], end[rest]]), axis=1, return_inverse=True)
        found = _shortest(links[local], n_switches, keys[0], keys[1])
        routes = sparse.csr_array((found.share, (found.row, found.column)), (keys.shape[1], len(local)))
        many = routes[inverse.ravel()].tocoo()
        parts.append(Entries(row[rest[many.row]], local[many.col], many.data * share[rest[many.row]]))
    return _joined(parts)


def _dimension_order(fabric: Fabric, source: Integers, target: Integers) -> Entries:
    """Return the shares of routes in a torus, one dimension after the other, the shorter way round.

    Pairs are measured in both directions, whose routes differ; each has half of the messages.
    """
    assert fabric.coordinates is not None
    shape = np.array(fabric.dimensions)
    strides = np.concatenate([[1], np.cumprod(shape)[:-1]])
    place = fabric.coordinates @ strides
    switch_at = np.full(int(np.prod(shape)), -1)
    switch_at[place] = np.arange(len(place))
    # The link of each place in the positive direction of each dimension.
    positive = np.full((len(switch_at), len(shape)), -1)
    for number, (u, v) in enumerate(fabric.links.tolist()):
        difference = fabric.coordinates[v] - fabric.coordinates[u]
        dimension = int(np.flatnonzero(difference)[0])
        ahead = difference[dimension] % shape[dimension] == 1
        positive[place[u if ahead else v], dimension] = number
        if shape[dimension] == 2:
            positive[place[v], dimension] = number
    parts: list[Entries] = []
    for begin, end in ((source, target), (target, source)):
        here = fabric.coordinates[begin].copy()
        goal = fabric.coordinates[end]
        for dimension, length in enumerate(shape.tolist()):
            left = (goal[:, dimension] - here[:, dimension]) % length
            step = np.where(left <= length // 2, 1, -1)
            left = np.minimum(left, length - left)
            for _ in range(int(left.max(initial=0))):
                rows = np.flatnonzero(left > 0)
                ahead = here[rows].copy()
                ahead[step[rows] < 0, dimension] -= 1
                ahead[:, dimension] %= length
                parts.append(Entries(rows, positive[ahead @ strides, dimension], np.full(len(rows), 0.5)))
                here[rows, dimension] = (here[rows, dimension] + step[rows]) % length
                left[rows] -= 1
    return _joined(
        [Entries(p.row[p.column >= 0], p.column[p.column >= 0], p.share[p.column >= 0]) for p in parts]
    )


def _joined(parts: list[Entries]) -> Entries:
    """Return all entries."""
    if not parts:
        return Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    return Entries(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.column for part in parts]),
        np.concatenate([part.share for part in parts]),
    )
