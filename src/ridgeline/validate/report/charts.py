"""Which charts a report shows: every quantity's distribution, and for pairs their map."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ridgeline.analysis.validation_plots import draw_distribution, draw_pairs
from ridgeline.runtime.units import scale_of
from ridgeline.validate.judge.pair_screening import link_costs
from ridgeline.validate.judge.statistics import Booleans, Floats, costs, steady
from ridgeline.validate.judge.verdict import Suspect, Verdict
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, PairQuantity


def quantity_charts(measurements: Measurements, verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yield (title, SVG) of every quantity that was measured on two parts or more; maps of pairs at the end."""
    for quantity in measurements.node_quantities:
        cost = steady(costs(quantity.values, quantity.higher_is_better))[0]
        there = np.flatnonzero(np.isfinite(cost))
        suspected = {s.nodes[0] for s in _suspects_of(verdict, quantity.name) if s.kind == "node"}
        suspected |= {n for s in _suspects_of(verdict, quantity.name) if s.kind == "group" for n in s.nodes}
        names = [measurements.nodes[node] for node in there]
        suspect = np.isin(there, list(suspected))
        if there.size > 1:
            yield (
                f"{quantity.name}, {there.size} nodes",
                _distribution(quantity, verdict, cost[there], suspect, names),
            )
    for pairs in measurements.pair_quantities:
        links = link_costs(pairs)
        if links.cost.size == 0:
            continue
        suspects = _suspects_of(verdict, pairs.name)
        ends = {tuple(s.nodes) for s in suspects if s.kind == "link"}
        nodes = np.array([n for s in suspects if s.kind in ("node", "group") for n in s.nodes], np.int64)
        suspect = np.isin(links.first, nodes) | np.isin(links.second, nodes)
        both = list(zip(links.first.tolist(), links.second.tolist()))
        if ends:
            suspect |= np.array([pair in ends for pair in both])
        names = [f"{measurements.nodes[a]} - {measurements.nodes[b]}" for a, b in both[:64]]
        if len(both) > 1:
            yield (
                f"{pairs.name}, {len(both)} links",
                _distribution(pairs, verdict, links.cost, suspect, names),
            )
    for pairs in measurements.pair_quantities:
        links = link_costs(pairs)
        if links.cost.size:
            extra = np.expm1(links.cost - np.median(links.cost))
            chart = draw_pairs(len(measurements.nodes), links.first, links.second, extra, measurements.nodes)
            yield f"{pairs.name}, map of pairs", chart


def _suspects_of(verdict: Verdict, quantity: str) -> list[Suspect]:
    return [s for s in verdict.suspects if quantity in s.quantities]


def _distribution(
    quantity: NodeQuantity | PairQuantity, verdict: Verdict, cost: Floats, suspect: Booleans, names: list[str]
) -> str:
    """Return the chart of costs, as figures with their unit."""
    values = np.exp(-cost if quantity.higher_is_better else cost)
    summary = next(s for s in verdict.summaries if s.name.startswith(quantity.name))
    usual = float(np.median(values[~suspect])) if (~suspect).any() else summary.median
    factor = 1 + summary.cut
    cut = usual / factor if quantity.higher_is_better else usual * factor
    scale, unit = scale_of(usual, quantity.unit)
    label = f"{quantity.name}, {unit}" if unit else quantity.name
    if not math.isfinite(scale):
        scale = 1.0
    return draw_distribution(values / scale, suspect, names, label, usual / scale, cut / scale)
