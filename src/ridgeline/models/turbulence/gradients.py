"""Velocity gradients in physical space: their skewness and flatness, and the fine scales of turbulence.

With s_ij = (du_i/dx_j + du_j/dx_i) / 2 and w = curl u, the dissipation rate and the enstrophy of a point are

    eps = 2 nu s_ij s_ij,   Omega = w_i w_i                                         (paper, Eq. 10).

One component after the other passes through physical space, so that a few fields of memory do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.models.turbulence.mode_sums import combine_derivatives
from ridgeline.models.turbulence.point_sums import (
    POWERS,
    add_squares,
    count_octaves,
    octave_edges,
    sum_powers,
)
from ridgeline.models.turbulence.spectra import sum_over_ranks
from ridgeline.parallel.reduce import global_sums

if TYPE_CHECKING:
    from mpi4py import MPI

AXES = "xyz"
STRAIN = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # i, j of s_ij; the longitudinal ones first
# Bins of the densities of eps / <eps> and Omega / <Omega>: wide enough for the extremes of the largest runs.
# 2^BIN_BITS bins in each octave from 2^LOWEST_OCTAVE to 2^-LOWEST_OCTAVE: 1e-6 to 1e6.
LOWEST_OCTAVE, BIN_BITS = -20, 3
BIN_EDGES = octave_edges(LOWEST_OCTAVE, -LOWEST_OCTAVE, BIN_BITS)


class TransformPair(Protocol):
    """What is asked of a distributed transform (fourier.transform.FourierTransform)."""

    def to_physical(self, spectral: NDArray[Any]) -> NDArray[Any]:
        """Return new contiguous real [n, z, y, x] of complex [n, n_modes]. Collective."""

    def to_spectral(self, physical: NDArray[Any]) -> NDArray[Any]:
        """Return complex [n, n_modes] of real [n, z, y, x]. Collective."""


@dataclass(frozen=True)
class Distribution:
    """One positive quantity x over the whole box, relative to its mean.

    mean: <x>; moments: <x^p> / <x>^p for p = 2, 3, 4; density: probability density of x / <x> in the bins
    between `BIN_EDGES`, float64 [n_bins]; outside: fraction of points below and above all bins.
    All are 0 where x is 0 everywhere, and NaN where x is not finite.
    """

    mean: float
    moments: tuple[float, float, float]
    density: NDArray[np.float64]
    outside: tuple[float, float]


@dataclass(frozen=True)
class GradientStatistics:
    """Statistics of the velocity gradients.

    skewness, flatness: <g^3> / <g^2>^(3/2) and <g^4> / <g^2>^2 of the longitudinal gradients g = du_i/dx_i (no
    sum). Averages are over the three directions and the box together. Both are 0 where the gradient is 0 everywhere.
    dissipation, enstrophy: of s_ij s_ij and w_i w_i, which eps / <eps> and Omega / <Omega> are alike.
    """

    skewness: float
    flatness: float
    dissipation: Distribution
    enstrophy: Distribution


def gradient_statistics(
    comm: MPI.Comm, velocity: NDArray[Any], modes: Modes, transform: TransformPair
) -> GradientStatistics:
    """Return the statistics of the velocity gradients, equal on all ranks. Collective.

    velocity: complex [3, n_modes]. Cost: nine inverse transforms; memory: one complex and two real fields more
    than a transform has. Communication: the transforms, and some Allreduces of at most 2 KiB.
    """
    powers = []
    squares: NDArray[Any] | None = None
    for (i, j), strain in zip(STRAIN, strains(velocity, modes, transform)):
        if i == j:
            powers.append(mean_powers(comm, strain, modes))
        squares = _add_squares(strain, 1.0 if i == j else 2.0, squares)
    assert squares is not None
    dissipation = distribution(comm, squares, modes)
    del squares
    enstrophy = distribution(comm, enstrophy_field(velocity, modes, transform), modes)
    skewness, flatness = shape_factors(np.mean(powers, axis=0))
    return GradientStatistics(skewness, flatness, dissipation, enstrophy)


def strains(velocity: NDArray[Any], modes: Modes, transform: TransformPair) -> Iterator[NDArray[Any]]:
    """Yield s_ij in physical space, real [z, y, x], in the order of `STRAIN`. Collective."""
    spectral = np.empty_like(velocity[:1])
    for i, j in STRAIN:
        derivatives(velocity, modes, (i, j, 0.5), (j, i, 0.5), spectral[0])
        yield transform.to_physical(spectral)[0]


def vorticities(velocity: NDArray[Any], modes: Modes, transform: TransformPair) -> Iterator[NDArray[Any]]:
    """Yield w_x, w_y, w_z in physical space, real [z, y, x]. Collective."""
    spectral = np.empty_like(velocity[:1])
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        derivatives(velocity, modes, (k, j, 1.0), (j, k, -1.0), spectral[0])
        yield transform.to_physical(spectral)[0]


def derivatives(
    velocity: NDArray[Any],
    modes: Modes,
    first: tuple[int, int, float],
    second: tuple[int, int, float],
    out: NDArray[Any],
) -> None:
    """Set out, complex [n_modes], to the sum of two derivatives: c du_i/dx_j for each (i, j, c)."""
    (i, axis_i, scale_i), (j, axis_j, scale_j) = first, second
    combine_derivatives(
        velocity[i],
        axis_i,
        scale_i,
        velocity[j],
        axis_j,
        scale_j,
        modes.lines.start,
        modes.kz,
        modes.kx,
        modes.unit[1],
        out,
    )


def strain_square_field(velocity: NDArray[Any], modes: Modes, transform: TransformPair) -> NDArray[Any]:
    """Return s_ij s_ij at this rank's points, real [z, y, x]; eps is 2 nu times it. Collective."""
    squares: NDArray[Any] | None = None
    for (i, j), strain in zip(STRAIN, strains(velocity, modes, transform)):
        squares = _add_squares(strain, 1.0 if i == j else 2.0, squares)
    assert squares is not None
    return squares


def enstrophy_field(velocity: NDArray[Any], modes: Modes, transform: TransformPair) -> NDArray[Any]:
    """Return w_i w_i at this rank's points, real [z, y, x]. Collective."""
    squares: NDArray[Any] | None = None
    for vorticity in vorticities(velocity, modes, transform):
        squares = _add_squares(vorticity, 1.0, squares)
    assert squares is not None
    return squares


def distribution(comm: MPI.Comm, values: NDArray[Any], modes: Modes) -> Distribution:
    """Return moments and density of a quantity >= 0. values: real [z, y, x], this rank's points. Collective."""
    powers = mean_powers(comm, values, modes)
    mean = float(powers[0])
    if mean == 0.0 or not math.isfinite(mean):
        bad = 0.0 * mean
        return Distribution(mean, (bad, bad, bad), np.full(len(BIN_EDGES) - 1, bad), (bad, bad))
    counts = np.zeros(len(BIN_EDGES) + 1, np.int64)
    rows = values.reshape(-1, values.shape[-1])
    count_octaves(rows, 1.0 / mean, LOWEST_OCTAVE, BIN_BITS, counts)
    fractions = sum_over_ranks(comm, counts) / math.prod(modes.shape)
    moments = tuple(float(powers[p - 1]) / mean**p for p in (2, 3, 4))
    return Distribution(
        mean,
        (moments[0], moments[1], moments[2]),
        fractions[1:-1] / np.diff(BIN_EDGES),
        (float(fractions[0]), float(fractions[-1])),
    )


def _add_squares(values: NDArray[Any], scale: float, total: NDArray[Any] | None) -> NDArray[Any]:
    """Return total + scale values^2, made in total; a new array if there is none yet."""
    total = np.zeros_like(values) if total is None else total
    add_squares(values.ravel(), values.dtype.type(scale), total.ravel())
    return total


def mean_powers(comm: MPI.Comm, values: NDArray[Any], modes: Modes) -> NDArray[np.float64]:
    """Return <x>, <x^2>, <x^3>, <x^4> over all points of all ranks, float64 [4], equal bits however they are cut.

    values: real [z, y, x], this rank's points. Collective.
    """
    rows = values.reshape(-1, values.shape[-1])
    sums = np.empty((POWERS, len(rows)))
    sum_powers(rows, sums)
    return global_sums(comm, list(sums), math.prod(modes.shape[:2])) / math.prod(modes.shape)


def shape_factors(powers: NDArray[np.float64]) -> tuple[float, float]:
    """Return skewness and flatness about zero of mean powers 1 to 4; 0 where the second is 0."""
    if powers[1] == 0.0:
        return 0.0, 0.0
    return float(powers[2] / powers[1] ** 1.5), float(powers[3] / powers[1] ** 2)
