"""The statistics of Graph500: quartiles, means, and the harmonic mean of TEPS with its deviation.

Sources: the specification of Graph500, "Output"; N. Norris, "The Standard Errors of the Geometric and Harmonic Means
and Their Application to Index Numbers", Annals of Mathematical Statistics 11 (1940) 445-448.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Summary:
    """Order statistics of one figure over all searches, with its mean and standard deviation (n - 1)."""

    min: float
    firstquartile: float
    median: float
    thirdquartile: float
    max: float
    mean: float
    stddev: float


@dataclass(frozen=True)
class RateSummary:
    """Order statistics of TEPS, their harmonic mean and its standard deviation. Unit: edges per second."""

    min: float
    firstquartile: float
    median: float
    thirdquartile: float
    max: float
    harmonic_mean: float
    harmonic_stddev: float


def summarise(values: Sequence[float]) -> Summary:
    """Return the statistics of one value a search, at least one. A single value deviates by nothing.

    A quartile is the mean of the two values around it in order, as the reference code takes them.
    """
    x = np.sort(np.asarray(values, np.float64))
    n = x.size
    return Summary(
        min=float(x[0]),
        firstquartile=float(x[(n - 1) // 4] + x[n // 4]) / 2,
        median=float(x[(n - 1) // 2] + x[n // 2]) / 2,
        thirdquartile=float(x[n - 1 - (n - 1) // 4] + x[n - 1 - n // 4]) / 2,
        max=float(x[-1]),
        mean=float(x.mean()),
        stddev=float(x.std(ddof=1)) if n > 1 else 0.0,
    )


def summarise_rates(edges: Sequence[float], seconds: Sequence[float]) -> RateSummary:
    """Return the statistics of edges[i] / seconds[i], of the times per edge as the specification wants them.

    The deviation of the harmonic mean is s / (m^2 sqrt(n - 1)), m and s being mean and deviation of 1 / TEPS.
    """
    inverse = summarise([t / m for t, m in zip(seconds, edges, strict=True)])
    n = len(seconds)
    return RateSummary(
        min=1 / inverse.max,
        firstquartile=1 / inverse.thirdquartile,
        median=1 / inverse.median,
        thirdquartile=1 / inverse.firstquartile,
        max=1 / inverse.min,
        harmonic_mean=1 / inverse.mean,
        harmonic_stddev=inverse.stddev / (inverse.mean**2 * (n - 1) ** 0.5) if n > 1 else 0.0,
    )
