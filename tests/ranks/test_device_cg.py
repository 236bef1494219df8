"""Conjugate gradients on one GPU per rank, in numba-cuda's simulator: the iterations and numbers of the host's."""

from simulator import simulate

simulate()

import numpy as np
from numba import cuda

from element_problems import Problem
from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.operator_cuda import CudaElementOperator
from ridgeline.krylov.cg import cg
from ridgeline.krylov.device.inner_cuda import CudaInnerProduct, CudaWorkspace

RANKS = (2, 3)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}


def test_two_components(comm) -> None:
    problem = Problem(comm, 2, False, 0.5, 400.0, (["x_min"], ["z_min", "z_max"]))
    host = problem.operator
    gather = CudaGatherScatter(comm, problem.gather_scatter.plan, False, fields=2)
    geometry = CudaGeometry(problem.geometry, gather)
    device = CudaElementOperator(
        comm, problem.grid, geometry, gather, 0.5, 400.0, host.constrained, inner=CudaInnerProduct(host.inner)
    )
    random = np.random.default_rng(comm.rank)
    b = problem.right_hand_side(random.standard_normal((2, *problem.grid.shape)))
    x, of_device = np.zeros_like(b), cuda.to_device(np.zeros_like(b))
    expected = cg(host, b, x, host.inverse_diagonal(), 1e-6, 100)
    found = cg(
        device, cuda.to_device(b), of_device, device.inverse_diagonal(), 1e-6, 100, work=CudaWorkspace()
    )
    assert expected.converged
    assert found.iterations == expected.iterations
    np.testing.assert_allclose(of_device.copy_to_host(), x, atol=1e-11 * abs(x).max())
    gather.free()
    problem.gather_scatter.free()
