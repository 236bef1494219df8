"""Nekbone on GPUs: what its pass compiles to, what it refuses, what it gives in the simulator and on a GPU."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba import types

from bench_tools import measure
from cuda_tools import assemble, run_simulated, skip_without_device
from ridgeline.bench.elements.nekbone import Nekbone
from ridgeline.bench.elements.nekbone_kernels_cuda import (
    ROWS,
    fold_sums,
    make_iterate,
    make_update,
    next_constants,
)
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS, launch_bounds
from ridgeline.runtime.errors import DeviceError

FIELD, LIST, WHOLE = types.float64[::1], types.int32[::1], types.int64
QUICK = (4, 8)


def iterate_for(n):
    return assemble(make_iterate(n), (LIST, WHOLE, WHOLE, *[FIELD] * 6, WHOLE))


@pytest.mark.parametrize(
    "n",
    [
        n if n in QUICK else pytest.param(n, marks=pytest.mark.full)
        for n in range(LEAST_POINTS, MOST_POINTS + 1)
    ],
)
def test_the_pass_stays_in_registers(n) -> None:
    threads, blocks = launch_bounds(n, np.float64)
    for result in (iterate_for(n), assemble(make_update(n), (LIST, WHOLE, *[FIELD] * 4))):
        assert result.registers * threads * blocks <= 65536
        assert result.spilled == 0
        assert not re.search(r"\b(ld|st)\.local", result.ptx)
        assert not re.search(r"^\s*(atom|red)\.", result.ptx, re.MULTILINE)


def test_the_pass_of_eight_points_loads_rows_together() -> None:
    """Five arrays, four rows each, before the first store; each word of x, r, p, w and the factors once, r twice."""
    ptx = iterate_for(8).ptx
    order = re.findall(r"\b(ld|st)\.global\.f64", ptx)
    first = order.index("st")
    assert order[:first][-5 * ROWS :] == ["ld"] * (5 * ROWS)
    assert order.count("st") == 4 * 8 + 1
    per_point = 5 * 8 + 2 * 8  # x, r, p, w, weight; r and weight again
    of_factors, constants = 2 * 6, 3
    assert 1 <= order.count("ld") - per_point - of_factors - constants <= 8, "the rest are tables"


def test_sums_are_folded_without_atomics() -> None:
    for kernel, signature in (
        (fold_sums, (FIELD, WHOLE, FIELD)),
        (next_constants, (FIELD, WHOLE, FIELD, FIELD)),
    ):
        result = assemble(kernel, signature)
        assert result.spilled == 0
        assert not re.search(r"^\s*(atom|red)\.", result.ptx, re.MULTILINE)


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_nekbone_cuda.py"))


def test_without_a_gpu_it_is_refused() -> None:
    """Nothing falls back to the CPU."""
    try:
        skip_without_device()
    except pytest.skip.Exception:
        with pytest.raises(DeviceError, match="--device cpu"):
            measure("nekbone", MPI.COMM_SELF, memory="cuda-staged", points=[4], elements=8, iterations=1)


@pytest.mark.cuda
@pytest.mark.parametrize(("n", "elements"), [(2, 64), (4, 37), (5, 60), (8, 343), (12, 64), (16, 30)])
def test_on_a_gpu_as_on_the_cpu(n, elements) -> None:
    skip_without_device()
    from ridgeline.bench.elements.nekbone_cuda import CudaNekbone

    problem, host = (
        CudaNekbone(MPI.COMM_SELF, n, elements, device_buffers=False),
        Nekbone(MPI.COMM_SELF, n, elements),
    )
    _, expected = host.solve(30)
    found = [problem.solve(30)[1] for _ in range(2)]
    assert found[0] == found[1], "the same bits in every run"
    np.testing.assert_allclose(found[0], expected, rtol=1e-8, atol=1e-12 * expected[0])
    np.testing.assert_allclose(problem.solution(), host.x, rtol=0, atol=1e-9 * abs(host.x).max())
