"""Tests of turbulence on GPUs in numba-cuda's simulator; test_turbulence_cuda.py runs this file."""

from itertools import product

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models.turbulence.device import engine_cuda, products_cuda
from ridgeline.models.turbulence.device.device_estimate import FusedPasses
from ridgeline.models.turbulence.device.engine_cuda import CudaEngine
from ridgeline.models.turbulence.forcing import EswaranPope, FrozenShells, LinearForcing
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.runtime.devices import DeviceInfo
from ridgeline.runtime.errors import ConfigError, DeviceError
from simulator import DEVICE, ON_GPU
from turbulence_tools import courant_numbers_after_steps, make_engine, make_reference, random_start

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

COMM = MPI.COMM_SELF
SHAPE = (6, 8, 10)
LENGTHS = (5.0, 7.0, 4.0)
TOLERANCE = {np.float64: 1e-13, np.float32: 2e-6}
FORCINGS = {
    "none": None,
    "linear": lambda modes: LinearForcing(modes, COMM, 0.8),
    "frozen": lambda modes: FrozenShells(modes, COMM, 3.0),
    "eswaran-pope": lambda modes: EswaranPope(modes, COMM, 3.0, 2.0, 0.4, 6),
}


def make_cuda_engine(flow, dealias="phase-shift", forcing="none", dtype=np.float64, shape=SHAPE):
    grid = PencilGrid(shape, dealias, (1, 1), 0)
    engine = CudaEngine(grid, LENGTHS, COMM, dtype, flow)
    random_start(engine.fields, engine.modes)
    engine.commit()
    if FORCINGS[forcing]:
        engine.forcing = FORCINGS[forcing](engine.modes)
        engine.forcing.start(engine.fields)
    return engine


def follow(flow, dealias="phase-shift", forcing="none", dtype=np.float64, steps=2, dt=0.02):
    """The engine and the reference side by side; the engine."""
    engine = make_cuda_engine(flow, dealias, forcing, dtype)
    reference = make_reference(SHAPE, flow, random_start, dealias, LENGTHS, FORCINGS[forcing])
    for _ in range(steps):
        taken = engine.advance(dt), reference.advance(dt)
        assert taken[0] == pytest.approx(taken[1], rel=TOLERANCE[dtype])
        assert engine.last_courant_rate == pytest.approx(reference.last_courant_rate, rel=TOLERANCE[dtype])
        assert engine.fields.dtype == np.result_type(dtype, np.complex64)
        difference = np.abs(engine.fields - reference.fields).max(1)
        assert (difference <= TOLERANCE[dtype] * np.abs(reference.fields).max(1)).all()
    return engine


PLAIN = list(product(["rk2", "rk4"], ["phase-shift", "two-thirds", "none"], ["none", "eswaran-pope"]))


@pytest.mark.parametrize(("scheme", "dealias", "forcing"), PLAIN)
def test_equals_the_reference(scheme, dealias, forcing) -> None:
    follow(FlowParameters(0.02, scheme, seed=3), dealias, forcing)


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_equals_the_reference_with_scalars(scheme) -> None:
    gradients = (1.0, -0.5, 2.0), (0.0, 0.0, 0.0)
    follow(FlowParameters(0.02, scheme, (0.7, 5.0), gradients, 3), forcing="linear")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_energy_of_the_largest_scales_is_held(dtype) -> None:
    engine = follow(FlowParameters(0.02, seed=3), forcing="frozen", dtype=dtype)
    assert len(engine.forcing.touched) > 4
    np.testing.assert_allclose(
        engine.forcing.energies(engine.fields), engine.forcing.kept, rtol=10 * TOLERANCE[dtype]
    )


@pytest.mark.parametrize(("scheme", "dealias"), [("rk2", "phase-shift"), ("rk4", "two-thirds")])
def test_single_precision_follows_to_its_rounding(scheme, dealias) -> None:
    flow = FlowParameters(0.02, scheme, (0.7,), ((1.0, -0.5, 2.0),), 3)
    follow(flow, dealias, "eswaran-pope", np.float32)


def test_the_time_step_is_that_of_the_courant_number() -> None:
    engine = follow(FlowParameters(0.02, seed=3), dt=None, steps=1)
    assert engine.last_dt == pytest.approx(0.5 / engine.last_courant_rate)
    engine.fields[...] = 0
    engine.commit()
    with pytest.raises(
        ConfigError,
        match=r"model\.courant = 0\.5 determines no time step after step 1, because the fluid is at",
    ):
        engine.advance()


def test_slow_flows_that_are_forced_begin_with_small_steps() -> None:
    numbers = courant_numbers_after_steps(
        make_cuda_engine(FlowParameters(0.02, seed=3), "two-thirds", "eswaran-pope"), 0.5, 4
    )
    assert max(numbers) < 1.0


@pytest.mark.parametrize(("scheme", "dt"), [("rk2", 0.02), ("rk2", None), ("rk4", 0.02)])
def test_steps_are_shortened_for_times_as_on_cpus(scheme, dt) -> None:
    flow = FlowParameters(0.02, scheme, seed=3)
    here = make_cuda_engine(flow, forcing="eswaran-pope")
    there = make_engine(SHAPE, flow, random_start, "phase-shift", LENGTHS, FORCINGS["eswaran-pope"])
    for until in (0.021, 0.05):
        while there.time < until:
            lengths = [engine.advance(dt, until=until) for engine in (here, there)]
            assert lengths[0] == pytest.approx(lengths[1], rel=1e-13)
        assert here.time == there.time == until
    assert here.step_index == there.step_index
    difference = np.abs(here.fields - there.fields).max(1)
    assert (difference <= 1e-12 * np.abs(there.fields).max(1)).all()


def test_a_run_goes_on_with_the_other_engine_as_if_it_had_begun_there() -> None:
    """From CPU to GPU and back: the host's copy is what both take and give."""
    flow = FlowParameters(0.02, seed=3)
    whole = make_engine(SHAPE, flow, random_start, "phase-shift", LENGTHS)
    parts = make_cuda_engine(flow), make_engine(SHAPE, flow, random_start, "phase-shift", LENGTHS)
    for step in range(4):
        whole.advance(0.02)
        here, there = parts[step % 2], parts[1 - step % 2]
        here.advance(0.02)
        there.fields[...] = here.fields
        there.commit()
        there.time, there.step_index = here.time, here.step_index
        difference = np.abs(here.fields - whole.fields).max(1)
        assert (difference <= 1e-13 * np.abs(whole.fields).max(1)).all()


def test_what_is_read_of_the_fields_is_what_was_written() -> None:
    engine = make_cuda_engine(FlowParameters(0.02, "rk4", (0.7,), ((0.0, 0.0, 0.0),)))
    rng = np.random.default_rng(7)
    written = rng.standard_normal(engine.fields.shape) + 1j * rng.standard_normal(engine.fields.shape)
    engine.fields[...] = written
    engine.commit()
    engine._host_is_present = False  # as after a step
    engine.fields[...] = engine.fields  # brought up to date from the device
    np.testing.assert_array_equal(engine.fields, written)


def test_refuses_what_it_cannot_do(monkeypatch) -> None:
    grid = PencilGrid(SHAPE, "phase-shift", (1, 1), 0)
    engine = make_cuda_engine(FlowParameters(0.02))
    with pytest.raises(DeviceError, match="fluid particles cannot be used on GPUs"):
        engine.advance(0.01, velocity=lambda *_: None)
    tiny = DeviceInfo(0, "Tiny GPU", (9, 0), 4096, 1)
    monkeypatch.setattr(engine_cuda, "select_device", lambda comm: tiny)
    with pytest.raises(
        DeviceError, match=r"on its GPU \(fields .* \+ work .*\), .* of Tiny GPU .*\. Use more GPUs"
    ):
        CudaEngine(grid, LENGTHS, COMM, np.float64, FlowParameters(0.1))


def test_says_what_it_holds_and_sends() -> None:
    engine = make_cuda_engine(FlowParameters(0.02, "rk4"))
    engine.advance(0.01)
    assert engine.exchanged() == {"row": (0.0, 0.0), "column": (0.0, 0.0)}
    assert list(engine.seconds) == ["fft", "pack", "row all-to-all", "column all-to-all", "other"]
    slabs = engine.slabs
    found = engine.memory()
    assert found["fields"] == engine._state.nbytes + engine._sum.nbytes
    assert found["lines"] == slabs.all_lines.nbytes
    assert found["planes"] == slabs.all_planes.nbytes
    assert DEVICE in engine.describe()["fields and steps"]


@pytest.mark.parametrize("dealias", ["phase-shift", "none"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_whole_fields_are_transformed_on_the_device(dealias, dtype) -> None:
    engine = make_cuda_engine(FlowParameters(0.02), dealias, dtype=dtype)
    host = make_engine(SHAPE, FlowParameters(0.02), random_start, dealias, LENGTHS, dtype=dtype)
    physical = engine.transform.to_physical(engine.fields[:2])
    np.testing.assert_allclose(
        physical, host.transform.to_physical(host.fields[:2]), rtol=0, atol=TOLERANCE[dtype] * 20
    )
    back = engine.transform.to_spectral(physical)
    np.testing.assert_allclose(back, host.fields[:2], rtol=0, atol=TOLERANCE[dtype] * 20)
    engine.advance(0.01)
    host.advance(0.01)
    np.testing.assert_allclose(engine.fields, host.fields, rtol=0, atol=TOLERANCE[dtype] * 20)


@pytest.mark.parametrize(
    ("shape", "dealias", "scalars", "dtype"),
    [
        ((8, 6, 8), "phase-shift", (), np.float64),
        ((8, 6, 12), "two-thirds", (0.7,), np.float64),
        ((12, 4, 16), "two-thirds", (), np.float32),
    ],
)
def test_fused_passes_equal_those_apart(shape, dealias, scalars, dtype) -> None:
    flow = FlowParameters(0.02, "rk2", scalars, ((1.0, -0.5, 2.0),) * len(scalars), 3)
    apart = make_cuda_engine(flow, dealias, dtype=dtype, shape=shape)
    fused = make_cuda_engine(flow, dealias, dtype=dtype, shape=shape)
    fused.products.choose("fused", "a simulated device")
    assert all(fused.products.fused)
    assert "in x in one pass with the products" in fused.describe()["transforms"]
    fused.compile()
    before = fused.fields.copy()
    for engine in (apart, fused):
        engine.advance(0.02)
    assert fused.last_courant_rate == pytest.approx(apart.last_courant_rate, rel=TOLERANCE[dtype])
    assert np.abs(fused.fields - before).max() > 1e-3 * np.abs(before).max()
    difference = np.abs(fused.fields - apart.fields).max(1)
    assert (difference <= TOLERANCE[dtype] * np.abs(apart.fields).max(1)).all()


def test_sizes_that_cannot_be_fused_are_refused() -> None:
    with pytest.raises(DeviceError, match="8 x 2"):
        make_cuda_engine(FlowParameters(0.02)).products.choose("fused", "a simulated device")


def test_the_faster_passes_are_taken_and_remembered(monkeypatch, tmp_path) -> None:
    """In the simulator those apart are faster; here they are given more to do."""
    tried = []

    def passes(products, fused) -> dict[str, float]:
        tried.append(fused)
        if not any(fused):
            np.linalg.svd(np.ones((150, 150)))
        return {}

    monkeypatch.setattr(products_cuda, "simulated", lambda: False)
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(products_cuda.DeviceProducts, "_try", passes)
    for earlier_run in (False, True):
        tried.clear()
        engine = make_cuda_engine(FlowParameters(0.02), shape=(8, 4, 10))
        engine.products.choose("auto", "a simulated device")
        trial = engine.slabs.trials["passes on GPUs"]
        assert set(trial.seconds) == {"apart", "fused"}
        assert (trial.taken, trial.earlier_run, not tried) == ("fused", earlier_run, earlier_run)
        assert engine.products.fused == (True, False)
    short = make_cuda_engine(FlowParameters(0.02), shape=(8, 4, 10))
    short.products.choose("auto", "a simulated device", timed=False)
    assert short.products.fused == (True, False)
    short.products.choose("auto", "another device", timed=False)
    assert not tried
    short.products.choose("auto", "another device")
    assert tried


def test_a_short_run_leaves_passes_apart_where_nobody_timed_them(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(products_cuda, "simulated", lambda: False)
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    engine = make_cuda_engine(FlowParameters(0.02), shape=(8, 4, 10))
    engine.products.choose("auto", "a simulated device", timed=False)
    assert not any(engine.products.fused)
    assert not engine.slabs.trials


def test_trying_passes_leaves_fields_alone() -> None:
    engine = make_cuda_engine(FlowParameters(0.02), shape=(8, 4, 10))
    before = engine.fields.copy()
    for fused in (FusedPasses(True, False), FusedPasses(False, False)):
        engine.products._try(fused)
        assert engine.products.fused == fused
    np.testing.assert_array_equal(engine.fields, before)


def test_nothing_is_timed_where_nothing_can_be_fused(monkeypatch) -> None:
    monkeypatch.setattr(products_cuda, "simulated", lambda: False)
    engine = make_cuda_engine(FlowParameters(0.02))
    engine.products.choose("auto", "a simulated device")
    assert not engine.slabs.trials
