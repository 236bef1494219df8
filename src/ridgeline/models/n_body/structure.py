"""Cosmic structure as profiles of a state: the power spectrum, the mass function of halos and a slice of density.

The power spectrum comes from the modes of the particles' density on a grid. The density is a cloud-in-cell deposit of
n equal particles, whose window W multiplies every mode:

    W(k) = prod_i sinc(k_i d_i / 2)^2,   d_i: spacing of the grid

The estimate for a shell of wavenumbers (fourier/modes.py) is the mean over its modes of

    P(k) = volume |delta_k|^2 / W(k)^2

The aliases of delta are not removed. For a mode along an axis they add 1/81 of P(3 k) at half the Nyquist wavenumber,
and double P at the Nyquist wavenumber.

Particles placed at random in a smooth density would add the shot noise volume / n. The modes of the grid, aliases
included, have exactly

    S(k) = volume / n prod_i (1 - 2/3 sin(k_i d_i / 2)^2)

Its mean over the shell, S / W^2, is given beside the spectrum and is not subtracted: particles that start from a
lattice have no shot noise at first, and how much they have later is not known.

The slice of density is the mass of a slab of particles projected on a plane, deposited cloud in cell on pixels.
Weights are multiples of 2^-24, so that the sums of up to 2^29 particles in a pixel are exact, and the picture has the
same bits on any number of ranks.

Sources: Hockney and Eastwood, "Computer Simulation Using Particles" (1988), Sec. 5-6; Jing, Astrophys. J. 620 (2005)
559, Eqs. 17 to 20.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes, Shells
from ridgeline.models.contract import Profile
from ridgeline.models.n_body.engine_cpu import MOMENTUM, CpuEngine
from ridgeline.models.n_body.halos import friends_of_friends, halo_catalogue, mass_function
from ridgeline.parallel.allreduce import gather_and_broadcast

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.n_body.settings import NBodyCase

Real = NDArray[np.float64]
BINS_PER_DECADE = 4  # of mass
SLAB = 1 / 8  # thickness of the slab over the edge of the box, unless the settings name one
# Positions are rounded to this fraction of a pixel, so that products of two weights are multiples of 2^-24.
PARTS = 2**12
BLOCK = 1 << 16  # modes that are processed at a time, so that temporary arrays stay small


class Structure:
    """Computes the profiles of an engine's particles. Every method is collective."""

    def __init__(self, comm: MPI.Comm, engine: CpuEngine, case: NBodyCase) -> None:
        self._comm, self._engine, self._case = comm, engine, case
        self._linear: NDArray[np.float64] | None = None

    def profiles(self, a: float) -> Mapping[str, Profile]:
        """Return all profiles of the present state, whose scale factor is a."""
        profiles = self._spectra(a)
        if self._case.analysis.halos:
            profiles |= self._mass_function()
        return profiles | self._slice()

    def _spectra(self, a: float) -> dict[str, Profile]:
        case, mesh = self._case, self._engine.mesh
        n = case.gravity.n_global
        spectrum = power_spectrum(self._comm, mesh.transform.modes, mesh.modes, n)
        k = spectrum.wavenumber
        words = "mean of the shell, h/Mpc"
        profiles = {
            "k": Profile(k, ("k",), "h/Mpc", words),
            "matter_power": Profile(spectrum.power, ("k",), "(Mpc/h)^3", "power spectrum of the particles"),
            "shot_noise": Profile(
                spectrum.shot_noise,
                ("k",),
                "(Mpc/h)^3",
                "power spectrum of randomly placed particles, which is not subtracted",
            ),
        }
        if case.initial.kind == "random":
            if self._linear is None:
                self._linear = np.asarray(case.linear_spectrum()(k))
            growth = float(case.universe.growth(a))
            words = "power spectrum of linear theory"
            profiles["linear_power"] = Profile(self._linear * growth**2, ("k",), "(Mpc/h)^3", words)
        return profiles

    def _mass_function(self) -> dict[str, Profile]:
        engine, case, options = self._engine, self._case, self._case.analysis
        particles, n, length = engine.particles, case.gravity.n_global, engine.length
        link = options.linking_length * length / case.grid.lattice
        members = friends_of_friends(self._comm, engine.boxes, particles.position, particles.identity, link)
        halos = halo_catalogue(
            self._comm, engine.boxes, particles.position, particles[MOMENTUM], members, n, options.least_halo
        )
        mass = case.universe.particle_mass(length**3, n)
        function = mass_function(halos, mass, length**3, options.least_halo, BINS_PER_DECADE)
        # The same number of bins in every step: up to the mass of all particles.
        bins = 1 + int(BINS_PER_DECADE * np.log10(max(n / options.least_halo, 1.0)))
        edges = mass * options.least_halo * 10.0 ** (np.arange(bins + 1) / BINS_PER_DECADE)
        empty = bins - len(function.count)
        return {
            "halo_mass": Profile(
                np.sqrt(edges[1:] * edges[:-1]),
                ("halo_mass",),
                "Msun/h",
                "middle of the bin, evenly spaced in log10",
            ),
            "halo_count": Profile(np.pad(function.count, (0, empty)), ("halo_mass",), "1", "halos"),
            "halo_density": Profile(
                np.pad(function.density, (0, empty)),
                ("halo_mass",),
                "(h/Mpc)^3",
                "halos per log10 of the mass",
            ),
        }

    def _slice(self) -> dict[str, Profile]:
        engine, options = self._engine, self._case.analysis
        length, pixels = engine.length, options.pixels
        thickness = SLAB * length if options.slab is None else min(options.slab, length)
        picture = surface_density(
            self._comm, engine.particles.position, (length,) * 3, 2, (0.0, thickness), (pixels, pixels)
        )
        places = np.arange(pixels) * (length / pixels)
        return {
            "y": Profile(places, ("y",), "Mpc/h", "centres of pixels"),
            "x": Profile(places, ("x",), "Mpc/h", "centres of pixels"),
            "surface_density": Profile(
                picture, ("y", "x"), "1", "projected density of the slab over its mean"
            ),
        }


@dataclass(frozen=True, eq=False)
class PowerSpectrum:
    """Means over shells of wavenumbers: all that are complete below the least Nyquist wavenumber, except k = 0.

    Attributes
    ----------
    wavenumber : float64 [n]
        Mean |k| of the modes, h/Mpc.
    power : float64 [n]
        Power spectrum of the particles, (Mpc/h)^3, shot noise included.
    shot_noise : float64 [n]
        The power that particles placed at random would have, (Mpc/h)^3.
    modes : int64 [n]
        Number of modes, k and -k counted as two.
    """

    wavenumber: Real
    power: Real
    shot_noise: Real
    modes: NDArray[np.int64]


def power_spectrum(
    comm: MPI.Comm, modes: Modes, density: NDArray[np.complex128], n_global: int
) -> PowerSpectrum:
    """Return the power spectrum of n_global particles, on all ranks. Collective.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks that share the modes.
    modes : Modes
        The modes of this rank, with the lengths of the box in Mpc/h.
    density : complex [n_modes]
        Modes of the density over its mean, with or without the one of k = 0.
    n_global : int
        Number of particles on all ranks.

    Notes
    -----
    One gather and one broadcast of some kB. The ranks' sums are added in the order of ranks: the result has the same
    bits in every run on the same number of ranks, and is equal to rounding on other numbers.
    """
    shells = Shells(modes)
    nyquist = 0.5 * min(n * unit for n, unit in zip(modes.shape, modes.unit))
    n_shells = int(np.count_nonzero(shells.wavenumbers + shells.width / 2 <= nyquist))
    volume = math.prod(modes.lengths)
    local = np.zeros((4, shells.n_shells))
    jz, jy, jx = modes.lines.expand()
    for first in range(0, modes.n_modes, BLOCK):
        some = slice(first, first + BLOCK)
        numbers = (jz[some], jy[some], jx[some])
        k = np.sqrt(sum((unit * j) ** 2 for unit, j in zip(modes.unit, numbers)))
        window, noise = _window_and_noise(modes, numbers)
        squares = np.abs(density[some]) ** 2
        weight = np.where(jx[some] > 0, 2.0, 1.0)
        shell = shells.of(k)
        summands = (k, volume * squares / window**2, volume / n_global * noise / window**2, np.ones_like(k))
        for sums, values in zip(local, summands):
            sums += np.bincount(shell, weight * values, shells.n_shells)
    total = gather_and_broadcast(comm, local, lambda parts: np.sum(parts, axis=0))[:, 1:n_shells]
    wavenumber, power, shot_noise = total[:3] / total[3]
    return PowerSpectrum(wavenumber, power, shot_noise, total[3].astype(np.int64))


def _window_and_noise(modes: Modes, numbers: tuple[NDArray[np.int64], ...]) -> tuple[Real, Real]:
    """Return W and S n / volume for modes with the numbers (j_z, j_y, j_x)."""
    window, noise = np.ones(len(numbers[0])), np.ones(len(numbers[0]))
    for n, j in zip(modes.shape, numbers):
        window *= np.sinc(j / n) ** 2  # sin(pi j / n) / (pi j / n) with k d / 2 = pi j / n
        noise *= 1.0 - 2.0 / 3.0 * np.sin(np.pi * j / n) ** 2
    return window, noise


def surface_density(
    comm: MPI.Comm,
    positions: Real,
    lengths: tuple[float, float, float],
    axis: int,
    slab: tuple[float, float],
    shape: tuple[int, int],
) -> Real:
    """Return the projected mass of a slab in each pixel, relative to its mean. Collective.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks that share the particles.
    positions : float64 (3, n)
        Positions x, y, z in [0, L) of this rank's particles.
    lengths : tuple of three floats
        Edges of the box, (L_z, L_y, L_x).
    axis : int
        Direction of the projection: 0 for x, 1 for y, 2 for z.
    slab : tuple of two floats
        The particles with begin <= position < end along `axis` count.
    shape : tuple of two ints
        Pixels along the other two axes, the slower one first: (z, y), (z, x) or (y, x).

    Returns
    -------
    float64 `shape`
        The same on all ranks. Pixel i is centred at i times its width, and the plane is periodic.

    Notes
    -----
    One allreduce of the picture.
    """
    box = lengths[::-1]
    begin, end = slab
    inside = (begin <= positions[axis]) & (positions[axis] < end)
    fast, slow = (other for other in range(3) if other != axis)
    rows, columns = (
        np.rint(positions[other][inside] * (n * PARTS / box[other])).astype(np.int64)
        for other, n in zip((slow, fast), shape)
    )
    picture = np.zeros(shape[0] * shape[1])
    for up in (0, 1):
        for right in (0, 1):
            weight = _part(rows, up) * _part(columns, right)
            row, column = (rows // PARTS + up) % shape[0], (columns // PARTS + right) % shape[1]
            picture += np.bincount(row * shape[1] + column, weight, picture.size)
    total = np.empty_like(picture)
    comm.Allreduce(picture, total)
    n_global = comm.allreduce(positions.shape[1])
    mean = n_global * (end - begin) / box[axis] / picture.size
    return np.asarray((total / mean).reshape(shape))


def _part(places: NDArray[np.int64], upper: int) -> Real:
    """Return the share of each particle in the upper, or the lower, of its two pixels."""
    fraction = (places % PARTS) / PARTS
    return fraction if upper else 1.0 - fraction
