"""How congestion is judged: means, 99th percentiles and impact factors of GPCNeT. Pure functions of numbers.

Source: GPCNeT 1.3 (github.com/netbench/GPCNET), its network load test; Sec. 3.8.2 and Fig. 5 of the Aurora paper.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BUCKETS = 100_000  # of the distribution that a percentile is read from
SHARE = 0.99


def ring_latency(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the one-way latency in s of exchanges with both neighbours: half the time of an exchange."""
    return seconds / 2


def ring_bandwidth(size: int, outstanding: int, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a rank sends in B/s: `outstanding` messages of size bytes to each of two neighbours a time."""
    return 2 * outstanding * size / seconds


def count_buckets(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.int64]:
    """Return how many values are in each of BUCKETS equal intervals, int64 [BUCKETS].

    low, high: least and largest value on all ranks; the largest begins the last interval. Distributions of
    several ranks add.
    """
    width = (high - low) / (BUCKETS - 1)
    if width <= 0.0:
        places = np.zeros(values.size, np.int64)
    else:
        places = np.clip((values - low) / width, 0, BUCKETS - 1).astype(np.int64)
    return np.bincount(places, minlength=BUCKETS)


def percentile(
    counts: NDArray[np.int64], low: float, high: float, from_top: bool, share: float = SHARE
) -> float:
    """Return the value that `share` of the counted ones do not pass: the bad end of an interval.

    from_top: count from the largest value down, for bandwidths: the value which 99 % reach or exceed. The number
    of values is share of all, cut to an integer.
    """
    width = (high - low) / (BUCKETS - 1)
    wanted = max(1, int(share * int(counts.sum())))
    if from_top:
        place = BUCKETS - 1 - int(np.searchsorted(np.cumsum(counts[::-1]), wanted))
        return low + place * width
    place = int(np.searchsorted(np.cumsum(counts), wanted))
    return min(low + (place + 1) * width, high)


def impact_factor(isolated: float, congested: float, unit: float, higher_is_better: bool) -> float | None:
    """Return the congestion impact factor: how many times worse a figure is under congestion; 1 is ideal.

    isolated, congested: the figures in SI units; both are rounded to 0.1 of the unit they are printed in before
    they are divided. None if the divisor is printed as 0.
    """
    before, after = (float(format(value / unit, ".1f")) for value in (isolated, congested))
    worse, better = (before, after) if higher_is_better else (after, before)
    return worse / better if better else None
