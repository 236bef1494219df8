"""Turbulence on GPUs: its kernels compile without spills; the simulator and a GPU run it."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from mpi4py import MPI
from numba import types

from cuda_tools import SIMULATOR_SECONDS, compile_without_spills, run_simulated, skip_without_device
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.device import kernels_cuda as packing
from ridgeline.models.turbulence.device import kernels_cuda as kernels
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import make_engine, random_start

pytestmark = pytest.mark.gpu

DTYPES = [np.float64, np.float32]
INTEGER, SMALL = types.int64, types.int32


def of(dtype):
    real = numba.from_dtype(np.dtype(dtype))
    return real, real[::1]


def common(dtype):
    """Types of sizes, of_line, x, y and z."""
    numbers = of(dtype)[1]
    return types.UniTuple(INTEGER, 5), SMALL[::1], numbers, numbers, numbers


def check(dtype, kernel, signature) -> None:
    ptx = compile_without_spills(kernel, signature)
    assert (".f64" in ptx) == (dtype == np.float64), "single precision stays single"
    assert ".ftz" not in ptx


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rated", [True, False])
def test_products_spill_nothing(dtype, rated) -> None:
    real, numbers = of(dtype)
    signature = INTEGER, INTEGER, INTEGER, INTEGER, types.UniTuple(real, 3), numbers, numbers
    check(dtype, kernels.make_multiply(dtype, 0, rated), signature)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shifted", "last", "summed", "n_scalars"),
    [
        (True, False, False, 0),  # first substep of RK2
        (True, True, False, 0),  # its last
        (True, False, True, 1),  # RK4 with a scalar
        (False, True, True, 0),
    ],
)
def test_substeps_spill_nothing(dtype, shifted, last, summed, n_scalars) -> None:
    real, numbers = of(dtype)
    phases, c = types.UniTuple(INTEGER, 2), types.UniTuple(real, 12)
    kernel = kernels.make_advance(dtype, n_scalars, shifted, last, summed)
    check(dtype, kernel, (*common(dtype), phases, c, real, *[numbers] * 4))


@pytest.mark.parametrize("dtype", DTYPES)
def test_loading_and_packing_spill_nothing(dtype) -> None:
    numbers = of(dtype)[1]
    table = INTEGER[::1], INTEGER, INTEGER, INTEGER
    for shifted in (True, False):
        check(dtype, kernels.make_load(dtype, shifted), (numbers, INTEGER, *common(dtype), INTEGER, numbers))
    for kernel in (packing.spread_lines, packing.collect_lines):
        check(dtype, kernel, (numbers, *table, numbers))
    check(dtype, packing.collect_sums, (*[numbers] * 4, *table, numbers))


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_turbulence.py"))


PLAIN = "[model]\n"
FUSED = '[model]\nfft.on_gpus = "fused"\n'
WAVES = """\
[[scalar]]
schmidt = 1.0
variance = 0.1
[model]
rotation = [0.4, -0.7, 1.9]
brunt_vaisala = 3.0
"""
CASE = """\
[run]
model = "turbulence"
steps = {steps}
seed = 3
[grid]
shape = {shape}
{model}viscosity = 0.05
dt = 0.02
fft.effort = "estimate"
[initial]
kind = "taylor_green"
[forcing]
kind = "eswaran-pope"
amplitude = 0.5
correlation_time = 0.5
[output]
path = "{name}.bp"
series = "{name}.csv"
[checkpoint]
path = "{name}"
every = 2
"""


def run(folder, name, steps, *options, model):
    shape = [8, 6, 8] if model == FUSED else [6, 6, 6]
    (folder / "case.toml").write_text(CASE.format(steps=steps, name=name, model=model, shape=shape))
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ridgeline", "run", "case.toml", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SIMULATOR_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("model", [PLAIN, WAVES, FUSED], ids=["plain", "waves", "fused"])
def test_runs_go_on_from_each_other_s_checkpoints(tmp_path, model) -> None:
    """The last row of the series of a run on CPU, GPU and CPU in turn is that of a run on the CPU."""
    run(tmp_path, "whole", 6, model=model)
    run(tmp_path, "turns", 2, model=model)
    assert "on cuda" in run(tmp_path, "turns", 4, "--device", "cuda", "--resume", "auto", model=model)
    assert "at step 4" in run(tmp_path, "turns", 6, "--resume", "auto", model=model)
    whole, turns = (
        [float(n) for n in (tmp_path / f"{name}.csv").read_text().splitlines()[-1].split(",")]
        for name in ("whole", "turns")
    )
    assert len(turns) > 10
    np.testing.assert_allclose(turns, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("scheme", "dealias"), [("rk2", "phase-shift"), ("rk4", "two-thirds"), ("rk4", "none")]
)
@pytest.mark.parametrize(("passes", "shape"), [("apart", (36, 40, 54)), ("fused", (32, 40, 96))])
def test_on_a_gpu_equals_the_cpu_to_rounding(scheme, dealias, dtype, passes, shape) -> None:
    skip_without_device()
    from ridgeline.models.turbulence.device.engine_cuda import CudaEngine

    lengths = 5.0, 7.0, 4.0
    flow = FlowParameters(0.02, scheme, (0.7,), ((1.0, -0.5, 2.0),), 3)
    host = make_engine(shape, flow, random_start, dealias, lengths, dtype=dtype)
    engine = CudaEngine(PencilGrid(shape, dealias, (1, 1), 0), lengths, MPI.COMM_SELF, dtype, flow)
    engine.products.choose(passes, engine.device.name)
    assert set(engine.products.fused) == {passes == "fused"}
    engine.compile()
    engine.fields[...] = host.fields
    engine.commit()
    for _ in range(20):
        engine.advance(0.005)
        host.advance(0.005)
    difference = np.abs(engine.fields - host.fields).max(1)
    assert (difference <= (1e-12 if dtype == np.float64 else 1e-5) * np.abs(host.fields).max(1)).all()
    assert engine.last_courant_rate == pytest.approx(host.last_courant_rate, rel=1e-4)
