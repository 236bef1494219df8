"""Wind on a GPU in numba-cuda's simulator, against the CPU's engine; test_wind_cuda.py runs this file."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models.contract import Context
from ridgeline.models.wind.device.engine_cuda import CudaEngine
from ridgeline.models.wind.engine_cpu import CpuEngine
from ridgeline.models.wind.problem import PLM, UNLIMITED, FlowSide, SideField
from simulator import ON_GPU
from wind_flows import BOX, NO_FLUX, start_of

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

SMALL = replace(BOX, shape=(6, 7, 9))
CHANNEL = {
    "z_min": FlowSide.wall(0, (SideField(False, 0.05), SideField(True, 0.5)), (0.5, 0.1, 0.0)),
    "z_max": FlowSide.slip(0, (NO_FLUX, NO_FLUX)),
    "x_min": FlowSide.wall(2, (NO_FLUX, NO_FLUX)),
    "x_max": FlowSide.wall(2, (SideField(True, 1.0), NO_FLUX), (0.0, 0.0, 0.3)),
}
FLOWS = {
    "periodic": SMALL,
    "walls": replace(SMALL, sides=CHANNEL, reconstruction=PLM),
    "lines": replace(SMALL, godunov=False, reconstruction=UNLIMITED, scalars=(), diffusivities=()),
}


def advanced(engine, problem, dt=0.02):
    engine.compile()
    for q, start in zip(engine.fields, start_of(problem)):
        q.owned[...] = start
    engine.start()
    engine.guess_pressure(dt)
    engine.advance(dt)
    return engine


@pytest.mark.parametrize("name", FLOWS)
def test_a_step_is_that_of_the_cpu(name) -> None:
    problem = FLOWS[name]
    cartesian, block = decompose(MPI.COMM_SELF, problem.shape, (1, 1, 1), problem.periodic, 3)
    context = Context(MPI.COMM_SELF)
    host = advanced(CpuEngine(problem, cartesian, block, context, None, 1e-3), problem)
    device = advanced(CudaEngine(problem, cartesian, block, context, None, 1e-3, device_cells=1), problem)
    for number, (found, expected) in enumerate(zip(device.fields, host.fields)):
        scale = abs(expected.owned).max()
        np.testing.assert_allclose(
            found.owned, expected.owned, rtol=0, atol=1e-11 * scale, err_msg=problem.names[number]
        )
    p = device.pressure.owned - device.pressure.owned.mean()
    expected = host.pressure.owned - host.pressure.owned.mean()
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-10 * abs(expected).max())
    assert device.speeds() == pytest.approx(host.speeds(), rel=1e-12)
    assert device.largest_divergence() == pytest.approx(host.largest_divergence(), rel=1e-6)
