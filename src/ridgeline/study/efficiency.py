"""Efficiencies as the papers define them, of numbers alone.

- Parallel efficiency, of n times the cores at a time t for a work W: (W / (n t)) / (W0 / (n0 t0)). With W the points,
  weak scaling is t0 / t and strong scaling t0 n0 / (t n). Yeung et al. (GESTS), Sec. 4.1, take two references: the
  fewest cores (WS1, SS1) and the next fewer (WS2, SS2).
- The work of Fourier transforms is N^3 log2 N: Yeung et al., Sec. 4.2.
- Overall efficiency is counted bytes over time over the STREAM bandwidth: Hadri et al. (NekBox), Sec. 3.1. Its ratio
  to that of the fewest cores is the parallel efficiency of their Sec. 4.1, which corrects for iterations that grow.
- The share of a limit is performance over that of all nodes: Ibeid et al. (MPI on Aurora), Sec. 5.2.1 for HPL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timed:
    """A step of a size on some cores. work: in any unit; cores: or nodes, or ranks; seconds: of the step."""

    work: float
    cores: float
    seconds: float

    @property
    def rate(self) -> float:
        """Work of a core in a second."""
        return self.work / (self.cores * self.seconds)


def parallel_efficiency(this: Timed, reference: Timed) -> float:
    """Return the rate of a core over that of the reference's."""
    return this.rate / reference.rate


def transform_work(points: float) -> float:
    """Return N^3 log2 N, with N the cube root of all points."""
    return points * math.log2(points) / 3.0


def share_of_limit(performance: float, nodes: float, limit: float) -> float:
    """Return performance over the limit of all nodes. limit: of one node, in the same unit."""
    return performance / (nodes * limit)


def jitter(seconds: Sequence[float]) -> float | None:
    """Return by how much repeats differ, (most - least) / least; None for fewer than two.

    Rizvi and Hale, Sec. V, tell of the variance of runs as what a managed language may add.
    """
    return None if len(seconds) < 2 else (max(seconds) - min(seconds)) / min(seconds)
