"""Fused passes of turbulence on GPUs on several ranks, in numba-cuda's simulator."""

from simulator import simulate

simulate()

import numpy as np
import pytest

from device_flow_tools import compare_with_one_rank
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import WAVE_FLOWS

RANKS = (1, 2, 3, 4)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
# N_y does not divide; N_z = 6 is no size of fused transforms, and rows of slabs fill no thread block of four pairs.
FUSED_CASES = [
    ((8, 10, 8), "rk2", "phase-shift", np.float64, 1, "auto", (), (True, True)),
    ((12, 6, 8), "rk4", "phase-shift", np.float64, 2, "mpi", (0.7,), (True, True)),
    ((8, 6, 16), "rk2", "two-thirds", np.float32, 4, "host", (), (True, True)),
    ((6, 6, 8), "rk2", "phase-shift", np.float64, 2, "auto", (0.7,), (False, True)),
    ((8, 6, 10), "rk2", "none", np.float64, 4, "nccl", (), (True, False)),
]


@pytest.mark.parametrize(
    ("shape", "scheme", "dealias", "dtype", "batch", "way", "scalars", "fused"), FUSED_CASES
)
def test_fused_passes_equal_the_cpu_on_one_rank(
    comm, shape, scheme, dealias, dtype, batch, way, scalars, fused
) -> None:
    flow = FlowParameters(0.02, scheme, scalars, ((1.0, -0.5, 2.0),) * len(scalars), 3)
    compare_with_one_rank(comm, flow, dealias, dtype, batch, way, shape, fused, steps=1)


def test_fused_passes_with_waves_equal_the_cpu_on_one_rank(comm) -> None:
    flow = FlowParameters(0.02, "rk2", seed=3, **WAVE_FLOWS["both"])
    compare_with_one_rank(comm, flow, "phase-shift", np.float64, 2, "auto", (8, 6, 8), (True, True), steps=1)
