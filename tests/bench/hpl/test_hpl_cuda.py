"""HPL and HPL-MxP on GPUs: their kernels compile without spills; the simulator and a GPU run them."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from mpi4py import MPI
from numba import types

from cuda_tools import compile_without_spills, run_simulated, skip_without_device, uses_atomics
from ridgeline.bench.hpl.device import kernels_cuda
from ridgeline.bench.hpl.hpl_solve import solve_mixed, solve_system
from ridgeline.bench.hpl.record import HplSettings

pytestmark = pytest.mark.gpu

NUMBERS, SINGLES, ROWS, WHOLE = types.float64[::1], types.float32[::1], types.int64[::1], types.int64
TABLES = (types.uint64[::1],) * 3
ROUNDING = (SINGLES, *[WHOLE] * 4, types.uint16[::1], WHOLE)
PLACE = (NUMBERS, WHOLE, WHOLE)  # an array, where it begins, the distance of columns
KERNELS = [
    ("fill", (*TABLES, WHOLE, WHOLE, WHOLE, NUMBERS)),
    ("fill", (*TABLES, WHOLE, WHOLE, WHOLE, SINGLES)),
    ("put", (types.int64[::1], SINGLES, WHOLE, SINGLES)),
    ("multiply", (*TABLES, NUMBERS, WHOLE, WHOLE, NUMBERS)),
    ("add_magnitudes", (*TABLES, WHOLE, WHOLE, NUMBERS)),
    ("round_to_float16", ROUNDING),
    ("round_to_bfloat16", ROUNDING),
    ("copy_rows", (*PLACE, ROWS, WHOLE, *PLACE, ROWS, WHOLE, WHOLE, WHOLE)),
    ("copy_block", (*PLACE, *PLACE, WHOLE, WHOLE)),
    ("sum_rows", (NUMBERS, WHOLE, NUMBERS, WHOLE, WHOLE, NUMBERS, NUMBERS)),
    ("sum_columns", (NUMBERS, WHOLE, WHOLE, NUMBERS)),
]


@pytest.mark.parametrize(("name", "arguments"), KERNELS)
def test_kernels_stay_in_registers(name, arguments) -> None:
    ptx = compile_without_spills(getattr(kernels_cuda, name), arguments)
    assert not uses_atomics(ptx)
    if name in ("put", "round_to_float16", "round_to_bfloat16"):
        assert ".f64" not in ptx


@pytest.mark.parametrize("name", ["simulated_hpl_cuda.py", "simulated_mxp_cuda.py"])
def test_in_the_simulator(name) -> None:
    run_simulated(Path(__file__).with_name(name))


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


@pytest.mark.cuda
@pytest.mark.parametrize("storage", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("n", "nb"), [(1000, 64), (777, 100), (2500, 256), (100, 128), (1, 16)])
def test_mixed_precision_on_a_gpu_as_on_the_cpu(n, nb, storage) -> None:
    skip_without_device()
    host = solve_mixed(MPI.COMM_SELF, HplSettings(n, nb), storage)
    runs = [solve_mixed(MPI.COMM_SELF, HplSettings(n, nb, device="cuda"), storage) for _ in range(2)]
    assert runs[0].passed
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    np.testing.assert_allclose(runs[0].x, host.x, rtol=0, atol=1e-12 * abs(host.x).max())
    assert abs(runs[0].iterations - host.iterations) <= 1
