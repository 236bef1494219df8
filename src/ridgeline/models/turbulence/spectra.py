"""Sums over all modes: energy, enstrophy and their like, and spectra over spherical shells of wavenumber.

A spectrum is the sum of each shell (fourier/shells.py) divided by its width dk, so that sum_n E(k_n) dk is the
energy, in any box.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.shells import Shells
from ridgeline.models.turbulence.mode_sums import FLOW_SUMS, SCALAR_SUMS
from ridgeline.models.turbulence.passes import Fields, FlowPasses
from ridgeline.parallel.allreduce import allreduce_sums

if TYPE_CHECKING:
    from mpi4py import MPI

DEALIAS_RADIUS = {"phase-shift": math.sqrt(2) / 3, "two-thirds": 1 / 3, "none": 1 / 2}  # of N


@dataclass(frozen=True)
class Sums:
    """Averages over the box that are sums over modes (models.turbulence.mode_sums names them), and spectra.

    flow: values of `FLOW_SUMS` by name; scalars: of `SCALAR_SUMS`, for each scalar.
    energy_spectrum: E(k_n); gradient_spectrum: of k^2 |u|^2, 2 nu Omega = nu times its sum; scalar_spectra:
    <theta theta> of each scalar, [S, n_shells]. Spectra are float64 [n_shells], per unit of wavenumber.
    """

    flow: Mapping[str, float]
    scalars: tuple[Mapping[str, float], ...]
    energy_spectrum: NDArray[np.float64]
    gradient_spectrum: NDArray[np.float64]
    scalar_spectra: NDArray[np.float64]

    @property
    def energy(self) -> float:
        """<u.u> / 2, the mean flow included."""
        return self.fluctuation_energy + self.flow["mean_energy"]

    @property
    def fluctuation_energy(self) -> float:
        """<u.u> / 2 without the mean flow."""
        return self.flow["energy_x"] + self.flow["energy_y"] + self.flow["energy_z"]


def sum_over_modes(comm: MPI.Comm, fields: Fields, passes: FlowPasses) -> Sums:
    """Return the sums over the modes of all ranks, equal on all ranks. Collective.

    fields: 3 + S, velocity x, y, z and scalars.
    Box averages have the same bits on any number of ranks that hold the same fields. A line is never cut, and its
    sums are added independently of their order. Spectra agree to rounding (float64). NaN where a field is not finite.
    Communication: two Allreduces of some hundred bytes, one of n_shells (2 + S) numbers.
    """
    n_flow, n_each = len(FLOW_SUMS), len(SCALAR_SUMS)
    of_lines, of_shells = passes.sum_modes(fields)
    totals = [float(total) for total in allreduce_sums(comm, list(of_lines), passes.modes.truncation.n_lines)]
    spectra = sum_over_ranks(comm, of_shells) / Shells(passes.modes).width
    scalars = (totals[n_flow + n_each * s : n_flow + n_each * (s + 1)] for s in range(len(fields) - 3))
    return Sums(
        dict(zip(FLOW_SUMS, totals)),
        tuple(dict(zip(SCALAR_SUMS, values)) for values in scalars),
        spectra[0],
        spectra[1],
        spectra[2:],
    )


def sum_over_ranks(comm: MPI.Comm, mine: NDArray[Any]) -> NDArray[Any]:
    """Return the element-wise sum over ranks. Collective; floats agree on any number of ranks to rounding."""
    total = np.empty_like(mine)
    comm.Allreduce(mine, total)
    return total


def largest_sphere(modes: Modes) -> float:
    """Return k_max: the radius of the largest sphere of wavenumbers that is retained whole.

    sqrt(2) N / 3 (paper, Sec. 3.1) or N / 3 times the smallest wavenumber of the direction where that is least;
    N / 2 without dealiasing.
    """
    radius = DEALIAS_RADIUS[modes.dealias]
    return radius * min(n * unit for n, unit in zip(modes.shape, modes.unit))
