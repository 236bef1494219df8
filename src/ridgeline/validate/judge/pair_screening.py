"""Slow links, and nodes and groups whose links are mostly slow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.units import number
from ridgeline.validate.judge.links import find_stalls, find_suspects, node_scores
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
    GROUP,
    LINK,
    NODE_NETWORK,
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
    thresholds: Thresholds,
    suspects: Suspects,
    verdict: Verdict,
) -> None:
    """Suspect groups, nodes and links whose figures are worse than those of the others, or than a limit.

    worse: repeats of further measurements, see `Measurements.worse`.

    With groups, links inside a group and links between groups are each compared with their like.
    """
    links = link_costs(quantity)
    if not links.cost.size:
        return
    values = np.array([figure(c, quantity.higher_is_better) for c in links.cost])
    few = np.unique(np.concatenate([links.first, links.second])).size < FEW
    group_of = group_numbers(len(suspects.nodes), suspects.groups)
    measured = _measure_distances(quantity, links, values, few, group_of, thresholds, verdict)
    kept = ~_screen_groups(quantity, links, measured, group_of, thresholds, suspects)
    _screen_nodes_and_links(quantity, links, values, measured, kept, few, worse, thresholds, suspects)
    _screen_limit(quantity, links, values, thresholds, suspects)


def group_numbers(n_nodes: int, groups: Mapping[str, list[int]]) -> Integers:
    """Return the number of every node's group, -1 for none: int64 [n_nodes]."""
    numbers = np.full(n_nodes, -1)
    for number_, members in enumerate(groups.values()):
        numbers[members] = number_
    return numbers


def _measure_distances(
    quantity: PairQuantity,
    links: LinkCosts,
    values: Floats,
    few: bool,
    group_of: Integers,
    thresholds: Thresholds,
    verdict: Verdict,
) -> _Distances:
    """Return how far links are from the usual, and add the statistics to the verdict."""
    a, b = group_of[links.first], group_of[links.second]
    inside = (a == b) & (a >= 0)
    kinds = [(" inside groups", inside), (" between groups", ~inside)]
    if not inside.any() or inside.all():
        kinds = [("", np.ones(len(inside), bool))]
    result = _Distances(*(np.zeros_like(links.cost) for _ in range(3)))
    for label, rows in kinds:
        start = None
        if label and len(set(a[rows]) | set(b[rows])) < FEW:
            # If one of three groups is slow, most pairs of groups are.
            start = centre(_pair_medians(a[rows], b[rows], links.cost[rows])[1], few=True)[0]
        distance, reference, sigma, cut = screen_costs(
            links.cost[rows], links.noise, few or rows.sum() < FEW, thresholds, start
        )
        result.distance[rows], result.cut[rows] = distance, cut
        result.usual[rows] = figure(reference, quantity.higher_is_better)
        verdict.summaries.append(
            summarise(
                quantity.name + label,
                quantity.unit,
                quantity.higher_is_better,
                "links",
                values[rows],
                sigma,
                cut,
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


def _screen_groups(
    quantity: PairQuantity,
    links: LinkCosts,
    measured: _Distances,
    group_of: Integers,
    thresholds: Thresholds,
    suspects: Suspects,
) -> NDArray[np.bool_]:
    """Suspect groups whose links to most others are slow, for most of their nodes; return the links explained."""
    a, b = group_of[links.first], group_of[links.second]
    between = (a != b) & (a >= 0) & (b >= 0)
    explained = np.zeros(len(between), bool)
    if len(suspects.groups) < 3 or not between.any():
        return explained
    distance = measured.distance[between]
    pairs, medians = _pair_medians(a[between], b[between], distance)
    cut = float(measured.cut[between].max())
    at_fault = find_suspects(len(suspects.groups), pairs[0], pairs[1], medians, cut, math.inf)
    scores = node_scores(len(group_of), links.first[between], links.second[between], distance, least=1)
    for number_, score in at_fault.nodes.items():
        name, members = list(suspects.groups.items())[number_]
        slow = int((scores[members] >= cut).sum())
        if len(members) < 2 or slow < thresholds.group_share * len(members):
            continue
        explained |= between & ((a == number_) | (b == number_))
        slowdown = math.expm1(score)
        reason = (
            f"{quantity.name}: its links to other groups take {percent(slowdown)} more time than usual between "
            f"groups, for {slow} of its {len(members)} nodes"
        )
        suspects.add("group", members, reason, GROUP, quantity=quantity.name, slowdown=slowdown, name=name)
    return explained


def _screen_nodes_and_links(
    quantity: PairQuantity,
    links: LinkCosts,
    values: Floats,
    measured: _Distances,
    kept: NDArray[np.bool_],
    few: bool,
    worse: Floats | None,
    thresholds: Thresholds,
    suspects: Suspects,
) -> None:
    """Suspect nodes whose links are mostly slow, and links that are slow themselves."""
    first, second = links.first[kept], links.second[kept]
    distance, cut = measured.distance[kept], measured.cut[kept]
    scores = node_scores(len(suspects.nodes), first, second, distance)
    scores = scores[np.isfinite(scores)]
    node_cut = float(cut.max(initial=0.0))
    if not few and scores.size >= FEW:
        offset, spread = centre(scores, few)
        node_cut = max(offset, 0.0) + cut_of(spread, scores.size, thresholds)
    at_fault = find_suspects(len(suspects.nodes), first, second, distance, node_cut, cut)
    usual = number(float(np.median(measured.usual[kept])) if kept.any() else math.nan, quantity.unit)
    for node, score in at_fault.nodes.items():
        slowdown = math.expm1(score)
        reason = (
            f"{quantity.name}: most links take at least {percent(slowdown)} more time than the usual {usual}"
        )
        suspects.add("node", [node], reason, NODE_NETWORK, quantity=quantity.name, slowdown=slowdown)
    for row in np.flatnonzero(kept)[at_fault.links]:
        slowdown = math.expm1(measured.distance[row])
        reason = (
            f"{quantity.name}: {number(values[row], quantity.unit)}, {percent(slowdown)} more time than the usual "
            f"{number(measured.usual[row], quantity.unit)}"
        )
        ends = int(links.first[row]), int(links.second[row])
        suspects.add("link", ends, reason, LINK, quantity=quantity.name, slowdown=slowdown)
    stalled = find_stalls(quantity, worse, len(suspects.nodes), at_fault.nodes, thresholds.stalls)
    for node, share in stalled.nodes.items():
        reason = f"{quantity.name}: {100 * share:.3g} % of its repeats took twice the usual time or more"
        suspects.add("node", [node], reason, NODE_NETWORK, quantity=quantity.name)
    for ends, share in stalled.links.items():
        reason = f"{quantity.name}: {100 * share:.3g} % of the repeats took twice the usual time or more"
        suspects.add("link", ends, reason, LINK, quantity=quantity.name)


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
