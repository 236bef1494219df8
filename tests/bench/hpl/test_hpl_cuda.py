"""HPL on GPUs: what its kernels compile to, what it takes, what it gives in the simulator and on a GPU."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba import types

from bench_tools import measure
from cuda_tools import assemble, run_simulated, skip_without_device
from ridgeline.bench.hpl.device import kernels_cuda
from ridgeline.bench.hpl.device.memory import device_bytes_of, device_parts
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl.solve import solve_system
from ridgeline.runtime.errors import DeviceError

NUMBERS, STATES, ROWS, WHOLE = types.float64[::1], types.uint64[::1], types.int64[::1], types.int64
PLACE = (NUMBERS, WHOLE, WHOLE)  # an array, where it begins, the distance of columns
KERNELS = {
    "generate": (STATES, STATES, *[WHOLE] * 5, NUMBERS),
    "copy_rows": (*PLACE, ROWS, WHOLE, *PLACE, ROWS, WHOLE, WHOLE, WHOLE),
    "copy_block": (*PLACE, *PLACE, WHOLE, WHOLE),
    "sum_rows": (NUMBERS, WHOLE, NUMBERS, WHOLE, WHOLE, NUMBERS, NUMBERS),
    "sum_columns": (NUMBERS, WHOLE, WHOLE, NUMBERS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_stay_in_registers(name) -> None:
    result = assemble(getattr(kernels_cuda, name), KERNELS[name])
    assert result.registers * kernels_cuda.THREADS * kernels_cuda.BLOCKS <= 65536
    assert result.spilled == 0
    assert not re.search(r"\b(ld|st)\.local", result.ptx)
    assert not re.search(r"^\s*(atom|red)\.", result.ptx, re.MULTILINE)


def test_the_generator_has_whole_numbers_until_the_last_step() -> None:
    """One conversion, of an unsigned number, which rounds as the host's does."""
    result = assemble(kernels_cuda.generate, KERNELS["generate"])
    assert result.count("cvt.rn.f64.u64") == 1
    assert len(re.findall(r"^\s*(?:fma|mul|add|sub)(?:\.rn)?\.f64", result.ptx, re.MULTILINE)) <= 2


def test_memory_of_a_device() -> None:
    """Of one process nearly the matrix alone; rooms for exchanges where there are several process rows."""
    n, nb = 130000, 256
    parts = device_parts(n, nb, 1, 1)
    assert parts["matrix"] == 8 * 130016 * 130001
    assert device_bytes_of(n, nb, 1, 1) == sum(parts.values()) < 1.008 * 8 * n * n
    assert device_parts(n, nb, 2, 4)["rows of U"] > 2 * device_parts(n, nb, 1, 4)["rows of U"]


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_hpl_cuda.py"))


def test_without_a_gpu_it_is_refused() -> None:
    """Nothing falls back to the CPU."""
    try:
        skip_without_device()
    except pytest.skip.Exception:
        with pytest.raises(DeviceError, match="--device cpu"):
            measure("hpl", MPI.COMM_SELF, n="100", device="cuda")


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
