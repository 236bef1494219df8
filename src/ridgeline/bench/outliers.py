"""Outliers by Tukey's rule, as the Julia paper removes them (Sec. III, footnote 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

REACH = 1.5  # interquartile ranges (IQR) beyond the quartiles


def remove_outliers(values: ArrayLike, reach: float = REACH) -> NDArray[np.float64]:
    """Return the values within [x_25% - reach IQR, x_75% + reach IQR] in their order, float64 [<= n].

    IQR = x_75% - x_25%, with quartiles interpolated linearly. Equal values are all kept. Source: Tukey, "Exploratory
    Data Analysis", 1977, Sec. 2D.
    """
    samples = np.asarray(values, np.float64).ravel()
    if samples.size == 0:
        return samples
    low, high = np.percentile(samples, (25.0, 75.0))
    margin = reach * (high - low)
    inside: NDArray[np.float64] = samples[(samples >= low - margin) & (samples <= high + margin)]
    return inside
