"""Lagrangian statistics: correlations in time, dispersion of one, two and four particles, moments of samples.

With x and v of a particle now, x_0 and v_0 at step 0, averaged over all particles, pairs or tetrads:

    particle_energy          <v.v> / 2
    particle_displacement    <|x - x_0|^2>                                     (Taylor, 1921)
    particle_structure       <|v - v_0|^2> / 3, the structure function at the lag t
    particle_correlation     <v.v_0> / sqrt(<v.v> <v_0.v_0>)
    pair_separation          <|r|^2>, r between the particles of a pair        (Richardson, 1926)
    pair_dispersion          <|r - r_0|^2>                                     (Batchelor, 1950)
    tetrad_radius            <R^2>, R^2 = sum over corners of |x_i - x_mean|^2 / 4
    tetrad_volume            <|V|>

Quantities that are sampled at the particles have moments over them: the mean and <eps^2>/<eps>^2 of the dissipation,
the same of the enstrophy, and <a.a>/3 and the flatness of a component of the acceleration. Dissipation and enstrophy
also have correlations in time along the paths. With q of a particle now and q_0 at step 0,

    particle_dissipation_correlation    <q' q_0'> / sqrt(<q' q'> <q_0' q_0'>),    q' = q - <q>.

Sums have the same bits on any number of ranks. Source of the correlations: Yeung and Pope, J. Fluid Mech. 207 (1989)
531.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.turbulence.fluid_particles.fields import NUMBER, SAMPLED_AT_START
from ridgeline.models.turbulence.fluid_particles.tracers import PREFIX, Tracers
from ridgeline.models.turbulence.kernels_diagnostics import count_evenly
from ridgeline.models.turbulence.particle_settings import GROUPS
from ridgeline.models.turbulence.pressure import BINS_PER_RMS, DEVIATIONS, FARTHEST
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI


Floats = NDArray[np.float64]


def means(comm: MPI.Comm, values: Mapping[str, Floats], n_global: int) -> dict[str, float]:
    """Return the average of each array over all ranks, with the same bits however the ranks share it. Collective.

    n_global: numbers in an array, all ranks together.
    """
    sums = allreduce_sums(comm, list(values.values()), n_global)
    return {name: float(total) / n_global for name, total in zip(values, sums)}


def lagrangian_figures(comm: MPI.Comm, tracers: Tracers) -> dict[str, float]:
    """Return the figures of positions and velocities, equal on all ranks. Collective.

    Communication: positions and velocities go to the ranks that have the identities of the particles.
    """
    place, velocity = tracers.paths(), tracers.ranges.gather(tracers.particles, "velocity")
    moved, first = place - tracers.start_place, tracers.start_velocity
    mean = means(
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
        "particle_energy": mean["energy"] / 2,
        "particle_displacement": mean["displacement"],
        "particle_structure": mean["structure"] / 3,
        "particle_correlation": _ratio(mean["correlation"], math.sqrt(mean["energy"] * mean["start"])),
    }
    return figures | _group_figures(comm, tracers, place)


def _group_figures(comm: MPI.Comm, tracers: Tracers, place: Floats) -> dict[str, float]:
    """Return the figures of pairs or tetrads. place: [3, n] in the order of identities, whole groups on a rank."""
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


def sampled_figures(comm: MPI.Comm, samples: Mapping[str, Floats], n_global: int) -> dict[str, float]:
    """Return the moments of dissipation, enstrophy and acceleration, of those that were sampled. Collective.

    samples: of `ParticleSamples.sample`; n_global: particles of all ranks.
    """
    figures: dict[str, float] = {}
    for name in (each for each in ("dissipation", "enstrophy") if each in samples):
        powers = means(comm, {"one": samples[name], "two": samples[name] ** 2}, n_global)
        figures[f"particle_{name}"] = powers["one"]
        figures[f"particle_{name}_moment_2"] = _ratio(powers["two"], powers["one"] ** 2)
    if "acceleration" in samples:
        squares = np.ascontiguousarray(samples["acceleration"]) ** 2
        powers = means(comm, {"two": squares, "four": squares**2}, 3 * n_global)
        figures["particle_acceleration"] = powers["two"]
        figures["particle_acceleration_flatness"] = _ratio(powers["four"], powers["two"] ** 2)
    return dict(sorted(figures.items()))


def acceleration_density(comm: MPI.Comm, acceleration: Floats, n_global: int) -> Floats:
    """Return the probability density of a component of the acceleration over its root mean square. Collective.

    acceleration: [3, n] of this rank's particles. Bins are 1 / BINS_PER_RMS wide, around `pressure.DEVIATIONS`. The
    density is 0 if all accelerations are 0, and NaN if one is not finite.
    """
    rms = math.sqrt(means(comm, {"two": acceleration**2}, 3 * n_global)["two"])
    if rms == 0.0 or not math.isfinite(rms):
        return np.full(len(DEVIATIONS), 0.0 * rms)
    counts = np.zeros(len(DEVIATIONS) + 2, np.int64)
    count_evenly(np.ascontiguousarray(acceleration), BINS_PER_RMS / rms, FARTHEST * BINS_PER_RMS, counts)
    total = np.zeros_like(counts)
    comm.Allreduce(counts, total)
    return np.asarray(total[1:-1] * (BINS_PER_RMS / (3.0 * n_global)))


class StartSamples:
    """Dissipation and enstrophy that every particle met at step 0, in the order of identities: part of checkpoints.

    They are kept whatever the settings sample, so that a resumed run may ask for more.
    """

    def __init__(self, tracers: Tracers) -> None:
        self._tracers = tracers
        self._arrays = tracers.ranges.arrays(SAMPLED_AT_START, f"{PREFIX}start_")

    def keep(self, samples: Mapping[str, Floats]) -> None:
        """Keep the samples of step 0, [n] of this rank's particles for each name of SAMPLED_AT_START. Collective."""
        for name in SAMPLED_AT_START:
            self._values(name)[...] = self._tracers.in_order(samples[name], NUMBER)

    def _values(self, name: str) -> Floats:
        """Return the samples of step 0, [n] of this rank's identities."""
        return self._arrays[f"{PREFIX}start_{name}"].local

    def state(self) -> Mapping[str, DistributedArray]:
        """Return the arrays that a checkpoint holds, and that a resumed run reads into."""
        return self._arrays

    def n_bytes(self) -> int:
        """Return the bytes that this rank holds."""
        return sum(array.local.nbytes for array in self._arrays.values())

    def correlations(self, comm: MPI.Comm, samples: Mapping[str, Floats]) -> dict[str, float]:
        """Return the correlations between step 0 and now, of the quantities that are in `samples`. Collective."""
        figures = {}
        for name in (each for each in SAMPLED_AT_START if each in samples):
            now = self._tracers.in_order(samples[name], NUMBER)
            figures[f"particle_{name}_correlation"] = correlation(
                comm, now, self._values(name), self._tracers.ranges.n_global
            )
        return figures


def correlation(comm: MPI.Comm, now: Floats, first: Floats, n_global: int) -> float:
    """Return the correlation of two fields of all particles, [n] of this rank's identities. Collective.

    It has the same bits on any number of ranks, and is 0 if one of the fields has no variance.
    """
    centre = means(comm, {"now": now, "first": first}, n_global)
    a, b = now - centre["now"], first - centre["first"]
    moments = means(comm, {"both": a * b, "now": a * a, "first": b * b}, n_global)
    return _ratio(moments["both"], math.sqrt(moments["now"] * moments["first"]))


def _dot(a: Floats, b: Floats) -> Floats:
    """Return the products of vectors [3, n], [n]."""
    return np.asarray((a * b).sum(axis=0))


def _ratio(a: float, b: float) -> float:
    """Return a / b, or 0 if b is 0."""
    return a / b if b else 0.0
