"""Regions of Navier-Stokes steps in numba-cuda's simulator; test_navier_stokes_cuda.py runs this file.

A launch takes a second of the device there, and a coarse solve a hundred.
"""

from collections import defaultdict
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from mpi4py import MPI
from numba.cuda.simulator import kernel as simulator

from device_time import DeviceTime
from navier_stokes_devices import FLOWS, begun
from ridgeline.elements.coarse.algebraic import AlgebraicCoarse
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models.navier_stokes.device import engine_cuda
from ridgeline.models.navier_stokes.device.regions_cuda import DeviceRegions
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.runtime import regions as module
from ridgeline.runtime.regions import Regions
from simulator import ON_GPU, only_simulated

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

COARSE = 100.0
# What is computed alike; others do products with a direction apart, or components that have converged.
SAME = "advection", "schwarz", "transfer", "coarse", "projection", "gmres"
# Kernels, and the region that each is always in.
OF_KERNELS = {
    "helmholtz": "helmholtz",
    "sweep": "schwarz",
    "collect": "schwarz",
    "residual": "schwarz",
    "restrict": "transfer",
    "prolong": "transfer",
    "cg_update": "cg",
    "projection_combine": "projection",
    "momentum": "other",
    "courant": "other",
}


@pytest.fixture
def device(monkeypatch):
    """Let launches and coarse solves take time."""
    time = DeviceTime(monkeypatch)
    launch, solve = simulator.FakeCUDAKernel.__call__, AlgebraicCoarse.solve
    time.open, time.regions = [], defaultdict(set)  # names of open regions; of a kernel's launches

    def launched(kernel, *arguments):
        launch(kernel, *arguments)
        time.now += 1.0
        time.regions[kernel.fn.__name__].add(time.open[-1] if time.open else None)

    def solved(coarse, r, z):
        solve(coarse, r, z)
        time.now += COARSE

    monkeypatch.setattr(simulator.FakeCUDAKernel, "__call__", launched)
    monkeypatch.setattr(AlgebraicCoarse, "solve", solved)
    return time


@only_simulated
def test_regions_of(device, monkeypatch) -> None:
    """They are what a host would measure that waits for each launch; their work is that of CPUs."""
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: device.now))
    expected = Regions()

    class NotedRegions(DeviceRegions):
        """Those of a GPU, and by the host's clock beside them."""

        @contextmanager
        def __call__(self, name, flops=0.0, bytes=0.0):
            with expected(name, flops, bytes), super().__call__(name, flops, bytes):
                device.open.append(name)
                yield
                device.open.pop()

        def count(self, name, flops, bytes):
            expected.count(name, flops, bytes)
            super().count(name, flops, bytes)

    monkeypatch.setattr(engine_cuda, "DeviceRegions", NotedRegions)
    whole, problem = FLOWS["cavity"]()
    found, on_cpus = Regions(), Regions()
    engine = begun(lambda *of: engine_cuda.CudaEngine(*of, found), MPI.COMM_SELF, whole, problem)
    assert found.table == expected.table
    found.reset()
    expected.reset()
    device.regions.clear()
    for _ in range(2):
        begin = device.now
        before, made = found.total(), device.made
        engine.advance()
        assert found.table == expected.table
        step = device.now - begin
        assert 0.9 * step < found.total() - before <= step
    pieces = sum(region.calls for region in found.table.values())
    launches = found.total() - found.seconds("coarse")
    assert 2 * pieces < launches, "events are fewer than launches"
    assert device.made - made < pieces / 2, "a step uses the events of the one before"
    assert {name: device.regions[name] for name in OF_KERNELS} == {
        name: {region} for name, region in OF_KERNELS.items()
    }, device.regions

    cpu = begun(lambda *of: CpuEngine(*of, on_cpus), MPI.COMM_SELF, whole, problem)
    on_cpus.reset()
    cpu.advance()
    cpu.advance()
    assert engine.solves == cpu.solves
    assert found.table.keys() == on_cpus.table.keys()
    assert all(region.seconds > 0 for region in found.table.values()), found.table
    assert found.seconds("coarse") == COARSE * found.table["coarse"].calls
    for name in SAME:
        mine, of_cpus = found.table[name], on_cpus.table[name]
        assert (mine.calls, mine.flops, mine.bytes) == (of_cpus.calls, of_cpus.flops, of_cpus.bytes), name
    rest = "cg", "helmholtz", "gather-scatter", "other"
    flops, moved = (
        [sum(getattr(regions.table[part], name) for part in rest) for regions in (found, on_cpus)]
        for name in ("flops", "bytes")
    )
    assert flops[0] == pytest.approx(flops[1])
    assert moved[1] < moved[0] < 1.2 * moved[1]  # directions are no part of an operator's pass there
