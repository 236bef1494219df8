"""Pressure and the transfer spectrum: what the products u_i u_j of a velocity field give.

    p/rho = -k_i k_j / k^2 of the modes of u_i u_j                                  (paper, Eq. 11),
    T(k) = sum of Re(u_j* (-i k_i u_i u_j)) over a shell,   dE(k)/dt = T(k) - 2 nu k^2 E(k) + forcing.

Aliasing: with the truncation of phase shifting the products are formed on the grid and on the grid displaced by
half a cell in all directions, and averaged. Products that alias in one or three directions cancel, those that
alias in two lie outside the truncation; so the result is free of aliasing (Patterson and Orszag, Phys. Fluids
14 (1971) 2538). With the 2/3 rule one evaluation is free of it, and `none` asks for none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.grid.modes import Modes
from ridgeline.kernels.mode_sums import add_stress, shift_modes
from ridgeline.kernels.point_sums import multiply
from ridgeline.models.turbulence.gradients import STRAIN, Transform
from ridgeline.models.turbulence.spectra import Shells, sum_over_ranks

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Products:
    """What the products of velocities give.

    pressure: modes of p/rho, complex [n_modes], zero at k = 0; transfer_spectrum: T(k_n) per unit of wavenumber,
    float64 [n_shells], equal on all ranks; its sum is zero to rounding where products are free of aliasing.
    """

    pressure: NDArray[Any]
    transfer_spectrum: NDArray[np.float64]


def products(comm: MPI.Comm, velocity: NDArray[Any], modes: Modes, transform: Transform) -> Products:
    """Return pressure and transfer spectrum of a velocity field. Collective.

    velocity: complex [3, n_modes], solenoidal. Cost: 3 inverse and 6 forward transforms, twice with phase shifts;
    memory: four real and three complex fields more than a transform has.
    """
    shells = Shells(modes)
    pressure = np.zeros_like(velocity[0])
    transfer = np.zeros(shells.n_shells)
    grids = (0.0, 0.5) if modes.dealias == "phase-shift" else (0.0,)
    for cells in grids:
        for (i, j), stress in _stresses(velocity, modes, transform, cells):
            add_stress(
                stress,
                min(i, j),
                max(i, j),
                1.0 / len(grids),
                velocity,
                modes.lines.start,
                modes.kz,
                modes.kx,
                modes.line_weight,
                modes.unit[1],
                shells.width,
                pressure,
                transfer,
            )
    return Products(pressure, sum_over_ranks(comm, transfer) / shells.width)


def _stresses(
    velocity: NDArray[Any], modes: Modes, transform: Transform, cells: float
) -> Iterator[tuple[tuple[int, int], NDArray[Any]]]:
    """Yield (i, j) and the modes of u_i u_j, complex [n_modes], formed on a grid displaced by some cells."""
    phase_y, phase_flat = _phases(modes, cells)
    shifted = np.empty_like(velocity[:1])
    points = []
    for component in velocity:
        shift_modes(component, phase_y, phase_flat, modes.lines.start, shifted[0])
        points.append(transform.to_physical(shifted)[0])
    product = np.empty_like(points[0])[np.newaxis]
    undo = phase_y.conj(), phase_flat.conj()
    for i, j in STRAIN:
        multiply(points[i].ravel(), points[j].ravel(), product.ravel())
        stress = transform.to_spectral(product)[0]
        shift_modes(stress, *undo, modes.lines.start, stress)
        yield (i, j), stress


def _phases(modes: Modes, cells: float) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return what `shift_modes` takes for a displacement by `cells` grid cells in every direction."""
    dz, dy, dx = (cells * length / n for length, n in zip(modes.lengths, modes.shape))
    ny = modes.shape[1]
    ky = modes.unit[1] * np.fft.fftfreq(ny, 1 / ny)
    return np.exp(1j * dy * ky), np.exp(1j * (dx * modes.kx + dz * modes.kz))
