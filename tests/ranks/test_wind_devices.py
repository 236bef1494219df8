"""Wind on one device per rank, in numba-cuda's simulator: the fields of the CPU's engine on as many ranks."""

from simulator import simulate

simulate()

from dataclasses import replace

import numpy as np

from ridgeline.blocks.cartesian import decompose
from ridgeline.models.contract import Context
from ridgeline.models.wind.device.engine_cuda import CudaEngine
from ridgeline.models.wind.engine_cpu import CpuEngine
from ridgeline.models.wind.problem import FlowSide
from ridgeline.parallel.allreduce import allreduce_max
from wind_flows import BOX, start_of

RANKS = (2,)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}

WALLS = {"y_min": FlowSide.wall(1), "y_max": FlowSide.slip(1)}
PROBLEM = replace(BOX, shape=(6, 8, 9), scalars=(), diffusivities=(), sides=WALLS)


def advanced(comm, kind, **options):
    cartesian, block = decompose(comm, PROBLEM.shape, (1, 2, 1), PROBLEM.periodic, 3)
    engine = kind(PROBLEM, cartesian, block, Context(comm), tolerance=1e-3, **options)
    engine.compile()
    place = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
    for q, start in zip(engine.fields, start_of(PROBLEM)):
        q.owned[...] = start[place]
    engine.start()
    engine.advance(0.02)
    return engine


def test_a_step(comm) -> None:
    host, device = advanced(comm, CpuEngine), advanced(comm, CudaEngine)
    for found, expected in zip(device.fields, host.fields):
        scale = float(allreduce_max(comm, abs(expected.owned).max()))
        np.testing.assert_allclose(found.owned, expected.owned, rtol=0, atol=1e-11 * scale)
    assert 0 < device.messages < host.messages  # edges around axes that are not cut need none
    assert 0 < device.bytes_exchanged < host.bytes_exchanged
