"""What each link lost since the baseline: a link can be slower than it was, and still as fast as many others.

Nodes, interfaces or the whole system that lost speed are found by `baseline`; this is about what lies between nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ridgeline.validate.fabric.fabric import Fabric
from ridgeline.validate.judge.pair_screening import link_costs
from ridgeline.validate.judge.rail_screening import by_rail, screen_rails
from ridgeline.validate.judge.suspects import Suspects, percent
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.measurements import Measurements, PairQuantity

_SINCE = " since the baseline"
BETWEEN_NODES = ("link", "fabric link", "route", "switch")


def screen_link_drifts(
    measurements: Measurements,
    baseline: Measurements,
    fabric: Fabric | None,
    thresholds: Thresholds,
    suspects: Suspects,
) -> None:
    """Suspect links and parts of the fabric that take more time than in the baseline, by `thresholds.drift` or more.

    The factors by which the time of each link grew are judged as times are: a node whose links all lost alike
    explains them, and so does a link of the fabric that they share. Links that only one of the two validations
    measured are left out.
    """
    thresholds = thresholds.model_copy(update={"slowdown": thresholds.drift})
    alone = replace(suspects, by_part={})
    for changes in _changes(measurements, baseline):
        screen_rails(changes, None, fabric, measurements.interfaces, thresholds, alone, Verdict())
    for suspect in alone.by_part.values():
        if suspect.kind in BETWEEN_NODES and suspect.slowdown is not None:
            suspect.quantities = [name.removesuffix(_SINCE) for name in suspect.quantities]
            names = " and ".join(suspect.quantities)
            reason = f"{names}: {percent(suspect.slowdown)} more time than in the baseline"
            for advice in suspect.advice:
                suspects.take(suspect, suspect.name, reason, advice)


def _changes(measurements: Measurements, baseline: Measurements) -> Iterator[PairQuantity]:
    """Yield the factor by which the time of each link grew, for each quantity of pairs that both have."""
    now_of = {name: number for number, name in enumerate(measurements.nodes)}
    places = np.array([now_of.get(name, -1) for name in baseline.nodes], np.int64)
    before = {quantity.name: by_rail(quantity) for quantity in baseline.pair_quantities}
    for quantity in measurements.pair_quantities:
        parts = []
        for rail, part in by_rail(quantity).items():
            if rail not in before.get(quantity.name, {}):
                continue
            new, old = link_costs(part), link_costs(before[quantity.name][rail])
            ends = np.sort(places[np.stack([old.first, old.second])], axis=0)
            known = np.flatnonzero(ends[0] >= 0)
            n = len(measurements.nodes)
            _, here, there = np.intersect1d(
                new.first * n + new.second, ends[0, known] * n + ends[1, known], return_indices=True
            )
            change = new.cost[here] - old.cost[known[there]]
            parts.append((new.first[here], new.second[here], change, np.full(len(here), rail)))
        if parts:
            first, second, change, rails = map(np.concatenate, zip(*parts, strict=True))
            name = quantity.name + _SINCE  # no limit holds for a factor
            yield PairQuantity(name, "", False, first, second, np.exp(change)[:, None], rails)
