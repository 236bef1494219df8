"""Lengths of the elements of a box along a direction."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError

Array = NDArray[np.float64]
DISTRIBUTIONS = ("uniform", "geometric", "geometric-walls", "sine")


def distribute(kind: str, n: int, parameter: float) -> Array:
    """Return the n + 1 boundaries of n elements in [0, 1].

    uniform: equal elements. geometric: each element `parameter` times as long as the one before it.
    geometric-walls: so from both ends to the middle. sine: s -> sin(a s)/sin(a) on each half, s = 1 at the walls,
    a = parameter in (0, pi/2]: the offset sine profile (Hadri et al., Sec. 2.2).

    Raises ConfigError for an unknown kind or a parameter out of range.
    """
    even = np.linspace(0.0, 1.0, n + 1)
    if kind == "uniform":
        return even
    if kind == "sine":
        if not 0 < parameter <= math.pi / 2:
            raise ConfigError(f"a sine distribution has its parameter in (0, pi/2], not {parameter:g}")
        s = 2.0 * even - 1.0
        return np.asarray((1.0 + np.sin(parameter * s) / math.sin(parameter)) / 2.0)
    if kind not in DISTRIBUTIONS:
        raise ConfigError(f"no distribution {kind!r} of elements; use one of {', '.join(DISTRIBUTIONS)}")
    if not parameter > 0:
        raise ConfigError(f"a {kind} distribution has a ratio > 0, not {parameter:g}")
    place = np.arange(n)
    power = place if kind == "geometric" else np.minimum(place, n - 1 - place)
    lengths = float(parameter) ** power
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    return np.asarray(edges / edges[-1])
