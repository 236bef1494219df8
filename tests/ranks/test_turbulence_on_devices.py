"""Turbulence on GPUs on several ranks, in numba-cuda's simulator: what the CPU engine computes on one rank."""

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

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.models.turbulence.device.engine_cuda import CudaEngine
from ridgeline.models.turbulence.forcing import EswaranPope
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import make_engine, random_start

QUICK_RANKS = ()  # takes more than 5 s
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
SHAPE = (6, 8, 10)
LENGTHS = (5.0, 7.0, 4.0)
TOLERANCE = {np.float64: 1e-13, np.float32: 2e-6}


def places(modes, whole):
    """Where this rank's modes are among those of one rank: start_global numbers the canonical order of all."""
    first = modes.lines.start_global
    counts = np.diff(modes.lines.start)
    assert whole.lines.n_modes == whole.truncation.n_modes
    return np.concatenate([np.arange(f, f + n) for f, n in zip(first, counts)])


@pytest.mark.parametrize(
    ("scheme", "dealias", "dtype"),
    [("rk2", "phase-shift", np.float64), ("rk4", "none", np.float64), ("rk2", "two-thirds", np.float32)],
)
def test_equals_the_cpu_on_one_rank(comm, scheme, dealias, dtype) -> None:
    flow = FlowParameters(0.02, scheme, (0.7,), ((1.0, -0.5, 2.0),), 3)
    grid = PencilGrid(SHAPE, dealias, (1, comm.size), comm.rank)
    engine = CudaEngine(grid, LENGTHS, comm, dtype, flow)
    host = make_engine(
        SHAPE,
        flow,
        random_start,
        dealias,
        LENGTHS,
        lambda m: EswaranPope(m, MPI.COMM_SELF, 3.0, 2.0, 0.4, 6),
        dtype,
    )
    engine.compile()
    engine.forcing = EswaranPope(engine.modes, comm, 3.0, 2.0, 0.4, 6)
    mine = places(engine.modes, Modes.of(PencilGrid(SHAPE, dealias, (1, 1), 0), LENGTHS))
    engine.fields[...] = host.fields[:, mine]
    engine.commit()
    for _ in range(2):
        engine.advance(0.02)
        host.advance(0.02)
        assert engine.last_courant_rate == pytest.approx(host.last_courant_rate, rel=TOLERANCE[dtype])
        difference = np.abs(engine.fields - host.fields[:, mine]).max(1)
        assert (difference <= TOLERANCE[dtype] * np.abs(host.fields).max(1)).all()
    physical = engine.transform.to_physical(engine.fields[:1])
    offset, n = grid.y_range
    expected = host.transform.to_physical(host.fields[:1])[:, :, offset : offset + n]
    np.testing.assert_allclose(physical, expected, rtol=0, atol=50 * TOLERANCE[dtype])
    assert ("pinned host memory" in engine.describe()["column exchange"]) == (comm.size > 1)
    handed, message = engine.exchanged()["column"]
    assert (handed > 0) == (message > 0) == (comm.size > 1)


def test_the_simulator_was_used() -> None:
    assert "numba.cuda.simulator" in sys.modules
