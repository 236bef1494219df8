"""Tests of Schwarz multigrid on GPUs in numba-cuda's simulator; test_schwarz_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from mesh_files import BoxFile
from multigrid_cases import UNIT, Problem, box
from ridgeline.elements import mappings
from ridgeline.elements.device import schwarz_kernels_cuda
from ridgeline.elements.device.schwarz_cuda import CudaSchwarzLevel, CudaSchwarzMultigrid
from ridgeline.elements.meshes.hexahedra import build_mesh
from ridgeline.jit.cuda_device import SIMULATED
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


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


@pytest.fixture
def little_memory(monkeypatch):
    """Leave shared memory for a box without pads, as large elements of float64 have it."""
    monkeypatch.setattr(schwarz_kernels_cuda, "STATIC_SHARED", 0)
    schwarz_kernels_cuda.make_sweep.cache_clear()
    yield
    schwarz_kernels_cuda.make_sweep.cache_clear()


@pytest.mark.parametrize("name", ["box", "anisotropic"])
def test_eigenvectors_may_stay_in_global_memory(little_memory, name) -> None:
    layout = schwarz_kernels_cuda.sweep_layout((4, 4, 4), np.float64)
    assert (layout.tables, layout.box.pitch) == (0, 6)
    test_a_cycle_is_the_host_s(name, "float64")


def test_elements_of_order_15_in_float64() -> None:
    """A sweep and a residual, without the cycle below them."""
    problem = Problem(MPI.COMM_SELF, box((1, 1, 1)), 15, ("x_max",))
    host = problem.multigrid(orders=[(15, 15, 15), (1, 1, 1)], dtype="float64").levels[0]
    device = CudaSchwarzLevel(host, False, 0)
    r = problem.b.reshape(-1)
    z = np.empty_like(r)
    host.smooth(r, z)
    expected = host.residual(r, z).copy()
    on_device = cuda.to_device(np.full_like(z, np.nan))
    given = cuda.to_device(r)
    device.smooth(given, on_device)
    left = device.residual(given, on_device).copy_to_host()
    for found, wanted in ((on_device.copy_to_host(), z), (left, expected)):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * abs(wanted).max())
