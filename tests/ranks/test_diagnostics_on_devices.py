"""Diagnostics of turbulence on GPUs on several ranks, in numba-cuda's simulator: those of the host on one rank."""

from simulator import simulate

simulate()

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.models.turbulence.device.engine_cuda import CudaEngine
from ridgeline.models.turbulence.forcing import EswaranPope
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_on_devices import compare_diagnostics
from turbulence_tools import WAVE_FLOWS, make_engine, random_start

RANKS = (1, 2, 3)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
SHAPE = (4, 6, 6)
LENGTHS = (5.0, 7.0, 4.0)


@pytest.mark.parametrize(
    ("dealias", "flow", "batch", "dtype"),
    [
        ("phase-shift", {}, 2, np.float64),
        ("none", {"schmidt": (0.7,), "mean_gradients": ((1.0, -0.5, 2.0),)}, 1, np.float32),
        ("phase-shift", WAVE_FLOWS["both"], 1, np.float64),
    ],
    ids=["plain", "a scalar", "waves"],
)
def test_every_process_grid_finds_the_host_s_figures(comm, dealias, flow, batch, dtype) -> None:
    flow = FlowParameters(0.02, "rk2", seed=3, **flow)
    host = make_engine(
        SHAPE, flow, random_start, dealias, LENGTHS,
        lambda m: EswaranPope(m, MPI.COMM_SELF, 3.0, 2.0, 0.4, 6), dtype,
    )  # fmt: skip
    power = host.forcing.injection(host.forced_velocity(), 1.5)
    for process_grid in [(rows, comm.size // rows) for rows in (1, 2, 3) if comm.size % rows == 0]:
        grid = PencilGrid(SHAPE, dealias, process_grid, comm.rank)
        engine = CudaEngine(grid, LENGTHS, comm, dtype, flow, batch)
        lines = engine.modes.lines
        counts = np.diff(lines.start)
        mine = np.concatenate([np.arange(f, f + n) for f, n in zip(lines.start_global, counts)])
        engine.fields[...] = host.fields[:, mine]
        engine.commit()
        (z, nz), (y, ny) = grid.z_range, grid.y_range
        compare_diagnostics(engine, host, comm, np.s_[z : z + nz, y : y + ny])
        engine.forcing = EswaranPope(engine.modes, comm, 3.0, 2.0, 0.4, 6)
        found = engine.forcing.injection(engine.forced_velocity(), 1.5)
        assert found == pytest.approx(power, rel=1e-12 if dtype == np.float64 else 1e-5)
        engine.transform.free()
