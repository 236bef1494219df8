"""Two-point statistics: sums over modes, spectra over shells of wavenumber, and structure functions.

A spectrum is the sum over each shell (fourier/modes.py) divided by its width dk, so that sum_n E(k_n) dk is the
energy in a box of any lengths.

Structure functions are moments of velocity differences over a separation along x. With
d_i = u_i(x + r, y, z) - u_i(x, y, z), < > over all points and p = 2, 3, 4,

    longitudinal S_p(r) = <d_x^p>,        transverse S_p(r) = <d_y^p + d_z^p> / 2   (p = 2, 4).

Every rank has whole lines along x, so that only sums are communicated. Lines along y and z would have to be
transposed, and say the same in an isotropic flow. S_2 is exact, namely the sum over all modes of
2 |u_i|^2 (1 - cos k_x r). Powers 3 and 4 have an error of sampling, as those of velocity gradients do. Source: Pope,
Turbulent Flows (2000), Sec. 6.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes, Shells
from ridgeline.models.turbulence.kernels_diagnostics import FLOW_SUMS, SCALAR_SUMS, offsets_along
from ridgeline.models.turbulence.passes import Fields, FlowPasses
from ridgeline.models.turbulence.problem import DEALIAS_RADIUS
from ridgeline.parallel.allreduce import allreduce_sums

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Sums:
    """Averages over the box that are sums over modes, and spectra.

    Spectra are float64 [n_shells], per unit of wavenumber.

    Attributes
    ----------
    flow : values of `kernels_diagnostics.FLOW_SUMS` by name
    scalars : values of `SCALAR_SUMS` by name, for each scalar
    energy_spectrum : E(k_n)
    gradient_spectrum : of k^2 |u|^2; nu times its integral is the dissipation
    scalar_spectra : of theta^2 of each scalar, [S, n_shells]
    """

    flow: Mapping[str, float]
    scalars: tuple[Mapping[str, float], ...]
    energy_spectrum: NDArray[np.float64]
    gradient_spectrum: NDArray[np.float64]
    scalar_spectra: NDArray[np.float64]

    @property
    def energy(self) -> float:
        """<u.u> / 2, with the mean flow."""
        return self.fluctuation_energy + self.flow["mean_energy"]

    @property
    def fluctuation_energy(self) -> float:
        """<u.u> / 2 without the mean flow."""
        return self.flow["energy_x"] + self.flow["energy_y"] + self.flow["energy_z"]


def sum_over_modes(comm: MPI.Comm, fields: Fields, passes: FlowPasses) -> Sums:
    """Return the sums over the modes of all ranks, equal on all ranks. Collective.

    fields: 3 + S, velocity x, y, z and scalars.
    Box averages have the same bits on any number of ranks: a line belongs to one rank, and the sums of lines are
    added independently of their order. Spectra agree to rounding (float64). All are NaN where a field is not
    finite. Communication: two allreduces of some hundred bytes, and one of n_shells (2 + S) numbers.
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
    """Return k_max, the radius of the largest sphere of wavenumbers that is wholly retained.

    It is sqrt(2) N / 3 with phase shifts (paper, Sec. 3.1), N / 3 with the 2/3 rule and N / 2 without dealiasing,
    times the smallest wavenumber of a direction; the direction with the least product counts.
    """
    radius = DEALIAS_RADIUS[modes.dealias]
    return radius * min(n * unit for n, unit in zip(modes.shape, modes.unit))


@dataclass(frozen=True)
class StructureFunctions:
    """Moments by separation, float64 [n] each, equal on all ranks.

    separation: r; longitudinal: S_2, S_3, S_4; transverse: S_2, S_4.
    """

    separation: NDArray[np.float64]
    longitudinal: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
    transverse: tuple[NDArray[np.float64], NDArray[np.float64]]


def structure_functions(comm: MPI.Comm, velocity: Fields, passes: FlowPasses) -> StructureFunctions:
    """Return the structure functions of a velocity field, which is three fields. Collective.

    Cost: 3 inverse transforms, one after the other, and some 2 log2(N_x) passes over their points.
    """
    modes = passes.modes
    nx = modes.shape[2]
    offsets = offsets_along(nx)
    separation = np.multiply(offsets, modes.lengths[2] / nx, dtype=np.float64)
    sums = np.stack([passes.increments(passes.to_points(component), offsets) for component in velocity])
    along, *across = sum_over_ranks(comm, sums) / math.prod(modes.shape)
    second, _, fourth = (across[0] + across[1]) / 2
    return StructureFunctions(separation, (along[0], along[1], along[2]), (second, fourth))
