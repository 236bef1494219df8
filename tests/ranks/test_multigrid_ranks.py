"""Schwarz multigrid over ranks: what one rank does, whichever coarse solver, rows distributed or not."""

import numpy as np
import pytest
from mpi4py import MPI

from multigrid_cases import Problem, annulus, box, wavy

RANKS = (1, 2, 3, 4)
QUICK_RANKS = ()  # takes more than 5 s
TIMEOUT = 240

CASES = {
    "box": (box((3, 3, 4)), ("x_max",), "direct"),
    "periodic": (box((2, 1, 4), periodic=(True, True, True)), (), "direct"),
    "long": (box((3, 3, 4), (6.0, 2.0, 1.0)), (), "auto"),
    "wavy": (wavy(3), (), "amg"),
    "annulus": (annulus(2), ("y_min",), "amg"),
}


def by_element(problem, field):
    """Return the fields of all ranks' elements in the order of the curve, on every rank."""
    return np.concatenate(problem.comm.allgather(field))


@pytest.mark.parametrize("name", CASES)
def test_ranks_agree_with_one(comm, name):
    mesh, dirichlet, coarse = CASES[name]
    many, one = (Problem(c, mesh, 5, dirichlet) for c in (comm, MPI.COMM_SELF))
    fields = []
    for problem in (many, one):
        multigrid = problem.multigrid(dtype="float64", coarse=coarse)
        z = np.empty(problem.grid.shape)
        multigrid.apply(problem.b, z)
        fields.append(by_element(many, z) if problem is many else z)
    left, right = fields if dirichlet else (z - z.mean() for z in fields)
    # Neither ranks nor rounding choose the aggregates, so algebraic cycles differ by rounding alone.
    assert abs(left - right).max() < 1e-9 * abs(right).max()
    iterations = many.iterations(coarse=coarse)
    expected = one.iterations(coarse=coarse)
    assert iterations == expected
    assert iterations <= 18
