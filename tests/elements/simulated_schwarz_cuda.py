"""Tests of Schwarz multigrid on GPUs in numba-cuda's simulator; test_schwarz_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from mesh_files import BoxFile
from multigrid_cases import UNIT, Problem, box
from ridgeline.elements import mappings
from ridgeline.elements.device.schwarz_cuda import CudaSchwarzMultigrid
from ridgeline.elements.meshes.hexahedra import build_mesh
from ridgeline.jit.cuda_device import SIMULATED

assert SIMULATED, "run with NUMBA_ENABLE_CUDASIM=1"


def turned(seed):
    """Return two elements whose axes differ."""
    return build_mesh(BoxFile((2, 1, 1), (2.0, 1.0, 1.0), 2, seed=seed).raw())


SMALL = (2, 2, 1)
HALF = [(2, 2, 2), (1, 1, 1)]
TWO = [(3, 3, 3), (1, 1, 1)]
WAVY = box(SMALL, mapping=mappings.wavy(*UNIT, 0.03))
CASES = {
    "one element": (box((1, 1, 1)), (), HALF),  # constants have the eigenvalue 0 there
    "box": (box(SMALL), ("x_max",), TWO),
    "constants": (box(SMALL, (1.0, 1.2, 0.7)), (), HALF),
    "periodic": (box((1, 2, 2), (1.0, 0.5, 1.5), periodic=(True, True, False)), (), HALF),
    "anisotropic": (box(SMALL, (4.0, 2.0, 1.0)), ("z_min",), [(3, 3, 3), (3, 2, 1), (2, 1, 1)]),
    "curved": (WAVY, ("y_min",), HALF),
    "curved, anisotropic": (WAVY, (), [(3, 3, 3), (1, 2, 3), (1, 1, 1)]),
    "turned": (turned(1), (), TWO),  # faces of both kinds: x_max, y_min
    "turned, again": (turned(3), (), TWO),  # copies of points are rounded differently
}
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float64") for name in CASES]
    + [(name, "float32") for name in ("constants", "anisotropic", "curved")],
)
def test_a_cycle_is_the_host_s(name, dtype) -> None:
    mesh, dirichlet, orders = CASES[name]
    problem = Problem(MPI.COMM_SELF, mesh, orders[0][0], dirichlet)
    host = problem.multigrid(orders=orders, dtype=dtype)
    device = CudaSchwarzMultigrid(host)
    expected = np.empty(problem.grid.shape, dtype)
    host.apply(problem.b, expected)
    r, z = cuda.to_device(problem.b), cuda.to_device(np.full_like(expected, np.nan))
    device.apply(r, z)
    found = z.copy_to_host()
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * abs(expected).max())
    if name == "periodic":  # nothing is left of an earlier application
        device.apply(r, z)
        np.testing.assert_array_equal(z.copy_to_host(), found)
    sums = np.zeros(problem.grid.ids.max() + 1, dtype)
    sums[problem.grid.ids] = found
    np.testing.assert_array_equal(sums[problem.grid.ids], found)  # continuous
    np.testing.assert_array_equal(r.copy_to_host(), problem.b)
    assert device.dtype == np.dtype(dtype)
    assert device.describe().endswith("on the host")
