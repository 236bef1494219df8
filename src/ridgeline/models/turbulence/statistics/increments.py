"""Structure functions: moments of velocity differences over a separation along x.

With d_i = u_i(x + r, y, z) - u_i(x, y, z), < > over all points and p = 2, 3, 4,

    longitudinal S_p(r) = <d_x^p>,        transverse S_p(r) = <d_y^p + d_z^p> / 2   (p = 2, 4).

Lines along x are whole on every rank, so that nothing but sums is communicated. Along y and z lines would have to be
transposed: in an isotropic flow these directions say the same. S_2 is exact, the sum over all modes of
2 |u_i|^2 (1 - cos k_x r). Powers 3 and 4 have an error of sampling, as those of the velocity gradients do.
Source: Pope, Turbulent Flows (2000), Sec. 6.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.turbulence.passes import Fields, FlowPasses
from ridgeline.models.turbulence.point_sums import offsets_along
from ridgeline.models.turbulence.spectra import sum_over_ranks

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class StructureFunctions:
    """Moments over separations, equal on all ranks to rounding; all arrays float64 [n].

    separation: r; longitudinal: S_2, S_3, S_4; transverse: S_2, S_4.
    """

    separation: NDArray[np.float64]
    longitudinal: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
    transverse: tuple[NDArray[np.float64], NDArray[np.float64]]


def structure_functions(comm: MPI.Comm, velocity: Fields, passes: FlowPasses) -> StructureFunctions:
    """Return structure functions of a velocity field, three fields. Collective.

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
