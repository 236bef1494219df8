"""Tests of the GPU's element kernels in numba-cuda's simulator; test_tensor_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter, SquareSums
from ridgeline.elements.device.tensor_cuda import derivative_tables, layout_of, make_stiffness_kernel
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.elements.reference import factors_of, helmholtz
from ridgeline.jit.cuda_device import SIMULATED
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


@pytest.mark.parametrize(
    ("n", "count", "dtype"), [(2, 17, np.float64), (4, 5, np.float64), (5, 2, np.float32), (7, 1, np.float64)]
)
def test_the_stiffness_operator_equals_the_reference(n, count, dtype) -> None:
    """All six factors are general; the last thread block has elements too many."""
    rng = np.random.default_rng(n)
    u = rng.standard_normal((count, n, n, n)).astype(dtype)
    factors = factors_of(rng.standard_normal((count, 9, n, n, n)), np.ones(u.shape)).astype(dtype)
    derivative = gll_derivative(n)
    expected = helmholtz(u.astype(float), 1.0, 0.0, factors.astype(float), np.zeros(u.shape), derivative)
    layout, out = layout_of(n), cuda.to_device(np.full(u.size + 1, -7.0, dtype))
    make_stiffness_kernel(n, dtype)[layout.blocks(count), (n, n, layout.elements)](
        u.reshape(-1),
        factors.reshape(-1),
        derivative_tables(derivative).astype(dtype).reshape(-1),
        count,
        out,
    )
    found = out.copy_to_host()
    assert found[-1] == -7.0, "nothing is stored behind the last element"
    tolerance = 1e-13 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(
        found[:-1].reshape(u.shape), expected, rtol=0, atol=tolerance * abs(expected).max()
    )


def test_the_gather_scatter_has_the_bits_of_the_host_s() -> None:
    """Groups of 1 to 11 copies, in places at random; squares count each group once."""
    rng = np.random.default_rng(1)
    copies = [1, 2, 2, 2, 2, 3, 4, 4, 5, 8, 8, 11, 2, 2]
    ids = rng.permutation(np.repeat(np.arange(len(copies)), copies))
    ids[rng.integers(0, ids.size, 3)] = -1
    ids = ids[: ids.size // 8 * 8].reshape(-1, 2, 2, 2)
    host = GatherScatter(MPI.COMM_SELF, ids, max_fields=1)
    u = rng.standard_normal(ids.shape)
    device = CudaGatherScatter(MPI.COMM_SELF, host.plan, device_buffers=False)
    assert sum(device.counts) > 8, "more than one thread block"
    values = cuda.to_device(u.reshape(-1))
    squares = cuda.to_device(np.zeros(3 * device.blocks[0] + 1))
    stream = cuda.stream()
    device.start(values, stream)
    device.exchange()
    device.combine(values, stream, SquareSums(squares, 1, 3))
    device.finish(values, stream, SquareSums(squares, 0, 3))
    host.sum(u)
    np.testing.assert_array_equal(values.copy_to_host(), u.reshape(-1))
    several = [np.flatnonzero(ids == number) for number in range(len(copies))]
    expected = sum(u.reshape(-1)[places[0]] ** 2 for places in several if places.size > 1)
    found = squares.copy_to_host()
    assert found[1::3].sum() == pytest.approx(expected)
    assert found.sum() == pytest.approx(expected), "only places 1, 4, 7, ... are written"


@pytest.mark.parametrize(("fields", "dtype"), [(1, np.float64), (3, np.float64), (2, np.float32)])
def test_sums_of_several_fields_have_the_bits_of_the_host_s(fields, dtype) -> None:
    """Groups of 1 to 11 copies; `compute` sees each element once before its copies are summed."""
    rng = np.random.default_rng(2)
    copies = [1, 2, 2, 3, 4, 4, 5, 8, 8, 11]
    ids = rng.permutation(np.repeat(np.arange(len(copies)), copies))[:48].reshape(-1, 2, 2, 2)
    host = GatherScatter(MPI.COMM_SELF, ids, max_fields=3)
    device = CudaGatherScatter(MPI.COMM_SELF, host.plan, device_buffers=False, fields=3, dtype=dtype)
    u = rng.standard_normal((fields, *ids.shape)).astype(dtype)
    values = cuda.to_device(u if fields > 1 else u[0])
    done = []
    device.sum_computed(values, lambda first, end: done.append((first, end)))
    assert done == [(0, len(ids))]
    host.sum(u)
    np.testing.assert_array_equal(values.copy_to_host(), u if fields > 1 else u[0])
