"""The Navier-Stokes engine of GPUs in numba-cuda's simulator; test_navier_stokes_cuda.py runs this file."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

import ridgeline
from navier_stokes_devices import FLOWS, SOLVERS, agree, begun, resumed
from ridgeline.config.expressions import parse
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models import estimate
from ridgeline.models.navier_stokes.device.engine_cuda import CudaEngine
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import TransportedScalar
from ridgeline.runtime.errors import DeviceError
from ridgeline.simulation import report
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"
TABLES = 20_000  # bytes of tables, and of sums of thread blocks, which are not counted


class Allocated:
    """Counts the bytes of what is made on the device."""

    def __init__(self):
        self.bytes = 0
        self.made = {name: getattr(cuda, name) for name in ("device_array", "to_device")}

    def _counting(self, make):
        def counted(*arguments, **options):
            array = make(*arguments, **options)
            self.bytes += array.size * array.dtype.itemsize
            return array

        return counted

    def __enter__(self):
        self.patches = [
            mock.patch.object(cuda, name, self._counting(make)) for name, make in self.made.items()
        ]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()


@pytest.mark.parametrize("name", FLOWS)
def test_steps_of(name) -> None:
    """They are those of the CPU and take the memory that was counted. Each goes on from the other's checkpoint."""
    whole, problem = FLOWS[name]()
    expected = begun(CpuEngine, MPI.COMM_SELF, whole, problem)
    with Allocated() as allocated:
        found = begun(CudaEngine, MPI.COMM_SELF, whole, problem)
        for engine in (expected, found):
            engine.advance()
            engine.advance()
    agree(found, expected)
    counted = sum(found.memory().values())
    assert abs(counted - allocated.bytes) < TABLES, (counted, allocated.bytes)
    crossed = resumed(CpuEngine, found), resumed(CudaEngine, expected)
    for engine in crossed:
        engine.advance()
    agree(*crossed)
    assert crossed[0].step_index == 3


def test_steps_are_repeated_and_shortened_as_on_cpus() -> None:
    """A force that is far too strong for the first step, and a time that is met exactly."""
    whole, problem = FLOWS["box"]()
    problem = replace(problem, force=(300.0, 0.0, 0.0), pressure=SOLVERS["pressure"], filter_weight=0.0)
    expected, found = (begun(kind, MPI.COMM_SELF, whole, problem) for kind in (CpuEngine, CudaEngine))
    for engine in (expected, found):
        engine.advance()
        until = engine.time + 0.6 * engine.dt
        engine.advance(until=until)
        assert engine.time == until
    assert found.repeated == expected.repeated > 0
    agree(found, expected)


def test_refusals() -> None:
    whole, problem = FLOWS["box"]()
    scalar = TransportedScalar(0.1, {}, lambda x, y, z, t: x)
    with pytest.raises(DeviceError, match=r"scalar\.0 has a source that is not a formula"):
        CudaEngine(MPI.COMM_SELF, whole, replace(problem, scalars=(scalar,)))
    with pytest.raises(
        DeviceError, match=r"no GPU kernels for model.viscosity_formula. Run with --device cpu"
    ):
        CudaEngine(MPI.COMM_SELF, whole, replace(problem, viscosity_formula=parse("1 + x")))


def run_of(device: str) -> ridgeline.Simulation:
    parameters = {
        "viscosity": 0.1,
        "dt": 0.05,
        "dealias_order": "none",
        "projection": {"pressure": 2, "velocity": 1},
    }
    parameters["pressure"] = {"tolerance": 1e-3, "precision": "float64"}
    grid = {"elements": (1, 1, 2), "order": 2, "lengths": (2 * np.pi,) * 3, "periodic": (True,) * 3}
    case = ridgeline.Case(
        "navier_stokes",
        2,
        run={"device": device},
        grid=grid,
        parameters=parameters,
        initial={"kind": "abc"},
        output={"every": 2, "variables": ["velocity_x", "pressure"]},
    )
    return ridgeline.Simulation(case, progress=False)


def test_a_run(tmp_path, monkeypatch) -> None:
    """It is that of the CPU, and takes the memory that `ridgeline check` says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    found, work = {}, {}
    for device in ("cpu", "cuda"):
        with run_of(device) as simulation:
            simulation.advance(2)
            model = simulation._run.model
            work[device] = model.work()
            found[device] = {name: array.local.copy() for name, array in model.state().items()}
            method = model.describe()["method"]
            memory = model.describe()["memory"]
            said = estimate(model._case, 1).device_memory
    assert "fields and steps on" in method
    estimated = "gather-scatter", "multigrid"
    assert all(memory[name] == said[name] for name in said if name not in estimated)
    assert all(said[name] == pytest.approx(memory[name], rel=0.5) for name in estimated)
    assert work["cuda"].flops == pytest.approx(work["cpu"].flops, rel=0.1)
    moved = work["cuda"].bytes_memory / work["cpu"].bytes_memory
    assert 1.0 < moved < 1.3  # directions are no part of an operator's pass there
    assert found["cpu"].keys() == found["cuda"].keys()
    for name, array in found["cuda"].items():
        np.testing.assert_allclose(array, found["cpu"][name], rtol=0, atol=1e-9, err_msg=name)
