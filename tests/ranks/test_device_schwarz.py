"""Schwarz multigrid on one GPU per rank, in numba-cuda's simulator: the numbers of the host's."""

from simulator import simulate

simulate()

import numpy as np
import pytest
from numba import cuda

from mesh_files import BoxFile
from multigrid_cases import UNIT, Problem, box
from ridgeline.elements import mappings
from ridgeline.elements.device.schwarz_cuda import CudaSchwarzMultigrid
from ridgeline.elements.meshes.hexahedra import build_mesh

RANKS = (1, 2, 3)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}

CASES = {
    "box": (box((2, 2, 1)), ("x_max",), "float32", False),
    "curved": (box((2, 2, 1), mapping=mappings.wavy(*UNIT, 0.03)), (), "float64", True),
    "turned": (build_mesh(BoxFile((3, 1, 1), (3.0, 1.0, 1.0), 2, seed=3).raw()), (), "float64", False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cycle_is_the_host_s(comm, name) -> None:
    """An array of the host stands in for what a GPU-aware MPI takes."""
    mesh, dirichlet, dtype, device_buffers = CASES[name]
    problem = Problem(comm, mesh, 3, dirichlet)
    host = problem.multigrid(orders=[(3, 3, 3), (2, 2, 2), (1, 1, 1)], dtype=dtype)
    device = CudaSchwarzMultigrid(host, device_buffers)
    expected = np.empty(problem.grid.shape, dtype)
    host.apply(problem.b, expected)
    z = cuda.to_device(np.full_like(expected, np.nan))
    device.apply(cuda.to_device(problem.b), z)
    tolerance = (1e-12 if dtype == "float64" else 1e-5) * abs(expected).max()
    np.testing.assert_allclose(z.copy_to_host(), expected, rtol=0, atol=tolerance)
    device.free()
