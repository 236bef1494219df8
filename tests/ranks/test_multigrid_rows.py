"""The coarse problem of Schwarz multigrid: rows distributed over ranks do as rows that all ranks hold."""

import numpy as np
import pytest

from multigrid_cases import Problem, box, wavy

RANKS = (1, 2, 3, 4)
QUICK_RANKS = ()  # takes more than 5 s
TIMEOUT = 240


@pytest.mark.parametrize("dirichlet", [(), ("x_max",)])
@pytest.mark.parametrize("mesh", [box((6, 6, 6)), wavy(6)], ids=["box", "wavy"])
def test_distributed_rows_of_the_coarse_problem(comm, mesh, dirichlet, monkeypatch):
    monkeypatch.setattr("ridgeline.elements.coarse.hierarchy.COARSEST", 10)
    problem = Problem(comm, mesh, 3, dirichlet)
    results, iterations = [], []
    for whole in (40, 4096):  # the finest level by rows, then all of it on every rank
        monkeypatch.setattr("ridgeline.elements.coarse.hierarchy.WHOLE", whole)
        multigrid = problem.multigrid(coarse="amg", dtype="float64")
        held = int(multigrid.coarse.describe().split("every rank from ")[1].split()[0])
        assert (held <= 40) == (whole == 40 and comm.size > 1)
        z = np.empty(problem.grid.shape)
        multigrid.apply(problem.b, z)
        results.append(z)
        iterations.append(problem.solve(multigrid)[1])
    np.testing.assert_allclose(results[0], results[1], atol=1e-9 * abs(results[1]).max())
    assert iterations[0] == iterations[1] <= 18
    if mesh.axis_aligned:
        assert iterations[0] <= problem.iterations(coarse="direct") + 2
