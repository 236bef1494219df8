"""Figures over particles against plain sums, and in flows where they are known."""

import math
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.turbulence.fluid_particles.interpolation import kernels_of_points
from ridgeline.models.turbulence.fluid_particles.lagrangian import (
    acceleration_density,
    lagrangian_figures,
    sampled_figures,
)
from ridgeline.models.turbulence.particle_settings import ParticlesSection
from ridgeline.models.turbulence.pressure import BINS_PER_RMS, DEVIATIONS

RNG = np.random.default_rng(1)


@pytest.fixture(scope="module", autouse=True)
def kernels():
    compile_kernels(kernels_of_points(np.float64))


def tracers_with(place, velocity, start, start_velocity, **settings):
    """What the figures ask of tracers, on one rank."""
    ranges = SimpleNamespace(n_global=place.shape[1], gather=lambda particles, name: velocity)
    return SimpleNamespace(
        settings=ParticlesSection(count=place.shape[1], **settings),
        ranges=ranges,
        particles=None,
        paths=lambda: place,
        start_place=start,
        start_velocity=start_velocity,
    )


def test_one_particle_figures_are_plain_averages():
    place, velocity, start, first = RNG.standard_normal((4, 3, 1000))
    found = lagrangian_figures(MPI.COMM_SELF, tracers_with(place, velocity, start, first))
    mean = lambda a, b: float((a * b).sum(0).mean())  # noqa: E731
    assert found == pytest.approx(
        {
            "particle_energy": mean(velocity, velocity) / 2,
            "particle_displacement": mean(place - start, place - start),
            "particle_structure": mean(velocity - first, velocity - first) / 3,
            "particle_correlation": mean(velocity, first)
            / math.sqrt(mean(velocity, velocity) * mean(first, first)),
        },
        rel=1e-12,
    )


def test_at_the_start_nothing_has_moved_and_all_is_correlated():
    place, velocity = RNG.standard_normal((2, 3, 8))
    found = lagrangian_figures(MPI.COMM_SELF, tracers_with(place, velocity, place, velocity))
    assert found["particle_displacement"] == found["particle_structure"] == 0.0
    assert found["particle_correlation"] == pytest.approx(1.0, abs=1e-15)


def test_pairs_in_a_pure_strain():
    """r grows as exp(s t) along x and shrinks along y: <r^2> and <|r - r_0|^2> follow."""
    start = RNG.standard_normal((3, 2000))
    stretch = np.array([2.0, 0.5, 1.0])[:, np.newaxis]
    tracers = tracers_with(stretch * start, start, start, start, placement="pairs", separation=1.0)
    found = lagrangian_figures(MPI.COMM_SELF, tracers)
    r = start[:, 1::2] - start[:, ::2]
    assert found["pair_separation"] == pytest.approx(float(((stretch * r) ** 2).sum(0).mean()), rel=1e-12)
    assert found["pair_dispersion"] == pytest.approx(
        float((((stretch - 1) * r) ** 2).sum(0).mean()), rel=1e-12
    )


def test_a_tetrad_has_its_radius_and_volume():
    corners = np.array([[0, 0, 0], [3, 0, 0], [0, 2, 0], [0, 0, 1.0]]).T
    place = np.concatenate([corners, corners[:, ::-1] + 7.0], axis=1)
    tracers = tracers_with(place, place, place, place, placement="tetrads", separation=1.0)
    found = lagrangian_figures(MPI.COMM_SELF, tracers)
    assert found["tetrad_volume"] == pytest.approx(1.0, rel=1e-14)
    arms = corners - corners.mean(1, keepdims=True)
    assert found["tetrad_radius"] == pytest.approx((arms**2).sum() / 4, rel=1e-14)


def test_all_ranks_sum_the_samples_in_one_order():
    """Every process hashes names in its own way, and sums of two names must not meet."""
    code = (
        "import numpy as np; from ridgeline.models.turbulence.fluid_particles import lagrangian\n"
        "lagrangian.means = lambda comm, values, n: print(values['one'][0]) or dict(one=1.0, two=1.0)\n"
        "lagrangian.sampled_figures(None, dict(enstrophy=np.full(1, 2.0), dissipation=np.ones(1)), 1)"
    )
    orders = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "5")  # which order a set of the two names in two ways
    }
    assert orders == {"1.0\n2.0\n"}


def test_sampled_figures_are_moments():
    eps, a = RNG.random(500), RNG.standard_normal((3, 500))
    found = sampled_figures(MPI.COMM_SELF, {"dissipation": eps, "acceleration": a}, 500)
    assert found == pytest.approx(
        {
            "particle_dissipation": eps.mean(),
            "particle_dissipation_moment_2": (eps**2).mean() / eps.mean() ** 2,
            "particle_acceleration": (a**2).mean(),
            "particle_acceleration_flatness": (a**4).mean() / (a**2).mean() ** 2,
        },
        rel=1e-12,
    )
    assert sampled_figures(MPI.COMM_SELF, {}, 500) == {}


def test_the_density_of_accelerations_is_normalised():
    a = RNG.standard_normal((3, 100_000)) * 7.0
    density = acceleration_density(MPI.COMM_SELF, a, a.shape[1])
    assert density.sum() / BINS_PER_RMS == pytest.approx(1.0, abs=1e-12)
    middle = np.abs(DEVIATIONS) < 2
    normal = np.exp(-(DEVIATIONS[middle] ** 2) / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(density[middle], normal, rtol=0.05)
    assert (acceleration_density(MPI.COMM_SELF, np.zeros((3, 4)), 4) == 0).all()
    assert np.isnan(acceleration_density(MPI.COMM_SELF, np.full((3, 4), np.inf), 4)).all()
