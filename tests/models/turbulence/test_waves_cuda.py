"""Waves on GPUs: their kernels compile without spills; the simulator and a GPU run them."""

from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from mpi4py import MPI
from numba import types

from cuda_tools import compile_without_spills, run_simulated, skip_without_device
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.models.turbulence.device import damping_cuda, waves_cuda
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import WAVE_FLOWS, make_engine, random_start

pytestmark = pytest.mark.gpu

DTYPES = [np.float64, np.float32]
INTEGER, SMALL, NUMBER = types.int64, types.int32, types.float64
SIZES = types.UniTuple(INTEGER, 5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("n_stored", [1, 2])
def test_the_factor_spills_nothing(dtype, stratified, n_stored) -> None:
    """The one kernel of steps that holds float64 in float32 flows: waves have turned by many radians, as on CPUs."""
    field = numba.from_dtype(np.dtype(dtype))[::1]
    units, terms = types.UniTuple(NUMBER, 3), types.UniTuple(NUMBER, 13)
    kernel = waves_cuda.make_turn(stratified, n_stored)
    signature = SIZES, units, SMALL[::1], terms, field, field, field
    assert ".f64" in compile_without_spills(kernel, signature, sines=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_pressure_of_waves_stays_in_the_precision_of_fields(dtype) -> None:
    real = numba.from_dtype(np.dtype(dtype))
    field, terms = real[::1], types.UniTuple(real, 4)
    arguments = *[field] * 4, SIZES, SMALL[::1], *[field] * 3, terms, field
    ptx = compile_without_spills(waves_cuda.add_wave_pressure, arguments)
    assert (".f64" in ptx) == (dtype == np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_factor_of_damping_spills_nothing(dtype) -> None:
    field, terms = numba.from_dtype(np.dtype(dtype))[::1], types.UniTuple(NUMBER, 4)
    common = SIZES, types.UniTuple(NUMBER, 3), SMALL[::1], terms
    of_fields = *common, *[NUMBER] * 3, *[INTEGER] * 3, field
    assert ".f64" in compile_without_spills(damping_cuda.damp_modes, of_fields)
    compile_without_spills(damping_cuda.sum_damping_lines, (*common, field, NUMBER[::1]))


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_waves.py"))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("case", WAVE_FLOWS)
def test_on_a_gpu_equals_the_cpu_to_rounding(case, scheme, dtype) -> None:
    skip_without_device()
    from ridgeline.models.turbulence.device.engine_cuda import CudaEngine

    shape, lengths = (36, 40, 54), (5.0, 7.0, 4.0)
    flow = FlowParameters(0.02, scheme, seed=3, **WAVE_FLOWS[case])
    host = make_engine(shape, flow, random_start, "phase-shift", lengths, dtype=dtype)
    engine = CudaEngine(PencilGrid(shape, "phase-shift", (1, 1), 0), lengths, MPI.COMM_SELF, dtype, flow)
    engine.compile()
    engine.fields[...] = host.fields
    engine.commit()
    for _ in range(20):
        engine.advance(0.005)
        host.advance(0.005)
    difference = np.abs(engine.fields - host.fields).max(1)
    assert (difference <= (1e-12 if dtype == np.float64 else 1e-5) * np.abs(host.fields).max(1)).all()
