"""Slow links, and nodes and groups whose links are mostly slow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.validate.accusations import (
    LINK,
    NODE_NETWORK,
    SYSTEM,
    Accusations,
    number,
    percent,
)
from ridgeline.validate.links import blame, node_scores
from ridgeline.validate.measurements import PairQuantity
from ridgeline.validate.statistics import (
    FEW,
    centre,
    costs,
    cut_of,
    figure,
    screen_costs,
    steady,
    summarise,
)
from ridgeline.validate.thresholds import Thresholds
from ridgeline.validate.verdict import Verdict

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass
class LinkCosts:
    """One cost for every link. first < second: int64 [n_links]; cost: float64 [n_links]; noise: of each."""

    first: Integers
    second: Integers
    cost: Floats
    noise: float


def link_costs(quantity: PairQuantity) -> LinkCosts:
    """Return the links of a quantity, those measured twice (from both ends, by several ranks) as their mean."""
    estimate, noise = steady(costs(quantity.values, quantity.higher_is_better))
    known = np.isfinite(estimate) & (quantity.first != quantity.second)
    ends = np.sort(np.stack([quantity.first[known], quantity.second[known]]), axis=0)
    unique, inverse, counts = np.unique(ends, axis=1, return_inverse=True, return_counts=True)
    cost = np.bincount(inverse.ravel(), estimate[known], unique.shape[1]) / np.maximum(counts, 1)
    return LinkCosts(unique[0], unique[1], cost, noise)


def screen_pairs(
    quantity: PairQuantity, thresholds: Thresholds, found: Accusations, verdict: Verdict
) -> None:
    """Blame nodes and links whose figures are worse than those of the others, or than a limit."""
    links = link_costs(quantity)
    if not links.cost.size:
        return
    n_nodes = len(found.nodes)
    few = np.unique(np.concatenate([links.first, links.second])).size < FEW
    distance, reference, sigma, cut = screen_costs(links.cost, links.noise, few, thresholds)
    higher = quantity.higher_is_better
    values = np.array([figure(c, higher) for c in links.cost])
    verdict.summaries.append(summarise(quantity.name, quantity.unit, higher, "links", values, sigma, cut))
    scores = node_scores(n_nodes, links.first, links.second, distance)
    scores = scores[np.isfinite(scores)]
    node_cut = cut
    if not few and scores.size:
        offset, spread = centre(scores, few)
        node_cut = max(offset, 0.0) + cut_of(spread, scores.size, thresholds)
    guilty = blame(n_nodes, links.first, links.second, distance, node_cut, cut)
    usual = number(figure(reference, higher), quantity.unit)
    for node, score in guilty.nodes.items():
        slowdown = math.expm1(score)
        reason = f"{quantity.name}: most of its links take {percent(slowdown)} more time, or worse, than the usual {usual}"
        found.add("node", [node], reason, NODE_NETWORK, quantity=quantity.name, slowdown=slowdown)
    for row in guilty.links:
        slowdown = math.expm1(distance[row])
        reason = f"{quantity.name}: {number(values[row], quantity.unit)} where {usual} is usual, {percent(slowdown)} more time"
        ends = int(links.first[row]), int(links.second[row])
        found.add("link", ends, reason, LINK, quantity=quantity.name, slowdown=slowdown)
    _screen_limit(quantity, links, values, thresholds, found)


def _screen_limit(
    quantity: PairQuantity, links: LinkCosts, values: Floats, thresholds: Thresholds, found: Accusations
) -> None:
    """Blame nodes and links whose figures are beyond the absolute limit."""
    limit = thresholds.limits.get(quantity.name)
    if limit is None:
        return
    beyond = links.cost - float(costs(np.array(limit), quantity.higher_is_better)) - 1e-9
    allowed = (
        f"at {'least' if quantity.higher_is_better else 'most'} {number(limit, quantity.unit)} is allowed"
    )
    if beyond.size > 1 and 2 * (beyond > 0).sum() > beyond.size:
        found.add(
            "system",
            [],
            f"{quantity.name}: most links are beyond the limit; {allowed}",
            SYSTEM,
            quantity=quantity.name,
        )
        return
    guilty = blame(len(found.nodes), links.first, links.second, beyond, 1e-12, 1e-12)
    for node, score in guilty.nodes.items():
        found.add(
            "node", [node], f"{quantity.name}: most of its links are beyond the limit; {allowed}", NODE_NETWORK,
            quantity=quantity.name, slowdown=math.expm1(score),
        )  # fmt: skip
    for row in guilty.links:
        reason = f"{quantity.name}: {number(values[row], quantity.unit)}; {allowed}"
        ends = int(links.first[row]), int(links.second[row])
        found.add("link", ends, reason, LINK, quantity=quantity.name, slowdown=math.expm1(beyond[row]))
