"""Nekbone on GPUs: its pass compiles without spills for all sizes; the simulator and a GPU run it."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from mpi4py import MPI
from numba import types

from cuda_tools import compile_without_spills, run_simulated, skip_without_device, uses_atomics
from ridgeline.bench.elements.nekbone import Nekbone
from ridgeline.elements.device.one_pass_cuda import make_iterate, make_update
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS
from ridgeline.krylov.device.one_pass_cg_cuda import fold_rows, set_steps

pytestmark = pytest.mark.gpu

FIELD, LIST, WHOLE = types.float64[::1], types.int32[::1], types.int64


@pytest.mark.parametrize("n", range(LEAST_POINTS, MOST_POINTS + 1))
def test_the_pass_stays_in_registers(n) -> None:
    for kernel, signature in (
        (make_iterate(n), (LIST, WHOLE, WHOLE, *[FIELD] * 6, WHOLE)),
        (make_update(n), (LIST, WHOLE, *[FIELD] * 4)),
    ):
        assert not uses_atomics(compile_without_spills(kernel, signature))


def test_sums_are_folded_without_atomics() -> None:
    for kernel, signature in (
        (fold_rows, (FIELD, WHOLE, FIELD)),
        (set_steps, (FIELD, WHOLE, FIELD, FIELD)),
    ):
        assert not uses_atomics(compile_without_spills(kernel, signature))


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_nekbone_cuda.py"))


@pytest.mark.cuda
@pytest.mark.parametrize(("n", "elements"), [(2, 64), (4, 37), (5, 60), (8, 343), (12, 64), (16, 30)])
def test_on_a_gpu_as_on_the_cpu(n, elements) -> None:
    skip_without_device()
    problem, host = (Nekbone(MPI.COMM_SELF, n, elements, memory) for memory in ("cuda-staged", "host"))
    _, expected = host.solve(30)
    found = [problem.solve(30)[1] for _ in range(2)]
    assert found[0] == found[1], "the same bits in every run"
    np.testing.assert_allclose(found[0], expected, rtol=1e-8, atol=1e-12 * expected[0])
    expected = host.solution()
    np.testing.assert_allclose(problem.solution(), expected, rtol=0, atol=1e-9 * abs(expected).max())
