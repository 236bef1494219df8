"""Tests of advection on GPUs in numba-cuda's simulator; test_advection_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from ridgeline.elements import reference
from ridgeline.elements.advection import make_advection
from ridgeline.elements.device import device_bytes
from ridgeline.elements.device.advection_cuda import CudaAdvection
from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.gather_scatter_plan import make_plan
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mappings import wavy
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_interpolation
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.runtime.errors import DeviceError
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


class Case:
    """A mesh of three elements, on the device too."""

    def __init__(self, order, curved):
        lengths = (1.0, 1.2, 1.5)
        mapping = wavy((0.0, 0.0, 0.0), lengths, 0.05) if curved else None
        grid = ElementGrid(BoxMesh.box((1, 1, 3), lengths, mapping=mapping), order)
        self.host, self.n, self.shape = ElementGeometry(grid), order + 1, grid.shape
        gather = CudaGatherScatter(MPI.COMM_SELF, make_plan(MPI.COMM_SELF, grid.ids), False)
        self.device = CudaGeometry(self.host, gather)
        g = self.host
        self.metrics, self.mass = g.metrics, g.mass
        if g.axis_aligned:
            self.metrics = reference.expand(g.scale, g.volume, g.weights)[0]

    def fields(self, c):
        return np.random.default_rng(c).standard_normal((c, *self.shape))


@pytest.fixture(scope="module", params=[(1, False), (2, True)], ids=["boxes", "curved"])
def case(request):
    return Case(*request.param)


def check(found, expected):
    np.testing.assert_allclose(found.copy_to_host(), expected, rtol=0, atol=1e-12 * abs(expected).max())


@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("chunk", [3, 2])
def test_dealiased_advection_equals_reference_and_host(case, more, chunk, monkeypatch) -> None:
    """Chunks of elements, the last of them smaller; the velocity is the beginning of the fields, and is not."""
    n, m = case.n, case.n + more
    monkeypatch.setattr(device_bytes, "CARRIER_BYTES", 24 * m**3 * chunk)
    J, derivative, weights = gauss_interpolation(n, m), derivative_matrix(gauss(m)[0]), gauss(m)[1]
    g = case.host
    fine = reference.fine_metrics(case.metrics, case.mass, g.weights, J, weights)
    advection = CudaAdvection(case.device, m)
    fields = case.fields(4)
    on_device = cuda.to_device(fields)
    for velocity in (fields[:3], case.fields(3)) if chunk == 2 else (fields[:3],):
        out = cuda.to_device(np.full_like(fields, np.nan))
        advection(cuda.to_device(velocity) if velocity.base is None else on_device[:3], on_device, out)
        check(out, reference.advection(velocity, fields, fine, g.derivative, J))
    stored = np.empty((0, 9, m, m, m)) if g.axis_aligned else np.ascontiguousarray(fine)
    expected, elements = np.empty_like(fields), np.arange(case.shape[0])
    kernel = make_advection(n, m, "float64", g.axis_aligned)
    kernel(elements, velocity, fields, g.scale, g.volume, stored, J, derivative, weights, expected)
    check(out, expected)


def test_collocated_advection_equals_reference(case) -> None:
    fields = case.fields(4)
    on_device, out = cuda.to_device(fields), cuda.to_device(np.full_like(fields, np.nan))
    CudaAdvection(case.device, 0)(on_device[:3], on_device, out)
    arguments = fields[:3], fields, case.metrics, case.mass, case.host.derivative
    check(out, reference.advection_collocated(*arguments))


@pytest.mark.parametrize("m", [1, 25])
def test_other_numbers_of_fine_points_are_refused(case, m) -> None:
    with pytest.raises(
        DeviceError, match=f"on {m} Gauss points .*dealias_order to a number from {case.n} to 24 or to"
    ):
        CudaAdvection(case.device, m)
