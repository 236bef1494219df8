"""Two steps a launch on several ranks, in numba-cuda's simulator: the bits of the CPU engine on one rank."""

from simulator import simulate

simulate()

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.random import PHILOX_7
from ridgeline.models import create
from ridgeline.models.gray_scott import estimate as estimate_module
from ridgeline.models.gray_scott.device import launch_choice
from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
from ridgeline.models.gray_scott.device.kernels_two_cuda import TwoStepTile
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.estimate import FIELDS, PAD_ROWS, device_bytes, estimate
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.parallel.autotuner import TuningResult
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import ConfigError, DeviceError

ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
FIRST = 11
GRIDS = list(factorizations(MPI.COMM_WORLD.size))


def shape_for(grid, thick):
    """Return cells that do not divide: in each cut direction `thick` and more a rank, elsewhere a few or one."""
    few = (1, 3, 2) if thick == 2 else (2, 5, 3)
    return tuple(thick * p + 1 if p > 1 else n for p, n in zip(grid, few))


def part(block):
    return tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))


def make_engine(kind, comm, grid, shape, periodic=True, dtype=np.float64, noise=0.1, ghost=1):
    cartesian, block = decompose(comm, shape, grid, (periodic,) * 3)
    c = coefficients(0.2, 0.1, 0.02, 0.048, noise, 1.0, dtype)
    context = Context(comm, "cpu" if kind is CpuEngine else "cuda", 1)
    engine = kind(replace(block, ghost=ghost), cartesian, c, (PHILOX_7, 3), dtype, context)
    return block, engine


def start(engine, shape, block):
    rng = np.random.default_rng(4)
    engine.compile()
    for field in engine.host():
        field[:] = rng.random(shape)[part(block)]
    engine.commit()


def launch(engine, launches):
    """Advance by launches of at most so many steps."""
    step = FIRST
    for most in launches:
        done = engine.advance(step, most)
        assert done == min(most, engine.steps_per_sweep)
        step += done
    return [field.copy() for field in engine.host()]


def on_one_cpu(shape, steps, *case):
    block, engine = make_engine(CpuEngine, MPI.COMM_SELF, (1, 1, 1), shape, *case)
    start(engine, shape, block)
    return launch(engine, [1] * steps)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize(("thick", "tile"), [(2, None), (5, None), (5, TwoStepTile(4, 3))], ids=str)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_equals_the_cpu_on_one_rank(comm, grid, thick, tile, periodic) -> None:
    """With one step now and then, as outputs want."""
    dtype = np.float32 if grid[0] > 1 else np.float64
    noise = 0.0 if tile and periodic else 0.1
    shape = shape_for(grid, thick)
    block, engine = make_engine(CudaEngine, comm, grid, shape, periodic, dtype, noise, ghost=2)
    engine.set_steps_per_sweep(2, tile)
    start(engine, shape, block)
    found = launch(engine, (2, 1, 2))
    for mine, expected in zip(found, on_one_cpu(shape, 5, periodic, dtype, noise)):
        np.testing.assert_array_equal(mine, expected[part(block)])
    assert ("faces and edges sent by pinned" in engine.method) == (comm.size > 1)


def test_launches_of_one_and_two_steps_may_be_chosen_anew(comm) -> None:
    grid = GRIDS[-1]
    shape = shape_for(grid, 2)
    block, engine = make_engine(CudaEngine, comm, grid, shape, ghost=2)
    engine.set_steps_per_sweep(2)
    start(engine, shape, block)
    sent = {}
    step = FIRST
    for steps in (2, 1, 2, 1):
        engine.set_steps_per_sweep(steps)
        sent[steps] = engine.messages, engine.bytes_exchanged
        step += engine.advance(step, 2)
    for mine, expected in zip(engine.host(), on_one_cpu(shape, 6)):
        np.testing.assert_array_equal(mine, expected[part(block)])
    if comm.size > 1:
        assert sent[1][1] < sent[2][1], "two steps send as many cells of faces, and edges"


def test_ghosts_of_one_layer_are_not_enough(comm) -> None:
    _, engine = make_engine(CudaEngine, comm, (1, 1, comm.size), (2, 2, 4 * comm.size))
    if comm.size > 1:
        with pytest.raises(DeviceError, match="require fields with two layers of ghosts"):
            engine.set_steps_per_sweep(2)
    else:
        engine.set_steps_per_sweep(2)
    assert engine.steps_per_sweep == (2 if comm.size == 1 else 1)


@pytest.mark.parametrize("ghost", [1, 2])
def test_takes_the_memory_that_was_counted(comm, ghost) -> None:
    shape = (9, 10, 11)
    _, engine = make_engine(CudaEngine, comm, GRIDS[-1], shape, dtype=np.float32, ghost=ghost)
    counted = device_bytes(engine._block, np.float32, 2)
    assert 0 <= counted["fields"] - engine.allocated() <= 4 * 64
    packers = [exchange.packer for exchange in engine._exchanges.values() if exchange.face_boxes]
    buffers = sum(each._send.nbytes + each._receive.nbytes for each in packers)
    assert len(packers) == (ghost if comm.size > 1 else 0)
    assert buffers == counted.get("halo buffers", 0)
    assert PAD_ROWS == 4, "a group of two steps reads 3 rows before and behind two layers of ghosts"


def case_of(grid, sweep=2, boundary="periodic", steps=5, shape=None):
    return GrayScottCase.model_validate(
        {
            "run": {"model": "gray_scott", "steps": steps, "device": "cuda", "seed": 5},
            "grid": {"shape": shape or shape_for(grid, 2), "boundary": boundary, "process_grid": grid},
            "model": {"steps_per_sweep": sweep},
            "initial": {"half_width": 2},
        }
    )


def run_model(comm, case):
    """Return the model after its run, and its U and V."""
    model = create("gray_scott")
    model.setup(case, Context(comm, "cuda", 1))
    model.compile()
    model.initialize()
    done = 0
    while done < case.run.steps:
        done += model.step(case.run.steps - done)
    return model, [array.local.copy() for array in model.state().values()]


def compare(model, found, alone):
    for mine, expected in zip(found, alone):
        np.testing.assert_array_equal(mine, expected[part(model._block)])


@pytest.mark.parametrize("boundary", ["periodic", "fixed"])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_run_does_what_was_estimated(comm, grid, boundary) -> None:
    case = case_of(grid, boundary=boundary)
    model, found = run_model(comm, case)
    facts = model.describe()
    assert (facts["steps_per_sweep"], facts["sweep_chosen"]) == (2, "as set")
    foreseen, did = estimate(case, comm.size), model.work()
    if boundary == "periodic":
        assert (foreseen.work.bytes_exchanged, foreseen.work.messages) == (did.bytes_exchanged, did.messages)
    # The estimate is of rank 0, whose block is one of the largest.
    mine = device_bytes(model._block, np.float64, FIELDS)
    most = {name: max(comm.allgather(mine.get(name, 0.0))) for name in ("fields", "halo buffers")}
    assert foreseen.device_memory["fields"] == most["fields"]
    if boundary == "periodic":
        assert foreseen.device_memory.get("halo buffers", 0) == most["halo buffers"]
    alone = case_of((1, 1, 1), 1, boundary, shape=case.grid.shape)
    compare(model, found, run_model(MPI.COMM_SELF, alone)[1])


@pytest.mark.parametrize("faster", [1, 2])
def test_a_long_run_takes_the_faster_one(comm, monkeypatch, tmp_path, faster) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", comm.bcast(str(tmp_path)))
    monkeypatch.setattr(launch_choice, "MOST_LAUNCHES", 1)

    def choose(candidates, key, comm, work):
        """Call both by turns, as timing does, and take the one that the test wants."""
        assert (f"in {grid} through" in key) == (comm.size > 1)
        for call in (*candidates.values(), *candidates.values()):
            assert call() == {}
        return TuningResult(list(candidates)[faster - 1], {})

    monkeypatch.setattr(launch_choice, "choose", choose)
    grid = GRIDS[-1]
    bytes_of_run = 5 * 32 * np.prod(shape_for(grid, 2)) / comm.size
    monkeypatch.setattr(estimate_module, "BYTES_TIMED", 1.001 * bytes_of_run)
    case = case_of(grid, "auto")
    assert run_model(comm, case)[0].describe()["sweep_chosen"] == "by rule, because the run is short"
    monkeypatch.setattr(estimate_module, "BYTES_TIMED", 0.999 * bytes_of_run)
    model, found = run_model(comm, case)
    facts = model.describe()
    assert (facts["steps_per_sweep"], facts["sweep_chosen"]) == (faster, "as timed now")
    compare(model, found, run_model(MPI.COMM_SELF, case_of((1, 1, 1), 1, shape=case.grid.shape))[1])


def test_blocks_that_are_too_thin_are_refused(comm) -> None:
    """Those that are not cut may have one cell: the sweep wraps them."""
    case = case_of((comm.size, 1, 1), shape=(2 * comm.size, 1, 1))
    assert run_model(comm, case)[0].describe()["steps_per_sweep"] == 2
    thin = case_of((comm.size, 1, 1), shape=(2 * comm.size - 1, 3, 3))
    if comm.size == 1:
        return
    with pytest.raises(ConfigError, match=r"steps_per_sweep: got 2; need .* blocks of 1 cell in z \(of"):
        run_model(comm, thin)
    assert (
        "because the blocks are thin"
        in run_model(
            comm, thin.model_copy(update={"model": thin.model.model_copy(update={"steps_per_sweep": "auto"})})
        )[0].describe()["method"]
    )
