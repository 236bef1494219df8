"""The wind model on several ranks: the bits of one rank, with multigrid, for any process grid."""

import numpy as np
import pytest
from mpi4py import MPI
from tests.wind_flows import FLOWS, advance_engine

from ridgeline.parallel.partition import factorizations

RANKS = (2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 240


@pytest.mark.parametrize("name", ["periodic", "lines", "implicit", "through", "back"])
def test_any_process_grid_has_the_bits_of_one_rank(comm, name):
    problem = FLOWS[name]
    alone, _ = advance_engine(MPI.COMM_SELF, problem, "auto", False, steps=2)
    fitting = [
        grid for grid in factorizations(comm.size) if all(n // p >= 3 for n, p in zip(problem.shape, grid))
    ]
    assert fitting
    for process_grid in fitting:
        found, _ = advance_engine(comm, problem, process_grid, False, steps=2)
        assert np.array_equal(found, alone), process_grid
