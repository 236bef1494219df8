"""HPL-MxP on GPUs: what its kernels compile to, what it takes, what it gives in the simulator and on a GPU."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba import types

from bench_tools import measure
from cuda_tools import assemble, run_simulated, skip_without_device
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl_mxp.device import kernels_cuda
from ridgeline.bench.hpl_mxp.device.memory import device_bytes_of, device_parts
from ridgeline.bench.hpl_mxp.measure import block_for, block_on_device
from ridgeline.bench.hpl_mxp.solve import solve_mixed
from ridgeline.runtime.errors import DeviceError

SINGLES, DOUBLES, WHOLE = types.float32[::1], types.float64[::1], types.int64
TABLES = (types.uint64[::1],) * 3
ROUNDING = (SINGLES, *[WHOLE] * 4, types.uint16[::1], WHOLE)
KERNELS = {
    "fill": (*TABLES, WHOLE, WHOLE, WHOLE, SINGLES),
    "put": (types.int64[::1], SINGLES, WHOLE, SINGLES),
    "multiply": (*TABLES, DOUBLES, WHOLE, WHOLE, DOUBLES),
    "add_magnitudes": (*TABLES, WHOLE, WHOLE, DOUBLES),
    "round_to_float16": ROUNDING,
    "round_to_bfloat16": ROUNDING,
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_stay_in_registers(name) -> None:
    result = assemble(getattr(kernels_cuda, name), KERNELS[name])
    assert result.registers * kernels_cuda.THREADS * kernels_cuda.BLOCKS <= 65536
    assert result.spilled == 0
    assert not re.search(r"\b(ld|st)\.local", result.ptx)
    assert not re.search(r"^\s*(atom|red)\.", result.ptx, re.MULTILINE)
    if name in ("put", "round_to_float16", "round_to_bfloat16"):
        assert ".f64" not in result.ptx


def test_elements_are_rounded_as_the_hosts() -> None:
    """One conversion of an unsigned number, and one to float32."""
    result = assemble(kernels_cuda.fill, KERNELS["fill"])
    assert result.count("cvt.rn.f64.u64") == 1
    assert result.count("cvt.rn.f32.f64") == 1


def test_memory_of_a_device() -> None:
    """Of one process nearly the matrix alone; 16-bit panels take half of what panels in float32 take."""
    n, nb = 180000, 1024
    parts = device_parts(n, nb, 1, 1, "float16")
    assert parts["matrix"] == 4 * 180000 * 180000
    assert device_bytes_of(n, nb, 1, 1, "float16") == sum(parts.values()) < 1.02 * 4 * n * n
    assert device_parts(n, nb, 1, 1, "float32")["panels"] == 2 * 4 * nb * nb
    wide, narrow = (device_parts(n, nb, 2, 2, storage)["panels"] for storage in ("float32", "bfloat16"))
    assert 0.49 < narrow / wide < 0.52


def test_blocks_of_large_systems_are_wide() -> None:
    assert block_on_device(2000, "float16") == block_for(2000)
    assert block_on_device(100000, "float32") < block_on_device(100000, "bfloat16")


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_mxp_cuda.py"))


def test_without_a_gpu_it_is_refused() -> None:
    """Nothing falls back to the CPU."""
    try:
        skip_without_device()
    except pytest.skip.Exception:
        with pytest.raises(DeviceError, match="--device cpu"):
            measure("hpl-mxp", MPI.COMM_SELF, n="100", device="cuda")


@pytest.mark.cuda
@pytest.mark.parametrize("storage", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("n", "nb"), [(1000, 64), (777, 100), (2500, 256), (100, 128), (1, 16)])
def test_on_a_gpu_as_on_the_cpu(n, nb, storage) -> None:
    skip_without_device()
    host = solve_mixed(MPI.COMM_SELF, HplSettings(n, nb), storage)
    runs = [solve_mixed(MPI.COMM_SELF, HplSettings(n, nb, device="cuda"), storage) for _ in range(2)]
    assert runs[0].passed
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    np.testing.assert_allclose(runs[0].x, host.x, rtol=0, atol=1e-12 * abs(host.x).max())
    assert abs(runs[0].iterations - host.iterations) <= 1
