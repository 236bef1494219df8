"""Turbulence on GPUs on several ranks, in numba-cuda's simulator: what the CPU engine computes on one rank."""

import os
import sys
from pathlib import Path

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba.core import config

if not config.ENABLE_CUDASIM:
    pytest.skip("Numba was imported before the simulator was asked for", allow_module_level=True)

from ridgeline.fourier.device import exchange_cuda, ways
from ridgeline.fourier.modes import Modes
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.models.turbulence.device.engine_cuda import CudaEngine
from ridgeline.models.turbulence.forcing import EswaranPope
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.runtime.errors import DeviceError
from turbulence_tools import WAVE_FLOWS, make_engine, random_start

RANKS = (1, 2, 3, 4)
QUICK_RANKS = ()  # takes more than 5 s
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
SHAPE = (6, 8, 10)
LENGTHS = (5.0, 7.0, 4.0)
WORDS = {
    "auto": "pinned host memory",
    "host": "pinned host memory",
    "mpi": "GPU-aware MPI",
    "nccl": "NCCL",
}
TOLERANCE = {np.float64: 1e-13, np.float32: 2e-6}


def places(modes, whole):
    """Where this rank's modes are among those of one rank: start_global numbers the canonical order of all."""
    first = modes.lines.start_global
    counts = np.diff(modes.lines.start)
    assert whole.lines.n_modes == whole.truncation.n_modes
    return np.concatenate([np.arange(f, f + n) for f, n in zip(first, counts)])


def process_grids(size):
    return [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]


CASES = [
    ("rk2", "phase-shift", np.float64, 1, "auto"),
    ("rk2", "phase-shift", np.float64, 2, "mpi"),
    ("rk4", "none", np.float64, 3, "nccl"),
    ("rk2", "two-thirds", np.float32, 4, "host"),
    ("rk2", "phase-shift", np.float32, 4, "mpi"),
    ("rk2", "two-thirds", np.float64, 1, "nccl"),
]


@pytest.mark.parametrize("scalars", [(), (0.7,)])
@pytest.mark.parametrize(("scheme", "dealias", "dtype", "batch", "way"), CASES)
def test_every_process_grid_equals_the_cpu_on_one_rank(
    comm, scheme, dealias, dtype, batch, way, scalars
) -> None:
    flow = FlowParameters(0.02, scheme, scalars, ((1.0, -0.5, 2.0),) * len(scalars), 3)
    compare_with_one_rank(comm, flow, dealias, dtype, batch, way)


@pytest.mark.parametrize(
    ("case", "scheme", "dealias", "dtype", "batch"),
    [
        ("rotation", "rk2", "phase-shift", np.float64, 1),
        ("stratification", "rk4", "two-thirds", np.float64, 2),
        ("both", "rk4", "phase-shift", np.float64, 1),
        ("both", "rk2", "phase-shift", np.float32, 4),
    ],
)
def test_waves_equal_the_cpu_on_one_rank(comm, case, scheme, dealias, dtype, batch) -> None:
    flow = FlowParameters(0.02, scheme, seed=3, **WAVE_FLOWS[case])
    compare_with_one_rank(comm, flow, dealias, dtype, batch, "auto")


# N_y does not divide; N_z = 6 is no size of fused transforms, and rows of slabs fill no thread block of four pairs.
FUSED_CASES = [
    ((8, 10, 8), "rk2", "phase-shift", np.float64, 1, "auto", (), (True, True)),
    ((12, 6, 8), "rk4", "phase-shift", np.float64, 2, "mpi", (0.7,), (True, True)),
    ((8, 6, 16), "rk2", "two-thirds", np.float32, 4, "host", (), (True, True)),
    ((6, 6, 8), "rk2", "phase-shift", np.float64, 2, "auto", (0.7,), (False, True)),
    ((8, 6, 10), "rk2", "none", np.float64, 4, "nccl", (), (True, False)),
]


@pytest.mark.parametrize(
    ("shape", "scheme", "dealias", "dtype", "batch", "way", "scalars", "fused"), FUSED_CASES
)
def test_fused_passes_equal_the_cpu_on_one_rank(
    comm, shape, scheme, dealias, dtype, batch, way, scalars, fused
) -> None:
    flow = FlowParameters(0.02, scheme, scalars, ((1.0, -0.5, 2.0),) * len(scalars), 3)
    compare_with_one_rank(comm, flow, dealias, dtype, batch, way, shape, fused)


def test_fused_passes_with_waves_equal_the_cpu_on_one_rank(comm) -> None:
    flow = FlowParameters(0.02, "rk2", seed=3, **WAVE_FLOWS["both"])
    compare_with_one_rank(comm, flow, "phase-shift", np.float64, 2, "auto", (8, 6, 8), (True, True))


def compare_with_one_rank(comm, flow, dealias, dtype, batch, way, shape=SHAPE, fused=(False, False)) -> None:
    """Two steps with a forcing on every process grid, and the way to points and back.

    fused: in z, and in x of slabs: pencils never do the latter. One step then: the simulator is slow at barriers.
    """
    host = make_engine(
        shape,
        flow,
        random_start,
        dealias,
        LENGTHS,
        lambda m: EswaranPope(m, MPI.COMM_SELF, 3.0, 2.0, 0.4, 6),
        dtype,
    )
    start = host.fields.copy()
    expected = []
    for _ in range(1 if any(fused) else 2):
        host.advance(0.02)
        expected.append((host.last_courant_rate, host.fields.copy()))
    values = host.transform.to_physical(host.fields[:1])
    for process_grid in process_grids(comm.size):
        grid = PencilGrid(shape, dealias, process_grid, comm.rank)
        engine = CudaEngine(grid, LENGTHS, comm, dtype, flow, batch, way)
        expected_passes = fused[0], fused[1] and process_grid[0] == 1
        if any(expected_passes):
            engine.products.choose("fused", "a simulated device")
        assert engine.products.fused == expected_passes
        engine.compile()
        engine.forcing = EswaranPope(engine.modes, comm, 3.0, 2.0, 0.4, 6)
        mine = places(engine.modes, Modes.of(PencilGrid(shape, dealias, (1, 1), 0), LENGTHS))
        engine.fields[...] = start[:, mine]
        engine.commit()
        for rate, fields in expected:
            engine.advance(0.02)
            assert engine.last_courant_rate == pytest.approx(rate, rel=TOLERANCE[dtype])
            difference = np.abs(engine.fields - fields[:, mine]).max(1)
            assert (difference <= TOLERANCE[dtype] * np.abs(fields).max(1)).all()
        physical = engine.transform.to_physical(engine.fields[:1])
        (z, nz), (y, ny) = grid.z_range, grid.y_range
        here = values[:, z : z + nz, y : y + ny]
        np.testing.assert_allclose(physical, here, rtol=0, atol=50 * TOLERANCE[dtype])
        back = engine.transform.to_spectral(physical)
        np.testing.assert_allclose(back, engine.fields[:1], rtol=0, atol=50 * TOLERANCE[dtype])
        check_what_it_says(engine, process_grid, batch, way)
        engine.transform.free()


def check_what_it_says(engine, process_grid, batch, way) -> None:
    """Memory as counted, messages as sent."""
    slabs, found, said = engine.slabs, engine.memory(), engine.describe()
    arrays = {id(each): each for each in (slabs._messages, slabs._pieces, slabs._row_pieces)}
    held = sum(each.nbytes for each in arrays.values() if each is not None and each is not slabs.all_lines)
    assert found["exchange"] == held
    assert found["planes"] == slabs.all_planes.nbytes
    for name, n in zip(("row", "column"), process_grid):
        assert (WORDS[way] in said.get(f"{name} exchange", "")) == (n > 1)
        assert (engine.seconds[f"{name} all-to-all"] > 0) == (
            n > 1 and way != "nccl"
        )  # of the simulator no time
        handed, message = engine.exchanged()[name]
        assert (handed > 0) == (message > 0) == (n > 1)
    assert (f"Q = {batch}" in said["column exchange"]) == (process_grid[1] > 1)


def make(comm, process_grid, way):
    grid = PencilGrid(SHAPE, "phase-shift", process_grid, comm.rank)
    return CudaEngine(grid, LENGTHS, comm, np.float64, FlowParameters(0.02), 2, way)


class Late:
    """A request whose messages are read and delivered when somebody waits for them, as late as MPI may."""

    def __init__(self, comm, sent, received):
        self._arguments = comm, sent, received

    def Wait(self):
        comm, sent, received = self._arguments
        comm.Alltoallv(sent, received)


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_no_message_is_overwritten_before_it_is_sent(comm, monkeypatch, batch) -> None:
    def send(self, batch, side, array, target):
        kind = exchange_cuda._mpi_type(self._number)
        arguments = [[each, *pieces, kind] for each, pieces in zip((array, target), self._both(batch, side))]
        self._requests[batch.first] = Late(self._comm, *arguments)

    for process_grid in process_grids(comm.size):
        for scalars in ((), (0.7,)):
            flow = FlowParameters(0.02, "rk2", scalars, ((1.0, -0.5, 2.0),) * len(scalars), 3)
            grid = PencilGrid(SHAPE, "two-thirds", process_grid, comm.rank)
            found = []
            for late in (False, True):
                with monkeypatch.context() as patch:
                    if late:
                        patch.setattr(exchange_cuda.DirectExchange, "_send", send)
                    engine = CudaEngine(grid, LENGTHS, comm, np.float64, flow, batch, "mpi")
                    rng = np.random.default_rng(comm.rank)
                    engine.fields[...] = rng.standard_normal(engine.fields.shape)
                    engine.commit()
                    engine.advance(0.001)
                    found.append(engine.fields.copy())
                    engine.transform.free()
            np.testing.assert_array_equal(*found)


def test_the_fastest_way_is_measured_and_remembered(comm, monkeypatch, tmp_path) -> None:
    """The simulator's MPI takes what stands for device memory; where NCCL fails on one rank, nobody takes it."""
    monkeypatch.setattr(ways, "mpi_takes_device_buffers", lambda: True)
    file = Path(comm.bcast(str(tmp_path / "choices.json")))
    monkeypatch.setattr(ways, "choices_file", lambda: file)
    for process_grid in process_grids(comm.size):
        engine = make(comm, process_grid, "auto")
        names = [f"{name} exchange" for name, n in zip(("column", "row"), process_grid[::-1]) if n > 1]
        trials = engine.transform.trials()
        assert list(trials) == names
        for name, trial in trials.items():
            assert set(trial.seconds) == {"mpi", "host"}
            assert min(parts["total"] for parts in trial.seconds.values()) > 0
            assert WORDS[trial.taken] in engine.describe()[name]
        again = make(comm, process_grid, "auto").transform.trials()
        assert [trial.taken for trial in again.values()] == [trial.taken for trial in trials.values()]
        assert all(trial.earlier_run for trial in again.values())


def test_nccl_is_taken_by_all_ranks_or_by_none(comm, monkeypatch, tmp_path) -> None:
    file = Path(comm.bcast(str(tmp_path / "choices.json")))
    monkeypatch.setattr(ways, "choices_file", lambda: file)
    monkeypatch.setattr(ways, "simulated", lambda: False)
    plain, failing = exchange_cuda.make_nccl, comm.size - 1

    def make_nccl(part, dtype):
        if comm.rank == failing:
            raise DeviceError("no NCCL here")
        return plain(part, dtype)

    for fails in (False, True):
        monkeypatch.setattr(exchange_cuda, "make_nccl", make_nccl if fails else plain)
        trials = make(comm, (1, comm.size), "auto").transform.trials()
        found = [set(trial.seconds) for trial in trials.values()]
        assert found == ([] if fails or comm.size == 1 else [{"nccl", "host"}])
    with pytest.raises(
        DeviceError, match=r'between_gpus = "mpi", but the MPI library does not say .* use "auto"'
    ):
        ways.make_exchange(None, "mpi")


def test_the_simulator_was_used() -> None:
    assert "numba.cuda.simulator" in sys.modules
