"""Tests of the Helmholtz operator on GPUs in numba-cuda's simulator; test_operator_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from element_kernel_tools import ELEMENTS, make_case
from element_problems import Problem
from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.helmholtz_cuda import line_tables, make_helmholtz, make_helmholtz_of_boxes
from ridgeline.elements.device.operator_cuda import CudaElementOperator
from ridgeline.elements.device.tensor_cuda import derivative_tables, layout_of
from ridgeline.elements.reference import helmholtz
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.runtime.errors import DeviceError
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


@pytest.mark.parametrize(("h1", "h2"), [(0.7, 3.0), (1.3, 0.0)])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_elements_equal_the_reference(n, aligned, h1, h2) -> None:
    """Two fields, some elements in an order of their own; others are left alone, and mass is not read for h2 = 0."""
    case = make_case(n, "float64", aligned)
    u, out = case.field(2), case.output(2)
    order = np.array([1, *ELEMENTS, 1], np.int32)
    layout, derivative = layout_of(n), case.derivative
    mass = case.mass if h2 else np.full_like(case.mass, np.nan)
    if aligned:
        kernel = make_helmholtz_of_boxes(n)
        shape = case.scale.reshape(-1), case.volume, line_tables(derivative, case.weights)
    else:
        kernel = make_helmholtz(n)
        tables = derivative_tables(derivative).reshape(-1)
        shape = case.stored_factors.reshape(-1), mass.reshape(-1), tables
    values = cuda.to_device(out.reshape(-1))
    kernel[layout.blocks(len(ELEMENTS)) * 2, (n, n, layout.elements)](
        order, 1, 1 + len(ELEMENTS), 2, u[0].size, u.reshape(-1), h1, h2, *shape, values
    )
    expected = np.stack([helmholtz(f, h1, h2, case.factors, case.mass, derivative) for f in u])
    case.check(values.copy_to_host().reshape(out.shape), expected)


def on_device(problem, constrained, h1, h2):
    """Return the operator of a problem on the device."""
    gather = CudaGatherScatter(MPI.COMM_SELF, problem.gather_scatter.plan, False, fields=3)
    geometry = CudaGeometry(problem.geometry, gather)
    return CudaElementOperator(MPI.COMM_SELF, problem.grid, geometry, gather, h1, h2, constrained)


@pytest.mark.parametrize("curved", [False, True])
def test_the_assembled_operator_is_the_host_s(curved) -> None:
    """Components with constrained points of their own; h1 and h2 change later."""
    sides = (["x_min", "x_max"], [], ["z_min"])
    problem = Problem(MPI.COMM_SELF, 2, curved, 0.5, 2.0, sides)
    host = problem.operator
    device = on_device(problem, host.constrained, 0.5, 2.0)
    u = np.random.default_rng(3).standard_normal((3, *problem.grid.shape))
    problem.gather_scatter.sum(u)
    expected, out = np.empty_like(u), cuda.to_device(np.full_like(u, np.nan))
    for host.h1, host.h2 in ((0.5, 2.0), (0.25, 7.0)):
        device.h1, device.h2 = host.h1, host.h2
        host.apply(u, expected)
        device.apply(cuda.to_device(u), out)
        scale = abs(expected).max()
        np.testing.assert_allclose(out.copy_to_host(), expected, rtol=0, atol=1e-12 * scale)
        found = device.inverse_diagonal().copy_to_host()
        np.testing.assert_allclose(found, host.inverse_diagonal(), rtol=1e-12)
    host.apply(u[:2], expected[:2])
    device.apply(cuda.to_device(u[:2]), out[:2])
    np.testing.assert_allclose(out.copy_to_host()[:2], expected[:2], rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("periodic", [False, True])
def test_null_space_and_mask_of_one_list(periodic) -> None:
    problem = Problem(MPI.COMM_SELF, 2, False, 1.0, 0.0, () if periodic else (["x_min"],), periodic)
    points = np.empty(0, np.int64) if periodic else problem.operator.constrained[0]
    device = on_device(problem, points, 1.0, 0.0)
    assert device.nullspace == problem.operator.nullspace == periodic
    u = np.ones((2, *problem.grid.shape))
    values = cuda.to_device(u)
    device.mask(values)
    problem.operator.mask(u)
    np.testing.assert_array_equal(values.copy_to_host(), u)
    if periodic:
        out = cuda.to_device(u)
        device.apply(values, out)
        np.testing.assert_allclose(out.copy_to_host(), 0.0, atol=1e-13)


def test_too_many_points_are_refused() -> None:
    problem = Problem(MPI.COMM_SELF, 16, False, 1.0, 0.0)
    gather = CudaGatherScatter(MPI.COMM_SELF, problem.gather_scatter.plan, False)
    with pytest.raises(
        DeviceError, match=r"elements with 17 points per direction\. Choose an order from 1 to"
    ):
        CudaGeometry(problem.geometry, gather)
