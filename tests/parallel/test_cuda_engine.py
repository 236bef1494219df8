"""The GPU engine on several ranks, in numba-cuda's simulator: the bits of the CPU engine on one rank."""

import os
import sys

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba.core import config

if not config.ENABLE_CUDASIM:
    pytest.skip("Numba was imported before the simulator was asked for", allow_module_level=True)

from ridgeline.comm.cartesian import decompose
from ridgeline.grid.block import factorizations
from ridgeline.models.gray_scott.cpu import CpuEngine
from ridgeline.models.gray_scott.cuda import CudaEngine
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.runtime.context import Context

SHAPE = (5, 7, 6)
STEPS = 3


def run_engine(kind, comm, grid, periodic, dtype):
    """Advance by STEPS from a start by global index; return the rank's block and its u and v."""
    cartesian, block = decompose(comm, SHAPE, grid, (periodic,) * 3)
    c = coefficients(0.2, 0.1, 0.02, 0.048, 0.1, 1.0, dtype)
    engine = kind(block, cartesian, c, 3, dtype, Context(comm))
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


def test_the_simulator_was_used() -> None:
    assert "numba.cuda.simulator" in sys.modules
