"""Correlations of what particles met, against NumPy's."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.turbulence.fluid_particles.interpolation import kernels_of_points
from ridgeline.models.turbulence.fluid_particles.lagrangian import correlation

RNG = np.random.default_rng(2)


@pytest.fixture(scope="module", autouse=True)
def kernels():
    compile_kernels(kernels_of_points(np.float64))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_it_is_the_coefficient_of_correlation(share):
    first = RNG.lognormal(size=5000)
    now = 7.0 * (share * first + (1 - share) * RNG.lognormal(size=5000))
    found = correlation(MPI.COMM_SELF, now, first, 5000)
    assert found == pytest.approx(np.corrcoef(now, first)[0, 1], rel=1e-12, abs=1e-14)


def test_the_mean_counts_for_nothing():
    first, now = RNG.random((2, 400))
    found = correlation(MPI.COMM_SELF, now, first, 400)
    assert correlation(MPI.COMM_SELF, now + 100.0, first - 50.0, 400) == pytest.approx(found, rel=1e-10)


def test_without_variance_there_is_none():
    assert correlation(MPI.COMM_SELF, RNG.random(9), np.ones(9), 9) == 0.0
    assert correlation(MPI.COMM_SELF, np.zeros(9), np.zeros(9), 9) == 0.0
