"""Nekbone on one GPU per rank, in numba-cuda's simulator: the residuals and the solution of one rank's CPU."""

from simulator import simulate

simulate()

import numpy as np
from mpi4py import MPI

from ridgeline.bench.elements.nekbone import Nekbone, run_nekbone

RANKS = (1, 2, 3)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
ITERATIONS = 3


def test_residuals_of_one_rank(comm) -> None:
    whole = Nekbone(MPI.COMM_SELF, 3, 12)
    problem = Nekbone(comm, 3, 12 // comm.size, "cuda-staged")
    assert problem.brick == whole.brick
    assert (problem.operator._first_interior > 0) == (comm.size > 1)
    _, expected = whole.solve(ITERATIONS)
    found = [problem.solve(ITERATIONS)[1] for _ in range(2)]
    assert found[0] == found[1], "the same bits in every run"
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    assert len(set(map(str, comm.allgather(found[0])))) == 1
    x, ids = (np.concatenate(comm.allgather(part)) for part in (problem.solution(), problem.ids))
    rows = np.argsort(ids[:, 0, 0, 0])
    np.testing.assert_array_equal(ids[rows], whole.ids)
    np.testing.assert_allclose(x[rows], whole.solution(), rtol=0, atol=1e-12 * abs(whole.solution()).max())
    problem.operator.free()


def test_figures_are_the_same_on_all_ranks(comm) -> None:
    figures = run_nekbone(comm, 2, 16, 1, memory="cuda-staged")
    assert "simulator" in figures.device
    assert figures.elements == 16 * comm.size
    assert len(set(map(str, comm.allgather(figures)))) == 1
