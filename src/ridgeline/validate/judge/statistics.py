"""Robust statistics over the parts of a machine: what is usual, how noisy it is, and from where a part is slow.

All comparisons are made on *costs*, logarithms of times (or of one over a rate). A cost that is larger by ln(1.1)
means 10 % more time, whatever the unit.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import QuantitySummary

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

MAD_TO_SIGMA = 1.4826  # of a normal distribution
FEW = 8  # parts below which their spread says little
FALSE_ALARMS = 0.05  # healthy parts that noise may make suspect, in all of one quantity
PERCENTILES = (1, 5, 25, 75, 95, 99)
STALL = 5.0  # standard deviations by which a repeat is worse than the best of its part, to be left out


def costs(values: Floats, higher_is_better: bool) -> Floats:
    """Return ln(time) or -ln(rate) of figures of any shape, NaN where not finite. A rate of 0 costs very much."""
    finite = np.where(np.isfinite(values), values, np.nan)
    positive = finite[finite > 0]
    least = 1e-9 * float(np.median(positive)) if positive.size else 1.0
    logarithms = np.log(np.maximum(finite, least))
    return -logarithms if higher_is_better else logarithms


def figure(cost: float, higher_is_better: bool) -> float:
    """Return the time or the rate of a cost."""
    return math.exp(-cost if higher_is_better else cost)


def steady(cost: Floats) -> tuple[Floats, float, Booleans]:
    """Return one cost a part from its repeats [n, repeats], its standard deviation from noise, and whether it holds.

    It is the mean of the repeats that were not stalled. Stalled ones are worse than the best of their part by more
    than 5 standard deviations, which are estimated over all parts together. Noise with heavy tails (a daemon, a
    retry) then makes no part suspect, and what is left is averaged. A part that is slow in all repeats keeps them
    all. A cost holds if two repeats or more agree on it, where there are three; NaN where a part has no repeat.
    """
    n, repeats = cost.shape
    if n == 0 or repeats == 0:
        return np.full(n, np.nan), 0.0, np.zeros(n, bool)
    ordered = np.sort(cost, axis=1)  # NaN last
    best = ordered[:, 0]
    if repeats < 3:
        return best, 0.0, np.isfinite(best)
    full = ordered[np.isfinite(ordered).all(axis=1)]
    middle = (repeats - 1) // 2
    if not len(full):
        return best, 0.0, np.isfinite(best)
    # So many standard deviations of normal noise lie between the best and the middle repeat, in the mean (Blom);
    # the median of what is skewed is less, by a fifth over the number of steps to the middle (within 2 %).
    steps = ndtri((np.array([middle, 0]) + 1 - 0.375) / (repeats + 0.25))
    width = float(steps[0] - steps[1]) * (1 - 0.2 / middle)
    noise = float(np.median(full[:, middle] - full[:, 0])) / width
    kept = cost <= (best + max(STALL * noise, 1e-6))[:, None]
    counts = np.maximum(kept.sum(axis=1), 1)
    holds = (counts > 1) | (np.isfinite(cost).sum(axis=1) < 3)
    mean = np.where(kept, np.nan_to_num(cost), 0.0).sum(axis=1) / counts
    return np.where(np.isfinite(best), mean, np.nan), noise / math.sqrt(repeats), holds


def centre(cost: Floats, few: bool) -> tuple[float, float]:
    """Return (reference, robust standard deviation between parts) of finite costs.

    With many parts the median and the MAD. With few it is the median of the better half, rounded to the better side.
    A figure that hardware bounds is right at its best, and one bad part of three must not pull the reference. The
    spread is then how far the reference is from the best.
    """
    if cost.size == 0:
        return math.nan, 0.0
    if few:
        ordered = np.sort(cost)
        reference = ordered[((cost.size + 1) // 2 - 1) // 2]
        return float(reference), float(reference - ordered[0])
    reference = float(np.median(cost))
    return reference, MAD_TO_SIGMA * float(np.median(np.abs(cost - reference)))


def cut_of(sigma: float, count: int, thresholds: Thresholds) -> float:
    """Return the distance in cost from which one of `count` parts is slow, for figures with noise `sigma`.

    Never where noise reaches: z sigma, with z raised until less than 0.05 healthy parts of all are suspect. Above
    that, 3 sigma before the slowdown that must be found, so that it is found, but between a half and three
    quarters of it.
    """
    slow = math.log1p(thresholds.slowdown)
    z = max(thresholds.z, -float(ndtri(FALSE_ALARMS / max(count, 2))))
    return max(z * sigma, min(max(slow - 3 * sigma, 0.5 * slow), 0.75 * slow))


def screen_costs(
    cost: Floats, noise: float, few: bool, thresholds: Thresholds, start: float | None = None
) -> tuple[Floats, float, float, float]:
    """Return (distance of every part from the reference, reference, standard deviation, cut) of finite costs.

    The reference and the spread are taken again without the parts found slow, until these stay the same. start: a
    first reference, for parts that are slow in their majority.
    """
    healthy = np.ones(cost.size, bool) if start is None else cost - start < math.log1p(thresholds.slowdown)
    least = 0.5 * cost.size if start is None else 1
    reference = sigma = cut = 0.0
    for _ in range(5):
        reference, sigma = centre(cost[healthy], few)
        sigma = max(sigma, noise)
        cut = cut_of(sigma, cost.size, thresholds)
        now = cost - reference < cut
        if few or now.sum() < least or (now == healthy).all():
            break
        healthy = now
    return cost - reference, reference, sigma, cut


def summarise(
    name: str,
    unit: str,
    higher_is_better: bool,
    over: Literal["nodes", "links", "GPUs"],
    values: Floats,
    sigma: float,
    cut: float,
) -> QuantitySummary:
    """Return the robust statistics of one figure a part; sigma and cut as costs."""
    median = float(np.median(values))
    return QuantitySummary(
        name=name,
        unit=unit,
        higher_is_better=higher_is_better,
        over=over,
        count=values.size,
        median=median,
        mad=float(np.median(np.abs(values - median))),
        percentiles=[float(p) for p in np.percentile(values, PERCENTILES)],
        least=float(values.min()),
        most=float(values.max()),
        sigma=sigma,
        cut=math.expm1(cut),
    )
