"""Manufactured solutions on spectral elements: the error falls exponentially with the order."""

import itertools

import numpy as np
import pytest
from mpi4py import MPI

from element_problems import exact, solve_dirichlet


@pytest.mark.full
@pytest.mark.parametrize(("h1", "h2", "curved"), [(1.0, 0.0, False), (1.0, 0.0, True), (0.1, 30.0, True)])
def test_errors_fall_exponentially_with_the_order(h1: float, h2: float, curved: bool) -> None:
    errors = []
    for order in (3, 6, 9, 14):
        problem, x = solve_dirichlet(MPI.COMM_SELF, order, curved, h1, h2)
        errors.append(float(np.abs(x - exact(problem.geometry.coordinates)).max()))
    assert errors[0] > 1e-6, "too easy to tell"
    assert errors[-1] < 1e-10, errors
    assert all(later < 0.03 * one or later < 1e-10 for one, later in itertools.pairwise(errors)), errors
