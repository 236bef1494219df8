"""Slow nodes, links, switches and groups of a fabric whose routes are known, or of groups of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ridgeline.runtime.units import number
from ridgeline.validate.fabric.fabric import Fabric, Integers
from ridgeline.validate.fabric.routes import RoutingMatrix, routing_matrix
from ridgeline.validate.judge.statistics import FEW, MAD_TO_SIGMA, Booleans, Floats
from ridgeline.validate.judge.suspects import (
    FABRIC_LINK,
    GROUP,
    NODE_NETWORK,
    ROUTE,
    SWITCH,
    Suspects,
    percent,
)
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.tomography import Explanation, SlowElement, cover, expected_noise, explain
from ridgeline.validate.measure.measurements import PairQuantity

_CLASS = 32  # pairs of one distance, at least, that are compared with each other
ALONE = 0.75  # of the slowdown that must be found


def routes_of(fabric: Fabric, first: Integers, second: Integers) -> RoutingMatrix:
    """Return the routing matrix of pairs, computed once for the same pairs."""
    key = hash((first.tobytes(), second.tobytes()))
    known: RoutingMatrix | None = fabric.known.get(key)
    if known is None:
        known = fabric.known[key] = routing_matrix(fabric, first, second)
    return known


def distance_classes(hops: Floats, cost: Floats) -> tuple[Integers, Floats]:
    """Return the class of every pair, int64 [n_pairs], and its cost as if it were at the distance of its class.

    Pairs of as many hops make a class. Those of a distance with few pairs are compared with the next one, after the
    trend of the medians over the distance is taken out.
    """
    rounded = np.rint(hops).astype(np.int64)
    values, place, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    place = place.ravel()
    full = np.flatnonzero((counts >= _CLASS) | (values == 0))
    if not full.size or (full.size == 1 and values[full[0]] == 0 and len(values) > 1):
        full = np.union1d(full, [int(np.argmax(np.where(values > 0, counts, 0)))])
    medians = np.array([np.median(cost[place == index]) for index in full])
    apart = full[values[full] > 0]
    trend = np.zeros(len(values))
    if apart.size > 1:
        levels = medians[values[full] > 0]
        trend = np.interp(values, values[apart], levels)
        slope = np.diff(levels) / np.diff(values[apart])
        trend += slope[0] * np.minimum(values - values[apart[0]], 0)
        trend += slope[-1] * np.maximum(values - values[apart[-1]], 0)
    # The nearest full class; nodes of one switch are never mixed with others.
    gap = np.abs(values[:, None] - values[full][None]) + 1000 * (
        (values[:, None] > 0) != (values[full][None] > 0)
    )
    nearest = np.argmin(gap, axis=1)
    shift = trend - trend[full[nearest]]
    return nearest[place], cost - shift[place]


def screen_elements(
    quantity: PairQuantity,
    routes: RoutingMatrix,
    distance: Floats,
    usual: Floats,
    noise: float,
    cut: Floats,
    thresholds: Thresholds,
    suspects: Suspects,
) -> Explanation:
    """Suspect the elements of a fabric that explain slow pairs; return what they explain.

    distance: of each pair's cost from what is usual for its distance; usual: figure of that; cut: from which a pair
    is slow; noise: standard deviation of costs; all float64 [n_pairs].
    """
    ratio = np.exp(distance)
    scale = np.ones_like(usual)
    if not quantity.higher_is_better:  # latencies add in seconds, whatever the distance
        scale = usual / float(np.median(usual))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(distance - np.median(distance))))
    sigma = max(noise, spread if distance.size >= FEW else 0.0, 1e-4)
    extra = (ratio - 1.0) * scale
    least = float(np.expm1(cut.min(initial=math.inf)))
    # One pair alone says little: where routes are known it must be slower than a healthy one may be.
    alone = np.expm1(
        cut if routes.fabric.inferred else np.maximum(cut, ALONE * math.log1p(thresholds.slowdown))
    )
    found = explain(routes, extra, scale * expected_noise(ratio - 1.0, sigma), least, alone * scale)
    typical = number(float(np.median(usual)), quantity.unit)
    ends = np.stack([routes.first, routes.second])
    for slow in found.elements:
        kind = routes.kind(slow.element)
        reason = _reason(quantity.name, slow, routes, typical)
        advice, name, members = _described(routes, slow.element, ends[:, slow.pairs])
        suspects.add(
            kind, members, reason, advice, quantity=quantity.name, slowdown=slow.extra, name=name,
            alternatives=[element_name(routes, other, suspects.nodes) for other in slow.alternatives],
        )  # fmt: skip
    return found


def _described(routes: RoutingMatrix, element: int, ends: Integers) -> tuple[str, str, list[int]]:
    """Return the advice for an element, its name, and its nodes: of a link, those that were measured across it."""
    fabric, item = routes.fabric, routes.number(element)
    kind = routes.kind(element)
    if kind == "node":
        return NODE_NETWORK, "", [item]
    if kind == "switch":
        return SWITCH, fabric.switches[item], np.flatnonzero(fabric.switch_of == item).tolist()
    if kind == "group":
        members = np.flatnonzero(fabric.group_of[fabric.switch_of] == item).tolist()
        return GROUP, fabric.groups[item], members
    return FABRIC_LINK, fabric.link_name(item), np.unique(ends).tolist()


def element_name(routes: RoutingMatrix, element: int, nodes: list[str]) -> str:
    """Return kind and name of an element."""
    fabric, kind, item = routes.fabric, routes.kind(element), routes.number(element)
    if kind == "fabric link":
        return f"{kind} {fabric.link_name(item)}"
    return f"{kind} {({'node': nodes, 'switch': fabric.switches, 'group': fabric.groups}[kind])[item]}"


def _reason(name: str, slow: SlowElement, routes: RoutingMatrix, typical: str) -> str:
    kind, more = routes.kind(slow.element), percent(slow.extra)
    if kind == "node":
        return f"{name}: most links take at least {more} more time than the usual {typical}"
    if kind == "group":
        return f"{name}: its links to other groups take {more} more time than usual between groups"
    return (
        f"{name}: messages that cross it take {more} more time than the usual {typical}, as {slow.slow} of "
        f"{len(slow.pairs)} pairs of nodes show"
    )


def add_route(
    suspects: Suspects,
    routes: RoutingMatrix,
    ends: tuple[int, int],
    reason: str,
    name: str,
    slowdown: float | None,
) -> None:
    """Suspect the route between two nodes, which too few measured pairs share to say which part of it is slow."""
    if routes.by_pair is None:
        routes.by_pair = routes.matrix.tocsr()
    row = int(np.flatnonzero((routes.first == min(ends)) & (routes.second == max(ends)))[0])
    some = slice(routes.by_pair.indptr[row], routes.by_pair.indptr[row + 1])
    parts = [element for element in routes.by_pair.indices[some].tolist() if routes.kind(element) != "node"]
    on_it = [element_name(routes, element, suspects.nodes) for element in sorted(parts)]
    suspects.add("route", ends, reason, ROUTE, quantity=name, slowdown=slowdown, alternatives=on_it)


def add_stalled(
    suspects: Suspects,
    routes: RoutingMatrix,
    stalled: Mapping[tuple[int, int], float],
    crossing: Booleans,
    name: str,
) -> dict[tuple[int, int], float]:
    """Suspect the elements that explain pairs that stall; return the pairs that none explains.

    stalled: pairs of nodes -> share of their repeats; crossing: pairs that cross another suspect, bool [n_pairs].
    """
    ends = np.stack([routes.first, routes.second])
    rows = np.array([n for n, pair in enumerate(zip(*ends.tolist())) if pair in stalled], np.int64)
    found, left = cover(routes, rows, crossing)
    for element, pairs in found.items():
        advice, label, members = _described(routes, element, ends[:, pairs])
        share = max(stalled[int(ends[0, row]), int(ends[1, row])] for row in pairs)
        reason = (
            f"{name}: up to {100 * share:.3g} % of the repeats of {len(pairs)} pairs of nodes, whose messages all "
            "cross it, took twice the usual time or more"
        )
        suspects.add(routes.kind(element), members, reason, advice, quantity=name, name=label)
    return {(int(ends[0, row]), int(ends[1, row])): 0.0 for row in left}
