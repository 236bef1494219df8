"""The GPU engine on several ranks, in numba-cuda's simulator: the bits of the CPU engine on one rank."""

import sys

from simulator import only_simulated, simulate

simulate()

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.halo import HaloExchange, HaloPlan
from ridgeline.blocks.halo_cuda import CudaPacker
from ridgeline.jit.random import PHILOX_7
from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.context import Context
from ridgeline.runtime.regions import HOST, Regions, Timeline

ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
SHAPE = (5, 7, 6)
STEPS = 3


def run_engine(kind, comm, grid, periodic, dtype, regions=None):
    """Advance by STEPS from a start by global index; return the rank's block and its u and v."""
    cartesian, block = decompose(comm, SHAPE, grid, (periodic,) * 3)
    c = coefficients(0.2, 0.1, 0.02, 0.048, 0.1, 1.0, dtype)
    engine = kind(block, cartesian, c, (PHILOX_7, 3), dtype, Context(comm, "cuda", 1, regions or Regions()))
    engine.compile()
    rng = np.random.default_rng(4)
    for field in engine.host():
        field[:] = rng.random(SHAPE)[part(block)]
    engine.commit()
    for step in range(STEPS):
        engine.advance(step, 1)
    return block, [field.copy() for field in engine.host()], engine


def part(block):
    return tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("grid", list(factorizations(MPI.COMM_WORLD.size)), ids=str)
def test_equals_the_cpu_on_one_rank(comm, grid, periodic) -> None:
    dtype = np.float32 if grid[0] > 1 else np.float64
    block, found, engine = run_engine(CudaEngine, comm, grid, periodic, dtype)
    _, whole, _ = run_engine(CpuEngine, MPI.COMM_SELF, (1, 1, 1), periodic, dtype)
    for mine, expected in zip(found, whole):
        np.testing.assert_array_equal(mine, expected[part(block)])
    assert (engine.bytes_exchanged > 0) == (comm.size > 1)
    assert ("pinned host memory" in engine.method) == (comm.size > 1)


def test_a_trace_has_every_piece_of_every_step(comm) -> None:
    grid, regions = (comm.size, 1, 1), Regions()
    _, _, engine = run_engine(CudaEngine, comm, grid, True, np.float64, regions)
    for _ in range(2):  # a second timeline holds nothing of the first
        timeline = regions.timeline = Timeline()
        for step in range(STEPS, STEPS + 2):
            engine.advance(step, 1)
        regions.timeline = None
        engine.advance(STEPS + 2, 1)
        spans = timeline.spans()
        expected = {"sweep": "rest", "compute": HOST}
        if comm.size > 1:
            expected |= {"sweep next to faces": "faces", "pack": "faces", "exchange": HOST}
        assert {span.name: span.lane for span in spans} == expected
        assert len(spans) == 2 * len(expected)
        assert all(span.begin <= span.end for span in spans)


@pytest.mark.parametrize("wrap", [(True, True, True), (True, False, True)])
@pytest.mark.parametrize("corners", [False, True])
def test_the_exchange_fills_the_ghosts_that_the_host_s_fills(comm, corners, wrap) -> None:
    """Wide ghosts, edges and corners too: the packer serves other models than this one."""
    cartesian, block = decompose(comm, (9, 8, 11), periodic=(True, True, False), ghost=2)
    rng = np.random.default_rng(comm.rank)
    host = [[BlockArray.allocate(block, np.float32, -1.0) for _ in range(2)] for _ in range(2)]
    for field in (field for fields in host for field in fields):
        field.owned[:] = rng.random(block.shape_local)
    device = [
        [BlockArray(block, cuda.to_device(f.flat), f.origin, f.row_pitch, f.plane_pitch) for f in fields]
        for fields in host
    ]
    on_host = HaloExchange.of_fields(cartesian, host, corners=corners, wrap=wrap, method="pack")
    packer = CudaPacker(HaloPlan(block, 2, 4, corners, wrap), device, cuda.stream(), device_buffers=False)
    packer.compile()
    on_device = HaloExchange(cartesian, packer, "pinned host memory")
    for index in (0, 1, 1, 0):
        on_host.exchange(index)
        if index:
            packer.enqueue_pack(index)
        on_device.exchange(index)
        for expected, found in zip(host[index], device[index]):
            np.testing.assert_array_equal(found.flat.copy_to_host(), expected.flat)
            assert (expected.ghosted != -1).sum() > expected.owned.size
    for exchange in (on_host, on_device):
        exchange.free()


@only_simulated
def test_the_simulator_was_used() -> None:
    assert "numba.cuda.simulator" in sys.modules
