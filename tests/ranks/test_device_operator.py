"""The assembled operator on one GPU per rank, in numba-cuda's simulator: the numbers of the host's."""

from simulator import simulate

simulate()

import numpy as np
import pytest
from numba import cuda

from element_problems import Problem
from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.operator_cuda import CudaElementOperator

RANKS = (1, 2)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}


@pytest.mark.parametrize("curved", [False, True])
def test_two_components(comm, curved) -> None:
    problem = Problem(comm, 2, curved, 0.5, 2.0, (["x_min"], ["z_min", "z_max"]))
    gather = CudaGatherScatter(comm, problem.gather_scatter.plan, False, fields=2)
    geometry = CudaGeometry(problem.geometry, gather)
    constrained = problem.operator.constrained
    device = CudaElementOperator(comm, problem.grid, geometry, gather, 0.5, 2.0, constrained)
    assert not device.nullspace
    u = np.random.default_rng(comm.rank).standard_normal((2, *problem.grid.shape))
    problem.gather_scatter.sum(u)
    expected, out = np.empty_like(u), cuda.to_device(np.full_like(u, np.nan))
    problem.operator.apply(u, expected)
    device.apply(cuda.to_device(u), out)
    tolerance = 1e-12 * abs(expected).max()
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=0, atol=tolerance)
    inverse = device.inverse_diagonal().copy_to_host()
    np.testing.assert_allclose(inverse, problem.operator.inverse_diagonal(), rtol=1e-12)
    gather.free()
    problem.gather_scatter.free()
