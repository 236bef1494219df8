"""Slow links, and nodes and groups whose links are mostly slow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.units import number
from ridgeline.validate.fabric.fabric import Fabric
from ridgeline.validate.fabric.routes import RoutingMatrix
from ridgeline.validate.judge.fabric_screening import (
    add_route,
    add_stalled,
    distance_classes,
    routes_of,
    screen_elements,
)
from ridgeline.validate.judge.links import Stalls, find_stalls, find_suspects, node_scores
from ridgeline.validate.judge.shared_links import find_shared
from ridgeline.validate.judge.statistics import (
    FEW,
    Floats,
    Integers,
    centre,
    costs,
    cut_of,
    figure,
    screen_costs,
    steady,
    summarise,
)
from ridgeline.validate.judge.suspects import (
    LINK,
    NODE_NETWORK,
    SHARED,
    SYSTEM,
    Suspects,
    allowed_in_words,
    percent,
)
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.measurements import PairQuantity


@dataclass
class LinkCosts:
    """One cost for every link. first < second: int64 [n_links]; cost: float64 [n_links]; holds: see `steady`."""

    first: Integers
    second: Integers
    cost: Floats
    holds: NDArray[np.bool_]
    noise: float


def link_costs(quantity: PairQuantity) -> LinkCosts:
    """Return the links of a quantity, those measured twice (from both ends, by several ranks) as their mean."""
    estimate, noise, holds = steady(costs(quantity.values, quantity.higher_is_better))
    known = np.isfinite(estimate) & (quantity.first != quantity.second)
    ends = np.sort(np.stack([quantity.first[known], quantity.second[known]]), axis=0)
    unique, inverse, counts = np.unique(ends, axis=1, return_inverse=True, return_counts=True)
    inverse = inverse.ravel()
    cost = np.bincount(inverse, estimate[known], unique.shape[1]) / np.maximum(counts, 1)
    agreeing = np.bincount(inverse, holds[known], unique.shape[1]) > 0
    return LinkCosts(unique[0], unique[1], cost, agreeing, noise)


@dataclass
class _Distances:
    """Of all links from what is usual for their kind. usual, cut: of each link's kind; all float64 [n_links]."""

    distance: Floats
    usual: Floats
    cut: Floats


def screen_pairs(
    quantity: PairQuantity,
    worse: Floats | None,
    fabric: Fabric | None,
    thresholds: Thresholds,
    suspects: Suspects,
    verdict: Verdict,
) -> None:
    """Suspect parts whose figures are worse than those of the others, or than a limit.

    worse: repeats of further measurements, see `Measurements.worse`; fabric: what joins the nodes, None if nothing is
    known. With a fabric, pairs are compared with pairs of the same distance, and elements of the fabric are suspects;
    without one, nodes and the links between two nodes.
    """
    links = link_costs(quantity)
    if not links.cost.size:
        return
    values = np.array([figure(c, quantity.higher_is_better) for c in links.cost])
    few = np.unique(np.concatenate([links.first, links.second])).size < FEW
    routes = None if fabric is None else routes_of(fabric, links.first, links.second)
    measured = _measure_distances(quantity, links, values, few, routes, thresholds, verdict)
    if routes is None:
        nodes, rows = _screen_nodes_and_links(quantity, links, values, measured, few, thresholds, suspects)
        pairs = zip(links.first[rows].tolist(), links.second[rows].tolist())
        stalled = find_stalls(quantity, worse, len(suspects.nodes), nodes, thresholds.stalls, list(pairs))
    else:
        crossing = _screen_fabric(quantity, links, values, measured, routes, thresholds, suspects)
        pairs = zip(links.first[crossing].tolist(), links.second[crossing].tolist())
        stalled = find_stalls(quantity, worse, len(suspects.nodes), (), thresholds.stalls, list(pairs))
        if not routes.fabric.inferred:
            crossing = crossing | np.isin(np.stack([links.first, links.second]), list(stalled.nodes)).any(
                axis=0
            )
            left = add_stalled(suspects, routes, stalled.links, crossing, quantity.name)
            stalled.links = {ends: stalled.links[ends] for ends in left}
    _add_stalls(quantity, stalled, None if routes is None or routes.fabric.inferred else routes, suspects)
    _screen_limit(quantity, links, values, thresholds, suspects)


def _measure_distances(
    quantity: PairQuantity,
    links: LinkCosts,
    values: Floats,
    few: bool,
    routes: RoutingMatrix | None,
    thresholds: Thresholds,
    verdict: Verdict,
) -> _Distances:
    """Return how far links are from the usual for their distance, and add the statistics to the verdict."""
    classes, cost = np.zeros(links.cost.size, np.int64), links.cost
    if routes is not None:
        classes, cost = distance_classes(routes.hops, links.cost)
    result = _Distances(*(np.zeros_like(links.cost) for _ in range(3)))
    labels = [""]
    if routes is not None and routes.fabric.inferred and classes.any():
        labels = [" inside groups", " between groups"]
    worst = (0.0, 0.0)
    for number_ in range(int(classes.max()) + 1):
        rows = classes == number_
        start = None
        if routes is not None and (routes.hops[rows] > 0).all():
            ends = [routes.fabric.switch_of[side[rows]] for side in (links.first, links.second)]
            if np.unique(np.concatenate(ends)).size < FEW:
                # If one of three groups is slow, most pairs of groups are.
                start = centre(_pair_medians(ends[0], ends[1], cost[rows])[1], few=True)[0]
        distance, reference, sigma, cut = screen_costs(
            cost[rows], links.noise, few or rows.sum() < FEW, thresholds, start
        )
        result.distance[rows], result.cut[rows] = distance, cut
        result.usual[rows] = figure(reference, quantity.higher_is_better)
        worst = max(worst, (cut, sigma))
        if len(labels) > 1 or number_ == classes.max():
            rows = rows if len(labels) > 1 else np.ones(len(rows), bool)
            label = labels[min(number_, len(labels) - 1)]
            verdict.summaries.append(
                summarise(
                    quantity.name + label,
                    quantity.unit,
                    quantity.higher_is_better,
                    "links",
                    values[rows],
                    sigma if len(labels) > 1 else worst[1],
                    cut if len(labels) > 1 else worst[0],
                )
            )
    if not few:
        result.distance[~links.holds] = np.minimum(result.distance[~links.holds], 0.0)
    return result


def _pair_medians(a: Integers, b: Integers, values: Floats) -> tuple[Integers, Floats]:
    """Return the pairs [2, n] of the groups a and b of links, the smaller first, and the median over their links."""
    pairs, inverse = np.unique(np.sort(np.stack([a, b]), axis=0), axis=1, return_inverse=True)
    inverse = inverse.ravel()
    parts = np.split(values[np.argsort(inverse, kind="stable")], np.cumsum(np.bincount(inverse))[:-1])
    return pairs, np.array([np.median(part) for part in parts])


def _screen_fabric(
    quantity: PairQuantity,
    links: LinkCosts,
    values: Floats,
    measured: _Distances,
    routes: RoutingMatrix,
    thresholds: Thresholds,
    suspects: Suspects,
) -> NDArray[np.bool_]:
    """Suspect elements of the fabric, and what is between two nodes if no element explains it.

    Returns which pairs cross a suspect.
    """
    found = screen_elements(
        quantity, routes, measured.distance, measured.usual, links.noise, measured.cut, thresholds, suspects
    )
    for row in found.left:
        slowdown = math.expm1(measured.distance[row])
        reason = _link_reason(quantity, values[row], measured.usual[row], slowdown)
        ends = int(links.first[row]), int(links.second[row])
        if routes.fabric.inferred:
            suspects.add("link", ends, reason, LINK, quantity=quantity.name, slowdown=slowdown)
        else:
            add_route(suspects, routes, ends, reason, quantity.name, slowdown)
    crossing = found.crossing.copy()
    crossing[found.left] = True
    return crossing


def _side(names: list[str], side: list[int]) -> str:
    """Name the nodes on one side of a link."""
    more = f" and {len(side) - 3} more" if len(side) > 3 else ""
    return ", ".join(names[node] for node in side[:3]) + more


def _link_reason(quantity: PairQuantity, value: float, usual: float, slowdown: float) -> str:
    return (
        f"{quantity.name}: {number(value, quantity.unit)}, {percent(slowdown)} more time than the usual "
        f"{number(usual, quantity.unit)}"
    )


def _screen_nodes_and_links(
    quantity: PairQuantity,
    links: LinkCosts,
    values: Floats,
    measured: _Distances,
    few: bool,
    thresholds: Thresholds,
    suspects: Suspects,
) -> tuple[set[int], list[int]]:
    """Suspect nodes whose links are mostly slow, and links that are slow themselves.

    Returns the nodes, and rows of pairs that share a slow link.
    """
    first, second, distance, cut = links.first, links.second, measured.distance, measured.cut
    scores = node_scores(len(suspects.nodes), first, second, distance)
    scores = scores[np.isfinite(scores)]
    node_cut = float(cut.max(initial=0.0))
    if not few and scores.size >= FEW:
        offset, spread = centre(scores, few)
        node_cut = max(offset, 0.0) + cut_of(spread, scores.size, thresholds)
    at_fault = find_suspects(len(suspects.nodes), first, second, distance, node_cut, cut)
    usual = number(float(np.median(measured.usual)), quantity.unit)
    for node, score in at_fault.nodes.items():
        slowdown = math.expm1(score)
        reason = (
            f"{quantity.name}: most links take at least {percent(slowdown)} more time than the usual {usual}"
        )
        suspects.add("node", [node], reason, NODE_NETWORK, quantity=quantity.name, slowdown=slowdown)
    shared = find_shared(len(suspects.nodes), first, second, at_fault.links)
    for link in shared:
        slowdown = math.expm1(float(np.median(distance[link.rows])))
        sides = " and ".join(_side(suspects.nodes, side) for side in link.sides)
        reason = (
            f"{quantity.name}: {len(link.rows)} of {link.pairs} pairs of nodes between {sides} take "
            f"{percent(slowdown)} more time than the usual {usual}, and their other pairs do not"
        )
        members = [node for side in link.sides for node in side]
        suspects.add(
            "fabric link",
            members,
            reason,
            SHARED,
            quantity=quantity.name,
            slowdown=slowdown,
            name=f"between {sides}",
        )
    explained = {row for link in shared for row in link.rows}
    for row in at_fault.links:
        if row in explained:
            continue
        slowdown = math.expm1(measured.distance[row])
        reason = _link_reason(quantity, values[row], measured.usual[row], slowdown)
        ends = int(links.first[row]), int(links.second[row])
        suspects.add("link", ends, reason, LINK, quantity=quantity.name, slowdown=slowdown)
    return set(at_fault.nodes), sorted(explained)


def _add_stalls(
    quantity: PairQuantity, stalled: Stalls, routes: RoutingMatrix | None, suspects: Suspects
) -> None:
    """Suspect nodes, and links or routes, that are slow now and then."""
    for node, share in stalled.nodes.items():
        reason = f"{quantity.name}: {100 * share:.3g} % of its repeats took twice the usual time or more"
        suspects.add("node", [node], reason, NODE_NETWORK, quantity=quantity.name)
    for ends, share in stalled.links.items():
        reason = f"{quantity.name}: {100 * share:.3g} % of the repeats took twice the usual time or more"
        if routes is None:
            suspects.add("link", ends, reason, LINK, quantity=quantity.name)
        else:
            add_route(suspects, routes, ends, reason, quantity.name, None)


def _screen_limit(
    quantity: PairQuantity, links: LinkCosts, values: Floats, thresholds: Thresholds, suspects: Suspects
) -> None:
    """Suspect nodes and links whose figures are beyond the absolute limit."""
    limit = thresholds.limit(quantity.name)
    if limit is None:
        return
    beyond = links.cost - float(costs(np.array(limit), quantity.higher_is_better)) - 1e-9
    allowed = allowed_in_words(limit, quantity.unit, quantity.higher_is_better)
    if beyond.size > 1 and 2 * (beyond > 0).sum() > beyond.size:
        suspects.add(
            "system",
            [],
            f"{quantity.name}: most links are beyond the limit: {allowed}",
            SYSTEM,
            quantity=quantity.name,
        )
        return
    at_fault = find_suspects(len(suspects.nodes), links.first, links.second, beyond, 1e-12, 1e-12)
    for node, score in at_fault.nodes.items():
        suspects.add(
            "node",
            [node],
            f"{quantity.name}: most of its links are beyond the limit: {allowed}",
            NODE_NETWORK,
            quantity=quantity.name,
            slowdown=math.expm1(score),
        )
    for row in at_fault.links:
        reason = f"{quantity.name}: {number(values[row], quantity.unit)}, but {allowed}"
        ends = int(links.first[row]), int(links.second[row])
        suspects.add("link", ends, reason, LINK, quantity=quantity.name, slowdown=math.expm1(beyond[row]))
