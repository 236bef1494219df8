"""What has grown: the power spectrum, the mass function of halos and a slice of density, as profiles of a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.contract import Profile
from ridgeline.models.n_body.density_slices import surface_density
from ridgeline.models.n_body.engine_cpu import MOMENTUM, CpuEngine
from ridgeline.models.n_body.halos import friends_of_friends, halo_catalogue, mass_function
from ridgeline.models.n_body.measured_spectrum import power_spectrum

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.n_body.settings import NBodyCase

BINS_PER_DECADE = 4  # of mass
SLAB = 1 / 8  # of the box, where the settings name no thickness


class Structure:
    """Profiles of an engine's particles. Every method is collective."""

    def __init__(self, comm: MPI.Comm, engine: CpuEngine, case: NBodyCase) -> None:
        self._comm, self._engine, self._case = comm, engine, case
        self._linear: NDArray[np.float64] | None = None

    def profiles(self, a: float) -> Mapping[str, Profile]:
        """Return all profiles of the present state, whose scale factor is a."""
        found = self._spectra(a)
        if self._case.analysis.halos:
            found |= self._mass_function()
        return found | self._slice()

    def _spectra(self, a: float) -> dict[str, Profile]:
        case, mesh = self._case, self._engine.mesh
        n = case.gravity.n_global
        found = power_spectrum(self._comm, mesh.transform.modes, mesh.modes, n)
        k = found.wavenumber
        words = "mean of the shell, h/Mpc"
        profiles = {
            "k": Profile(k, ("k",), "h/Mpc", words),
            "matter_power": Profile(found.power, ("k",), "(Mpc/h)^3", "power spectrum of the particles"),
            "shot_noise": Profile(
                found.shot_noise, ("k",), "(Mpc/h)^3", "that of particles at random, which is not taken out"
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
        engine, case, asked = self._engine, self._case, self._case.analysis
        particles, n, length = engine.particles, case.gravity.n_global, engine.length
        link = asked.linking_length * length / case.grid.lattice
        members = friends_of_friends(self._comm, engine.boxes, particles.position, particles.identity, link)
        halos = halo_catalogue(
            self._comm, engine.boxes, particles.position, particles[MOMENTUM], members, n, asked.least_halo
        )
        mass = case.universe.particle_mass(length**3, n)
        found = mass_function(halos, mass, length**3, asked.least_halo, BINS_PER_DECADE)
        # As many bins in every step: up to that of all particles.
        bins = 1 + int(BINS_PER_DECADE * np.log10(max(n / asked.least_halo, 1.0)))
        edges = mass * asked.least_halo * 10.0 ** (np.arange(bins + 1) / BINS_PER_DECADE)
        empty = bins - len(found.count)
        return {
            "halo_mass": Profile(
                np.sqrt(edges[1:] * edges[:-1]), ("halo_mass",), "Msun/h", "middles of bins, even in log10"
            ),
            "halo_count": Profile(np.pad(found.count, (0, empty)), ("halo_mass",), "1", "halos"),
            "halo_density": Profile(
                np.pad(found.density, (0, empty)), ("halo_mass",), "(h/Mpc)^3", "halos per log10 of the mass"
            ),
        }

    def _slice(self) -> dict[str, Profile]:
        engine, asked = self._engine, self._case.analysis
        length, pixels = engine.length, asked.pixels
        thickness = SLAB * length if asked.slab is None else min(asked.slab, length)
        picture = surface_density(
            self._comm, engine.particles.position, (length,) * 3, 2, (0.0, thickness), (pixels, pixels)
        )
        places = np.arange(pixels) * (length / pixels)
        return {
            "y": Profile(places, ("y",), "Mpc/h", "centres of pixels"),
            "x": Profile(places, ("x",), "Mpc/h", "centres of pixels"),
            "surface_density": Profile(picture, ("y", "x"), "1", "mass of the slab over its mean"),
        }
