"""The power spectrum of particles, from the modes of their density on a grid.

The density is a cloud-in-cell deposit of n equal particles, whose window W multiplies every mode:

    W(k) = prod_i sinc(k_i d_i / 2)^2,   d_i: spacing of the grid

The estimate of a shell of wavenumbers (fourier/modes.py) is the mean over its modes of

    P(k) = volume |delta_k|^2 / W(k)^2

The images of delta stay. Of a mode along an axis they add 1/81 of P(3 k) at half the wavenumber of Nyquist, and
double P at that of Nyquist.

Particles at random in a smooth density would add the shot noise volume / n. On the grid its modes have, images
included, exactly

    S(k) = volume / n prod_i (1 - 2/3 sin(k_i d_i / 2)^2)

Its mean over the shell, S / W^2, is given beside the spectrum and not taken out: particles that start from a lattice
have none at first, and what they have later is not known.

Sources: Hockney and Eastwood, "Computer Simulation Using Particles" (1988), Sec. 5-6; Jing, Astrophys. J. 620 (2005)
559, Eqs. 17 to 20.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes, Shells
from ridgeline.parallel.allreduce import gather_and_broadcast

if TYPE_CHECKING:
    from mpi4py import MPI

Real = NDArray[np.float64]

BLOCK = 1 << 16  # modes worked on at a time: temporary arrays stay small


@dataclass(frozen=True, eq=False)
class PowerSpectrum:
    """Means over shells of wavenumber, [n]: the shells from that of dk on that are whole below the least Nyquist.

    wavenumber: mean |k| of the modes, h/Mpc; power: (Mpc/h)^3, of the particles as they are; shot_noise: that of
    particles at random, which the power would hold then; modes: int64, how many, both of k and -k.
    """

    wavenumber: Real
    power: Real
    shot_noise: Real
    modes: NDArray[np.int64]


def power_spectrum(
    comm: MPI.Comm, modes: Modes, density: NDArray[np.complex128], n_global: int
) -> PowerSpectrum:
    """Return the spectrum of n_global particles, on all ranks. Collective.

    modes: of this rank, with the lengths of the box in Mpc/h; density: complex [n_modes], modes of density over its
    mean (with or without k = 0). Ranks are added in their order: the same bits in every run on as many ranks. On
    others the spectrum is the same to rounding. Communication: a gather and a broadcast of some kB.
    """
    shells = Shells(modes)
    nyquist = 0.5 * min(n * unit for n, unit in zip(modes.shape, modes.unit))
    n_shells = int(np.count_nonzero(shells.wavenumbers + shells.width / 2 <= nyquist))
    volume = math.prod(modes.lengths)
    mine = np.zeros((4, shells.n_shells))
    jz, jy, jx = modes.lines.expand()
    for first in range(0, modes.n_modes, BLOCK):
        some = slice(first, first + BLOCK)
        numbers = (jz[some], jy[some], jx[some])
        k = np.sqrt(sum((unit * j) ** 2 for unit, j in zip(modes.unit, numbers)))
        window, noise = _window_and_noise(modes, numbers)
        squares = np.abs(density[some]) ** 2
        weight = np.where(jx[some] > 0, 2.0, 1.0)
        of_shell = shells.of(k)
        figures = (k, volume * squares / window**2, volume / n_global * noise / window**2, np.ones_like(k))
        for sums, values in zip(mine, figures):
            sums += np.bincount(of_shell, weight * values, shells.n_shells)
    total = gather_and_broadcast(comm, mine, lambda parts: np.sum(parts, axis=0))[:, 1:n_shells]
    wavenumber, power, shot_noise = total[:3] / total[3]
    return PowerSpectrum(wavenumber, power, shot_noise, total[3].astype(np.int64))


def _window_and_noise(modes: Modes, numbers: tuple[NDArray[np.int64], ...]) -> tuple[Real, Real]:
    """Return W, and S n / volume, of modes with these numbers (j_z, j_y, j_x)."""
    window, noise = np.ones(len(numbers[0])), np.ones(len(numbers[0]))
    for n, j in zip(modes.shape, numbers):
        window *= np.sinc(j / n) ** 2  # sin(pi j / n) / (pi j / n), k d / 2 = pi j / n
        noise *= 1.0 - 2.0 / 3.0 * np.sin(np.pi * j / n) ** 2
    return window, noise
