"""Waves on GPUs: what the kernels compile to, what memory is counted, and what the simulator computes."""

from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba import types

from cuda_tools import assemble, run_simulated, skip_without_device
from ridgeline.fourier.device.kernels_cuda import LINE_THREADS
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.models.turbulence.config import TurbulenceCase
from ridgeline.models.turbulence.device import waves_cuda
from ridgeline.models.turbulence.estimate import estimate
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import WAVE_FLOWS, make_engine, random_start

DTYPES = [np.float64, np.float32]
INTEGER, SMALL, NUMBER = types.int64, types.int32, types.float64
SIZES = types.UniTuple(INTEGER, 5)
REGISTERS = 65536  # of a multiprocessor


def pairs(found, what):
    return found.ptx.count(f"{what}.global.v2")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("stratified", "fields"), [(False, 3), (True, 4)])
@pytest.mark.parametrize("n_stored", [1, 2])
def test_the_factor_reads_and_writes_each_mode_once(dtype, stratified, fields, n_stored) -> None:
    """The one kernel of steps that holds float64 in float32 flows: waves have turned by many radians, as on CPUs."""
    field = numba.from_dtype(np.dtype(dtype))[::1]
    units, terms = types.UniTuple(NUMBER, 3), types.UniTuple(NUMBER, 8)
    kernel = waves_cuda.make_turn(stratified, n_stored)
    found = assemble(kernel, (SIZES, units, SMALL[::1], terms, field, field, field))
    assert found.spilled == 0
    assert found.registers <= REGISTERS // (LINE_THREADS * waves_cuda.BLOCKS)
    assert pairs(found, "ld") == pairs(found, "st") == fields * (1 + n_stored)
    assert ".f64" in found.ptx


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_pressure_of_waves_stays_in_the_precision_of_fields(dtype) -> None:
    real = numba.from_dtype(np.dtype(dtype))
    field, terms = real[::1], types.UniTuple(real, 4)
    arguments = *[field] * 4, SIZES, SMALL[::1], *[field] * 3, terms, field
    found = assemble(waves_cuda.add_wave_pressure, arguments)
    assert found.spilled == 0
    assert found.registers <= REGISTERS // (LINE_THREADS * 8)
    assert pairs(found, "ld") == 5 * pairs(found, "st")
    assert (".f64" in found.ptx) == (dtype == np.float64)


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_waves_take_no_memory(scheme) -> None:
    model = {"viscosity": 0.1, "dt": 0.1, "scheme": scheme}
    common = {
        "run": {"model": "turbulence", "steps": 1, "device": "cuda"},
        "grid": {"shape": (16, 16, 16)},
        "scalar": [{"schmidt": 1.0}],
    }
    plain, waves = (
        estimate(TurbulenceCase.model_validate(common | {"model": each}), 2)
        for each in (model, model | {"rotation": [0, 0, 1], "brunt_vaisala": 2.0})
    )
    assert waves.device_memory == plain.device_memory
    assert waves.memory_per_rank == plain.memory_per_rank
    assert waves.work.flops > plain.work.flops


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_waves.py"))


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
