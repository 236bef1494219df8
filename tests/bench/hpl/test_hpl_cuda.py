"""HPL on GPUs: its kernels compile without spills; the simulator and a GPU run it."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba import types

from cuda_tools import compile_without_spills, run_simulated, skip_without_device, uses_atomics
from ridgeline.bench.hpl.device import kernels_cuda
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl.solve import solve_system

pytestmark = pytest.mark.gpu

NUMBERS, STATES, ROWS, WHOLE = types.float64[::1], types.uint64[::1], types.int64[::1], types.int64
PLACE = (NUMBERS, WHOLE, WHOLE)  # an array, where it begins, the distance of columns
KERNELS = {
    "fill": (*(STATES,) * 3, WHOLE, WHOLE, WHOLE, NUMBERS),
    "copy_rows": (*PLACE, ROWS, WHOLE, *PLACE, ROWS, WHOLE, WHOLE, WHOLE),
    "copy_block": (*PLACE, *PLACE, WHOLE, WHOLE),
    "sum_rows": (NUMBERS, WHOLE, NUMBERS, WHOLE, WHOLE, NUMBERS, NUMBERS),
    "sum_columns": (NUMBERS, WHOLE, WHOLE, NUMBERS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_stay_in_registers(name) -> None:
    assert not uses_atomics(compile_without_spills(getattr(kernels_cuda, name), KERNELS[name]))


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_hpl_cuda.py"))


@pytest.mark.cuda
@pytest.mark.parametrize(("n", "nb"), [(1000, 64), (777, 100), (2500, 256), (100, 128), (1, 16)])
def test_on_a_gpu_as_on_the_cpu(n, nb) -> None:
    skip_without_device()
    host = solve_system(MPI.COMM_SELF, HplSettings(n, nb))
    runs = [solve_system(MPI.COMM_SELF, HplSettings(n, nb, device="cuda")) for _ in range(2)]
    assert runs[0].passed
    np.testing.assert_array_equal(runs[0].solution, runs[1].solution)
    np.testing.assert_allclose(runs[0].solution, host.solution, rtol=0, atol=1e-8 * abs(host.solution).max())
    assert runs[0].norms.a == pytest.approx(host.norms.a, rel=1e-12)
