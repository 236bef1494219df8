"""Navier-Stokes on one GPU per rank, in numba-cuda's simulator: the numbers of the CPUs."""

from simulator import simulate

simulate()

import pytest

from navier_stokes_devices import FLOWS, agree, begun
from ridgeline.models.navier_stokes.device.engine_cuda import CudaEngine
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine

RANKS = (2,)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}


@pytest.mark.parametrize("name", ["box", "cavity"])
def test_steps_are_those_of_the_cpus(comm, name) -> None:
    whole, problem = FLOWS[name]((1, 1, 3))
    engines = [begun(kind, comm, whole, problem) for kind in (CudaEngine, CpuEngine)]
    for engine in engines:
        engine.advance()
    agree(*engines)
