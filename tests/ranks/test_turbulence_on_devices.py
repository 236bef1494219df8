"""Turbulence on GPUs on several ranks, in numba-cuda's simulator: what the CPU engine computes on one rank."""

import sys

from simulator import only_simulated, simulate

simulate()

import numpy as np
import pytest

from device_flow_tools import LENGTHS, SHAPE, WORDS, compare_with_one_rank, process_grids
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.device import exchange_cuda
from ridgeline.models.turbulence.device.engine_cuda import CudaEngine
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.runtime.errors import DeviceError
from turbulence_tools import WAVE_FLOWS

RANKS = (1, 2, 3, 4)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
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
    monkeypatch.setattr(exchange_cuda, "mpi_takes_device_buffers", lambda: True)
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", comm.bcast(str(tmp_path)))
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
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", comm.bcast(str(tmp_path)))
    monkeypatch.setattr(exchange_cuda, "simulated", lambda: False)
    failing = comm.size - 1

    def make_nccl(part, dtype):
        return exchange_cuda.SimulatedNccl(part, np.dtype(dtype))

    def make_nccl_but_on_one_rank(part, dtype):
        if comm.rank == failing:
            raise DeviceError("no NCCL here")
        return make_nccl(part, dtype)

    for fails in (False, True):
        monkeypatch.setattr(exchange_cuda, "make_nccl", make_nccl_but_on_one_rank if fails else make_nccl)
        trials = make(comm, (1, comm.size), "auto").transform.trials()
        found = [set(trial.seconds) for trial in trials.values()]
        assert found == ([] if fails or comm.size == 1 else [{"nccl", "host"}])
    with pytest.raises(
        DeviceError, match=r'between_gpus = "mpi" requires a GPU-aware MPI library.* Use "auto"'
    ):
        exchange_cuda.make_exchange(None, "mpi")


@only_simulated
def test_the_simulator_was_used() -> None:
    assert "numba.cuda.simulator" in sys.modules
