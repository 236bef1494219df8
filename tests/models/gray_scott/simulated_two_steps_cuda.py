"""Tests of two steps a launch in numba-cuda's simulator; test_two_steps_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.jit.random import PHILOX_7, PHILOX_10
from ridgeline.models import create
from ridgeline.models.gray_scott import estimate
from ridgeline.models.gray_scott.device import launch_choice
from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
from ridgeline.models.gray_scott.device.kernels_two_cuda import TwoStepTile
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.models.gray_scott.reference import advance
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.parallel.autotuner import TuningResult
from ridgeline.runtime.context import Context
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

SEED, FIRST = 2**40 + 7, 11
TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}


def coefficients_of(dtype, noise):
    return coefficients(0.2, 0.1, 0.02, 0.048, noise, 1.0, dtype)


def start_of(shape, dtype):
    rng = np.random.default_rng(1)
    return [rng.random(shape).astype(dtype) for _ in range(2)]


def run_engine(kind, start, noise, periodic, steps, tile=None, generator=PHILOX_7):
    """Advance by `steps` from step FIRST, on the device by two a launch; return u, v and the steps of each call."""
    shape, dtype = start[0].shape, start[0].dtype.type
    cartesian, block = decompose(MPI.COMM_SELF, shape, "auto", (periodic,) * 3)
    noise_of = generator, SEED
    engine = kind(block, cartesian, coefficients_of(dtype, noise), noise_of, dtype, Context(MPI.COMM_SELF))
    if kind is CudaEngine:
        engine.set_steps_per_sweep(2, tile)
    engine.compile()
    for field, value in zip(engine.host(), start):
        field[:] = value
    engine.commit()
    step, calls = FIRST, []
    while step < FIRST + steps:
        calls.append(engine.advance(step, FIRST + steps - step))
        step += calls[-1]
    return [field.copy() for field in engine.host()], calls


# Rows that are no multiple of four, one row, one plane, one column; a tile that ends with the last group; many tiles.
GRIDS = [
    ((5, 6, 7), None),
    ((3, 1, 2), None),
    ((1, 9, 4), TwoStepTile(8, 3)),
    ((4, 8, 1), TwoStepTile(4, 3)),
    ((2, 21, 9), TwoStepTile(4, 4)),
    ((2, 30, 3), TwoStepTile(4, 3)),
]


@pytest.mark.parametrize(("shape", "tile"), GRIDS)
@pytest.mark.parametrize(
    ("dtype", "noise", "periodic"),
    [(np.float64, 0.1, True), (np.float32, 0.1, True), (np.float64, 0.0, False), (np.float32, 0.1, False)],
)
def test_equals_the_cpu_bit_for_bit_also_with_a_single_step_at_the_end(
    shape, tile, dtype, noise, periodic
) -> None:
    start = start_of(shape, dtype)
    found, calls = run_engine(CudaEngine, start, noise, periodic, 5, tile)
    expected, _ = run_engine(CpuEngine, start, noise, periodic, 5)
    assert calls == [2, 2, 1]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("dtype", "boundary"), [(np.float64, "periodic"), (np.float32, "fixed")])
def test_equals_the_reference(dtype, boundary) -> None:
    start = start_of((9, 5, 4), dtype)
    found, _ = run_engine(CudaEngine, start, 0.1, boundary == "periodic", 4)
    expected = advance(*start, coefficients_of(dtype, 0.1), 4, boundary, SEED, first_step=FIRST)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_numbers_of_older_runs_are_those_of_the_cpu() -> None:
    start = start_of((3, 9, 5), np.float64)
    found, expected = (
        run_engine(kind, start, 0.1, True, 2, generator=PHILOX_10)[0] for kind in (CudaEngine, CpuEngine)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("periodic", [True, False])
def test_the_trivial_state_stays_put(periodic) -> None:
    start = [np.ones((4, 6, 5)), np.zeros((4, 6, 5))]
    np.testing.assert_array_equal(run_engine(CudaEngine, start, 0.0, periodic, 4)[0], start)


def case_of(sweep="auto", steps=5):
    return GrayScottCase.model_validate(
        {
            "run": {"model": "gray_scott", "steps": steps, "device": "cuda", "seed": 5},
            "grid": {"shape": [3, 5, 6]},
            "model": {"steps_per_sweep": sweep},
            "initial": {"half_width": 2},
        }
    )


def run_model(case):
    """Return what a run says of itself, and its U and V."""
    model = create("gray_scott")
    model.setup(case, Context(MPI.COMM_SELF, "cuda", 1))
    model.compile()
    model.initialize()
    done = 0
    while done < case.run.steps:
        done += model.step(case.run.steps - done)
    return model.describe(), [array.local.copy() for array in model.state().values()]


@pytest.mark.parametrize("sweep", [1, 2])
def test_steps_are_shortened_for_times_as_on_cpus(sweep) -> None:
    """With noise, which depends on the length of a step; also the rate of change has the same bits."""
    found = []
    for device in ("cuda", "cpu"):
        case = case_of(sweep)
        model = create("gray_scott")
        model.setup(case, Context(MPI.COMM_SELF, device, 1))
        model.compile()
        model.initialize()
        step, lengths = 0, []
        for until in (3.4, 9.0):
            while (begin := model.time(step)) < until:
                step += model.step(sweep, until)
                lengths.append(model.time(step) - begin)
            assert model.time(step) == until
        assert max(lengths) - min(lengths) > 0.05 * sweep
        found.append(
            (step, lengths, model.rate_of_change(), [a.local.copy() for a in model.state().values()])
        )
    assert found[0][:3] == found[1][:3]
    np.testing.assert_array_equal(found[0][3], found[1][3])


def test_the_steps_of_a_launch_are_as_set_or_by_rule() -> None:
    facts, expected = run_model(case_of(1))
    assert (facts["steps_per_sweep"], facts["sweep_chosen"]) == (1, "as set")
    for sweep, steps, source in [
        (2, 2, "as set"),
        ("rule", 1, "by rule"),
        ("auto", 1, "by rule, because the run is short"),
    ]:
        facts, found = run_model(case_of(sweep))
        assert (facts["steps_per_sweep"], facts["sweep_chosen"]) == (steps, source)
        assert facts["method"].startswith(f"{steps} step")
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("faster", "earlier"), [(1, False), (2, False), (2, True)])
def test_a_long_run_takes_the_faster_one(monkeypatch, tmp_path, faster, earlier) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(estimate, "BYTES_TIMED", 1.0)
    monkeypatch.setattr(launch_choice, "MOST_LAUNCHES", 1)
    keys, steps = [], 5

    def choose(candidates, key, comm, work):
        """Call both, as timing does, and take the one that the test wants."""
        keys.append(key)
        for launch in candidates.values():
            assert launch() == {}
        one, two = candidates
        assert (work[one], work[two]) == (1, steps / 3), "steps of a launch: 5 are 2, 2 and 1"
        return TuningResult(two if faster == 2 else one, {}, earlier)

    monkeypatch.setattr(launch_choice, "choose", choose)
    facts, found = run_model(case_of())
    source = "as timed in an earlier run" if earlier else "as timed now"
    assert (facts["steps_per_sweep"], facts["sweep_chosen"]) == (faster, source)
    assert facts["trials"]["one step"]["taken"].startswith(str(faster))
    np.testing.assert_array_equal(found, run_model(case_of(1))[1])
    steps = 6
    run_model(case_of(steps=steps))
    assert keys[0] != keys[1], "another number of steps, another choice"
