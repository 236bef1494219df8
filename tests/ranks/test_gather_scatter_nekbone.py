"""Nekbone on several ranks: the residuals and the solution of one rank, with messages under way."""

import numpy as np
from mpi4py import MPI

from ridgeline.bench.elements.nekbone import Nekbone, run_nekbone

RANKS = (1, 2, 3, 4)
TIMEOUT = 120


def test_residuals_of_one_rank(comm):
    elements = 24 // comm.size  # the same brick on any number of ranks
    problem = Nekbone(comm, 5, elements)
    whole = Nekbone(MPI.COMM_SELF, 5, 24)
    assert problem.brick == whole.brick == (2, 3, 4)
    _, residuals = problem.solve(20)
    _, expected = whole.solve(20)
    np.testing.assert_allclose(residuals, expected, rtol=1e-10)
    x, ids = (np.concatenate(comm.allgather(part)) for part in (problem.solution(), problem.ids))
    rows = np.argsort(ids[:, 0, 0, 0])
    np.testing.assert_array_equal(ids[rows], whole.ids)
    np.testing.assert_allclose(x[rows], whole.solution(), rtol=0, atol=1e-11 * abs(whole.solution()).max())


def test_figures_are_the_same_on_all_ranks(comm):
    figures = run_nekbone(comm, 4, 2, 3)
    assert figures.ranks == comm.size
    assert figures.elements == 2 * comm.size
    assert len(set(map(str, comm.allgather(figures)))) == 1
