"""Statistics over fluid particles: correlation in time, dispersion of one, two and four, and of what they meet.

With x and v of a particle now, x_0 and v_0 at step 0, averaged over all particles, pairs or tetrads:

    particle_energy          <v.v> / 2
    particle_displacement    <|x - x_0|^2>                                     (Taylor, 1921)
    particle_structure       <|v - v_0|^2> / 3, the structure function at the lag t
    particle_correlation     <v.v_0> / sqrt(<v.v> <v_0.v_0>)
    pair_separation          <|r|^2>, r between the particles of a pair        (Richardson, 1926)
    pair_dispersion          <|r - r_0|^2>                                     (Batchelor, 1950)
    tetrad_radius            <R^2>, R^2 = sum over corners of |x_i - x_mean|^2 / 4
    tetrad_volume            <|V|>

Of what is sampled there are moments over particles. They are mean and <eps^2>/<eps>^2 of the dissipation, the same of
the enstrophy, and <a.a>/3 and the flatness of a component of the acceleration. Sums have the same bits on any ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.turbulence.fluid_particles.config import GROUPS
from ridgeline.models.turbulence.fluid_particles.tracers import Tracers
from ridgeline.models.turbulence.point_sums import count_evenly
from ridgeline.models.turbulence.pressure import BINS_PER_RMS, DEVIATIONS, FARTHEST
from ridgeline.parallel.allreduce import allreduce_sums

if TYPE_CHECKING:
    from mpi4py import MPI

Floats = NDArray[np.float64]


def means(comm: MPI.Comm, values: Mapping[str, Floats], n_global: int) -> dict[str, float]:
    """Return the average of each array over all ranks, the same bits however they are spread. Collective.

    n_global: numbers in an array on all ranks.
    """
    sums = allreduce_sums(comm, list(values.values()), n_global)
    return {name: float(total) / n_global for name, total in zip(values, sums)}


def lagrangian_figures(comm: MPI.Comm, tracers: Tracers) -> dict[str, float]:
    """Return the figures of positions and velocities, equal on all ranks. Collective.

    Cost: positions and velocities go to the ranks that have their identities; no transform.
    """
    place, velocity = tracers.paths(), tracers.ranges.gather(tracers.particles, "velocity")
    moved, first = place - tracers.start_place, tracers.start_velocity
    found = means(
        comm,
        {
            "energy": _dot(velocity, velocity),
            "displacement": _dot(moved, moved),
            "structure": _dot(velocity - first, velocity - first),
            "correlation": _dot(velocity, first),
            "start": _dot(first, first),
        },
        tracers.ranges.n_global,
    )
    figures = {
        "particle_energy": found["energy"] / 2,
        "particle_displacement": found["displacement"],
        "particle_structure": found["structure"] / 3,
        "particle_correlation": _ratio(found["correlation"], math.sqrt(found["energy"] * found["start"])),
    }
    return figures | _group_figures(comm, tracers, place)


def _group_figures(comm: MPI.Comm, tracers: Tracers, place: Floats) -> dict[str, float]:
    """Return the figures of pairs or tetrads. place: [3, n] in the order of identities, of whole groups."""
    placement = tracers.settings.placement
    n_groups = tracers.ranges.n_global // GROUPS[placement]
    if placement == "pairs":
        separation = place[:, 1::2] - place[:, ::2]
        change = separation - (tracers.start_place[:, 1::2] - tracers.start_place[:, ::2])
        values = {"separation": _dot(separation, separation), "dispersion": _dot(change, change)}
        return {f"pair_{name}": mean for name, mean in means(comm, values, n_groups).items()}
    if placement == "tetrads":
        corners = place.reshape(3, -1, 4)
        arms = corners - corners.mean(axis=2, keepdims=True)
        edges = corners[:, :, 1:] - corners[:, :, :1]
        volume = np.abs(_dot(edges[:, :, 0], np.cross(edges[:, :, 1], edges[:, :, 2], axis=0))) / 6
        values = {"radius": (arms * arms).sum(axis=(0, 2)) / 4, "volume": volume}
        return {f"tetrad_{name}": mean for name, mean in means(comm, values, n_groups).items()}
    return {}


def sampled_figures(comm: MPI.Comm, found: Mapping[str, Floats], n_global: int) -> dict[str, float]:
    """Return the figures of what was sampled: dissipation, enstrophy and acceleration, if they were. Collective.

    found: as `ParticleSamples.sample` returns it; n_global: particles of all ranks.
    """
    figures: dict[str, float] = {}
    for name in (each for each in ("dissipation", "enstrophy") if each in found):
        powers = means(comm, {"one": found[name], "two": found[name] ** 2}, n_global)
        figures[f"particle_{name}"] = powers["one"]
        figures[f"particle_{name}_moment_2"] = _ratio(powers["two"], powers["one"] ** 2)
    if "acceleration" in found:
        squares = np.ascontiguousarray(found["acceleration"]) ** 2
        powers = means(comm, {"two": squares, "four": squares**2}, 3 * n_global)
        figures["particle_acceleration"] = powers["two"]
        figures["particle_acceleration_flatness"] = _ratio(powers["four"], powers["two"] ** 2)
    return dict(sorted(figures.items()))


def acceleration_density(comm: MPI.Comm, acceleration: Floats, n_global: int) -> Floats:
    """Return the probability density of a component of the acceleration over its root mean square. Collective.

    acceleration: [3, n] of this rank's particles; in bins of 1 / BINS_PER_RMS around `pressure.DEVIATIONS`. All is 0
    where there is no acceleration, and NaN where it is not finite.
    """
    rms = math.sqrt(means(comm, {"two": acceleration**2}, 3 * n_global)["two"])
    if rms == 0.0 or not math.isfinite(rms):
        return np.full(len(DEVIATIONS), 0.0 * rms)
    counts = np.zeros(len(DEVIATIONS) + 2, np.int64)
    count_evenly(np.ascontiguousarray(acceleration), BINS_PER_RMS / rms, FARTHEST * BINS_PER_RMS, counts)
    total = np.zeros_like(counts)
    comm.Allreduce(counts, total)
    return np.asarray(total[1:-1] * (BINS_PER_RMS / (3.0 * n_global)))


def _dot(a: Floats, b: Floats) -> Floats:
    """Return the products of vectors [3, n], [n]."""
    return np.asarray((a * b).sum(axis=0))


def _ratio(a: float, b: float) -> float:
    """Return a / b; 0 where b is 0."""
    return a / b if b else 0.0
