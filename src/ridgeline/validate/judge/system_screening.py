"""Benchmarks of the whole system against absolute limits: there is only one system, so nothing else can judge it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeline.runtime.units import number
from ridgeline.validate.judge.statistics import FEW, costs
from ridgeline.validate.judge.suspects import LINK, ROUTE, WHOLE, Suspects, allowed_in_words
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.measure.measurements import Measurements


@dataclass(frozen=True)
class SystemFigure:
    """One number of the whole system, in SI units. name: of its limit, "BENCHMARK COLUMN"."""

    name: str
    unit: str
    higher_is_better: bool
    value: float


def system_figures(results: Sequence[dict[str, Any]]) -> list[SystemFigure]:
    """Return the figures that limits can bind, from `Measurements.system`.

    The best row of a sweep over sizes counts: the largest rate ("alltoall bandwidth", "multi-bandwidth
    message_rate"), the shortest time ("multi-latency seconds"). The worst impact factor of the tests of congestion
    counts: "congestion impact" of means, "congestion impact percentile" of 99th percentiles.
    """
    figures = []
    for result in results:
        name, rows = result["benchmark"], result.get("rows", [])
        if any("block" in row for row in rows):
            impact = [row for row in rows if row["block"] == "impact"]
            for key, label in (("mean", "impact"), ("percentile", "impact percentile")):
                values = _numbers(impact, key)
                if values:
                    figures.append(SystemFigure(f"{name} {label}", "1", False, max(values)))
            continue
        for key in result.get("columns", {}):
            higher = column_direction(key)
            values = _numbers(rows, key)
            if higher is not None and values:
                unit = column_unit(key)
                figures.append(SystemFigure(f"{name} {key}", unit, higher, (min, max)[higher](values)))
    return figures


def _numbers(rows: Sequence[dict[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows if isinstance(row.get(key), float) and row[key] > 0]


def column_direction(key: str) -> bool | None:
    """Return whether more is better in a column of a benchmark, None if it is not a speed."""
    if any(word in key for word in ("bandwidth", "rate")):
        return True
    return False if any(word in key for word in ("seconds", "latency", "mean")) else None


def column_unit(key: str) -> str:
    """Return the SI unit of a column that has a direction."""
    if "message" in key:
        return "messages/s"
    return "B/s" if "bandwidth" in key else "1/s" if column_direction(key) else "s"


def screen_simultaneous_pairs(measurements: Measurements, thresholds: Thresholds, suspects: Suspects) -> None:
    """Suspect pairs that were much slower than the others while all pairs exchanged messages at the same time.

    They share links, so that only those count that take longer than the median by more than one over
    `machine_share`: 2 with its default. A node meets one other node there, so that neither is known to be at fault.
    """
    for result in measurements.system:
        extra = result.get("extra", {})
        seconds = np.array(extra.get("node_pair_seconds", []), float)
        if seconds.size < FEW:
            continue
        usual = float(np.median(seconds))
        for row in np.flatnonzero(seconds > usual / thresholds.machine_share):
            slower = seconds[row] / usual
            reason = f"{result['benchmark']}: {slower:.3g} times the usual time while all pairs were active"
            known = measurements.fabric is not None
            suspects.add(
                "route" if known else "link",
                extra["node_pairs"][row],
                reason,
                ROUTE if known else LINK,
                quantity=f"{result['benchmark']} seconds",
                slowdown=slower - 1.0,
            )


def screen_system(measurements: Measurements, thresholds: Thresholds, suspects: Suspects) -> list[str]:
    """Suspect the whole system for figures beyond their limits; return the names that limits could have."""
    figures = system_figures(measurements.system)
    for figure in figures:
        limit = thresholds.limit(figure.name)
        if limit is None:
            continue
        value, bound = costs(np.array([figure.value, limit]), figure.higher_is_better)
        if value - bound > 1e-9:
            allowed = allowed_in_words(limit, figure.unit, figure.higher_is_better)
            reason = f"{figure.name}: {number(figure.value, figure.unit)}, but {allowed}"
            slowdown = math.expm1(float(value - bound))
            suspects.add("system", [], reason, WHOLE, quantity=figure.name, slowdown=slowdown)
    return [figure.name for figure in figures]
