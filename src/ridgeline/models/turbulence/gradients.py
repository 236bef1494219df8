"""Velocity gradients in physical space: their skewness and flatness, and the fine scales of turbulence.

With s_ij = (du_i/dx_j + du_j/dx_i) / 2 and w = curl u, the dissipation rate and the enstrophy of a point are

    eps = 2 nu s_ij s_ij,   Omega = w_i w_i                                         (paper, Eq. 10).

The components are transformed to physical space one after the other, so that memory for a few fields suffices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.turbulence.kernels_diagnostics import octave_edges
from ridgeline.models.turbulence.passes import Fields, FlowPasses, Points
from ridgeline.models.turbulence.spectra import sum_over_ranks
from ridgeline.parallel.allreduce import allreduce_sums

if TYPE_CHECKING:
    from mpi4py import MPI

AXES = "xyz"
STRAIN = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # i, j of s_ij; the longitudinal ones first
# Bins of the densities of eps / <eps> and Omega / <Omega>: 2^BIN_BITS bins in each octave from 2^LOWEST_OCTAVE to
# 2^-LOWEST_OCTAVE, that is 1e-6 to 1e6, which holds the extremes of the largest runs.
LOWEST_OCTAVE, BIN_BITS = -20, 3
BIN_EDGES = octave_edges(LOWEST_OCTAVE, -LOWEST_OCTAVE, BIN_BITS)


@dataclass(frozen=True)
class Distribution:
    """The distribution of a positive quantity x over the whole box, relative to its mean.

    All values are 0 if x is 0 everywhere, and NaN if x is not finite.

    Attributes
    ----------
    mean : <x>
    moments : <x^p> / <x>^p for p = 2, 3, 4
    density : probability density of x / <x> in the bins between `BIN_EDGES`, float64 [n_bins]
    outside : fractions of points below and above all bins
    """

    mean: float
    moments: tuple[float, float, float]
    density: NDArray[np.float64]
    outside: tuple[float, float]


@dataclass(frozen=True)
class GradientStatistics:
    """Statistics of the velocity gradients.

    Attributes
    ----------
    skewness, flatness : <g^3> / <g^2>^(3/2) and <g^4> / <g^2>^2 of the longitudinal gradients g = du_i/dx_i (no sum),
        averaged over the box and the three directions; 0 if the gradient is 0 everywhere
    dissipation, enstrophy : distributions of s_ij s_ij and w_i w_i, which are those of eps and Omega
    """

    skewness: float
    flatness: float
    dissipation: Distribution
    enstrophy: Distribution


def gradient_statistics(comm: MPI.Comm, velocity: Fields, passes: FlowPasses) -> GradientStatistics:
    """Return the statistics of the velocity gradients, equal on all ranks. Collective.

    velocity: three fields. Cost: nine inverse transforms; memory for one complex and two real fields beside a
    transform's own. Communication: the transforms, and some allreduces of at most 2 KiB.
    """
    powers = []
    squares: Points | None = None
    for (i, j), strain in zip(STRAIN, strains(velocity, passes)):
        if i == j:
            powers.append(mean_powers(comm, strain, passes))
        squares = passes.add_squares(strain, 1.0 if i == j else 2.0, squares)
    dissipation = distribution(comm, squares, passes)
    del squares
    enstrophy = distribution(comm, enstrophy_field(velocity, passes), passes)
    skewness, flatness = shape_factors(np.mean(powers, axis=0))
    return GradientStatistics(skewness, flatness, dissipation, enstrophy)


def strains(velocity: Fields, passes: FlowPasses) -> Iterator[Points]:
    """Yield s_ij in physical space in the order of `STRAIN`; each is valid until the next. Collective."""
    for i, j in STRAIN:
        yield passes.derivative_points(velocity, (i, j, 0.5), (j, i, 0.5))


def vorticity(velocity: Fields, i: int, passes: FlowPasses) -> Points:
    """Return component i of curl u in physical space, valid until the next derivative. Collective."""
    j, k = (i + 1) % 3, (i + 2) % 3
    return passes.derivative_points(velocity, (k, j, 1.0), (j, k, -1.0))


def strain_square_field(velocity: Fields, passes: FlowPasses) -> Points:
    """Return s_ij s_ij at this rank's points; eps is 2 nu times it. Collective."""
    squares: Points | None = None
    for (i, j), strain in zip(STRAIN, strains(velocity, passes)):
        squares = passes.add_squares(strain, 1.0 if i == j else 2.0, squares)
    return squares


def enstrophy_field(velocity: Fields, passes: FlowPasses) -> Points:
    """Return w_i w_i at this rank's points. Collective."""
    squares: Points | None = None
    for i in range(3):
        squares = passes.add_squares(vorticity(velocity, i, passes), 1.0, squares)
    return squares


def distribution(comm: MPI.Comm, values: Points, passes: FlowPasses) -> Distribution:
    """Return moments and density of a quantity >= 0 at this rank's points. Collective."""
    powers = mean_powers(comm, values, passes)
    mean = float(powers[0])
    if mean == 0.0 or not math.isfinite(mean):
        bad = 0.0 * mean
        return Distribution(mean, (bad, bad, bad), np.full(len(BIN_EDGES) - 1, bad), (bad, bad))
    counts = passes.count_octaves(values, 1.0 / mean, LOWEST_OCTAVE, BIN_BITS, len(BIN_EDGES) + 1)
    fractions = sum_over_ranks(comm, counts) / math.prod(passes.modes.shape)
    moments = tuple(float(powers[p - 1]) / mean**p for p in (2, 3, 4))
    return Distribution(
        mean,
        (moments[0], moments[1], moments[2]),
        fractions[1:-1] / np.diff(BIN_EDGES),
        (float(fractions[0]), float(fractions[-1])),
    )


def mean_powers(comm: MPI.Comm, values: Points, passes: FlowPasses) -> NDArray[np.float64]:
    """Return <x>, <x^2>, <x^3>, <x^4> over the points of all ranks, float64 [4]. Collective.

    values: at this rank's points. The result has the same bits however the box is cut.
    """
    shape = passes.modes.shape
    return allreduce_sums(comm, list(passes.row_powers(values)), math.prod(shape[:2])) / math.prod(shape)


def shape_factors(powers: NDArray[np.float64]) -> tuple[float, float]:
    """Return skewness and flatness about zero, from the mean powers 1 to 4; 0 if the second power is 0."""
    if powers[1] == 0.0:
        return 0.0, 0.0
    return float(powers[2] / powers[1] ** 1.5), float(powers[3] / powers[1] ** 2)
